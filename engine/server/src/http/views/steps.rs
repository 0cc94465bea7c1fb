//! Steps of a journal.

use std::collections::HashMap;

use legation_kernel::dates::rfc3339;
use legation_kernel::journal::{Call, Step, StepKind, StepState};
use legation_language::Value;
use legation_language::model::Policy;
use legation_protocol::steps::{CallRef, ReusedFrom, StepView, ToolPolicy};

use super::raw;
use crate::http::error::Result;

/// What a reader may see of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// The worker under its lease: keys too.
    Lease,
    /// Everybody else who may read.
    Reader,
}

/// The values behind steps, by digest.
pub type Values = HashMap<String, Value>;

/// A step as the journal shows it; `attempt` is set where the answer is about several.
///
/// # Errors
/// 500: values are always JSON.
pub fn view(step: &Step, values: &Values, sight: Sight, with_attempt: bool) -> Result<StepView> {
    let value = |digest: &str| values.get(digest);
    let request = value(&step.request.digest);
    let result = step.result.as_ref().and_then(|result| value(&result.digest));
    let late = step.late_result.as_ref().and_then(|result| value(&result.digest));
    let arguments = arguments(step, values);
    Ok(StepView {
        attempt: with_attempt.then_some(step.attempt),
        sequence: step.sequence,
        kind: kind(step.kind),
        state: state(step.state),
        tool_ref: step.tool_ref.clone(),
        call: step.call.map(call),
        request: request
            .map(|request| raw(&with_call_id(request, step.call_id.as_deref())))
            .transpose()?,
        arguments: arguments.map(raw).transpose()?,
        result: result.map(raw).transpose()?,
        settled: step.settled,
        policy: step.policy.map(policy),
        idempotency_key: step.key.clone().filter(|_| sight == Sight::Lease),
        reused: step
            .reused_from
            .map(|(attempt, sequence)| ReusedFrom { attempt, sequence }),
        child_instance_id: step.child.as_ref().map(|child| child.0.clone()),
        queued: step.queued.then_some(true),
        approval_task_id: step.approval.map(|number| step.task.instance().human(number)),
        request_digest: step.request_digest.clone(),
        effective_digest: step.effective_digest.clone(),
        decided_by: step.decided_by.clone().or_else(|| step.resolved_by.clone()),
        comment: step.comment.clone(),
        late_result: late.map(raw).transpose()?,
        started_at: rfc3339(step.started_at),
        ended_at: step.ended_at.map(rfc3339),
    })
}

/// The effective arguments of a call.
pub fn arguments<'v>(step: &Step, values: &'v Values) -> Option<&'v Value> {
    match &step.effective {
        Some(effective) => values.get(&effective.digest),
        None => values.get(&step.request.digest)?.get("arguments"),
    }
}

/// The model's own id is no part of the stored request; readers get it back.
fn with_call_id(request: &Value, call_id: Option<&str>) -> Value {
    let mut request = request.clone();
    if let (Some(entries), Some(id)) = (request.as_map_mut(), call_id) {
        entries.insert("callId".to_owned(), Value::from(id));
    }
    request
}

pub fn kind(kind: StepKind) -> legation_protocol::StepKind {
    match kind {
        StepKind::Model => legation_protocol::StepKind::Model,
        StepKind::Tool => legation_protocol::StepKind::Tool,
        StepKind::Delegation => legation_protocol::StepKind::Delegation,
        StepKind::Checkpoint => legation_protocol::StepKind::Checkpoint,
        StepKind::Wait => legation_protocol::StepKind::Wait,
    }
}

pub fn kernel_kind(kind: legation_protocol::StepKind) -> StepKind {
    match kind {
        legation_protocol::StepKind::Model => StepKind::Model,
        legation_protocol::StepKind::Tool => StepKind::Tool,
        legation_protocol::StepKind::Delegation => StepKind::Delegation,
        legation_protocol::StepKind::Checkpoint => StepKind::Checkpoint,
        legation_protocol::StepKind::Wait => StepKind::Wait,
    }
}

pub fn state(state: StepState) -> legation_protocol::StepState {
    match state {
        StepState::Started => legation_protocol::StepState::Started,
        StepState::Proposed => legation_protocol::StepState::Proposed,
        StepState::Approved => legation_protocol::StepState::Approved,
        StepState::Rejected => legation_protocol::StepState::Rejected,
        StepState::Completed => legation_protocol::StepState::Completed,
        StepState::Failed => legation_protocol::StepState::Failed,
        StepState::Refused => legation_protocol::StepState::Refused,
        StepState::OutcomeUnknown => legation_protocol::StepState::OutcomeUnknown,
        StepState::Withdrawn => legation_protocol::StepState::Withdrawn,
    }
}

pub fn kernel_state(state: legation_protocol::StepState) -> StepState {
    match state {
        legation_protocol::StepState::Started => StepState::Started,
        legation_protocol::StepState::Proposed => StepState::Proposed,
        legation_protocol::StepState::Approved => StepState::Approved,
        legation_protocol::StepState::Rejected => StepState::Rejected,
        legation_protocol::StepState::Completed => StepState::Completed,
        legation_protocol::StepState::Failed => StepState::Failed,
        legation_protocol::StepState::Refused => StepState::Refused,
        legation_protocol::StepState::OutcomeUnknown => StepState::OutcomeUnknown,
        legation_protocol::StepState::Withdrawn => StepState::Withdrawn,
    }
}

pub fn policy(policy: Policy) -> ToolPolicy {
    match policy {
        Policy::Read => ToolPolicy::Read,
        Policy::Write => ToolPolicy::Write,
        Policy::ApprovalRequired => ToolPolicy::ApprovalRequired,
    }
}

pub fn call(call: Call) -> CallRef {
    CallRef {
        step: call.step,
        index: call.index,
    }
}
