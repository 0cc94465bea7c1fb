//! The calls that end a lease, and the heartbeat that keeps it.

use std::sync::Arc;
use std::time::Duration;

use legation_protocol::Json;
use legation_protocol::external_tasks::{CompleteRequest, FailureRequest, HeartbeatRequest, ReleaseRequest};
use legation_protocol::problem::Problem;
use legation_worker::Error;
use tokio_util::sync::CancellationToken;

use super::{Ended, Go, Run, Shared, Uncertain};
use crate::secret::redact;

/// Refused answers that go back to the model in one lease; the engine's own limit is lower.
const MAX_REPAIRS: u32 = 5;

impl Run {
    pub(super) async fn complete(&mut self, result: Json, outcome: Option<String>) -> Go<Option<Ended>> {
        let request = CompleteRequest {
            worker_id: self.shared.worker_id.clone(),
            variables: None,
            result: Some(result),
            outcome,
        };
        let error = match self.shared.engine.complete(&self.lease, &request).await {
            Ok(_) => return Ok(Some(Ended::Completed)),
            Err(error) => error,
        };
        let Some(problem) = error.problem().cloned() else {
            return Err(error.into());
        };
        if problem.code == "OPEN_STEP" {
            self.reread(&problem).await?;
            return Ok(None);
        }
        if problem.status != 422 {
            return Err(error.into());
        }
        self.repairs += 1;
        tracing::info!(task = %self.lease, code = problem.code, "the answer was refused");
        if self.repairs > MAX_REPAIRS {
            return self
                .fail("INVALID_OUTPUT", problem.to_string(), true, None)
                .await
                .map(Some);
        }
        self.local.repair = Some(repair_text(&problem));
        Ok(None)
    }

    pub(super) async fn fail(
        &mut self,
        code: &str,
        message: String,
        retryable: bool,
        retry_after_ms: Option<u64>,
    ) -> Go<Ended> {
        let message = redact(&message);
        tracing::warn!(task = %self.lease, code, "{message}");
        let mut lines = message.splitn(2, '\n');
        let request = FailureRequest {
            worker_id: self.shared.worker_id.clone(),
            message: lines.next().unwrap_or_default().to_owned(),
            details: lines.next().map(str::to_owned),
            code: Some(code.to_owned()),
            retryable: (!retryable).then_some(false),
            retry_after_ms,
        };
        self.shared.engine.failure(&self.lease, &request).await?;
        Ok(Ended::Failed)
    }

    pub(super) async fn release(&mut self, after_ms: Option<u64>, reason: &str, ended: Ended) -> Go<Ended> {
        let request = ReleaseRequest {
            worker_id: self.shared.worker_id.clone(),
            after_ms,
            reason: Some(redact(reason)),
        };
        self.shared.engine.release(&self.lease, &request).await?;
        tracing::info!(task = %self.lease, after_ms, "{reason}");
        Ok(ended)
    }

    /// A write may or may not have happened. With a key the next lease sends it again; without one the
    /// engine declares it unknown and asks a person.
    pub(super) async fn put_off(&mut self, uncertain: Uncertain) -> Go<Ended> {
        let after = uncertain.keyed.then_some(10_000);
        self.release(after, &uncertain.message, Ended::Deferred).await
    }

    /// The engine refused something that it should not, or cannot be reached.
    pub(super) async fn give_up(&mut self, error: Error) -> Ended {
        if error.lease_is_over() {
            return Ended::Lost;
        }
        tracing::error!(task = %self.lease, %error, "stopping work on this task");
        let Some(problem) = error.problem() else {
            return Ended::Lost;
        };
        // The engine opens the incident of a step limit itself; a failure would only cover it up.
        let stopped = if problem.code == "STEP_LIMIT" {
            self.release(None, &problem.to_string(), Ended::Released).await
        } else {
            self.fail(&problem.code.clone(), problem.to_string(), true, None)
                .await
        };
        stopped.unwrap_or(Ended::Lost)
    }
}

pub(super) async fn refuse(shared: &Shared, lease: &str, message: String) -> Ended {
    tracing::error!(task = lease, "{message}");
    let request = FailureRequest {
        worker_id: shared.worker_id.clone(),
        message,
        code: Some("NOT_AN_AGENT_TASK".to_owned()),
        retryable: Some(false),
        ..FailureRequest::default()
    };
    match shared.engine.failure(lease, &request).await {
        Ok(_) => Ended::Failed,
        Err(_) => Ended::Lost,
    }
}

/// Extends the lease at a third of its length; fires `over` when the engine says that it is gone.
pub(super) async fn heartbeat(shared: Arc<Shared>, lease: String, over: CancellationToken) {
    let request = HeartbeatRequest {
        worker_id: shared.worker_id.clone(),
        lock_duration: shared.lock_ms,
    };
    let every = Duration::from_millis((shared.lock_ms / 3).max(1));
    loop {
        tokio::time::sleep(every).await;
        match shared.engine.heartbeat(&lease, &request).await {
            Ok(()) => {}
            Err(error) if error.lease_is_over() => {
                over.cancel();
                return;
            }
            Err(error) => tracing::warn!(task = lease, %error, "heartbeat failed"),
        }
    }
}

fn repair_text(problem: &Problem) -> String {
    let mut text = format!("Your answer was refused: {problem}");
    for error in &problem.errors {
        text.push_str(&format!("\n- {} {}", error.pointer, error.message));
    }
    text.push_str("\nAnswer again. What was done so far stays done; do not repeat it.");
    text
}
