//! New steps: bound, allowed, counted, then granted, proposed, queued, answered by an earlier attempt, or refused.

use std::sync::Arc;

use legation_language::Value;
use legation_language::model::{Approval, Policy};

use super::check::{self, Target};
use super::children::{dispatch, has_place};
use super::grant::{keep, key};
use super::record::{Draft, StepAnswer};
use super::settle::finish;
use super::states::{Mover, Verdict, judge, refusal};
use super::{Call, MAX_JOURNAL_BYTES, Step, StepInput, StepState, number, reuse, turn};
use crate::content::PayloadRef;
use crate::effect::{Effect, HumanKind, HumanTask, Outcome, Timer};
use crate::rejection::{Rejection, Stop};

/// Records a step on a fresh sequence, in D36's order.
pub(super) fn create(draft: &mut Draft<'_>, input: &StepInput, digest: String) -> Result<StepAnswer, Stop> {
    let verdict = judge(None, Mover::Worker, input.state);
    if verdict == Verdict::Refused("STEP_INVALID") {
        return Err(refusal("STEP_INVALID", input.sequence).into());
    }
    draft.may_begin_turn(input)?;
    let bound = check::target(draft.cx, input);
    if let Err(refused) = &bound
        && !may_record_refusal(draft, input, refused)
    {
        return Err(refused.clone().into());
    }
    if let Verdict::Refused(code) = verdict {
        return Err(refusal(code, input.sequence).into());
    }
    draft.within_limits(bound.as_ref().ok().copied())?;
    let checked = bound.and_then(|target| Ok((target, check::arguments(draft.cx, target, input)?)));
    if let Err(refused) = &checked
        && !may_record_refusal(draft, input, refused)
    {
        return Err(refused.clone().into());
    }
    if input.state == StepState::Refused && checked.is_ok() {
        return Err(refusal("NOT_REFUSED", input.sequence).into());
    }
    let call = turn::locate(draft.cx, &draft.file, input)?;
    let size = within_steps(draft, input)?;
    let request = keep(&draft.file.task.id, input.request.clone(), &mut draft.out);
    draft.file.task.journal_bytes += size;
    let step = blank(draft, input, digest, request, call);
    match checked {
        Ok((target, arguments)) => {
            let at = draft.push(step);
            begin(draft, at, target, input, arguments)?;
            draft.answer(at)
        }
        Err(refused) => refuse(draft, step, input, refused),
    }
}

/// The single form answers a refusal and records nothing, unless the worker journals what the model reads.
fn may_record_refusal(draft: &Draft<'_>, input: &StepInput, refused: &Rejection) -> bool {
    let asked = input.state == StepState::Refused || (input.state == StepState::Started && !draft.single);
    asked && refused.tool_error
}

/// # Errors
/// `STEP_LIMIT` (409), `PAYLOAD_TOO_LARGE` (413).
fn within_steps(draft: &Draft<'_>, input: &StepInput) -> Result<u64, Rejection> {
    let limit = draft.cx.node.max_steps();
    if input.sequence > limit {
        return Err(Rejection::conflict(
            "STEP_LIMIT",
            format!("the attempt had its {limit} steps"),
        ));
    }
    let size = check::fits("request", input.sequence, &input.request)?;
    if draft.file.task.journal_bytes + size > MAX_JOURNAL_BYTES {
        let message = format!("the journal has its {MAX_JOURNAL_BYTES} bytes");
        return Err(Rejection::conflict("STEP_LIMIT", message).because("journal-bytes"));
    }
    Ok(size)
}

