//! D36: the codes and the order in which they are checked; D37: recognised replays. B9, B10.

use legation_kernel::journal::{self, Record, StepState};
use legation_kernel::rejection::RejectionKind;
use legation_kernel::task::{Caller, TaskOutcome, retire};
use legation_language::Value;

use crate::bench::*;

fn read(sequence: u32) -> legation_kernel::journal::StepInput {
    tool(sequence, "crm/get_customer", object(r#"{"id":"C-1"}"#))
}

#[test]
fn d36_b9_codes_of_stale_and_foreign_leases() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    let other = Caller {
        worker: "w2".to_owned(),
        ..first.clone()
    };
    let key = Caller {
        credential: "key-2".to_owned(),
        ..first.clone()
    };
    let forged = Caller {
        lease: Some((1, "guess".to_owned())),
        ..first.clone()
    };
    let bare = Caller {
        lease: None,
        ..first.clone()
    };
    for caller in [other, key, forged, bare] {
        assert_eq!(bench.code(&caller, read(1)), "LEASE_NOT_OWNED");
    }
    let expired = bench.later(&first, LOCK_MS);
    assert_eq!(bench.code(&expired, read(1)), "LEASE_EXPIRED");
    bench.lease("w1");
    assert_eq!(bench.code(&first, read(1)), "LEASE_EXPIRED", "an older number");
}

#[test]
fn d36_a_lease_is_judged_at_the_calls_arrival() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.now += 2 * LOCK_MS;
    assert!(
        bench.send(&caller, read(1)).is_ok(),
        "queued past the expiry, nobody took the task"
    );
}

#[test]
fn d36_retired_comes_before_the_lease() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let now = bench.now;
    bench.decide(|_, file, numbers, out| retire(file, TaskOutcome::Cancelled, "test", now, numbers, out));
    let error = bench.send(&caller, read(1)).unwrap_err();
    assert_eq!((error.kind, error.code), (RejectionKind::Gone, "WORK_RETIRED"));
}

#[test]
fn d36_b10_attempt_gap_and_divergence() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let stale = Record {
        caller: caller.clone(),
        attempt: 2,
        single: true,
        steps: vec![read(5)],
    };
    let answer = bench.decide(|cx, file, numbers, out| journal::record(cx, file, &stale, numbers, out));
    assert_eq!(
        refusal(answer.unwrap_err()).code,
        "STALE_ATTEMPT",
        "before the gap"
    );
    assert_eq!(bench.code(&caller, read(2)), "SEQUENCE");
    assert_eq!(bench.code(&caller, read(0)), "SEQUENCE");
    bench.send(&caller, read(1)).unwrap();
    assert_eq!(bench.code(&caller, read(3)), "SEQUENCE");
    let other = tool(1, "crm/get_customer", object(r#"{"id":"C-2"}"#));
    assert_eq!(bench.code(&caller, other.clone()), "DIVERGENT_STEP");
    assert_eq!(bench.code(&caller, done(other, Value::Null)), "DIVERGENT_STEP");
    assert_eq!(
        bench.code(&caller, tool(1, "crm/drop_tables", Value::Null)),
        "TOOL_NOT_BOUND",
        "before divergence"
    );
}

#[test]
fn d36_a_known_outcome_does_not_change() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, read(1)).unwrap();
    bench.send(&caller, done(read(1), Value::from("gold"))).unwrap();
    assert_eq!(
        bench.code(&caller, done(read(1), Value::from("silver"))),
        "STEP_FINISHED"
    );
    assert_eq!(
        bench.code(&caller, with(read(1), StepState::Failed, None)),
        "STEP_FINISHED"
    );
    assert_eq!(
        bench.code(&caller, with(read(1), StepState::Refused, None)),
        "STEP_FINISHED"
    );
}

#[test]
fn d36_an_unbound_tool_is_told_to_the_model() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    for step in [
        tool(1, "crm/drop", Value::map([("a", 1)])),
        delegation(1, "payroll", refund()),
    ] {
        let error = bench.send(&caller, step).unwrap_err();
        assert_eq!(
            (error.kind, error.code, error.tool_error),
            (RejectionKind::Forbidden, "TOOL_NOT_BOUND", true)
        );
    }
    assert_eq!(
        bench.code(&caller, done(tool(1, "crm/drop", Value::Null), Value::Null)),
        "TOOL_NOT_BOUND"
    );
}

