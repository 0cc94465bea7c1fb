//! D39, D60: what is granted, to which lease, and whose results count.

use legation_kernel::journal::StepState;
use legation_kernel::rejection::Stop;
use legation_kernel::task::{self, LapseOutcome, TaskState};
use legation_language::{Value, canonical};

use crate::bench::*;

fn read() -> legation_kernel::journal::StepInput {
    tool(1, "crm/get_customer", Value::map([("id", "C-1")]))
}

fn keyed() -> legation_kernel::journal::StepInput {
    tool(1, "pay/refund", Value::map([("amount", 89)]))
}

fn unkeyed() -> legation_kernel::journal::StepInput {
    tool(1, "crm/create_ticket", Value::map([("text", "late")]))
}

#[test]
fn d60_reads_too_are_granted_before_they_run() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    assert_eq!(
        bench.code(&caller, done(read(), Value::Null)),
        "WRITE_AHEAD_REQUIRED"
    );
    let answer = bench.send(&caller, read()).unwrap();
    assert_eq!(answer.steps[0].state, StepState::Started);
    assert_eq!(answer.steps[0].arguments, Some(Value::map([("id", "C-1")])));
    assert_eq!(answer.steps[0].idempotency_key, None, "a read has no key");
    bench.send(&caller, done(read(), Value::from("gold"))).unwrap();
    assert_eq!(bench.state(1), StepState::Completed);
}

#[test]
fn d39_a_write_keeps_its_key_over_every_lease() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    let key = bench.send(&first, keyed()).unwrap().steps[0]
        .idempotency_key
        .clone()
        .unwrap();
    assert_eq!(
        key,
        canonical::sha256_hex(format!("{}:1:1", bench.file.task.id).as_bytes())
    );
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    assert_eq!(
        bench.code(&second, done(keyed(), Value::Null)),
        "WRITE_AHEAD_REQUIRED",
        "not granted to this lease"
    );
    let again = bench.send(&second, keyed()).unwrap();
    assert_eq!(again.steps[0].idempotency_key.as_ref(), Some(&key));
    assert_eq!(bench.step(1).grant.as_ref().unwrap().0, 2);
}

#[test]
fn i6_a_result_counts_after_the_expiry_until_the_step_is_granted_again() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    bench.send(&first, keyed()).unwrap();
    let late = bench.later(&first, 5 * LOCK_MS);
    bench.lease("w2");
    let answer = bench.send(&late, done(keyed(), Value::from("P-1"))).unwrap();
    assert!(!answer.live);
    assert_eq!(
        (bench.state(1), bench.result(1)),
        (StepState::Completed, Value::from("P-1"))
    );
}

#[test]
fn i6_a_result_after_the_second_grant_is_kept_and_shown_only() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    bench.send(&first, keyed()).unwrap();
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    bench.send(&second, keyed()).unwrap();
    bench.send(&first, done(keyed(), Value::from("P-1"))).unwrap();
    assert_eq!(bench.state(1), StepState::Started);
    let kept = bench.step(1).late_result.clone();
    assert!(kept.is_some());
    bench.send(&second, done(keyed(), Value::from("P-2"))).unwrap();
    assert_eq!(bench.result(1), Value::from("P-2"));
    let other = bench.send(&first, done(keyed(), Value::from("P-3"))).unwrap();
    assert!(!other.changed, "the first late result stays");
    assert_eq!(bench.step(1).late_result, kept);
}

#[test]
fn d39_an_interrupted_write_without_a_key_is_never_sent_again_until_resolved() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    assert_eq!(
        bench.send(&first, unkeyed()).unwrap().steps[0].idempotency_key,
        None
    );
    assert_eq!(
        task::claimable_at(&bench.file),
        None,
        "not claimable while it runs"
    );
    assert_eq!(task::lapse_at(&bench.file), Some(bench.now + 2 * LOCK_MS));
    bench.now += 2 * LOCK_MS - 1;
    assert_eq!(bench.lapse(), LapseOutcome::NotDue);
    bench.now += 1;
    assert!(matches!(bench.lapse(), LapseOutcome::Unknown(unknown) if unknown.len() == 1));
    assert_eq!(bench.lapse(), LapseOutcome::NotDue);
    assert_eq!(
        (bench.state(1), bench.status()),
        (StepState::OutcomeUnknown, TaskState::Incident)
    );
    assert_eq!(task::claimable_at(&bench.file), None);

    let second = bench.lease("w2");
    let answer = bench.send(&second, unkeyed()).unwrap();
    assert_eq!(
        (answer.steps[0].state, answer.steps[0].arguments.as_ref()),
        (StepState::OutcomeUnknown, None)
    );
    bench.file.task.lease = None;

    bench.resolve(1, false, None).unwrap();
    assert_eq!(bench.status(), TaskState::Open);
    let third = bench.lease("w3");
    assert_eq!(
        bench.code(&third, done(unkeyed(), Value::Null)),
        "WRITE_AHEAD_REQUIRED"
    );
    assert!(
        bench.send(&third, unkeyed()).unwrap().steps[0]
            .arguments
            .is_some()
    );
}