fn blank(
    draft: &Draft<'_>,
    input: &StepInput,
    request_digest: String,
    request: PayloadRef,
    call: Option<Call>,
) -> Step {
    Step {
        task: draft.file.task.id.clone(),
        attempt: draft.attempt,
        sequence: input.sequence,
        kind: input.kind,
        state: StepState::Started,
        queued: false,
        tool_ref: input.tool_ref.clone(),
        call,
        call_id: input.call_id.clone(),
        request_digest,
        effective_digest: None,
        request,
        effective: None,
        result: None,
        late_result: None,
        policy: None,
        unkeyed: false,
        key: None,
        grant: None,
        earlier_grants: Vec::new(),
        settled: None,
        reused_from: None,
        child: None,
        approval: None,
        decided_by: None,
        comment: None,
        incident: None,
        resolved_by: None,
        code: None,
        reason: None,
        calls: Vec::new(),
        usage: None,
        wait: None,
        started_at: draft.cx.now,
        ended_at: None,
    }
}

/// What the model reads is the step's result: every call has an answer (D61).
fn refuse(
    draft: &mut Draft<'_>,
    mut step: Step,
    input: &StepInput,
    refused: Rejection,
) -> Result<StepAnswer, Stop> {
    let read = match input.result.clone().filter(|_| input.state == StepState::Refused) {
        Some(result) => result,
        None => explain(&refused),
    };
    draft.file.task.journal_bytes += check::fits("result", input.sequence, &read)?;
    step.result = Some(keep(&draft.file.task.id, read, &mut draft.out));
    step.state = StepState::Refused;
    step.code = Some(refused.code.to_owned());
    step.reason = refused.reason.clone();
    finish(&mut draft.file.task, &mut step, draft.cx.now);
    let at = draft.push(step);
    let mut answer = draft.answer(at)?;
    answer.refusal = Some(refused);
    Ok(answer)
}

fn explain(refused: &Rejection) -> Value {
    let mut entries = vec![
        ("code", Value::from(refused.code)),
        ("message", Value::from(refused.message.as_str())),
    ];
    let optional = [
        ("reason", &refused.reason),
        ("argument", &refused.argument),
        ("hint", &refused.hint),
    ];
    entries.extend(
        optional
            .into_iter()
            .filter_map(|(name, text)| Some((name, Value::from(text.as_deref()?)))),
    );
    Value::map(entries)
}

/// Puts a checked step under way.
fn begin(
    draft: &mut Draft<'_>,
    at: usize,
    target: Target<'_>,
    input: &StepInput,
    arguments: Value,
) -> Result<(), Stop> {
    describe(draft, at, target, input, &arguments);
    if answered_before(draft, at, target) {
        return Ok(());
    }
    match target {
        Target::Tool(tool) if needs_approval(tool.policy, tool.approval.as_ref()) => {
            propose(draft, at, tool.approval.as_ref(), arguments);
        }
        Target::Delegate(delegate) if delegate.approval.is_some() => {
            propose(draft, at, delegate.approval.as_ref(), arguments);
        }
        Target::Delegate(_) => {
            if has_place_beside(draft, at) {
                let inputs = arguments.as_map().cloned().unwrap_or_default();
                let child = dispatch(draft.cx, &mut draft.file, at, inputs, &mut draft.numbers)?;
                draft.children.push(child);
            } else {
                Arc::make_mut(&mut draft.file.steps[at]).queued = true;
            }
        }
        Target::Wait { duration_ms } => arm(draft, at, duration_ms),
        Target::Model | Target::Tool(_) | Target::Checkpoint { .. } => {
            let lease = draft.caller.lease.clone();
            Arc::make_mut(&mut draft.file.steps[at]).grant = lease;
        }
    }
    Ok(())
}

/// The frozen facts of the target, and the key of a write (D39).
fn describe(draft: &mut Draft<'_>, at: usize, target: Target<'_>, input: &StepInput, arguments: &Value) {
    let task = draft.file.task.id.clone();
    let step = Arc::make_mut(&mut draft.file.steps[at]);
    step.effective_digest = check::effective_digest(target, input, arguments);
    let own_key = || Some(key(&task, step.attempt, step.sequence));
    match target {
        Target::Tool(tool) => {
            let write = tool.policy != Policy::Read;
            step.policy = Some(tool.policy);
            step.unkeyed = write && !tool.idempotent;
            step.key = own_key().filter(|_| write && tool.idempotent);
        }
        Target::Delegate(delegate) => {
            step.policy = delegate.approval.as_ref().map(|_| Policy::ApprovalRequired);
            let same = input.request.get("arguments") == Some(arguments);
            if !same || delegate.approval.is_some() {
                step.effective = Some(keep(&task, arguments.clone(), &mut draft.out));
            }
        }
        Target::Checkpoint { once } => {
            step.unkeyed = once;
            step.key = own_key().filter(|_| !once);
        }
        Target::Model | Target::Wait { .. } => {}
    }
}

