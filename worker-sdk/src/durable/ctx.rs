//! What a durable handler calls.

use std::fmt::Display;
use std::future::{Future, poll_fn};
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use legation_protocol::steps::{CheckpointRequest, ToolRequest, WaitRequest};
use legation_protocol::{Json, StepKind, StepState, to_json};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::state::{Progress, Settlement, State};
use crate::task::millis;

/// The durable context of one handler run. Cheap to clone, so that parallel parts may each hold one.
#[derive(Clone)]
pub struct Ctx {
    state: Arc<State>,
}

/// A step that ended otherwise than COMPLETED, now or in an earlier run.
#[derive(Debug, Clone, thiserror::Error)]
#[error("{message}")]
pub struct StepError {
    /// How it ended.
    pub state: StepState,
    /// What went wrong, as recorded.
    pub message: String,
    /// The whole recorded result.
    pub result: Option<Json>,
}

impl Ctx {
    pub(super) fn new(state: Arc<State>) -> Ctx {
        Ctx { state }
    }

    /// Runs `work` as a step: recorded before it runs, its result after. Cut off half-way it runs again, so outside
    /// effects in it need a key of their own.
    ///
    /// # Errors
    /// The error that `work` ended with, recorded like a result.
    pub async fn step<T, E, F, Fut>(&self, name: &str, work: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.checkpoint(name, CheckpointRequest { once: false }, work)
            .await
    }

    /// Runs `work` as a step that is never repeated: cut off half-way, the task waits until a person says whether it
    /// happened.
    ///
    /// # Errors
    /// The error that `work` ended with, recorded like a result.
    pub async fn step_once<T, E, F, Fut>(&self, name: &str, work: F) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        self.checkpoint(name, CheckpointRequest { once: true }, work)
            .await
    }

    /// Runs another process as a child instance and waits for its declared outputs. The task parks meanwhile.
    ///
    /// # Errors
    /// When the engine refuses the call, a person rejects it, or the child ends otherwise than completed.
    pub async fn delegate<T, A>(&self, process: &str, arguments: &A) -> Result<T, StepError>
    where
        T: DeserializeOwned,
        A: Serialize + ?Sized,
    {
        let arguments = to_json(arguments).map_err(|err| unwritable(&err))?;
        let request = ToolRequest {
            arguments: Some(arguments),
            ..ToolRequest::default()
        };
        let call = Call::ask(
            &self.state,
            StepKind::Delegation,
            format!("delegate:{process}"),
            &request,
        )?;
        typed(call.settled().await)
    }

    /// Waits without holding a lease or a slot, for seconds or for months.
    ///
    /// # Errors
    /// When the wait is ended from outside.
    pub async fn wait(&self, duration: Duration) -> Result<(), StepError> {
        let request = WaitRequest {
            duration_ms: millis(duration),
        };
        let call = Call::ask(&self.state, StepKind::Wait, "wait".to_owned(), &request)?;
        let settlement = call.settled().await;
        if settlement.state == StepState::Completed {
            return Ok(());
        }
        Err(StepError::of(settlement))
    }

    async fn checkpoint<T, E, F, Fut>(
        &self,
        name: &str,
        request: CheckpointRequest,
        work: F,
    ) -> Result<T, StepError>
    where
        T: Serialize + DeserializeOwned,
        E: Display,
        F: FnOnce() -> Fut,
        Fut: Future<Output = Result<T, E>>,
    {
        let call = Call::ask(
            &self.state,
            StepKind::Checkpoint,
            format!("step:{name}"),
            &request,
        )?;
        if let Some(settlement) = call.granted_or_settled().await {
            return typed(settlement);
        }
        let (state, result) = match work().await {
            Ok(value) => match to_json(&value) {
                Ok(json) => (StepState::Completed, json),
                Err(err) => (
                    StepState::Failed,
                    message(&format!("the result is no JSON: {err}")),
                ),
            },
            Err(err) => (StepState::Failed, message(&err.to_string())),
        };
        call.report(state, result);
        typed(call.settled().await)
    }
}

impl StepError {
    fn of(settlement: Settlement) -> StepError {
        let message = settlement
            .result
            .as_deref()
            .and_then(|result| readable(result.get()))
            .unwrap_or_else(|| format!("the step ended {:?}", settlement.state));
        StepError {
            state: settlement.state,
            message,
            result: settlement.result,
        }
    }
}

/// The words in a recorded failure: a plain text, or the `message` of an object.
fn readable(result: &str) -> Option<String> {
    let value: serde_json::Value = serde_json::from_str(result).ok()?;
    let words = ["message", "detail", "error"]
        .iter()
        .find_map(|name| value.get(name)?.as_str());
    Some(
        words
            .or(value.as_str())
            .map_or_else(|| result.to_owned(), str::to_owned),
    )
}

pub(super) fn message(text: &str) -> Json {
    #[derive(Serialize)]
    struct Message<'a> {
        message: &'a str,
    }
    to_json(&Message { message: text }).expect("a text is always JSON")
}

fn typed<T: DeserializeOwned>(settlement: Settlement) -> Result<T, StepError> {
    if settlement.state != StepState::Completed {
        return Err(StepError::of(settlement));
    }
    let result = settlement.result.as_deref().map_or("null", |result| result.get());
    serde_json::from_str(result).map_err(|err| StepError {
        state: settlement.state,
        message: format!("the recorded result does not fit the handler: {err}"),
        result: settlement.result.clone(),
    })
}

fn unwritable(err: &serde_json::Error) -> StepError {
    StepError {
        state: StepState::Refused,
        message: format!("the arguments are no JSON: {err}"),
        result: None,
    }
}

/// One call of the handler. Dropped before it settles (a `select!` that went the other way), it tells the state, so that
/// no granted step stays open.
struct Call {
    state: Arc<State>,
    sequence: u32,
}

impl Call {
    fn ask<R: Serialize>(
        state: &Arc<State>,
        kind: StepKind,
        tool_ref: String,
        request: &R,
    ) -> Result<Call, StepError> {
        let request = to_json(request).map_err(|err| unwritable(&err))?;
        let sequence = state.ask(kind, tool_ref, request);
        Ok(Call {
            state: Arc::clone(state),
            sequence,
        })
    }

    /// `None`: the work may run.
    async fn granted_or_settled(&self) -> Option<Settlement> {
        poll_fn(|cx| match self.state.poll_call(self.sequence, cx.waker()) {
            Progress::Pending => Poll::Pending,
            Progress::Granted => Poll::Ready(None),
            Progress::Settled(settlement) => Poll::Ready(Some(settlement)),
        })
        .await
    }

    async fn settled(&self) -> Settlement {
        poll_fn(|cx| match self.state.poll_call(self.sequence, cx.waker()) {
            Progress::Pending | Progress::Granted => Poll::Pending,
            Progress::Settled(settlement) => Poll::Ready(settlement),
        })
        .await
    }

    fn report(&self, state: StepState, result: Json) {
        self.state.report(self.sequence, state, result);
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.state
            .abandon(self.sequence, || message("the handler gave the step up"));
    }
}
