//! Unknown outcomes (D39): how a write gets one, and how a person ends it.

use std::sync::Arc;

use legation_language::Value;

use super::check::fits;
use super::grant::keep;
use super::settle::{finish, reopen};
use super::states::{Mover, shift};
use super::{StepState, number};
use crate::effect::{Effect, Incident};
use crate::rejection::Rejection;
use crate::task::TaskFile;

/// Makes a started write OUTCOME_UNKNOWN. An incident holds the task until a person resolves it; the notice of a
/// retired task holds nothing. Answers the incident's local number.
pub(crate) fn declare_unknown(
    file: &mut TaskFile,
    at: usize,
    notice: bool,
    cause: &str,
    now: i64,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) -> u32 {
    let local = number(numbers);
    let instance = file.task.id.instance();
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(step, Mover::Engine, StepState::OutcomeUnknown).expect("only started writes are declared unknown");
    step.incident = Some(local);
    let message = format!(
        "it is not known whether step {} ({}) was performed: {cause}",
        step.sequence, step.tool_ref
    );
    out.push(Effect::OpenIncident(Box::new(Incident {
        id: instance.incident(local),
        instance,
        node: file.task.node.clone(),
        task: Some(file.task.id.clone()),
        attempt: Some(step.attempt),
        sequence: Some(step.sequence),
        notice,
        code: "OUTCOME_UNKNOWN".to_owned(),
        message,
        created_at: now,
        held: None,
    })));
    if !notice {
        file.task.incidents.insert(local);
    }
    local
}

/// A person says what happened. Performed: the step is COMPLETED with the result, or with the one that came too
/// late. Not performed: it may be granted again; of a retired task it is FAILED `NOT_PERFORMED`. The caller closes
/// the incident's row.
///
/// # Errors
/// `NOT_FOUND`, `STEP_FINISHED` (409) when the outcome is known, `PAYLOAD_TOO_LARGE` (413).
#[expect(
    clippy::too_many_arguments,
    reason = "the facts of one decision, and where its effects go"
)]
pub fn resolve_unknown(
    file: &mut TaskFile,
    attempt: u32,
    sequence: u32,
    performed: bool,
    result: Option<Value>,
    comment: &str,
    by: &str,
    now: i64,
    out: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let Some(at) = file.position(attempt, sequence) else {
        return Err(Rejection::not_found(format!(
            "task {} has no step {sequence}",
            file.task.id
        )));
    };
    if file.steps[at].state != StepState::OutcomeUnknown {
        return Err(Rejection::conflict(
            "STEP_FINISHED",
            format!("the outcome of step {sequence} is known"),
        ));
    }
    let reference = match result.filter(|_| performed) {
        Some(value) => {
            file.task.journal_bytes += fits("result", sequence, &value)?;
            Some(keep(&file.task.id, value, out))
        }
        None => file.steps[at].late_result.clone().filter(|_| performed),
    };
    let retired = file.task.retired.is_some();
    let step = Arc::make_mut(&mut file.steps[at]);
    let said = if performed { "performed" } else { "not performed" };
    step.resolved_by = Some(format!("{by}: {said}"));
    step.comment = Some(comment.to_owned());
    step.earlier_grants.extend(step.grant.take());
    let incident = step.incident.take();
    if performed || retired {
        shift(
            step,
            Mover::Person,
            if performed {
                StepState::Completed
            } else {
                StepState::Failed
            },
        )?;
        step.result = reference;
        step.code = (!performed).then(|| "NOT_PERFORMED".to_owned());
        finish(&mut file.task, step, now);
    } else {
        shift(step, Mover::Person, StepState::Started)?;
        file.task.expiries = 0;
    }
    if let Some(incident) = incident {
        file.task.incidents.remove(&incident);
    }
    reopen(file);
    Ok(())
}
