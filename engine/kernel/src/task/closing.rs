//! The calls that end a lease: failure, release, park, and the memory that makes each count once (core §3).

use legation_language::model::Retry;
use legation_language::{Value, canonical};

use super::lease::{call_back, check_lease, end_lease};
use super::status::{is_idle, status};
use super::{Caller, Closing, TaskFile, TaskState};
use crate::journal::{Standing, StepState};
use crate::rejection::Rejection;

/// Deferrals in a row without a settled step; the next one counts as a failure (D34).
pub const MAX_DEFERRALS: u32 = 12;

/// The longest deferral or wait before a retry that a worker may ask for: 15 minutes (D34).
pub const MAX_DEFERRAL_MS: i64 = 15 * 60 * 1000;

/// Whether a closing call is new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opened {
    Fresh,
    /// The same call again: the answer that it got, and nothing to do.
    Repeat(TaskState),
}

/// Recognises a repeated closing call, else checks the lease (D32). Call [`close`] when it took effect.
///
/// # Errors
/// As [`check_lease`].
pub fn open_closing(
    file: &TaskFile,
    caller: &Caller,
    operation: &str,
    body: &Value,
) -> Result<Opened, Rejection> {
    if let Some(closing) = &file.task.closing
        && caller
            .lease
            .as_ref()
            .is_some_and(|(n, random)| *n == closing.lease_no && *random == closing.random)
        && closing.digest == closing_digest(operation, body)
    {
        return Ok(Opened::Repeat(closing.state));
    }
    check_lease(file, caller)?;
    Ok(Opened::Fresh)
}

/// Remembers the call with its answer and ends the lease.
pub fn close(file: &mut TaskFile, caller: &Caller, operation: &str, body: &Value, state: TaskState) {
    if let Some((lease_no, random)) = &caller.lease {
        file.task.closing = Some(Closing {
            lease_no: *lease_no,
            random: random.clone(),
            digest: closing_digest(operation, body),
            state,
            attempt: file.task.attempt,
            available_at: file.task.available_at,
            incident: file.task.incident(),
        });
    }
    end_lease(file, caller.arrived_at);
    file.task.ended_lease = None;
}

fn closing_digest(operation: &str, body: &Value) -> String {
    canonical::digest(&Value::list([Value::from(operation), body.clone()]))
}

/// A failure as the worker reports it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    pub message: String,
    pub code: Option<String>,
    /// False: no further try.
    pub retryable: bool,
    /// The earliest retry, in milliseconds from now.
    pub retry_after_ms: Option<i64>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureOutcome {
    Retry {
        /// Epoch ms.
        available_at: i64,
        /// False while steps are unsettled: the same conversation goes on (D33).
        new_attempt: bool,
    },
    /// No try is left: the caller routes `WORK_FAILED` or opens an incident, and retires the task.
    Exhausted,
}

/// Counts a failure (D33). The caller then calls [`close`], or retires the task.
pub fn failure(
    file: &mut TaskFile,
    retry: &Retry,
    failure: &Failure,
    random_percent: u32,
    now: i64,
) -> FailureOutcome {
    file.task.tries += 1;
    if !failure.retryable || file.task.tries >= retry.max_attempts {
        return FailureOutcome::Exhausted;
    }
    let asked = failure.retry_after_ms.unwrap_or(0).clamp(0, MAX_DEFERRAL_MS);
    let available_at = now.saturating_add(backoff(retry, file.task.tries, random_percent).max(asked));
    let new_attempt = file.steps.iter().all(|step| step.is_settled());
    if new_attempt {
        self::new_attempt(file, now);
    }
    file.task.available_at = Some(available_at);
    FailureOutcome::Retry {
        available_at,
        new_attempt,
    }
}

/// Milliseconds before try number `tries + 1`: exponential, capped, spread by the jitter in both directions.
fn backoff(retry: &Retry, tries: u32, random_percent: u32) -> i64 {
    let mut wait = retry.backoff_ms;
    for _ in 1..tries {
        wait = wait.saturating_mul(i64::from(retry.multiplier_percent)) / 100;
        if wait >= retry.max_backoff_ms {
            break;
        }
    }
    let wait = wait.min(retry.max_backoff_ms).max(0);
    let spread = wait.saturating_mul(i64::from(retry.jitter_percent)) / 100;
    let shift = spread.saturating_mul(2 * i64::from(random_percent.min(100)) - 100) / 100;
    (wait + shift).clamp(0, retry.max_backoff_ms.max(0))
}