#[test]
fn d36_handlers_have_no_tools_and_no_model() {
    let mut bench = Bench::handler();
    let caller = bench.lease("w1");
    assert_eq!(bench.code(&caller, read(1)), "TOOL_NOT_BOUND");
    assert_eq!(bench.code(&caller, model(1)), "STEP_INVALID");
}

#[test]
fn d36_arguments_that_are_no_object_are_told_to_the_model() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let mut text = read(1);
    text.request = Value::map([("argumentsText", "{\"id\": ")]);
    for step in [
        text,
        tool(1, "crm/get_customer", Value::from("C-1")),
        delegation(1, "refund_payout", Value::Null),
    ] {
        let error = bench.send(&caller, step).unwrap_err();
        assert_eq!((error.code, error.tool_error), ("ARGUMENTS_INVALID", true));
    }
}

#[test]
fn d36_the_step_limit_opens_an_incident_that_holds_the_task() {
    let mut bench = Bench::new();
    bench.agent.max_steps = 2;
    let caller = bench.lease("w1");
    bench.batch(&caller, vec![read(1), read(2)]).unwrap();
    let recorded = bench.send(&caller, read(3)).unwrap();
    assert_eq!(recorded.refusal.unwrap().code, "STEP_LIMIT");
    assert!(recorded.changed && recorded.task_incident);
    assert_eq!(bench.incidents()[0].code, "STEP_LIMIT");
    assert_eq!(bench.status(), legation_kernel::task::TaskState::Incident);
    assert_eq!(legation_kernel::task::claimable_at(&bench.file), None);
    bench.send(&caller, done(read(1), Value::Null)).unwrap();
    assert_eq!(bench.state(1), StepState::Completed, "what runs may still report");
}

/// A call that waited meanwhile counts as one under the lease, which a write in doubt keeps known.
#[test]
fn d36_the_step_limit_opens_one_incident_however_many_calls_meet_it() {
    let mut bench = Bench::new();
    bench.agent.max_steps = 2;
    let caller = bench.lease("w1");
    let write = tool(1, "crm/create_ticket", Value::map([("text", 1)]));
    bench.batch(&caller, vec![write, read(2)]).unwrap();
    bench.now += 1;
    bench.send(&caller, read(3)).unwrap();
    assert_eq!(bench.incidents().len(), 1);
    let again = bench.send(&caller, read(3));
    assert_eq!(bench.incidents().len(), 1, "{again:?}");
}

/// A known outcome is never thrown away: what a batch tells before the step that is too many is recorded.
#[test]
fn d36_a_batch_that_reaches_the_step_limit_keeps_the_results_it_brought() {
    let mut bench = Bench::new();
    bench.agent.max_steps = 2;
    let caller = bench.lease("w1");
    bench.batch(&caller, vec![read(1), read(2)]).unwrap();
    let batch = vec![
        done(read(1), Value::from("gold")),
        read(3),
        done(read(2), Value::Null),
    ];
    let recorded = bench.batch(&caller, batch).unwrap();
    assert_eq!(recorded.refusal.unwrap().code, "STEP_LIMIT");
    assert_eq!(
        (bench.state(1), bench.result(1)),
        (StepState::Completed, Value::from("gold"))
    );
    assert_eq!(bench.state(2), StepState::Started);
    assert_eq!(bench.incidents().len(), 1);
}

#[test]
fn d36_a_full_journal_takes_results_and_no_more_steps() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, read(1)).unwrap();
    bench.file.task.journal_bytes = 16 * 1024 * 1024;
    bench.send(&caller, done(read(1), Value::from("gold"))).unwrap();
    let refusal = bench.send(&caller, read(2)).unwrap().refusal.unwrap();
    assert_eq!(
        (refusal.code, refusal.reason.as_deref()),
        ("STEP_LIMIT", Some("journal-bytes"))
    );
}

#[test]
fn d36_payloads_over_one_mebibyte_are_refused() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let large = Value::from("x".repeat(1024 * 1024));
    let error = bench
        .send(
            &caller,
            tool(1, "crm/get_customer", Value::map([("a", large.clone())])),
        )
        .unwrap_err();
    assert_eq!(
        (error.kind, error.code),
        (RejectionKind::TooLarge, "PAYLOAD_TOO_LARGE")
    );
    bench.send(&caller, read(1)).unwrap();
    assert_eq!(bench.code(&caller, done(read(1), large)), "PAYLOAD_TOO_LARGE");
}

