//! Settling: the end of a step, its place in the order of completion, and the task that opens with it.

use std::sync::Arc;

use super::states::{Mover, shift};
use super::{Step, StepKind, StepState};
use crate::task::{Task, TaskFile, is_idle};

/// What an outside event did to a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Settled {
    Settled {
        /// The parked task may be leased again: wake a worker.
        opened: bool,
    },
    /// No step waits for it any more (D21).
    Ignored,
}

/// Gives a settled step its place in the order of completion (core §4). Progress clears the counts of expiries
/// and deferrals in a row.
pub(crate) fn finish(task: &mut Task, step: &mut Step, now: i64) {
    step.settled = Some(task.next_settled);
    step.ended_at = Some(now);
    step.queued = false;
    task.next_settled += 1;
    task.expiries = 0;
    task.deferrals = 0;
}

/// After something happened from outside: a live worker is told at its next park; a parked task opens as soon as
/// a step is granted or nothing waits. True when it opened.
pub(crate) fn reopen(file: &mut TaskFile) -> bool {
    if file.task.lease.is_some() {
        file.task.news = true;
        return false;
    }
    let opened = file.task.parked && !is_idle(file);
    file.task.parked = is_idle(file);
    opened
}

/// The timer of a WAIT step fired.
pub fn settle_wait(file: &mut TaskFile, timer_local: u32, now: i64) -> Settled {
    let waits = |step: &Step| {
        step.kind == StepKind::Wait
            && step.state == StepState::Started
            && step.wait.is_some_and(|(_, timer)| timer == timer_local)
    };
    let Some(at) = file.steps.iter().position(|step| waits(step)) else {
        return Settled::Ignored;
    };
    let step = Arc::make_mut(&mut file.steps[at]);
    if shift(step, Mover::Engine, StepState::Completed).is_err() {
        return Settled::Ignored;
    }
    finish(&mut file.task, step, now);
    Settled::Settled { opened: reopen(file) }
}
