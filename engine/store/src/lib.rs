//! SQLite and PostgreSQL behind one set of functions.
//!
//! One file per table holds its row struct and its statements; [`Db`] opens connections; [`Tx`] writes. The store
//! makes no decisions: rows carry what is queried as columns, and the kernel's aggregates as JSON text that
//! nobody here reads. Where the two databases differ is in `dialect`.
//!
//! On PostgreSQL writes that have no answer may be sent later than they are called, together with others (see
//! `gather`): their errors come with the next read of the transaction or with its commit, never after it. On SQLite
//! they run at once, in the caller's thread (see `sqlite`).
//!
//! The order within a transaction, which keeps it free of deadlocks: roots first, in one statement
//! ([`roots::lock`]); then rows below them; then shared rows, sorted; claims last.
//!
//! To add a table: a migration for each database with the same number, a file with the row struct, `COLUMNS`, its
//! `from_sqlite!` line and functions, a line here, a conformance test in `tests/`.

mod conn;
mod db;
mod dialect;
mod error;
mod filter;
mod gather;
mod hints;
mod keys;
#[cfg(test)]
mod plans;
mod sqlite;
#[cfg(feature = "testing")]
pub mod testing;
mod writers;

pub mod api_keys;
pub mod counts;
pub mod definitions;
pub mod documents;
pub mod external_tasks;
pub mod history;
pub mod idempotency;
pub mod incidents;
pub mod instances;
pub mod mailbox;
pub mod payloads;
pub mod principals;
pub mod projects;
pub mod roots;
pub mod scratch;
pub mod settings;
pub mod statistics;
pub mod steps;
pub mod tasks;
pub mod timers;
pub mod workers;

pub use conn::{Conn, Read, Tx};
pub use db::{Db, Stats};
pub use dialect::Dialect;
pub use error::{Error, Result};
pub use hints::Hints;
pub use keys::{Key, Place};
