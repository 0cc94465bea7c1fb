//! Durable handlers: code whose finished steps never run again, whatever crashes when.
//!
//! Every call on [`Ctx`] is a step in the task's journal. It is recorded before it runs and its result after; when the
//! task comes back — after a crash, or because it was parked — the handler runs again from the top and gets the recorded
//! results instead of doing the work.
//!
//! ```no_run
//! # use legation_worker::{durable::Ctx, Task, TaskError};
//! # use std::time::Duration;
//! # #[derive(serde::Deserialize)] struct Order { id: String, amount: f64 }
//! # #[derive(serde::Deserialize, serde::Serialize)] struct Paid { payout_id: String }
//! # async fn reserve(_: &str) -> Result<String, std::io::Error> { Ok(String::new()) }
//! async fn refund(ctx: Ctx, task: Task<Order>) -> Result<Paid, TaskError> {
//!     let order = task.variables;
//!     let place = ctx.step("reserve", || reserve(&order.id)).await?;
//!     ctx.wait(Duration::from_secs(3600)).await?;
//!     let paid: Paid = ctx.delegate("refund_payout", &serde_json::json!({ "orderId": order.id, "place": place })).await?;
//!     Ok(paid)
//! }
//! ```
//!
//! The rules of a durable handler:
//! - It decides only by its input and by results of `ctx`: no clock, no randomness, no other await outside of a step.
//! - Calls may run at the same time (`futures::join!`). They are numbered in the order in which the code makes them, and
//!   results arrive one by one in the order in which they were settled, so a replay takes the same turns.
//! - While nothing but a child process or a wait is open the task is parked: the handler is dropped, no lease and no
//!   slot are held, and it runs again from the top when there is something to do.
//! - A call that the code drops (the other side of a `select!`) is given up if it is a step; a child or a wait is still
//!   waited for before the task can end.
//! - Changed code that asks for other steps than the journal holds is stopped with `DIVERGENT_STEP`.

mod ctx;
mod driver;
mod journal;
mod state;

use std::future::Future;
use std::time::Duration;

use legation_protocol::external_tasks::{FailureRequest, ReleaseRequest};
use serde::Serialize;

pub use ctx::{Ctx, StepError};
pub use driver::{Ended, Options, run};
pub use journal::{Journal, LeaseJournal};

use crate::lease::{Closing, Lease};
use crate::task::closing;
use crate::{Error, TaskError};

/// Runs a durable handler under a lease; the answer is how the lease ends.
pub(crate) async fn serve<O, F, Fut>(lease: Lease, handler: F) -> Closing
where
    O: Serialize,
    F: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Result<O, TaskError>> + Send,
{
    let cancelled = lease.cancelled.clone();
    let running = async {
        let journal = LeaseJournal::new(&lease);
        let steps = journal.load(lease.task.journal.as_ref()).await?;
        run(&journal, steps, Options::default(), handler).await
    };
    let ended = tokio::select! {
        biased;
        ended = running => ended,
        () = cancelled.cancelled() => {
            return Closing::Release(ReleaseRequest {
                reason: Some("the worker stops".to_owned()),
                ..ReleaseRequest::default()
            });
        }
    };
    match ended {
        Ok(Ended::Done(answer)) => closing(answer),
        Ok(Ended::Parked) => Closing::Nothing,
        Ok(Ended::Diverged(divergence)) => failure("DIVERGENT_STEP", divergence, false),
        Err(error) if error.lease_is_over() => Closing::Nothing,
        Err(Error::Rejected(problem)) => {
            let code = problem.code.clone();
            failure(&code, problem.to_string(), code != "DIVERGENT_STEP")
        }
        Err(error @ (Error::Unavailable { .. } | Error::Protocol(_))) => Closing::Release(ReleaseRequest {
            after_ms: Some(crate::task::millis(Duration::from_secs(5))),
            reason: Some(error.to_string()),
            ..ReleaseRequest::default()
        }),
    }
}

fn failure(code: &str, message: String, retryable: bool) -> Closing {
    Closing::Failure(FailureRequest {
        message,
        code: Some(code.to_owned()),
        retryable: (!retryable).then_some(false),
        ..FailureRequest::default()
    })
}
