//! Delegations: the child that a step starts, the queue for a place, and what comes back (D12, D15, D16, D63).

use std::collections::BTreeMap;
use std::sync::Arc;

use legation_language::Value;

use super::check::find_delegate;
use super::grant::{find_payload, keep};
use super::settle::{Settled, finish, reopen};
use super::states::{Mover, shift};
use super::{JournalContext, StepKind, StepState, number};
use crate::effect::Effect;
use crate::ids::InstanceId;
use crate::instance::Status;
use crate::rejection::{Rejection, RejectionKind, Stop};
use crate::task::TaskFile;

/// A child that the caller starts in the same commit.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildStart {
    pub attempt: u32,
    pub sequence: u32,
    pub child: InstanceId,
    pub process: String,
    /// The pinned version (D5).
    pub version: u32,
    pub inputs: BTreeMap<String, Value>,
    /// The place in the node's delegates.
    pub delegate: usize,
}

/// How a child ended, as far as its caller may know.
#[derive(Clone, Debug, PartialEq)]
pub struct ChildEnd {
    pub status: Status,
    /// The outputs that the delegates entry names and no other (D4); unset ones are null.
    pub outputs: BTreeMap<String, Value>,
    /// Names of outputs that were left unset.
    pub unset: Vec<String>,
    /// Only words that an author wrote (architecture §7.1).
    pub message: Option<String>,
    /// The code of its error end.
    pub error: Option<String>,
}

/// Gives the step its child: the number is drawn here, at dispatch.
pub(super) fn dispatch(
    cx: &JournalContext<'_>,
    file: &mut TaskFile,
    at: usize,
    inputs: BTreeMap<String, Value>,
    numbers: &mut u32,
) -> Result<ChildStart, Rejection> {
    let tool_ref = file.steps[at].tool_ref.clone();
    let (index, delegate) = find_delegate(cx, &tool_ref).ok_or_else(|| {
        Rejection::new(
            RejectionKind::Internal,
            "DELEGATE_UNKNOWN",
            format!("{tool_ref} is not in the definition"),
        )
    })?;
    let child = cx.instance_id.child(number(numbers));
    let step = Arc::make_mut(&mut file.steps[at]);
    step.child = Some(child.clone());
    step.queued = false;
    Ok(ChildStart {
        attempt: step.attempt,
        sequence: step.sequence,
        child,
        process: delegate.process.clone(),
        version: delegate.version,
        inputs,
        delegate: index,
    })
}

/// Whether one more child may run beside those of this task.
pub(super) fn has_place(cx: &JournalContext<'_>, file: &TaskFile) -> bool {
    let running = file.steps.iter().filter(|step| {
        step.kind == StepKind::Delegation && step.state == StepState::Started && step.child.is_some()
    });
    running.count() < cx.node.max_concurrent().max(1) as usize
}

/// Starts queued delegations, oldest first, while there is a place: called by whatever settled a sibling.
///
/// # Errors
/// [`Stop::MissingPayloads`] for the inputs of a queued step.
pub fn start_queued(
    cx: &JournalContext<'_>,
    file: &mut TaskFile,
    numbers: &mut u32,
    out: &[Effect],
) -> Result<Vec<ChildStart>, Stop> {
    let mut started = Vec::new();
    if file.task.retired.is_some() {
        return Ok(started);
    }
    for at in 0..file.steps.len() {
        if file.steps[at].queued && file.steps[at].state == StepState::Started && has_place(cx, file) {
            let inputs = inputs_of(cx, file, at, out)?;
            started.push(dispatch(cx, file, at, inputs, numbers)?);
        }
    }
    Ok(started)
}

/// The inputs that a recorded delegation will start with.
pub(super) fn inputs_of(
    cx: &JournalContext<'_>,
    file: &TaskFile,
    at: usize,
    out: &[Effect],
) -> Result<BTreeMap<String, Value>, Stop> {
    let step = &file.steps[at];
    let value = match &step.effective {
        Some(effective) => find_payload(cx.payloads, out, effective)?.clone(),
        None => find_payload(cx.payloads, out, &step.request)?
            .get("arguments")
            .cloned()
            .unwrap_or_default(),
    };
    match value {
        Value::Map(inputs) => Ok(inputs),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::List(_) => {
            Ok(BTreeMap::new())
        }
    }
}

/// A child ended: its step is COMPLETED with the outputs as one flat object, or FAILED with a sentence that the
/// model reads. Ignored when no step waits for this child any more (D21). Call [`start_queued`] next.
///
/// # Errors
/// None that the state table allows; a refusal means a damaged journal.
pub fn settle_child(
    file: &mut TaskFile,
    child: &InstanceId,
    end: &ChildEnd,
    now: i64,
    out: &mut Vec<Effect>,
) -> Result<Settled, Rejection> {
    let waits = file.steps.iter().position(|step| {
        step.kind == StepKind::Delegation
            && step.state == StepState::Started
            && step.child.as_ref() == Some(child)
    });
    let Some(at) = waits else {
        return Ok(Settled::Ignored);
    };
    let completed = end.status == Status::Completed;
    let result = if completed {
        flat(end)
    } else {
        Value::String(sentence(end))
    };
    let reference = keep(&file.task.id, result, out);
    file.task.journal_bytes += reference.size;
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(
        step,
        Mover::Engine,
        if completed {
            StepState::Completed
        } else {
            StepState::Failed
        },
    )?;
    step.result = Some(reference);
    if !completed {
        step.code = Some(
            end.error
                .clone()
                .unwrap_or_else(|| format!("CHILD_{}", name(end.status))),
        );
    }
    finish(&mut file.task, step, now);
    Ok(Settled::Settled { opened: reopen(file) })
}

/// The declared outputs, with `note` and `message` beside them (architecture §7.1).
fn flat(end: &ChildEnd) -> Value {
    let mut object = end.outputs.clone();
    if !end.unset.is_empty() {
        let note = format!("left unset by the delegated process: {}", end.unset.join(", "));
        object.insert("note".to_owned(), Value::String(note));
    }
    if let Some(message) = &end.message {
        object.insert("message".to_owned(), Value::from(message.as_str()));
    }
    Value::Map(object)
}

fn sentence(end: &ChildEnd) -> String {
    let code = end
        .error
        .as_ref()
        .map_or_else(String::new, |code| format!(" with code {code}"));
    format!(
        "The delegated process ended {}{code}; it returned nothing.",
        name(end.status)
    )
}

fn name(status: Status) -> &'static str {
    match status {
        Status::Running => "RUNNING",
        Status::Cancelling => "CANCELLING",
        Status::Compensating => "COMPENSATING",
        Status::Completed => "COMPLETED",
        Status::Failed => "FAILED",
        Status::Cancelled => "CANCELLED",
    }
}
