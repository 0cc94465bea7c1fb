//! One lease: keep it alive while the handler runs, close it once, drop the result when it is lost.

use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use legation_protocol::external_tasks::{
    ClosedAnswer, CompleteRequest, ErrorRequest, FailureRequest, HeartbeatRequest, LockedTask, ReleaseRequest,
};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::task::millis;
use crate::{Client, Error};

/// A leased task as a plain handler gets it: the whole answer of the engine and the client to act with.
#[derive(Debug, Clone)]
pub struct Lease {
    /// The client, with the task's trace context.
    pub client: Client,
    /// The worker that holds the lease.
    pub worker_id: Arc<str>,
    /// The task as it was fetched; `task.id` is the lease id.
    pub task: LockedTask,
    /// Cancelled when the lease is over, and when a shutdown waits no longer.
    pub cancelled: CancellationToken,
}

/// How a lease ends. The loop fills in the worker and repeats the call until it is answered.
#[derive(Debug, Clone)]
pub enum Closing {
    /// Done.
    Complete(CompleteRequest),
    /// The try failed.
    Failure(FailureRequest),
    /// A business error.
    Error(ErrorRequest),
    /// Handed back.
    Release(ReleaseRequest),
    /// Nothing to send: parked, or closed by the handler itself.
    Nothing,
}

pub(crate) type Handler = Arc<dyn Fn(Lease) -> BoxFuture<'static, Closing> + Send + Sync>;

/// How long things may take around one lease.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    pub(crate) lock: Duration,
    /// How long a cancelled handler may tidy up.
    pub(crate) grace: Duration,
}

/// Runs the handler under the lease and closes it.
pub(crate) async fn run(lease: Lease, handler: Handler, limits: Limits, tracker: TaskTracker) {
    let over = CancellationToken::new();
    let stop = CancellationToken::new();
    let _stop_heartbeats = stop.clone().drop_guard();
    tracker.spawn(keep_alive(lease.clone(), limits.lock, over.clone(), stop));

    let mut work = pin!(AssertUnwindSafe(handler(lease.clone())).catch_unwind());
    let ended = tokio::select! {
        biased;
        ended = &mut work => Some(ended),
        () = lease.cancelled.cancelled() => tokio::time::timeout(limits.grace, &mut work).await.ok(),
    };
    if over.is_cancelled() {
        tracing::info!(lease = %lease.task.id, "the lease is over, its result is dropped");
        return;
    }
    let closing = match ended {
        Some(Ok(closing)) => closing,
        Some(Err(panic)) => Closing::Failure(FailureRequest {
            message: format!("the handler panicked: {}", panic_text(panic.as_ref())),
            ..FailureRequest::default()
        }),
        None => Closing::Release(ReleaseRequest {
            reason: Some("the worker stops".to_owned()),
            ..ReleaseRequest::default()
        }),
    };
    close(&lease, closing, limits.lock).await;
}

/// Heartbeats at a third of the lock, so that two may be lost. An unreachable engine ends nothing: only the engine knows
/// whether the lease is over.
async fn keep_alive(lease: Lease, lock: Duration, over: CancellationToken, stop: CancellationToken) {
    let request = HeartbeatRequest {
        worker_id: lease.worker_id.to_string(),
        lock_duration: millis(lock),
    };
    let client = lease.client.with_patience(lock);
    loop {
        let beat = async {
            tokio::time::sleep(lock / 3).await;
            client.heartbeat(&lease.task.id, &request).await
        };
        let answer = tokio::select! {
            () = stop.cancelled() => return,
            answer = beat => answer,
        };
        let Err(error) = answer else { continue };
        if error.lease_is_over() {
            tracing::warn!(lease = %lease.task.id, %error, "the lease is over");
            over.cancel();
            lease.cancelled.cancel();
            return;
        }
        tracing::warn!(lease = %lease.task.id, %error, "heartbeat failed");
    }
}

/// Sends the closing call until it is answered. A completion that the engine refuses leaves the lease standing, so the
/// refusal is reported as the failure that it is.
async fn close(lease: &Lease, closing: Closing, lock: Duration) {
    let client = lease
        .client
        .with_patience((lock * 2).max(Duration::from_secs(60)));
    let refusal = match send(&client, lease, closing).await {
        Ok(()) => return,
        Err(error) if error.lease_is_over() => {
            tracing::info!(lease = %lease.task.id, %error, "closed too late");
            return;
        }
        Err(Error::Rejected(problem)) => problem,
        Err(error) => {
            tracing::error!(lease = %lease.task.id, %error, "the task could not be closed; its lease will expire");
            return;
        }
    };
    tracing::warn!(lease = %lease.task.id, problem = %refusal, "the engine refused the result");
    let failure = Closing::Failure(FailureRequest {
        message: format!("the engine refused the result: {refusal}"),
        code: Some(refusal.code.clone()),
        retryable: Some(false),
        ..FailureRequest::default()
    });
    if let Err(error) = send(&client, lease, failure).await {
        tracing::error!(lease = %lease.task.id, %error, "the refusal could not be reported");
    }
}

async fn send(client: &Client, lease: &Lease, closing: Closing) -> Result<(), Error> {
    let id = &lease.task.id;
    let worker_id = lease.worker_id.to_string();
    let answer: ClosedAnswer = match closing {
        Closing::Complete(request) => {
            client
                .complete(id, &CompleteRequest { worker_id, ..request })
                .await?
        }
        Closing::Failure(request) => {
            client
                .failure(id, &FailureRequest { worker_id, ..request })
                .await?
        }
        Closing::Error(request) => client.error(id, &ErrorRequest { worker_id, ..request }).await?,
        Closing::Release(request) => {
            client
                .release(id, &ReleaseRequest { worker_id, ..request })
                .await?
        }
        Closing::Nothing => return Ok(()),
    };
    tracing::debug!(lease = %id, state = ?answer.state, "closed");
    Ok(())
}

fn panic_text(panic: &(dyn std::any::Any + Send)) -> &str {
    if let Some(text) = panic.downcast_ref::<&str>() {
        return text;
    }
    panic
        .downcast_ref::<String>()
        .map_or("no message", String::as_str)
}
