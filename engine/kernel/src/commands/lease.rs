//! Calls about the lease alone: heartbeat, release, park, an operator's unlock.

use legation_language::Value;

use super::{Answer, failure};
use crate::ids::TaskId;
use crate::rejection::Stop;
use crate::task::{self, Caller, Opened, Parked, ReleaseOutcome};
use crate::work::Work;

pub(super) fn heartbeat(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    duration_ms: i64,
) -> Result<Answer, Stop> {
    let now = work.env.now;
    let until = task::heartbeat(work.task_mut(id)?, caller, duration_ms, now)?;
    Ok(Answer::Lease { until })
}

pub(super) fn unlock(work: &mut Work<'_>, id: &TaskId) -> Result<Answer, Stop> {
    let now = work.env.now;
    let file = work.task_mut(id)?;
    task::unlock(file, now);
    Ok(closed(file, now))
}

pub(super) fn release(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    after_ms: Option<i64>,
    reason: Option<&str>,
) -> Result<Answer, Stop> {
    let now = work.env.now;
    let body = Value::map([
        ("afterMs", after_ms.map_or(Value::Null, Value::from)),
        ("reason", reason.map_or(Value::Null, Value::from)),
    ]);
    let file = work.task_mut(id)?;
    if let Opened::Repeat(state) = task::open_closing(file, caller, "release", &body)? {
        return Ok(repeated(file, state));
    }
    match task::release(file, after_ms, now) {
        ReleaseOutcome::CountsAsFailure => {
            let failed = task::Failure {
                message: format!("deferred too often{}", crate::errors::tail(reason)),
                code: Some("DEFERRED_TOO_OFTEN".to_owned()),
                retryable: true,
                retry_after_ms: None,
            };
            failure::count(work, id, caller, "release", &body, &failed)
        }
        ReleaseOutcome::HandedBack | ReleaseOutcome::Deferred { .. } => {
            Ok(close(file, caller, "release", &body, now))
        }
    }
}

pub(super) fn park(work: &mut Work<'_>, id: &TaskId, caller: &Caller) -> Result<Answer, Stop> {
    let now = work.env.now;
    let file = work.task_mut(id)?;
    let parked = task::park(file, caller, now)?;
    let waiting = task::waiting_for(file);
    Ok(match parked {
        Parked::Parked(state) => Answer::Parked {
            state,
            waiting,
            news: false,
        },
        Parked::News(state) => Answer::Parked {
            state,
            waiting,
            news: true,
        },
    })
}

/// Ends the lease and remembers the answer: the state that the task shows without it.
pub(super) fn close(
    file: &mut task::TaskFile,
    caller: &Caller,
    operation: &str,
    body: &Value,
    now: i64,
) -> Answer {
    // The state is read once the lease is gone, so closing comes first with a provisional answer.
    let before = task::status(file, now);
    task::close(file, caller, operation, body, before);
    answered(file, now)
}

/// The answer of a closing call as the task stands now, kept for its repeats.
pub(super) fn answered(file: &mut task::TaskFile, now: i64) -> Answer {
    let (attempt, available_at, incident) = (file.task.attempt, file.task.available_at, file.task.incident());
    let state = task::status(file, now);
    if let Some(closing) = &mut file.task.closing {
        *closing = task::Closing {
            state,
            attempt,
            available_at,
            incident,
            ..closing.clone()
        };
    }
    closed(file, now)
}

fn closed(file: &task::TaskFile, now: i64) -> Answer {
    Answer::Closed {
        state: task::status(file, now),
        attempt: file.task.attempt,
        available_at: file.task.available_at,
        incident: file.task.incident(),
    }
}

/// The answer that the call got the first time, whatever became of the task since.
pub(super) fn repeated(file: &task::TaskFile, state: task::TaskState) -> Answer {
    match &file.task.closing {
        Some(closing) => Answer::Closed {
            state,
            attempt: closing.attempt,
            available_at: closing.available_at,
            incident: closing.incident,
        },
        None => Answer::Closed {
            state,
            attempt: file.task.attempt,
            available_at: None,
            incident: None,
        },
    }
}
