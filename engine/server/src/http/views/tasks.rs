//! External tasks.

use legation_kernel::dates::rfc3339;
use legation_kernel::task::{self, TaskFile, TaskState, Waiting, WaitingKind};
use legation_protocol::external_tasks::{
    ExternalTaskView, TaskState as WireState, TaskStatus, WaitKind, WaitingFor,
};

/// A task as operators see it.
pub fn view(file: &TaskFile, now: i64) -> ExternalTaskView {
    let task = &file.task;
    let state = task::status(file, now);
    let lease = task.lease.as_ref().filter(|_| state == TaskState::Locked);
    ExternalTaskView {
        id: task.id.0.clone(),
        topic: task.topic.clone(),
        instance_id: task.id.instance().0,
        node_id: task.node.clone(),
        state: wire_state(state),
        waiting_for: waiting(&task::waiting_for(file)),
        attempt: task.attempt,
        failures: task.tries,
        idempotency_key: task.idempotency_key.clone(),
        worker_id: lease.map(|lease| lease.worker.clone()),
        locked_until: lease.map(|lease| rfc3339(lease.until)),
        locked_at: None,
        available_at: task
            .available_at
            .filter(|at| *at > now && state == TaskState::Open)
            .map(rfc3339),
        incident_id: task.incident().map(|number| task.id.instance().incident(number)),
        created_at: rfc3339(task.created_at),
        ended_at: task.retired.as_ref().map(|retired| rfc3339(retired.at)),
    }
}

/// Where a task stands after a worker's call.
pub fn status(state: TaskState, waits: &[Waiting]) -> TaskStatus {
    TaskStatus {
        state: wire_state(state),
        waiting_for: waiting(waits),
    }
}

pub fn wire_state(state: TaskState) -> WireState {
    match state {
        TaskState::Open => WireState::Open,
        TaskState::Locked => WireState::Locked,
        TaskState::AwaitingApproval => WireState::AwaitingApproval,
        TaskState::AwaitingInput => WireState::AwaitingInput,
        TaskState::AwaitingChild => WireState::AwaitingChild,
        TaskState::AwaitingTimer => WireState::AwaitingTimer,
        TaskState::Incident => WireState::Incident,
        TaskState::Completed => WireState::Completed,
        TaskState::Failed => WireState::Failed,
        TaskState::Cancelled => WireState::Cancelled,
    }
}

fn waiting(waits: &[Waiting]) -> Vec<WaitingFor> {
    let wire = |wait: &Waiting| WaitingFor {
        kind: match wait.kind {
            WaitingKind::Approval => WaitKind::Approval,
            WaitingKind::Child => WaitKind::Child,
            WaitingKind::Queued => WaitKind::QueuedChild,
            WaitingKind::Input => WaitKind::Input,
            WaitingKind::Timer => WaitKind::Timer,
            WaitingKind::UnknownOutcome => WaitKind::Resolution,
        },
        sequence: wait.sequence,
        id: wait
            .approval
            .clone()
            .or_else(|| wait.incident.clone())
            .or_else(|| wait.child.as_ref().map(|child| child.0.clone())),
        tool_ref: Some(wait.tool_ref.clone()),
        until: wait.due_at.map(rfc3339),
    };
    waits.iter().map(wire).collect()
}