#[test]
fn d39_a_performed_write_is_completed_with_what_the_person_says() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, unkeyed()).unwrap();
    bench.now += 2 * LOCK_MS;
    bench.lapse();
    bench.resolve(1, true, Some(Value::from("T-9"))).unwrap();
    assert_eq!(
        (bench.state(1), bench.result(1)),
        (StepState::Completed, Value::from("T-9"))
    );
    assert_eq!(bench.step(1).resolved_by.as_deref(), Some("olga: performed"));
    assert_eq!(bench.status(), TaskState::Open);
    assert_eq!(bench.resolve(1, true, None).unwrap_err().code, "STEP_FINISHED");
}

#[test]
fn d39_a_late_result_of_an_unknown_write_is_what_performed_means() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, unkeyed()).unwrap();
    let late = bench.later(&caller, 2 * LOCK_MS);
    bench.lapse();
    bench.send(&late, done(unkeyed(), Value::from("T-1"))).unwrap();
    assert_eq!(
        bench.state(1),
        StepState::OutcomeUnknown,
        "declared unknown: only kept"
    );
    bench.resolve(1, true, None).unwrap();
    assert_eq!(bench.result(1), Value::from("T-1"));
}

#[test]
fn a_worker_may_say_that_it_does_not_know_a_writes_outcome() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, unkeyed()).unwrap();
    let answer = bench
        .send(&caller, with(unkeyed(), StepState::OutcomeUnknown, None))
        .unwrap();
    assert!(answer.task_incident && answer.parked);
    assert_eq!(bench.status(), TaskState::Incident);

    let mut reads = Bench::new();
    let caller = reads.lease("w1");
    reads.send(&caller, read()).unwrap();
    assert_eq!(
        reads.code(&caller, with(read(), StepState::OutcomeUnknown, None)),
        "STEP_INVALID"
    );
}

#[test]
fn a_checkpoint_is_repeated_after_a_crash_but_one_with_once_is_unknown() {
    let mut bench = Bench::handler();
    let first = bench.lease("w1");
    bench.batch(&first, vec![checkpoint(1, false)]).unwrap();
    assert!(task::claimable_at(&bench.file).is_some());
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    bench.send(&second, checkpoint(1, false)).unwrap();
    bench
        .send(&second, done(checkpoint(1, false), Value::from(1)))
        .unwrap();
    bench.send(&second, checkpoint(2, true)).unwrap();
    bench.now += 2 * LOCK_MS;
    bench.lapse();
    assert_eq!(bench.state(2), StepState::OutcomeUnknown);
}

#[test]
fn a_model_step_stays_open_for_the_next_lease() {
    let mut bench = Bench::new();
    bench.lease("w1");
    let first = bench.lease("w1");
    bench.send(&first, model(1)).unwrap();
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    bench.send(&second, model(1)).unwrap();
    bench.send(&second, done(model(1), said(&[], 5))).unwrap();
    assert_eq!(bench.state(1), StepState::Completed);
}

#[test]
fn a_result_may_leave_the_request_out() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, read()).unwrap();
    let mut short = done(read(), Value::from("gold"));
    short.request = Value::Null;
    bench.send(&caller, short.clone()).unwrap();
    assert!(!bench.send(&caller, short).unwrap().changed);
}

#[test]
fn a_missing_payload_stops_the_decision_and_names_it() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    bench.send(&first, keyed()).unwrap();
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    let known = std::mem::take(&mut bench.payloads);
    let before = bench.file.clone();
    let stop = bench.record(&second, true, vec![keyed()]).unwrap_err();
    assert_eq!(
        stop,
        Stop::MissingPayloads(vec![bench.step(1).request.digest.clone()])
    );
    assert_eq!(bench.file, before);
    bench.payloads = known;
    assert!(bench.send(&second, keyed()).unwrap().steps[0].arguments.is_some());
}

#[test]
fn settled_numbers_follow_the_order_of_completion() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let steps: Vec<_> = (1..=3)
        .map(|n| tool(n, "crm/get_customer", Value::map([("id", n)])))
        .collect();
    bench.batch(&caller, steps.clone()).unwrap();
    for n in [3, 1, 2] {
        bench
            .send(&caller, done(steps[n - 1].clone(), Value::Null))
            .unwrap();
    }
    let settled: Vec<_> = (1..=3).map(|n| bench.step(n).settled.unwrap()).collect();
    assert_eq!(settled, [2, 3, 1]);
}

#[test]
fn d39_a_lease_that_finds_a_write_in_doubt_is_not_granted_it() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    bench.send(&first, unkeyed()).unwrap();
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    assert_eq!(
        bench.code(&second, unkeyed()),
        "OUTCOME_UNKNOWN",
        "even if it should be leased too early"
    );
}

#[test]
fn a_repeated_late_result_grants_nothing() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let beside = tool(2, "crm/get_customer", Value::map([("id", "C-1")]));
    bench.batch(&caller, vec![unkeyed(), beside]).unwrap();
    bench
        .send(&caller, with(unkeyed(), StepState::OutcomeUnknown, None))
        .unwrap();
    let late = done(unkeyed(), Value::from("T-1"));
    bench.send(&caller, late.clone()).unwrap();
    bench.resolve(1, false, None).unwrap();
    bench.send(&caller, late).unwrap();
    assert_eq!(
        (bench.state(1), bench.step(1).grant.as_ref()),
        (StepState::Started, None)
    );
}