/// Begins a fresh conversation (D33). Tries stay.
pub fn new_attempt(file: &mut TaskFile, now: i64) {
    let task = &mut file.task;
    task.attempt += 1;
    task.invalid_outputs = 0;
    task.tokens_used = 0;
    task.expiries = 0;
    task.deferrals = 0;
    task.parked = false;
    task.available_at = Some(now);
}

/// An operator's retry after an incident: counts start anew, and so does the conversation unless something of it
/// is unsettled or another incident holds the task (D33). Answers whether a new attempt began.
///
/// # Errors
/// `OUTCOME_UNKNOWN` (409) when this incident asks a person whether a write was performed.
pub fn retry(file: &mut TaskFile, incident: u32, now: i64) -> Result<bool, Rejection> {
    if file
        .steps
        .iter()
        .any(|step| step.state == StepState::OutcomeUnknown && step.incident == Some(incident))
    {
        return Err(Rejection::conflict(
            "OUTCOME_UNKNOWN",
            format!("task {} has a write of unknown outcome", file.task.id),
        )
        .hint("resolve the incident as performed or not performed"));
    }
    file.task.incidents.remove(&incident);
    file.task.tries = 0;
    file.task.expiries = 0;
    file.task.deferrals = 0;
    file.task.available_at = None;
    let fresh = file.task.incidents.is_empty() && file.steps.iter().all(|step| step.is_settled());
    if fresh {
        new_attempt(file, now);
    }
    file.task.parked = is_idle(file);
    Ok(fresh)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// Given back at once; counts nothing.
    HandedBack,
    /// Epoch ms.
    Deferred { available_at: i64 },
    /// One deferral too many: the caller goes on as with a failure (D34).
    CountsAsFailure,
}

/// Gives the task back, now or for later (D34). The caller then calls [`close`].
pub fn release(file: &mut TaskFile, after_ms: Option<i64>, now: i64) -> ReleaseOutcome {
    let Some(after_ms) = after_ms else {
        return ReleaseOutcome::HandedBack;
    };
    file.task.deferrals += 1;
    if file.task.deferrals > MAX_DEFERRALS {
        file.task.deferrals = 0;
        return ReleaseOutcome::CountsAsFailure;
    }
    let available_at = now.saturating_add(after_ms.clamp(0, MAX_DEFERRAL_MS));
    file.task.available_at = Some(available_at);
    ReleaseOutcome::Deferred { available_at }
}

/// The answer to a park.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// The lease is gone until something settles.
    Parked(TaskState),
    /// Something is there to do, or settled meanwhile: the lease stands, read the journal.
    News(TaskState),
}

/// Gives the lease back while others work (core §3). Reads the steps under the lock, so nothing that settled a
/// moment ago is slept through. A repeat of the park that ended the lease gets the same answer.
///
/// # Errors
/// As [`check_lease`].
pub fn park(file: &mut TaskFile, caller: &Caller, now: i64) -> Result<Parked, Rejection> {
    if let Opened::Repeat(state) = open_closing(file, caller, "park", &Value::Null)? {
        return Ok(Parked::Parked(state));
    }
    if file.task.news || !is_idle(file) {
        call_back(file, caller);
        file.task.news = false;
        return Ok(Parked::News(status(file, now)));
    }
    file.task.lease = None;
    let state = status(file, now);
    close(file, caller, "park", &Value::Null, state);
    Ok(Parked::Parked(state))
}

/// Unsettled steps refuse a completion.
pub(crate) fn open_step(file: &TaskFile) -> Result<(), Rejection> {
    let Some(step) = file
        .steps
        .iter()
        .find(|step| step.standing() != Standing::Settled)
    else {
        return Ok(());
    };
    Err(
        Rejection::conflict("OPEN_STEP", format!("step {} is not settled", step.sequence))
            .hint("send its result, or park until it settles"),
    )
}