#[test]
fn d37_a_repeated_call_gets_the_same_answer_and_changes_nothing() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let calls = [
        vec![model(1)],
        vec![done(
            model(1),
            said(&[("crm__get_customer", Value::map([("id", "C-1")]))], 5),
        )],
        vec![at(tool(2, "crm/get_customer", Value::map([("id", "C-1")])), 1, 0)],
        vec![
            done(
                at(tool(2, "crm/get_customer", Value::map([("id", "C-1")])), 1, 0),
                Value::from("gold"),
            ),
            tool(3, "pay/refund", Value::map([("amount", 89)])),
        ],
        vec![done(
            tool(3, "pay/refund", Value::map([("amount", 89)])),
            Value::from("P-1"),
        )],
    ];
    for steps in calls {
        let first = bench.batch(&caller, steps.clone()).unwrap();
        let (file, numbers) = (bench.file.clone(), bench.numbers);
        let again = bench.batch(&caller, steps).unwrap();
        assert_eq!(first.steps.last(), again.steps.last());
        assert!(first.changed && !again.changed);
        assert_eq!((file, numbers), (bench.file.clone(), bench.numbers));
    }
}

#[test]
fn d37_call_ids_are_in_no_digest() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, read(1)).unwrap();
    let mut again = read(1);
    again.call_id = Some("call_99".to_owned());
    again
        .request
        .as_map_mut()
        .unwrap()
        .insert("callId".to_owned(), Value::from("call_99"));
    assert!(!bench.send(&caller, again).unwrap().changed);
}

#[test]
fn d37_outside_the_live_lease_a_replay_gives_no_grant_no_key_and_no_payload() {
    let mut bench = Bench::new();
    let old = bench.lease("w1");
    let pay = tool(1, "pay/refund", Value::map([("amount", 89)]));
    bench.send(&old, pay.clone()).unwrap();
    bench.send(&old, read(2)).unwrap();
    bench.send(&old, done(read(2), Value::from("gold"))).unwrap();
    bench.now += LOCK_MS;
    let new = bench.lease("w2");
    let answer = bench.batch(&old, vec![pay.clone(), read(2)]).unwrap();
    assert!(!answer.live && !answer.changed);
    for step in answer.steps {
        assert_eq!(
            (step.arguments, step.idempotency_key, step.result, step.policy),
            (None, None, None, None)
        );
    }
    assert_eq!(
        bench.step(1).grant.as_ref().unwrap().0,
        1,
        "the replay of an old lease grants nothing"
    );
    bench.send(&new, pay.clone()).unwrap();
    assert_eq!(bench.code(&old, pay), "LEASE_EXPIRED");
    assert_eq!(
        bench.step(1).grant.as_ref().unwrap().0,
        2,
        "nor does it take a grant back"
    );
}

/// STARTED is how a grant is told, so nobody may read it of a step that another runs: whoever was away too long
/// would run the step a second time.
#[test]
fn d37_what_another_lease_runs_is_not_told_as_started() {
    let runs: [fn(u32) -> legation_kernel::journal::StepInput; 4] = [
        model,
        read,
        |sequence| tool(sequence, "pay/refund", Value::map([("amount", 89)])),
        |sequence| checkpoint(sequence, false),
    ];
    for step in runs {
        let mut bench = Bench::new();
        let old = bench.lease("w1");
        bench.now += LOCK_MS;
        let new = bench.lease("w2");
        assert!(bench.send(&new, step(1)).unwrap().live);
        assert_eq!(bench.code(&old, step(1)), "LEASE_EXPIRED");
        let mut thief = new.clone();
        thief.worker = "w3".to_owned();
        assert_eq!(bench.code(&thief, step(1)), "LEASE_NOT_OWNED");
        assert!(!bench.send(&new, step(1)).unwrap().changed);
    }
}

#[test]
fn a_batch_is_all_or_nothing() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let before = (bench.file.clone(), bench.numbers);
    let steps = vec![delegation(1, "refund_payout", refund()), read(3)];
    assert_eq!(bench.batch(&caller, steps).unwrap_err().code, "SEQUENCE");
    assert_eq!((bench.file.clone(), bench.numbers), before);
    assert!(bench.effects.is_empty());
}
