//! D61–D63 and the limits of turns and tokens.

use legation_kernel::journal::{Call, StepState};
use legation_kernel::task::TaskState;
use legation_language::Value;

use crate::bench::*;

fn customer(sequence: u32, id: &str) -> legation_kernel::journal::StepInput {
    tool(sequence, "crm/get_customer", Value::map([("id", id)]))
}

#[test]
fn d61_a_turn_begins_only_when_every_call_before_it_has_an_answer() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let id = |id: &str| Value::map([("id", id)]);
    bench.turn(
        &caller,
        1,
        &[("crm__get_customer", id("a")), ("crm__get_customer", id("b"))],
    );
    assert_eq!(
        bench.code(&caller, model(2)),
        "OPEN_STEP",
        "no step for either call"
    );
    bench.send(&caller, customer(2, "a")).unwrap();
    assert_eq!(bench.code(&caller, model(3)), "OPEN_STEP", "the first is open");
    bench.send(&caller, done(customer(2, "a"), Value::Null)).unwrap();
    assert_eq!(
        bench.code(&caller, model(3)),
        "OPEN_STEP",
        "the second has no step"
    );
    bench
        .batch(
            &caller,
            vec![customer(3, "b"), done(customer(3, "b"), Value::Null), model(4)],
        )
        .unwrap();
}

#[test]
fn d61_the_batch_form_records_what_the_engine_refuses() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.turn(
        &caller,
        1,
        &[
            ("crm__drop", Value::map([("a", 1)])),
            ("crm__get_customer", Value::from("{\"id\"")),
        ],
    );
    let mut text = customer(3, "");
    text.request = Value::map([("argumentsText", "{\"id\"")]);
    let answer = bench
        .batch(&caller, vec![tool(2, "crm/drop", Value::map([("a", 1)])), text])
        .unwrap();
    let codes: Vec<_> = answer
        .steps
        .iter()
        .map(|step| (step.state, step.code.as_deref().unwrap()))
        .collect();
    assert_eq!(
        codes,
        [
            (StepState::Refused, "TOOL_NOT_BOUND"),
            (StepState::Refused, "ARGUMENTS_INVALID")
        ]
    );
    assert_eq!(answer.steps[0].refusal.as_ref().unwrap().code, "TOOL_NOT_BOUND");
    assert_eq!(bench.result(2).get("code"), Some(&Value::from("TOOL_NOT_BOUND")));
    assert_eq!((bench.step(2).call, bench.step(3).call), (call(1, 0), call(1, 1)));
    bench.send(&caller, model(4)).unwrap();
}

#[test]
fn d61_a_worker_journals_a_refusal_only_where_the_engine_would_refuse() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let read = Some(Value::from("There is no such tool."));
    let refused = with(
        tool(1, "crm/drop", Value::map([("a", 1)])),
        StepState::Refused,
        read.clone(),
    );
    bench.send(&caller, refused.clone()).unwrap();
    assert_eq!(bench.result(1), Value::from("There is no such tool."));
    assert!(!bench.send(&caller, refused).unwrap().changed);
    for step in [
        customer(2, "a"),
        delegation(2, "refund_payout", refund()),
        model(2),
    ] {
        assert_eq!(
            bench.code(&caller, with(step, StepState::Refused, read.clone())),
            "NOT_REFUSED"
        );
    }
}

#[test]
fn d62_calls_are_matched_by_step_and_index() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let same = Value::map([("id", "a")]);
    bench.turn(
        &caller,
        1,
        &[("crm__get_customer", same.clone()), ("crm__get_customer", same)],
    );
    bench.send(&caller, at(customer(2, "a"), 1, 1)).unwrap();
    for (turn, index) in [(1, 1), (1, 2), (2, 0), (9, 0)] {
        assert_eq!(
            bench.code(&caller, at(customer(3, "a"), turn, index)),
            "STEP_INVALID"
        );
    }
    bench.send(&caller, customer(3, "a")).unwrap();
    assert_eq!(
        (bench.step(2).call, bench.step(3).call),
        (call(1, 1), call(1, 0)),
        "the first that is free"
    );
}

