//! The table of moves, cell by cell: every message of a worker against a step in every state does what the table
//! says, and changes nothing where the table refuses.

use legation_kernel::journal::{Mover, STATES, StepInput, StepState, Verdict, judge};
use legation_kernel::task::Caller;
use legation_language::Value;

use crate::bench::*;

/// A step 1 in this state, and a live lease that was never granted it unless it is STARTED.
fn bench_in(state: Option<StepState>) -> (Bench, Caller, StepInput) {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let write = || tool(1, "crm/create_ticket", Value::map([("text", 1)]));
    let asks = || tool(1, "pay/transfer", Value::map([("amount", 1)]));
    // Something granted beside it, so that the engine does not park.
    let beside = || tool(2, "crm/get_customer", Value::map([("id", 1)]));
    let Some(state) = state else {
        return (bench, caller, write());
    };
    let step = match state {
        StepState::Started => vec![write(), beside()],
        StepState::Completed => vec![write(), done(write(), Value::from(1)), beside()],
        StepState::Failed => vec![
            write(),
            with(write(), StepState::Failed, Some(Value::from(1))),
            beside(),
        ],
        StepState::OutcomeUnknown => vec![write(), beside()],
        StepState::Proposed | StepState::Approved | StepState::Rejected | StepState::Withdrawn => {
            vec![asks(), beside()]
        }
        StepState::Refused => vec![tool(1, "pay/transfer", Value::from(1)), beside()],
    };
    let sent = step[0].clone();
    bench.batch(&caller, step).unwrap();
    match state {
        StepState::Approved => drop(bench.decide_step(1, true, None).unwrap()),
        StepState::Rejected => drop(bench.decide_step(1, false, Some("no")).unwrap()),
        StepState::OutcomeUnknown => {
            bench.now += 2 * LOCK_MS;
            bench.lapse();
            let caller = bench.lease("w2");
            return (bench, caller, sent);
        }
        StepState::Withdrawn => {
            let step = std::sync::Arc::make_mut(&mut bench.file.steps[0]);
            step.state = StepState::Withdrawn;
        }
        StepState::Started
        | StepState::Proposed
        | StepState::Completed
        | StepState::Failed
        | StepState::Refused => {}
    }
    assert_eq!(bench.state(1), state);
    (bench, caller, sent)
}

#[test]
fn every_message_of_a_worker_does_what_the_table_says() {
    let rows = std::iter::once(None).chain(STATES.into_iter().map(Some));
    for from in rows {
        for to in STATES {
            let (mut bench, caller, sent) = bench_in(from);
            // Another result than any that is stored, so that nothing is taken for a replay.
            let result = (to != StepState::Started).then(|| Value::from("other"));
            let message = with(sent, to, result);
            let before = bench.file.clone();
            let answer = bench.send(&caller, message);
            let cell = format!("{from:?} -> {to:?}: {answer:?}");
            match judge(from, Mover::Worker, to) {
                // The step of row `none` is a bound tool, which the engine would not refuse.
                Verdict::Move if from.is_none() && to == StepState::Refused => {
                    assert_eq!(answer.unwrap_err().code, "NOT_REFUSED", "{cell}");
                }
                Verdict::Move => {
                    assert!(answer.is_ok(), "{cell}");
                    assert_eq!(bench.state(1), to, "{cell}");
                }
                Verdict::Stored => {
                    assert!(answer.is_ok(), "{cell}");
                    assert_eq!(bench.file, before, "{cell}");
                }
                Verdict::Refused(code) => {
                    assert_eq!(answer.unwrap_err().code, code, "{cell}");
                    assert_eq!(bench.file, before, "{cell}");
                }
            }
        }
    }
}

#[test]
fn settled_steps_are_moved_by_nobody() {
    use StepState::{Completed, Failed, Refused, Rejected, Withdrawn};
    for from in [Completed, Failed, Refused, Rejected, Withdrawn] {
        for to in STATES {
            for by in [Mover::Worker, Mover::Engine, Mover::Person] {
                assert_ne!(
                    judge(Some(from), by, to),
                    Verdict::Move,
                    "{from:?} -> {to:?} by {by:?}"
                );
            }
        }
    }
}

/// The legal moves of the engine and of people, spelled out; every other cell refuses or keeps.
#[test]
fn the_engine_and_people_move_only_these() {
    use StepState::{
        Approved, Completed, Failed, OutcomeUnknown, Proposed, Refused, Rejected, Started, Withdrawn,
    };
    let engine = [
        (None, Started),
        (None, Proposed),
        (None, Completed),
        (None, Refused),
        (Some(Started), Completed),
        (Some(Started), Failed),
        (Some(Started), OutcomeUnknown),
        (Some(Started), Withdrawn),
        (Some(Proposed), Withdrawn),
        (Some(Approved), Failed),
    ];
    let person = [
        (Some(Proposed), Started),
        (Some(Proposed), Approved),
        (Some(Proposed), Rejected),
        (Some(OutcomeUnknown), Started),
        (Some(OutcomeUnknown), Completed),
        (Some(OutcomeUnknown), Failed),
    ];
    for from in std::iter::once(None).chain(STATES.into_iter().map(Some)) {
        for to in STATES {
            let moves = |by: Mover| judge(from, by, to) == Verdict::Move;
            assert_eq!(
                moves(Mover::Engine),
                engine.contains(&(from, to)),
                "engine {from:?} -> {to:?}"
            );
            assert_eq!(
                moves(Mover::Person),
                person.contains(&(from, to)),
                "person {from:?} -> {to:?}"
            );
        }
    }
}
