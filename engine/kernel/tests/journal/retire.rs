//! The end of a task with open steps (core §3).

use legation_kernel::effect::Effect;
use legation_kernel::journal::{self, StepState};
use legation_kernel::task::{self, TaskOutcome, TaskState};
use legation_language::Value;

use crate::bench::*;

fn retire(bench: &mut Bench) -> task::RetiredWork {
    let now = bench.now;
    bench.decide(|_, file, numbers, out| {
        task::retire(file, TaskOutcome::Cancelled, "cancelled", now, numbers, out)
    })
}

#[test]
fn every_open_step_ends_in_its_own_way() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let steps = vec![
        tool(1, "crm/get_customer", Value::map([("id", 1)])),
        tool(2, "crm/create_ticket", Value::map([("text", 1)])),
        tool(3, "pay/refund", Value::map([("amount", 1)])),
        tool(4, "pay/transfer", Value::map([("amount", 1)])),
        tool(5, "pay/transfer", Value::map([("amount", 2)])),
        delegation(6, "refund_payout", refund()),
        wait(7, 60_000),
        checkpoint(8, false),
        checkpoint(9, true),
    ];
    bench.batch(&caller, steps).unwrap();
    bench.decide_step(5, true, None).unwrap();
    let work = retire(&mut bench);
    assert_eq!(work.children, [bench.step(6).child.clone().unwrap()]);
    use StepState::{Failed, OutcomeUnknown, Withdrawn};
    let expected = [
        Failed,
        OutcomeUnknown,
        OutcomeUnknown,
        Withdrawn,
        Failed,
        Failed,
        Withdrawn,
        Failed,
        OutcomeUnknown,
    ];
    let states: Vec<_> = (1..=9).map(|n| bench.state(n)).collect();
    assert_eq!(states, expected);
    for step in bench
        .file
        .steps
        .iter()
        .filter(|step| step.state != OutcomeUnknown)
    {
        assert_eq!(step.code.as_deref(), Some("WORK_RETIRED"));
    }
    assert_eq!(bench.incidents().len(), 3);
    assert!(
        bench.incidents().iter().all(|incident| incident.notice),
        "notices hold nothing"
    );
    assert_eq!(bench.status(), TaskState::Cancelled);
    assert_eq!(
        (task::claimable_at(&bench.file), task::lapse_at(&bench.file)),
        (None, None)
    );
    let ended = |effect: &Effect| matches!(effect, Effect::DisarmTimer { .. } | Effect::CloseHuman(_));
    assert_eq!(
        bench.effects.iter().filter(|effect| ended(effect)).count(),
        3,
        "one timer, one decided, one withdrawn"
    );

    let file = bench.file.clone();
    assert!(retire(&mut bench).children.is_empty());
    assert_eq!(bench.file, file, "retiring again changes nothing");
}

#[test]
fn i6_the_result_of_a_write_that_outlived_its_task_is_kept() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let write = tool(1, "pay/refund", Value::map([("amount", 1)]));
    bench.send(&caller, write.clone()).unwrap();
    retire(&mut bench);
    let answer = bench.send(&caller, done(write, Value::from("P-1"))).unwrap();
    assert_eq!(answer.steps[0].state, StepState::OutcomeUnknown);
    assert!(bench.step(1).late_result.is_some());
    assert_eq!(bench.code(&caller, model(2)), "WORK_RETIRED");
    bench.resolve(1, true, None).unwrap();
    assert_eq!(
        (bench.state(1), bench.result(1)),
        (StepState::Completed, Value::from("P-1"))
    );
}

#[test]
fn a_write_of_a_retired_task_that_was_not_performed_is_failed() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .send(&caller, tool(1, "pay/refund", Value::map([("amount", 1)])))
        .unwrap();
    retire(&mut bench);
    bench.resolve(1, false, None).unwrap();
    assert_eq!(
        (bench.state(1), bench.step(1).code.as_deref()),
        (StepState::Failed, Some("NOT_PERFORMED"))
    );
    assert_eq!(bench.status(), TaskState::Cancelled);
}

#[test]
fn an_incident_about_an_unknown_outcome_becomes_a_notice() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .send(&caller, tool(1, "crm/create_ticket", Value::map([("text", 1)])))
        .unwrap();
    bench.now += 2 * LOCK_MS;
    bench.lapse();
    let first = bench.incidents()[0].id.clone();
    retire(&mut bench);
    assert!(
        bench
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::CloseIncident { id, .. } if *id == first))
    );
    assert!(bench.incidents()[1].notice);
    assert!(bench.file.task.incidents.is_empty());
}

#[test]
fn nothing_moves_a_step_of_a_retired_task() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .batch(
            &caller,
            vec![delegation(1, "refund_payout", refund()), wait(2, 1)],
        )
        .unwrap();
    let child = bench.step(1).child.clone().unwrap();
    let timer = bench.step(2).wait.unwrap().1;
    retire(&mut bench);
    let file = bench.file.clone();
    assert_eq!(
        bench.child_ends(&child, &completed(&[])).0,
        journal::Settled::Ignored
    );
    assert_eq!(
        journal::settle_wait(&mut bench.file, timer, 0),
        journal::Settled::Ignored
    );
    assert_eq!(bench.file, file);
}

/// Core §3: a known outcome is never thrown away: what a read or a turn brought after its task had ended is kept.
#[test]
fn what_a_read_or_a_turn_brought_after_the_end_is_kept_and_shown() {
    let turn = Value::map([("text", "paid for")]);
    for (step, result) in [
        (
            tool(1, "crm/get_customer", Value::map([("id", 1)])),
            Value::from("Ada"),
        ),
        (model(1), turn),
        (checkpoint(1, false), Value::from(7)),
    ] {
        let mut bench = Bench::new();
        let caller = bench.lease("w1");
        bench.send(&caller, step.clone()).unwrap();
        retire(&mut bench);
        assert_eq!(bench.state(1), StepState::Failed);
        for _ in 0..2 {
            let answer = bench.send(&caller, done(step.clone(), result.clone())).unwrap();
            assert_eq!((answer.live, answer.steps[0].state), (false, StepState::Failed));
        }
        let kept = bench.step(1).late_result.clone().unwrap();
        assert_eq!(bench.payloads.get(&kept.digest), Ok(&result));
        bench
            .send(&caller, done(step.clone(), Value::from("another")))
            .unwrap();
        assert_eq!(bench.step(1).late_result.as_ref(), Some(&kept), "the first stays");
        assert_eq!(
            (bench.step(1).result.clone(), bench.step(1).code.as_deref()),
            (None, Some("WORK_RETIRED"))
        );
        assert_eq!(bench.code(&caller, model(2)), "WORK_RETIRED");
        let mut stranger = caller.clone();
        stranger.lease = Some((9, "r9".to_owned()));
        assert_eq!(
            bench.code(&stranger, done(step, Value::from("a stranger's"))),
            "WORK_RETIRED"
        );
    }
}
