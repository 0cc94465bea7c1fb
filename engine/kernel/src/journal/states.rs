//! Who may move a step from where to where (core §5), as data: every change of a step's state asks this table.

use super::{Step, StepState};
use crate::rejection::Rejection;

/// Who moves a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mover {
    /// A worker's message under a lease.
    Worker,
    /// The engine: children, timers, lapsed leases, retirement.
    Engine,
    /// An approver or an operator.
    Person,
}

/// What the table says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Move,
    /// Nothing moves; the stored step is the answer.
    Stored,
    /// The code of the refusal.
    Refused(&'static str),
}

use Verdict::{Move as M, Refused, Stored as S};

const INVALID: Verdict = Refused("STEP_INVALID");
const AHEAD: Verdict = Refused("WRITE_AHEAD_REQUIRED");
const APPROVAL: Verdict = Refused("APPROVAL_REQUIRED");
const FINISHED: Verdict = Refused("STEP_FINISHED");
const NOT_REFUSED: Verdict = Refused("NOT_REFUSED");
const DECIDED: Verdict = Refused("ALREADY_DECIDED");
const RETIRED: Verdict = Refused("WORK_RETIRED");
const ILLEGAL: Verdict = Refused("ILLEGAL_MOVE");

/// The columns, and after the row of "no step yet" the rows, of the tables below.
pub const STATES: [StepState; 9] = [
    StepState::Started,
    StepState::Proposed,
    StepState::Approved,
    StepState::Rejected,
    StepState::Completed,
    StepState::Failed,
    StepState::Refused,
    StepState::OutcomeUnknown,
    StepState::Withdrawn,
];

type Table = [[Verdict; 9]; 10];

/// Moves out of STARTED also need the grant; a result of an earlier grant is kept as `late_result`.
#[rustfmt::skip]
const WORKER: Table = [
    //                  STARTED PROPOSED APPROVED REJECTED COMPLETED FAILED    REFUSED      UNKNOWN   WITHDRAWN
    /* none */         [M,      INVALID, INVALID, INVALID, AHEAD,    AHEAD,    M,           AHEAD,    INVALID],
    /* STARTED */      [M,      INVALID, INVALID, INVALID, M,        M,        NOT_REFUSED, M,        INVALID],
    /* PROPOSED */     [S,      INVALID, INVALID, INVALID, APPROVAL, APPROVAL, NOT_REFUSED, APPROVAL, INVALID],
    /* APPROVED */     [M,      INVALID, INVALID, INVALID, AHEAD,    AHEAD,    NOT_REFUSED, AHEAD,    INVALID],
    /* REJECTED */     [S,      INVALID, INVALID, INVALID, FINISHED, FINISHED, FINISHED,    FINISHED, INVALID],
    /* COMPLETED */    [S,      INVALID, INVALID, INVALID, FINISHED, FINISHED, FINISHED,    FINISHED, INVALID],
    /* FAILED */       [S,      INVALID, INVALID, INVALID, FINISHED, FINISHED, FINISHED,    FINISHED, INVALID],
    /* REFUSED */      [S,      INVALID, INVALID, INVALID, FINISHED, FINISHED, FINISHED,    FINISHED, INVALID],
    /* UNKNOWN */      [S,      INVALID, INVALID, INVALID, AHEAD,    AHEAD,    NOT_REFUSED, AHEAD,    INVALID],
    /* WITHDRAWN */    [S,      INVALID, INVALID, INVALID, FINISHED, FINISHED, FINISHED,    FINISHED, INVALID],
];

#[rustfmt::skip]
const ENGINE: Table = [
    //                  STARTED  PROPOSED APPROVED REJECTED COMPLETED FAILED   REFUSED  UNKNOWN  WITHDRAWN
    /* none */         [M,       M,       ILLEGAL, ILLEGAL, M,        ILLEGAL, M,       ILLEGAL, ILLEGAL],
    /* STARTED */      [S,       ILLEGAL, ILLEGAL, ILLEGAL, M,        M,       ILLEGAL, M,       M],
    /* PROPOSED */     [ILLEGAL, S,       ILLEGAL, ILLEGAL, ILLEGAL,  ILLEGAL, ILLEGAL, ILLEGAL, M],
    /* APPROVED */     [ILLEGAL, ILLEGAL, S,       ILLEGAL, ILLEGAL,  M,       ILLEGAL, ILLEGAL, ILLEGAL],
    /* REJECTED */     [ILLEGAL; 9],
    /* COMPLETED */    [ILLEGAL; 9],
    /* FAILED */       [ILLEGAL; 9],
    /* REFUSED */      [ILLEGAL; 9],
    /* UNKNOWN */      [ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL, ILLEGAL,  ILLEGAL, ILLEGAL, S,       ILLEGAL],
    /* WITHDRAWN */    [ILLEGAL; 9],
];

