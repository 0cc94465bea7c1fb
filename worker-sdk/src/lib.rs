//! Write a worker in ten lines: client, loop, durable context.
//!
//! A worker takes tasks of its topics from the engine, does the work and closes each task. The loop does everything else:
//! leases are kept alive while the handler runs, lost answers are asked for again, refused and retired work is dropped,
//! a shutdown lets running work end.
//!
//! ```no_run
//! # use legation_worker::{Client, Task, TaskError, Worker};
//! # #[derive(serde::Deserialize)] struct Order { amount: f64 }
//! # #[derive(serde::Serialize)] struct Paid { payout_id: String }
//! # async fn example(shutdown: tokio_util::sync::CancellationToken) -> Result<(), legation_worker::Error> {
//! let client = Client::new("http://127.0.0.1:8700", "the worker's key")?;
//! Worker::new(client, "payments-1")
//!     .topic("payments.payout", |task: Task<Order>| async move {
//!         if task.variables.amount <= 0.0 {
//!             return Err(TaskError::business("NOTHING_TO_PAY", "the amount is not positive"));
//!         }
//!         Ok(Paid { payout_id: format!("P-{}", &task.idempotency_key[..8]) })
//!     })
//!     .run(shutdown)
//!     .await
//! # }
//! ```
//!
//! A handler may run more than once for one task: a lease can be lost after the work is done. Dedupe outside effects with
//! [`Task::idempotency_key`], which stays the same over leases and attempts (D46b), or write the work as steps of a
//! [`durable`] handler, whose finished steps never run again.

mod backoff;
mod client;
pub mod durable;
mod error;
mod lease;
mod task;
mod worker;

pub use client::Client;
pub use error::Error;
pub use lease::{Closing, Lease};
pub use legation_protocol as protocol;
pub use task::{Task, TaskError};
pub use tokio_util::sync::CancellationToken;
pub use worker::Worker;
