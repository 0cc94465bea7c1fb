//! D10–D22, D63: a step that the engine runs as a child.

use legation_kernel::instance::Status;
use legation_kernel::journal::{Settled, StepState};
use legation_kernel::task::{self, TaskState, WaitingKind};
use legation_language::Value;

use crate::bench::*;

#[test]
fn d10_d11_what_does_not_fit_is_told_to_the_model_with_reason_and_argument() {
    let cases = [
        (r#"{"orderId":"5531"}"#, "missing-param", "amount"),
        (r#"{"orderId":5531,"amount":89}"#, "invalid-param", "orderId"),
        (
            r#"{"orderId":"5531","amount":89,"rush":true}"#,
            "invalid-param",
            "rush",
        ),
    ];
    for (arguments, reason, argument) in cases {
        let mut bench = Bench::new();
        let caller = bench.lease("w1");
        let before = bench.file.clone();
        let error = bench
            .send(&caller, delegation(1, "refund_payout", object(arguments)))
            .unwrap_err();
        assert_eq!(error.code, "DELEGATION_INPUT_INVALID");
        assert_eq!(
            (error.reason.as_deref(), error.argument.as_deref()),
            (Some(reason), Some(argument))
        );
        assert!(error.tool_error);
        assert_eq!(bench.file, before, "the single form records nothing");
        let answer = bench
            .batch(&caller, vec![delegation(1, "refund_payout", object(arguments))])
            .unwrap();
        assert_eq!(
            (answer.steps[0].state, answer.steps[0].reason.as_deref()),
            (StepState::Refused, Some(reason))
        );
        assert_eq!(bench.status(), TaskState::Locked, "it never fails the task");
    }
}

#[test]
fn d10_depth_is_absolute_and_a_node_may_only_lower_it() {
    for (process, depth, fits) in [
        ("refund_payout", 3, true),
        ("refund_payout", 4, false),
        ("shallow", 0, true),
        ("shallow", 1, false),
    ] {
        let mut bench = Bench::new();
        bench.depth = depth;
        let caller = bench.lease("w1");
        match bench.send(&caller, delegation(1, process, refund())) {
            Ok(answer) => assert!(fits && answer.children.len() == 1),
            Err(error) => assert_eq!(
                (fits, error.code, error.tool_error),
                (false, "DELEGATION_DEPTH", true)
            ),
        }
    }
}

#[test]
fn a_process_above_is_not_delegated_to_again() {
    let mut bench = Bench::new();
    bench.chain.push("refund_payout".to_owned());
    let caller = bench.lease("w1");
    assert_eq!(
        bench.code(&caller, delegation(1, "refund_payout", refund())),
        "DELEGATION_CYCLE"
    );
}

#[test]
fn d12_the_child_starts_with_the_step_and_the_lease_goes_back() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let arguments = object(r#"{"orderId":"5531","amount":89}"#);
    let answer = bench
        .send(&caller, delegation(1, "refund_payout", arguments))
        .unwrap();
    let start = &answer.children[0];
    assert_eq!(
        (start.process.as_str(), start.version, start.sequence),
        ("refund_payout", 7, 1)
    );
    assert_eq!(
        Value::Map(start.inputs.clone()),
        refund(),
        "defaults of inputs are filled in"
    );
    assert_eq!(start.child, bench.instance.child(4));
    assert_eq!(answer.steps[0].child.as_ref(), Some(&start.child));
    assert!(answer.parked);
    assert_eq!(
        (bench.status(), bench.file.task.lease.as_ref()),
        (TaskState::AwaitingChild, None)
    );
    assert_eq!(task::claimable_at(&bench.file), None, "D13: no slot and no lease");
    let waiting = task::waiting_for(&bench.file);
    assert_eq!(
        (waiting[0].kind, waiting[0].child.as_ref()),
        (WaitingKind::Child, Some(&start.child))
    );
}

#[test]
fn d22_the_same_delegation_again_starts_no_second_child() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let step = delegation(1, "refund_payout", refund());
    let child = bench.send(&caller, step.clone()).unwrap().children[0]
        .child
        .clone();
    let before = (bench.file.clone(), bench.numbers);
    let again = bench.send(&caller, step).unwrap();
    assert!(again.children.is_empty() && !again.changed && !again.live);
    assert_eq!(
        again.steps[0].child,
        Some(child),
        "parked or not, the child is named"
    );
    assert_eq!((bench.file.clone(), bench.numbers), before);
}

#[test]
fn a_worker_never_delivers_the_result_of_a_delegation() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let read = tool(1, "crm/get_customer", Value::map([("id", "a")]));
    let step = delegation(2, "refund_payout", refund());
    bench.batch(&caller, vec![read, step.clone()]).unwrap();
    assert_eq!(
        bench.code(&caller, done(step, Value::Null)),
        "WRITE_AHEAD_REQUIRED"
    );
}

#[test]
fn d15_d16_a_completed_child_returns_one_flat_object() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .send(&caller, delegation(1, "refund_payout", refund()))
        .unwrap();
    let child = bench.step(1).child.clone().unwrap();
    let end = completed(&[("payout_id", Value::from("P-55"))]);
    let (settled, _) = bench.child_ends(&child, &end);
    assert_eq!(settled, Settled::Settled { opened: true });
    assert_eq!(bench.state(1), StepState::Completed);
    assert_eq!(bench.result(1), Value::map([("payout_id", "P-55")]));
    let file = bench.file.clone();
    assert_eq!(
        bench.child_ends(&child, &end).0,
        Settled::Ignored,
        "I8: one resume per child"
    );
    assert_eq!(bench.file, file);
}