/// D40: a write or delegation that an earlier attempt completed is not done again.
fn answered_before(draft: &mut Draft<'_>, at: usize, target: Target<'_>) -> bool {
    let digest = draft.file.steps[at].request_digest.clone();
    let Some(earlier) = reuse::find(&draft.file, target, &digest) else {
        return false;
    };
    let (from, result) = ((earlier.attempt, earlier.sequence), earlier.result.clone());
    let step = Arc::make_mut(&mut draft.file.steps[at]);
    step.state = StepState::Completed;
    step.reused_from = Some(from);
    step.result = result;
    finish(&mut draft.file.task, step, draft.cx.now);
    true
}

fn needs_approval(policy: Policy, approval: Option<&Approval>) -> bool {
    policy == Policy::ApprovalRequired || approval.is_some()
}

/// The new step itself counts only once it has a child.
fn has_place_beside(draft: &Draft<'_>, at: usize) -> bool {
    let queued = |step: &Arc<Step>| step.queued && step.state == StepState::Started;
    let first_in_line = !draft.file.steps[..at].iter().any(queued);
    first_in_line && has_place(draft.cx, &draft.file)
}

/// Asks for an approval of the exact arguments (D45, D46). No child exists until somebody approves (D18).
fn propose(draft: &mut Draft<'_>, at: usize, approval: Option<&Approval>, arguments: Value) {
    let local = number(&mut draft.numbers);
    let task = draft.file.task.id.clone();
    let inputs = keep(&task, arguments, &mut draft.out);
    let step = Arc::make_mut(&mut draft.file.steps[at]);
    step.state = StepState::Proposed;
    step.approval = Some(local);
    step.effective = Some(inputs.clone());
    let choice = |name: &str, label: &str, comment: &str| Outcome {
        name: name.to_owned(),
        label: Some(label.to_owned()),
        comment: comment.to_owned(),
    };
    draft.out.push(Effect::OpenHuman(Box::new(HumanTask {
        id: draft.cx.instance_id.human(local),
        instance: draft.cx.instance_id.clone(),
        node: draft.file.task.node.clone(),
        kind: HumanKind::Approval,
        groups: approval
            .map(|approval| approval.groups.clone())
            .unwrap_or_default(),
        users: approval
            .map(|approval| approval.users.clone())
            .unwrap_or_default(),
        task: Some(task),
        attempt: Some(step.attempt),
        sequence: Some(step.sequence),
        digest: step.effective_digest.clone(),
        target: Some(step.tool_ref.clone()),
        inputs: Some(inputs),
        policy: Some("approval_required".to_owned()),
        form: None,
        outcomes: vec![
            choice("approved", "Approve", "optional"),
            choice("rejected", "Reject", "required"),
        ],
        priority: 0,
        due_at: None,
        created_at: draft.cx.now,
    })));
}

fn arm(draft: &mut Draft<'_>, at: usize, duration_ms: i64) {
    let local = number(&mut draft.numbers);
    let due_at = draft.cx.now.saturating_add(duration_ms);
    Arc::make_mut(&mut draft.file.steps[at]).wait = Some((due_at, local));
    draft.out.push(Effect::ArmTimer(Timer {
        id: draft.cx.instance_id.timer(local),
        instance: draft.cx.instance_id.clone(),
        node: draft.file.task.node.clone(),
        due_at,
    }));
}
