//! Grants: a step runs only under the lease that its grant names, with the arguments and the key that the grant
//! carries (D39, D60, D46).

use std::sync::Arc;

use legation_language::{Value, canonical};

use super::states::{Mover, shift};
use super::{JournalContext, Standing, Step, StepKind};
use crate::content::{MissingPayload, PayloadRef, Payloads, payload};
use crate::effect::Effect;
use crate::ids::TaskId;
use crate::journal::StepState;
use crate::rejection::Rejection;
use crate::task::TaskFile;

/// Grants a step to the caller's live lease: an approved call, or one that an earlier lease left. Repeating it
/// under the same lease changes nothing. Steps that are no worker's to run are left alone.
///
/// # Errors
/// `OUTCOME_UNKNOWN` (409) for an unkeyed write that another lease started and nobody resolved.
pub(super) fn grant(file: &mut TaskFile, at: usize, lease: &(u32, String)) -> Result<(), Rejection> {
    let step = &*file.steps[at];
    let mine = step.grant.as_ref() == Some(lease);
    if step.standing() != Standing::Granted || (mine && step.state == StepState::Started) {
        return Ok(());
    }
    if step.is_in_doubt() {
        let message = format!(
            "step {} was started by an earlier lease and its outcome is unknown",
            step.sequence
        );
        return Err(Rejection::conflict("OUTCOME_UNKNOWN", message)
            .hint("a person says performed or not performed before it is sent again"));
    }
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(step, Mover::Worker, StepState::Started)?;
    step.earlier_grants.extend(step.grant.replace(lease.clone()));
    Ok(())
}

/// What a grant hands over to run: the effective arguments of a call.
pub(super) fn granted_arguments(
    cx: &JournalContext<'_>,
    step: &Step,
    out: &[Effect],
) -> Result<Option<Value>, MissingPayload> {
    if step.kind != StepKind::Tool {
        return Ok(None);
    }
    if let Some(effective) = &step.effective {
        return find_payload(cx.payloads, out, effective).cloned().map(Some);
    }
    let request = find_payload(cx.payloads, out, &step.request)?;
    Ok(request.get("arguments").cloned())
}

/// The key of a write, equal over every lease (D39).
pub(super) fn key(task: &TaskId, attempt: u32, sequence: u32) -> String {
    canonical::sha256_hex(format!("{task}:{attempt}:{sequence}").as_bytes())
}

/// A payload of this commit or one that was loaded.
pub(super) fn find_payload<'a>(
    payloads: &'a Payloads,
    out: &'a [Effect],
    reference: &PayloadRef,
) -> Result<&'a Value, MissingPayload> {
    let fresh = out.iter().find_map(|effect| match effect {
        Effect::Payload(new) if new.digest == reference.digest => Some(&new.value),
        _ => None,
    });
    fresh.map_or_else(|| payloads.get(&reference.digest), Ok)
}

/// Keeps a value as a payload of the task.
pub(super) fn keep(task: &TaskId, value: Value, out: &mut Vec<Effect>) -> PayloadRef {
    let (reference, new) = payload(task.as_str(), value);
    out.push(Effect::Payload(new));
    reference
}