#[rustfmt::skip]
const PERSON: Table = [
    //                  STARTED  PROPOSED APPROVED REJECTED COMPLETED FAILED    REFUSED  UNKNOWN  WITHDRAWN
    /* none */         [ILLEGAL; 9],
    /* STARTED */      [DECIDED, ILLEGAL, DECIDED, DECIDED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* PROPOSED */     [M,       ILLEGAL, M,       M,       FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* APPROVED */     [DECIDED, ILLEGAL, DECIDED, DECIDED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* REJECTED */     [DECIDED, ILLEGAL, DECIDED, DECIDED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* COMPLETED */    [DECIDED, ILLEGAL, DECIDED, DECIDED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* FAILED */       [DECIDED, ILLEGAL, DECIDED, DECIDED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* REFUSED */      [DECIDED, ILLEGAL, DECIDED, DECIDED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
    /* UNKNOWN */      [M,       ILLEGAL, DECIDED, DECIDED, M,        M,        ILLEGAL, ILLEGAL, ILLEGAL],
    /* WITHDRAWN */    [RETIRED, ILLEGAL, RETIRED, RETIRED, FINISHED, FINISHED, ILLEGAL, ILLEGAL, ILLEGAL],
];

/// Reads the table; `from` is None for a sequence without a step.
#[must_use]
pub fn judge(from: Option<StepState>, by: Mover, to: StepState) -> Verdict {
    let table = match by {
        Mover::Worker => &WORKER,
        Mover::Engine => &ENGINE,
        Mover::Person => &PERSON,
    };
    table[from.map_or(0, |state| place(state) + 1)][place(to)]
}

fn place(state: StepState) -> usize {
    match state {
        StepState::Started => 0,
        StepState::Proposed => 1,
        StepState::Approved => 2,
        StepState::Rejected => 3,
        StepState::Completed => 4,
        StepState::Failed => 5,
        StepState::Refused => 6,
        StepState::OutcomeUnknown => 7,
        StepState::Withdrawn => 8,
    }
}

/// Moves a step, if the table lets it.
pub(crate) fn shift(step: &mut Step, by: Mover, to: StepState) -> Result<(), Rejection> {
    match judge(Some(step.state), by, to) {
        Verdict::Move => {
            step.state = to;
            Ok(())
        }
        Verdict::Stored => Ok(()),
        Verdict::Refused(code) => Err(refusal(code, step.sequence)),
    }
}

/// The table's refusal in words.
pub(crate) fn refusal(code: &'static str, sequence: u32) -> Rejection {
    match code {
        "STEP_INVALID" => Rejection::invalid(
            code,
            format!("step {sequence}: this state is not a worker's to report"),
        ),
        "WRITE_AHEAD_REQUIRED" => {
            Rejection::conflict(code, format!("step {sequence} is not granted to this lease"))
                .hint("send STARTED first and run what it answers")
        }
        "APPROVAL_REQUIRED" => Rejection::conflict(code, format!("step {sequence} waits for an approval"))
            .hint("park; the task opens when it is decided"),
        "STEP_FINISHED" => Rejection::conflict(code, format!("step {sequence} has another outcome already")),
        "NOT_REFUSED" => Rejection::conflict(code, format!("the engine would not refuse step {sequence}"))
            .hint("send STARTED"),
        "ALREADY_DECIDED" => Rejection::conflict(code, format!("step {sequence} is decided already")),
        "WORK_RETIRED" => Rejection::gone(code, format!("step {sequence} was withdrawn")),
        _ => Rejection::conflict("ILLEGAL_MOVE", format!("step {sequence} cannot be moved there")),
    }
}
