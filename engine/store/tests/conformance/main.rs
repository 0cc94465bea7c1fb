//! One suite for both databases: every function of the store, on SQLite and on PostgreSQL.
#![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

mod access;
mod claims;
mod deployments;
mod external_tasks;
mod failures;
mod figures;
mod history;
mod idempotency;
mod instances;
mod mailbox;
mod people;
mod roots;
mod steps;
mod support;
mod wakeups;