#[test]
fn d62_repeated_call_ids_do_no_harm() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let id = |id: &str| Value::map([("id", id)]);
    bench.turn(
        &caller,
        1,
        &[("crm__get_customer", id("a")), ("crm__get_customer", id("b"))],
    );
    let mut second = customer(2, "b");
    second.call_id = Some("call_0".to_owned());
    let mut first = customer(3, "a");
    first.call_id = Some("call_0".to_owned());
    bench.batch(&caller, vec![second, first]).unwrap();
    assert_eq!((bench.step(2).call, bench.step(3).call), (call(1, 1), call(1, 0)));
}

#[test]
fn d62_a_delegation_is_matched_by_its_function_name() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.turn(&caller, 1, &[("delegate__refund_payout", refund())]);
    bench
        .send(&caller, delegation(2, "refund_payout", refund()))
        .unwrap();
    assert_eq!(bench.step(2).call, call(1, 0));
}

#[test]
fn d63_tools_and_delegations_of_one_turn_run_together_and_the_task_parks_when_only_children_are_left() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.turn(
        &caller,
        1,
        &[
            ("crm__get_customer", Value::map([("id", "a")])),
            ("delegate__refund_payout", refund()),
        ],
    );
    let batch = vec![customer(2, "a"), delegation(3, "refund_payout", refund())];
    let answer = bench.batch(&caller, batch).unwrap();
    assert!(!answer.parked && answer.children.len() == 1);
    assert_eq!(bench.status(), TaskState::Locked, "leased while the child runs");
    let answer = bench.send(&caller, done(customer(2, "a"), Value::Null)).unwrap();
    assert!(answer.parked);
    assert_eq!(bench.status(), TaskState::AwaitingChild);
    let child = bench.step(3).child.clone().unwrap();
    bench.child_ends(&child, &completed(&[("payout_id", Value::from("P-55"))]));
    assert_eq!(bench.status(), TaskState::Open);
}

#[test]
fn only_completed_turns_count_and_every_turn_costs_tokens() {
    let mut bench = Bench::new();
    bench.agent.max_turns = 2;
    bench.agent.max_tokens_total = Some(100);
    let caller = bench.lease("w1");
    bench.send(&caller, model(1)).unwrap();
    let failed = with(model(1), StepState::Failed, Some(said(&[], 30)));
    bench.send(&caller, failed).unwrap();
    bench.turn(&caller, 2, &[]);
    assert_eq!(bench.file.task.tokens_used, 40);
    bench.turn(&caller, 3, &[]);
    assert_eq!(bench.code(&caller, model(4)), "TURN_LIMIT");
    bench.agent.max_turns = 8;
    bench.send(&caller, model(4)).unwrap();
    bench.send(&caller, done(model(4), said(&[], 50))).unwrap();
    assert_eq!(bench.code(&caller, model(5)), "TOKEN_LIMIT");
}

#[test]
fn no_number_of_tokens_wraps_the_sum_back_under_the_limit() {
    let most = Value::parse("18446744073709551615").unwrap();
    let usage = Value::map([("inputTokens", most.clone()), ("outputTokens", most)]);
    let mut bench = Bench::new();
    bench.agent.max_tokens_total = Some(u64::MAX);
    let caller = bench.lease("w1");
    for sequence in 1..=2 {
        bench.send(&caller, model(sequence)).unwrap();
        let failed = with(
            model(sequence),
            StepState::Failed,
            Some(Value::map([("usage", usage.clone())])),
        );
        bench.send(&caller, failed).unwrap();
        assert_eq!(bench.file.task.tokens_used, u64::MAX);
        if sequence == 1 {
            assert_eq!(bench.code(&caller, model(2)), "TOKEN_LIMIT");
            bench.agent.max_tokens_total = None;
        }
    }
}

#[test]
fn the_result_of_a_turn_is_an_object_whose_calls_name_their_tools() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, model(1)).unwrap();
    for result in [
        r#""hello""#,
        r#"{"calls":"none"}"#,
        r#"{"calls":[{"arguments":{}}]}"#,
    ] {
        assert_eq!(
            bench.code(&caller, done(model(1), object(result))),
            "STEP_INVALID"
        );
    }
}

fn call(step: u32, index: u32) -> Option<Call> {
    Some(Call { step, index })
}
