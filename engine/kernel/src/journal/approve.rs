//! Decisions on proposals (D18, D45, D46): a person approves the exact inputs that the digest names.

use std::sync::Arc;

use legation_language::Value;

use super::children::{ChildStart, dispatch, has_place, inputs_of};
use super::grant::keep;
use super::settle::{finish, reopen};
use super::states::{Mover, refusal, shift};
use super::{JournalContext, StepKind, StepState};
use crate::effect::{Effect, HumanEnd};
use crate::rejection::{Rejection, Stop};
use crate::task::TaskFile;

/// What a person decided, and on what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    pub approved: bool,
    /// The principal's id.
    pub by: String,
    pub comment: Option<String>,
    /// The effective digest that the person saw.
    pub digest: String,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Decided {
    /// The child of an approved delegation, unless it is queued.
    pub children: Vec<ChildStart>,
    /// The parked task may be leased again.
    pub opened: bool,
}

/// Decides an approval. An approved delegation starts its child at once, an approved tool opens the task, a
/// rejected call is settled and the model reads the comment. The same decision of the same person again changes
/// nothing.
///
/// # Errors
/// `NOT_FOUND`, `WORK_RETIRED` (410), `ALREADY_DECIDED`, `APPROVAL_CHANGED` (409), `COMMENT_REQUIRED` (422).
pub fn decide(
    cx: &JournalContext<'_>,
    file: &mut TaskFile,
    approval_local: u32,
    decision: &Decision,
    now: i64,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) -> Result<Decided, Stop> {
    let Some(at) = file
        .steps
        .iter()
        .rposition(|step| step.approval == Some(approval_local))
    else {
        return Err(Rejection::not_found(format!("no step waits for approval {approval_local}")).into());
    };
    let step = &*file.steps[at];
    if file.task.retired.is_some() {
        return Err(refusal("WORK_RETIRED", step.sequence).into());
    }
    if step.state != StepState::Proposed {
        let rejected = step.state == StepState::Rejected;
        let same = step.decided_by.as_deref() == Some(decision.by.as_str()) && rejected != decision.approved;
        let withdrawn = step.state == StepState::Withdrawn;
        let code = if withdrawn {
            "WORK_RETIRED"
        } else {
            "ALREADY_DECIDED"
        };
        return if same {
            Ok(Decided::default())
        } else {
            Err(refusal(code, step.sequence).into())
        };
    }
    if step.effective_digest.as_deref() != Some(decision.digest.as_str()) {
        let message = format!("step {} is not what this decision saw", step.sequence);
        return Err(Rejection::conflict("APPROVAL_CHANGED", message)
            .hint("read the approval again and decide on that")
            .into());
    }
    let comment = decision
        .comment
        .as_deref()
        .map(str::trim)
        .filter(|comment| !comment.is_empty());
    let decided = if decision.approved {
        approve(cx, file, at, numbers, out)?
    } else {
        let Some(comment) = comment else {
            let refusal = Rejection::invalid(
                "COMMENT_REQUIRED",
                "a rejection needs a comment, which the model reads",
            );
            return Err(refusal.argument("comment").into());
        };
        reject(file, at, comment, now, out)?;
        Vec::new()
    };
    let step = Arc::make_mut(&mut file.steps[at]);
    step.decided_by = Some(decision.by.clone());
    step.comment = comment.map(str::to_owned);
    out.push(Effect::CloseHuman(HumanEnd {
        id: cx.instance_id.human(approval_local),
        state: "COMPLETED",
        by: Some(decision.by.clone()),
        outcome: Some(if decision.approved { "approved" } else { "rejected" }.to_owned()),
        comment: comment.map(str::to_owned),
        at: now,
    }));
    Ok(Decided {
        children: decided,
        opened: reopen(file),
    })
}

fn approve(
    cx: &JournalContext<'_>,
    file: &mut TaskFile,
    at: usize,
    numbers: &mut u32,
    out: &[Effect],
) -> Result<Vec<ChildStart>, Stop> {
    if file.steps[at].kind != StepKind::Delegation {
        shift(
            Arc::make_mut(&mut file.steps[at]),
            Mover::Person,
            StepState::Approved,
        )?;
        return Ok(Vec::new());
    }
    let inputs = inputs_of(cx, file, at, out)?;
    let place = has_place(cx, file);
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(step, Mover::Person, StepState::Started)?;
    step.queued = !place;
    if place {
        Ok(vec![dispatch(cx, file, at, inputs, numbers)?])
    } else {
        Ok(Vec::new())
    }
}

fn reject(
    file: &mut TaskFile,
    at: usize,
    comment: &str,
    now: i64,
    out: &mut Vec<Effect>,
) -> Result<(), Rejection> {
    let result = Value::map([("rejected", Value::from(true)), ("comment", Value::from(comment))]);
    let reference = keep(&file.task.id, result, out);
    file.task.journal_bytes += reference.size;
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(step, Mover::Person, StepState::Rejected)?;
    step.result = Some(reference);
    step.code = Some("REJECTED".to_owned());
    finish(&mut file.task, step, now);
    Ok(())
}
