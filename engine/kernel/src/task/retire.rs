//! The end of a task: what its unsettled steps become, and which children end with it (core §3).

use std::sync::Arc;

use super::{Retired, TaskFile, TaskOutcome};
use crate::effect::{Effect, HumanEnd};
use crate::ids::InstanceId;
use crate::journal::{Mover, StepKind, StepState, declare_unknown, finish, shift};

/// What the caller has to end with the task.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RetiredWork {
    /// Children that still run: to be cancelled (D19, D20).
    pub children: Vec<InstanceId>,
}

/// Ends the task. Proposals and waits are WITHDRAWN with their rows; a started write becomes OUTCOME_UNKNOWN with
/// a notice, which holds nothing; every other open step is FAILED `WORK_RETIRED`. Repeating it changes nothing.
pub fn retire(
    file: &mut TaskFile,
    outcome: TaskOutcome,
    cause: &str,
    now: i64,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) -> RetiredWork {
    let mut work = RetiredWork::default();
    if file.task.retired.is_some() {
        return work;
    }
    close_incidents(file, cause, out);
    for at in 0..file.steps.len() {
        if !file.steps[at].is_settled() {
            let child = end_step(file, at, cause, now, numbers, out);
            work.children.extend(child);
        }
    }
    let task = &mut file.task;
    task.retired = Some(Retired { outcome, at: now });
    task.lease = None;
    task.ended_lease = None;
    task.available_at = None;
    task.parked = false;
    task.news = false;
    work
}

fn end_step(
    file: &mut TaskFile,
    at: usize,
    cause: &str,
    now: i64,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) -> Option<InstanceId> {
    let step = &*file.steps[at];
    match step.state {
        StepState::OutcomeUnknown => {
            renew_as_notice(file, at, cause, now, numbers, out);
            None
        }
        StepState::Started if step.is_write() && step.grant.is_some() => {
            declare_unknown(file, at, true, cause, now, numbers, out);
            None
        }
        StepState::Proposed => {
            out.extend(step.approval.map(|local| withdrawn(file, local, now)));
            end_as(file, at, StepState::Withdrawn, cause, now);
            None
        }
        StepState::Started if step.kind == StepKind::Wait => {
            let instance = file.task.id.instance();
            out.extend(step.wait.map(|(_, local)| Effect::DisarmTimer {
                id: instance.timer(local),
            }));
            end_as(file, at, StepState::Withdrawn, cause, now);
            None
        }
        StepState::Started
        | StepState::Approved
        | StepState::Rejected
        | StepState::Completed
        | StepState::Failed
        | StepState::Refused
        | StepState::Withdrawn => {
            let child = step.child.clone();
            end_as(file, at, StepState::Failed, cause, now);
            child
        }
    }
}

fn end_as(file: &mut TaskFile, at: usize, state: StepState, cause: &str, now: i64) {
    let step = Arc::make_mut(&mut file.steps[at]);
    shift(step, Mover::Engine, state).expect("retiring only makes moves of the table");
    step.code = Some("WORK_RETIRED".to_owned());
    step.reason = Some(cause.to_owned());
    finish(&mut file.task, step, now);
}

fn withdrawn(file: &TaskFile, local: u32, now: i64) -> Effect {
    Effect::CloseHuman(HumanEnd {
        id: file.task.id.instance().human(local),
        state: "CANCELLED",
        by: None,
        outcome: None,
        comment: None,
        at: now,
    })
}

/// The incident about an unknown outcome held the task; what is left to settle is only a notice.
fn renew_as_notice(
    file: &mut TaskFile,
    at: usize,
    cause: &str,
    now: i64,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) {
    let instance = file.task.id.instance();
    if let Some(local) = file.steps[at].incident {
        out.push(Effect::CloseIncident {
            id: instance.incident(local),
            by: "engine".to_owned(),
            resolution: cause.to_owned(),
        });
    }
    declare_unknown(file, at, true, cause, now, numbers, out);
}

/// Closes the incidents that hold the task as a whole; those about single steps end with their steps.
fn close_incidents(file: &mut TaskFile, cause: &str, out: &mut Vec<Effect>) {
    let instance = file.task.id.instance();
    for local in std::mem::take(&mut file.task.incidents) {
        if file
            .steps
            .iter()
            .all(|step| step.incident != Some(local) || step.is_settled())
        {
            out.push(Effect::CloseIncident {
                id: instance.incident(local),
                by: "engine".to_owned(),
                resolution: cause.to_owned(),
            });
        }
    }
}
