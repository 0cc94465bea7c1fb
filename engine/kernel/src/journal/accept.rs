//! Results: accepted from the lease that was granted the step, even after its expiry, until the step is granted
//! again or declared unknown; later they are kept as `late_result` and shown. A known outcome is never thrown away.

use std::sync::Arc;

use super::check::{fits, invalid};
use super::grant::keep;
use super::record::Draft;
use super::settle::{finish, reopen};
use super::states::{Mover, shift};
use super::{Step, StepInput, StepKind, StepState, declare_unknown, turn};
use crate::rejection::{Rejection, Stop};
use crate::task::{Caller, TaskFile};

/// What a message about a known step is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Delivery {
    /// The outcome of the sender's own grant.
    Result,
    /// The outcome of a grant that the sender lost.
    TooLate,
    NotMine,
}

/// # Errors
/// `LEASE_NOT_OWNED` (403) when the lease that is named is live and another's.
pub(super) fn delivery(
    file: &TaskFile,
    step: &Step,
    caller: &Caller,
    input: &StepInput,
) -> Result<Delivery, Rejection> {
    let reports = matches!(
        input.state,
        StepState::Completed | StepState::Failed | StepState::OutcomeUnknown
    );
    let Some(lease) = caller.lease.as_ref().filter(|_| reports) else {
        return Ok(Delivery::NotMine);
    };
    let mine = step.grant.as_ref() == Some(lease);
    if !mine && !step.earlier_grants.contains(lease) {
        return Ok(Delivery::NotMine);
    }
    if let Some(live) = &file.task.lease
        && live.number == lease.0
        && (live.worker != caller.worker || live.credential != caller.credential)
    {
        let message = format!("the lease on task {} belongs to another worker", file.task.id);
        return Err(Rejection::forbidden("LEASE_NOT_OWNED", message));
    }
    match step.state {
        StepState::Started if mine => Ok(Delivery::Result),
        StepState::OutcomeUnknown if mine && input.state == StepState::OutcomeUnknown => {
            Ok(Delivery::NotMine)
        }
        StepState::OutcomeUnknown => Ok(Delivery::TooLate),
        // Its task ended while it ran: what it cost and brought is kept, though nothing goes on with it.
        StepState::Failed if step.code.as_deref() == Some("WORK_RETIRED") => Ok(Delivery::TooLate),
        _ if mine => Ok(Delivery::NotMine),
        _ => Ok(Delivery::TooLate),
    }
}

pub(super) fn accept(draft: &mut Draft<'_>, at: usize, input: &StepInput) -> Result<(), Stop> {
    let now = draft.cx.now;
    let step = &draft.file.steps[at];
    if input.state == StepState::OutcomeUnknown && !step.is_write() {
        return Err(invalid(
            input,
            "state",
            "only a write has an unknown outcome; send it again",
        )
        .into());
    }
    let mut calls = Vec::new();
    let mut usage = None;
    if step.kind == StepKind::Model {
        let result = input.result.clone().unwrap_or_default();
        usage = turn::usage(&result);
        if input.state == StepState::Completed {
            calls = turn::calls(input, &result)?;
        }
    }
    let mut reference = None;
    if let Some(result) = &input.result {
        draft.file.task.journal_bytes += fits("result", input.sequence, result)?;
        reference = Some(keep(&draft.file.task.id, result.clone(), &mut draft.out));
    }
    if input.state == StepState::OutcomeUnknown {
        let cause = "the worker could not learn its outcome";
        declare_unknown(
            &mut draft.file,
            at,
            false,
            cause,
            now,
            &mut draft.numbers,
            &mut draft.out,
        );
        Arc::make_mut(&mut draft.file.steps[at]).result = reference;
        draft.task_incident = true;
        return Ok(());
    }
    let file = &mut draft.file;
    // A worker's own words: no number that it sends may wrap the sum back under the limit.
    let used = usage.map_or(0, |usage| usage.input.saturating_add(usage.output));
    file.task.tokens_used = file.task.tokens_used.saturating_add(used);
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(step, Mover::Worker, input.state)?;
    step.result = reference;
    step.calls = calls;
    step.usage = usage;
    let code = input
        .result
        .as_ref()
        .and_then(|result| result.get("code"))
        .and_then(|code| code.as_str());
    step.code = code
        .filter(|_| input.state == StepState::Failed)
        .map(str::to_owned);
    finish(&mut file.task, step, now);
    if !draft.live {
        reopen(file);
    }
    Ok(())
}

/// Keeps the first result that came too late.
pub(super) fn keep_late(draft: &mut Draft<'_>, at: usize, input: &StepInput) -> Result<(), Stop> {
    let Some(result) = input
        .result
        .as_ref()
        .filter(|_| draft.file.steps[at].late_result.is_none())
    else {
        return Ok(());
    };
    draft.file.task.journal_bytes += fits("result", input.sequence, result)?;
    let reference = keep(&draft.file.task.id, result.clone(), &mut draft.out);
    Arc::make_mut(&mut draft.file.steps[at]).late_result = Some(reference);
    Ok(())
}
