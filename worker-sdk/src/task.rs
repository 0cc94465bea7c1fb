//! What a handler is given and what it may answer.

use std::time::Duration;

use legation_protocol::external_tasks::{
    CompleteRequest, ErrorRequest, FailureRequest, LockedTask, ReleaseRequest,
};
use legation_protocol::{Variables, to_json};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio_util::sync::CancellationToken;

use crate::lease::Closing;

/// A leased task with its inputs as the handler's own type.
#[derive(Debug, Clone)]
pub struct Task<I> {
    /// The task, the same over all its leases.
    pub id: String,
    /// The lease, as worker calls name it.
    pub lease_id: String,
    /// The topic.
    pub topic: String,
    /// The instance that the task belongs to.
    pub instance_id: String,
    /// The instance's process.
    pub process: String,
    /// The instance's business key.
    pub business_key: Option<String>,
    /// The node.
    pub node_id: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The inputs.
    pub variables: I,
    /// The node's fixed headers.
    pub headers: Variables,
    /// Equal over leases and attempts: dedupe outside effects with it (D46b).
    pub idempotency_key: String,
    /// W3C trace context of the instance.
    pub traceparent: Option<String>,
    /// Cancelled when the work is retired or the lease is lost, and when a shutdown waits no longer. A handler that
    /// goes on loses its result.
    pub cancelled: CancellationToken,
}

impl<I: DeserializeOwned> Task<I> {
    pub(crate) fn new(locked: &LockedTask, cancelled: CancellationToken) -> Result<Task<I>, TaskError> {
        let variables = typed(&locked.variables).map_err(|err| TaskError::Failure {
            message: format!("the task's variables do not fit the handler: {err}"),
            retryable: false,
            retry_after: None,
        })?;
        Ok(Task {
            id: bare_id(&locked.id).to_owned(),
            lease_id: locked.id.clone(),
            topic: locked.topic.clone(),
            instance_id: locked.instance_id.clone(),
            process: locked.process.clone(),
            business_key: locked.business_key.clone(),
            node_id: locked.node_id.clone(),
            attempt: locked.attempt,
            variables,
            headers: locked.headers.clone(),
            idempotency_key: locked.idempotency_key.clone(),
            traceparent: locked.traceparent.clone(),
            cancelled,
        })
    }
}

/// The task that a lease id is of.
pub(crate) fn bare_id(lease: &str) -> &str {
    lease.split_once('~').map_or(lease, |(task, _)| task)
}

fn typed<I: DeserializeOwned>(variables: &Variables) -> Result<I, serde_json::Error> {
    let json = serde_json::to_string(variables)?;
    match serde_json::from_str(&json) {
        Ok(typed) => Ok(typed),
        // A handler without inputs takes `()`, which JSON writes as null and not as an object.
        Err(err) => serde_json::from_str("null").map_err(|_| err),
    }
}

/// How a handler ends without a result.
///
/// Any `std::error::Error` becomes a retryable [`TaskError::Failure`] by `?`.
#[derive(Debug, Clone)]
pub enum TaskError {
    /// A business error, routed by its code in the process.
    Business {
        /// UPPER_SNAKE, as the process's `on_error` names it.
        code: String,
        /// For people.
        message: String,
        /// Results that come with the error.
        variables: Variables,
    },
    /// The try failed; the process's `retry` decides about the next.
    Failure {
        /// What went wrong, one line.
        message: String,
        /// `false`: trying again cannot help.
        retryable: bool,
        /// Wait at least so long before the next try.
        retry_after: Option<Duration>,
    },
    /// Not now: costs no attempt (D34).
    Defer {
        /// Open the task again after so many ms.
        after_ms: u64,
        /// Why, for people.
        reason: String,
    },
}

impl TaskError {
    /// A business error without variables.
    pub fn business(code: impl Into<String>, message: impl Into<String>) -> TaskError {
        TaskError::Business {
            code: code.into(),
            message: message.into(),
            variables: Variables::new(),
        }
    }

    /// A failure that another try may mend.
    pub fn failure(message: impl Into<String>) -> TaskError {
        TaskError::Failure {
            message: message.into(),
            retryable: true,
            retry_after: None,
        }
    }

    /// A failure that no other try can mend.
    pub fn permanent(message: impl Into<String>) -> TaskError {
        TaskError::Failure {
            message: message.into(),
            retryable: false,
            retry_after: None,
        }
    }

    /// Not now, but after this pause.
    pub fn defer(after: Duration, reason: impl Into<String>) -> TaskError {
        TaskError::Defer {
            after_ms: millis(after),
            reason: reason.into(),
        }
    }
}

impl<E: std::error::Error> From<E> for TaskError {
    fn from(err: E) -> TaskError {
        TaskError::failure(err.to_string())
    }
}

/// The closing call that a handler's answer stands for.
pub(crate) fn closing<O: Serialize>(answer: Result<O, TaskError>) -> Closing {
    let error = match answer.and_then(|output| variables(&output)) {
        Ok(variables) => {
            return Closing::Complete(CompleteRequest {
                variables: Some(variables),
                ..CompleteRequest::default()
            });
        }
        Err(error) => error,
    };
    match error {
        TaskError::Business {
            code,
            message,
            variables,
        } => Closing::Error(ErrorRequest {
            code,
            message: Some(message),
            variables: (!variables.is_empty()).then_some(variables),
            ..ErrorRequest::default()
        }),
        TaskError::Failure {
            message,
            retryable,
            retry_after,
        } => Closing::Failure(FailureRequest {
            message,
            retryable: (!retryable).then_some(false),
            retry_after_ms: retry_after.map(millis),
            ..FailureRequest::default()
        }),
        TaskError::Defer { after_ms, reason } => Closing::Release(ReleaseRequest {
            after_ms: Some(after_ms),
            reason: Some(reason),
            ..ReleaseRequest::default()
        }),
    }
}

/// A handler's output as variables: an object by its fields, `()` as none.
fn variables<O: Serialize>(output: &O) -> Result<Variables, TaskError> {
    let json = to_json(output)
        .map_err(|err| TaskError::permanent(format!("the handler's output is no JSON: {err}")))?;
    if json.get() == "null" {
        return Ok(Variables::new());
    }
    serde_json::from_str(json.get())
        .map_err(|_| TaskError::permanent("the handler's output is no JSON object, so it names no variables"))
}

pub(crate) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
