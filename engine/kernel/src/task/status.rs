//! What a task shows and when it may be leased: pure functions of the task and its steps, so that no event can
//! set a status that its steps do not bear out (core §3).

use serde::Serialize;

use super::{MAX_EXPIRIES, TaskFile, TaskOutcome, TaskState};
use crate::ids::InstanceId;
use crate::journal::{Standing, Step, StepKind, StepState};

/// What one unsettled step waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Waiting {
    pub sequence: u32,
    pub kind: WaitingKind,
    /// CHILD: the instance.
    pub child: Option<InstanceId>,
    /// APPROVAL: the id of the approval.
    pub approval: Option<String>,
    /// TIMER: when it is due (epoch ms).
    pub due_at: Option<i64>,
    /// UNKNOWN_OUTCOME: the id of the incident.
    pub incident: Option<String>,
    pub tool_ref: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WaitingKind {
    Approval,
    Child,
    /// A delegation over `max_concurrent`.
    Queued,
    Input,
    Timer,
    UnknownOutcome,
}

/// What the task shows at `now` (D30): AWAITING_* names the first kind of wait that applies.
#[must_use]
pub fn status(file: &TaskFile, now: i64) -> TaskState {
    let task = &file.task;
    if let Some(retired) = &task.retired {
        return match retired.outcome {
            TaskOutcome::Completed => TaskState::Completed,
            TaskOutcome::Failed => TaskState::Failed,
            TaskOutcome::Cancelled => TaskState::Cancelled,
        };
    }
    if !task.incidents.is_empty() {
        return TaskState::Incident;
    }
    if task.lease.as_ref().is_some_and(|lease| lease.until > now) {
        return TaskState::Locked;
    }
    if !is_idle(file) {
        return TaskState::Open;
    }
    let waits = waiting_for(file);
    let any = |kinds: &[WaitingKind]| waits.iter().any(|wait| kinds.contains(&wait.kind));
    if any(&[WaitingKind::Approval]) {
        TaskState::AwaitingApproval
    } else if any(&[WaitingKind::Input]) {
        TaskState::AwaitingInput
    } else if any(&[WaitingKind::Child, WaitingKind::Queued]) {
        TaskState::AwaitingChild
    } else if any(&[WaitingKind::Timer]) {
        TaskState::AwaitingTimer
    } else {
        TaskState::Incident
    }
}

/// Everything that the task waits for, in order of sequence.
#[must_use]
pub fn waiting_for(file: &TaskFile) -> Vec<Waiting> {
    if file.task.retired.is_some() {
        return Vec::new();
    }
    let instance = file.task.id.instance();
    let waits = file
        .steps
        .iter()
        .filter(|step| step.standing() == Standing::Waiting);
    waits
        .map(|step| Waiting {
            sequence: step.sequence,
            kind: waiting_kind(step),
            child: step.child.clone(),
            approval: step
                .approval
                .filter(|_| step.state == StepState::Proposed)
                .map(|n| instance.human(n)),
            due_at: step.wait.map(|(due_at, _)| due_at),
            incident: step.incident.map(|n| instance.incident(n)),
            tool_ref: step.tool_ref.clone(),
        })
        .collect()
}

fn waiting_kind(step: &Step) -> WaitingKind {
    match step.state {
        StepState::Proposed => WaitingKind::Approval,
        StepState::OutcomeUnknown => WaitingKind::UnknownOutcome,
        StepState::Started
        | StepState::Approved
        | StepState::Rejected
        | StepState::Completed
        | StepState::Failed
        | StepState::Refused
        | StepState::Withdrawn => match step.kind {
            StepKind::Wait => WaitingKind::Timer,
            StepKind::Delegation if step.queued => WaitingKind::Queued,
            StepKind::Delegation | StepKind::Model | StepKind::Tool | StepKind::Checkpoint => {
                WaitingKind::Child
            }
        },
    }
}

/// Nothing for a worker to do, and something that others must do first.
pub(crate) fn is_idle(file: &TaskFile) -> bool {
    let any = |standing| file.steps.iter().any(|step| step.standing() == standing);
    any(Standing::Waiting) && !any(Standing::Granted)
}

/// From when the task may be leased (epoch ms): the column that fetch reads. None: not before something
/// happens to the task (retired, held by an incident, idle, or waiting for the durable command of [`lapse_at`]).
/// A resumed task keeps its place, which is its time of creation.
#[must_use]
pub fn claimable_at(file: &TaskFile) -> Option<i64> {
    let task = &file.task;
    if task.retired.is_some() || !task.incidents.is_empty() || is_idle(file) || lapse_at(file).is_some() {
        return None;
    }
    let free = task.available_at.unwrap_or(task.created_at);
    Some(task.lease.as_ref().map_or(free, |lease| lease.until.max(free)))
}

/// When the durable command "lease lost" is due: one lock duration after the expiry, for a started unkeyed write
/// (D39) and for the last lease of the expiry budget. None: an expiry needs no command.
#[must_use]
pub fn lapse_at(file: &TaskFile) -> Option<i64> {
    let task = &file.task;
    let lease = task.lease.as_ref()?;
    if task.retired.is_some() {
        return None;
    }
    let in_doubt = file.steps.iter().any(|step| step.is_in_doubt());
    if in_doubt || is_last_expiry(file) {
        Some(lease.until.saturating_add(lease.duration_ms))
    } else {
        None
    }
}

/// Whether the present lease is one that the budget of expiries does not cover any more.
pub(crate) fn is_last_expiry(file: &TaskFile) -> bool {
    !gave_back(file) && file.task.expiries >= MAX_EXPIRIES
}

/// Whether the worker ended the present lease itself: then its end is no expiry. The lease is only still there
/// for the sake of a started unkeyed write.
pub(crate) fn gave_back(file: &TaskFile) -> bool {
    let task = &file.task;
    match (&task.lease, &task.closing) {
        (Some(lease), Some(closing)) => lease.number == closing.lease_no,
        (Some(_) | None, Some(_) | None) => false,
    }
}
