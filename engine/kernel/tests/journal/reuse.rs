//! D40, B19: what an earlier attempt did is not done again.

use legation_kernel::journal::{StepInput, StepState};
use legation_kernel::task::{self, Caller};
use legation_language::Value;

use crate::bench::*;

fn pay(sequence: u32) -> StepInput {
    tool(sequence, "pay/refund", Value::map([("amount", 89)]))
}

fn run(bench: &mut Bench, caller: &Caller, step: StepInput, result: &str) {
    bench.send(caller, step.clone()).unwrap();
    bench.send(caller, done(step, Value::from(result))).unwrap();
}

fn next_attempt(bench: &mut Bench) -> Caller {
    let now = bench.now;
    task::new_attempt(&mut bench.file, now);
    bench.lease("w2")
}

fn reused(bench: &Bench, sequence: u32) -> Option<(u32, u32)> {
    bench.step(sequence).reused_from
}

#[test]
fn d40_the_nth_identical_write_is_answered_by_the_nth_once_each() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    run(&mut bench, &first, pay(1), "P-1");
    run(&mut bench, &first, pay(2), "P-2");
    let second = next_attempt(&mut bench);
    let answer = bench.batch(&second, vec![pay(1), pay(2), pay(3)]).unwrap();
    assert_eq!(
        (reused(&bench, 1), reused(&bench, 2), reused(&bench, 3)),
        (Some((1, 1)), Some((1, 2)), None)
    );
    assert_eq!(
        (bench.result(1), bench.result(2)),
        (Value::from("P-1"), Value::from("P-2"))
    );
    assert_eq!(answer.steps[0].reused, Some((1, 1)));
    let states: Vec<_> = answer.steps.iter().map(|step| step.state).collect();
    assert_eq!(
        states,
        [StepState::Completed, StepState::Completed, StepState::Started]
    );
}

#[test]
fn d40_the_order_holds_over_many_attempts() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    run(&mut bench, &first, pay(1), "P-1");
    run(&mut bench, &first, pay(2), "P-2");
    let second = next_attempt(&mut bench);
    bench.send(&second, pay(1)).unwrap();
    let third = next_attempt(&mut bench);
    bench.batch(&third, vec![pay(1), pay(2)]).unwrap();
    assert_eq!(
        (bench.result(1), bench.result(2)),
        (Value::from("P-1"), Value::from("P-2"))
    );
    assert_eq!(
        (reused(&bench, 1), reused(&bench, 2)),
        (Some((2, 1)), Some((1, 2)))
    );
}

#[test]
fn d40_other_arguments_reads_and_failures_are_not_reused() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    run(&mut bench, &first, pay(1), "P-1");
    run(
        &mut bench,
        &first,
        tool(2, "crm/get_customer", Value::map([("id", 1)])),
        "gold",
    );
    bench
        .send(&first, tool(3, "pay/refund", Value::map([("amount", 5)])))
        .unwrap();
    bench
        .send(
            &first,
            with(
                tool(3, "pay/refund", Value::map([("amount", 5)])),
                StepState::Failed,
                None,
            ),
        )
        .unwrap();
    let second = next_attempt(&mut bench);
    let steps = vec![
        tool(1, "pay/refund", Value::map([("amount", 90)])),
        tool(2, "crm/get_customer", Value::map([("id", 1)])),
        tool(3, "pay/refund", Value::map([("amount", 5)])),
    ];
    bench.batch(&second, steps).unwrap();
    assert_eq!(
        (reused(&bench, 1), reused(&bench, 2), reused(&bench, 3)),
        (None, None, None)
    );
}

#[test]
fn d40_b19_a_paid_delegation_is_not_paid_again_and_needs_no_second_approval() {
    for process in ["refund_payout", "large_payout"] {
        let mut bench = Bench::new();
        let first = bench.lease("w1");
        bench.send(&first, delegation(1, process, refund())).unwrap();
        if process == "large_payout" {
            bench.decide_step(1, true, None).unwrap();
        }
        let child = bench.step(1).child.clone().unwrap();
        bench.child_ends(&child, &completed(&[("payout_id", Value::from("P-55"))]));
        let second = next_attempt(&mut bench);
        let answer = bench.send(&second, delegation(1, process, refund())).unwrap();
        assert!(answer.children.is_empty() && !answer.parked);
        assert_eq!(
            (answer.steps[0].state, answer.steps[0].reused),
            (StepState::Completed, Some((1, 1)))
        );
        assert_eq!(bench.result(1), Value::map([("payout_id", "P-55")]));
    }
}

#[test]
fn d40_a_checkpoint_with_once_is_reused_like_a_write() {
    let mut bench = Bench::handler();
    let first = bench.lease("w1");
    run(&mut bench, &first, checkpoint(1, true), "sent");
    run(&mut bench, &first, checkpoint(2, false), "read");
    let second = next_attempt(&mut bench);
    bench
        .batch(&second, vec![checkpoint(1, true), checkpoint(2, false)])
        .unwrap();
    assert_eq!((reused(&bench, 1), reused(&bench, 2)), (Some((1, 1)), None));
}