#[test]
fn d16_note_and_message_stand_beside_the_outputs() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .send(&caller, delegation(1, "refund_payout", refund()))
        .unwrap();
    let child = bench.step(1).child.clone().unwrap();
    let mut end = completed(&[("payout_id", Value::Null)]);
    end.unset = vec!["payout_id".to_owned()];
    end.message = Some("No payout was due.".to_owned());
    bench.child_ends(&child, &end);
    assert_eq!(
        bench.result(1).get("message"),
        Some(&Value::from("No payout was due."))
    );
    assert!(
        bench
            .result(1)
            .get("note")
            .unwrap()
            .as_str()
            .unwrap()
            .contains("payout_id")
    );
}

#[test]
fn d16_a_child_that_ended_otherwise_is_a_sentence_with_its_status() {
    let cases = [
        (
            ended(Status::Cancelled, None),
            "The delegated process ended CANCELLED; it returned nothing.",
        ),
        (
            ended(Status::Failed, Some("DENIED")),
            "The delegated process ended FAILED with code DENIED; it returned nothing.",
        ),
    ];
    for (end, sentence) in cases {
        let mut bench = Bench::new();
        let caller = bench.lease("w1");
        bench
            .send(&caller, delegation(1, "refund_payout", refund()))
            .unwrap();
        let child = bench.step(1).child.clone().unwrap();
        bench.child_ends(&child, &end);
        assert_eq!(
            (bench.state(1), bench.result(1)),
            (StepState::Failed, Value::from(sentence))
        );
        assert_eq!(bench.status(), TaskState::Open);
    }
}

#[test]
fn d21_a_child_that_ends_after_the_task_is_ignored() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .send(&caller, delegation(1, "refund_payout", refund()))
        .unwrap();
    let child = bench.step(1).child.clone().unwrap();
    let now = bench.now;
    let work = bench.decide(|_, file, numbers, out| {
        task::retire(
            file,
            task::TaskOutcome::Cancelled,
            "the parent was cancelled",
            now,
            numbers,
            out,
        )
    });
    assert_eq!(
        work.children,
        std::slice::from_ref(&child),
        "D19: to be cancelled"
    );
    assert_eq!(bench.child_ends(&child, &completed(&[])).0, Settled::Ignored);
    assert_eq!(
        (bench.state(1), bench.step(1).code.as_deref()),
        (StepState::Failed, Some("WORK_RETIRED"))
    );
}

#[test]
fn d63_children_over_max_concurrent_are_queued_and_start_when_a_sibling_settles() {
    let mut bench = Bench::new();
    bench.agent.max_concurrent = 2;
    let caller = bench.lease("w1");
    let order = |n: u32| {
        Value::map([
            ("orderId", Value::from(n.to_string())),
            ("amount", Value::from(n)),
        ])
    };
    let steps = (1..=4)
        .map(|n| delegation(n, "refund_payout", order(n)))
        .collect();
    let answer = bench.batch(&caller, steps).unwrap();
    assert_eq!(answer.children.len(), 2);
    assert_eq!(
        answer.steps.iter().map(|step| step.queued).collect::<Vec<_>>(),
        [false, false, true, true]
    );
    assert_eq!(task::waiting_for(&bench.file)[2].kind, WaitingKind::Queued);
    assert!(answer.parked);

    let first = bench.step(1).child.clone().unwrap();
    let (settled, started) = bench.child_ends(&first, &completed(&[]));
    assert_eq!(
        settled,
        Settled::Settled { opened: false },
        "others are still waited for"
    );
    assert_eq!(
        started,
        [bench.step(3).child.clone().unwrap()],
        "oldest first, numbered at dispatch"
    );
    assert!(!bench.step(3).queued && bench.step(4).queued);
    for n in [2, 3, 4] {
        let child = bench.step(n).child.clone().unwrap();
        bench.child_ends(&child, &completed(&[]));
    }
    assert_eq!(bench.status(), TaskState::Open);
}

#[test]
fn a_handler_delegates_and_waits_like_an_agent() {
    let mut bench = Bench::handler();
    let caller = bench.lease("w1");
    let answer = bench
        .batch(
            &caller,
            vec![delegation(1, "refund_payout", refund()), wait(2, 60_000)],
        )
        .unwrap();
    assert!(answer.parked && answer.children.len() == 1);
    let (due, timer) = bench.step(2).wait.unwrap();
    assert_eq!(due, bench.now + 60_000);
    let child = bench.step(1).child.clone().unwrap();
    bench.child_ends(&child, &completed(&[]));
    assert_eq!(bench.status(), TaskState::AwaitingTimer);
    bench.now = due;
    let settled = legation_kernel::journal::settle_wait(&mut bench.file, timer, due);
    assert_eq!(settled, Settled::Settled { opened: true });
    assert_eq!(
        legation_kernel::journal::settle_wait(&mut bench.file, timer, due),
        Settled::Ignored
    );
    assert_eq!(
        (bench.state(2), bench.status()),
        (StepState::Completed, TaskState::Open)
    );
}
