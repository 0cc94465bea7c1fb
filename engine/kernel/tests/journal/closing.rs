//! Closing calls: one per lease, each counted once. D32, D33, D34.

use legation_kernel::task::{
    self, Caller, Failure, FailureOutcome, MAX_DEFERRAL_MS, Opened, ReleaseOutcome, TaskOutcome, TaskState,
};
use legation_language::Value;
use legation_language::model::Retry;

use crate::bench::*;

fn failed() -> Failure {
    Failure {
        message: "no".to_owned(),
        code: None,
        retryable: true,
        retry_after_ms: None,
    }
}

fn fail(bench: &mut Bench, caller: &Caller) -> FailureOutcome {
    let now = bench.now;
    let outcome = task::failure(&mut bench.file, &Retry::default(), &failed(), 50, now);
    task::close(
        &mut bench.file,
        caller,
        "failure",
        &Value::from("no"),
        TaskState::Open,
    );
    outcome
}

#[test]
fn d32_a_repeated_closing_call_gets_the_same_answer_even_after_the_end() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let body = Value::map([("result", "done")]);
    assert_eq!(
        task::open_closing(&bench.file, &caller, "complete", &body),
        Ok(Opened::Fresh)
    );
    task::close(&mut bench.file, &caller, "complete", &body, TaskState::Completed);
    let now = bench.now;
    bench.decide(|_, file, numbers, out| {
        task::retire(file, TaskOutcome::Completed, "done", now, numbers, out)
    });
    let repeat = Ok(Opened::Repeat(TaskState::Completed));
    assert_eq!(
        task::open_closing(&bench.file, &caller, "complete", &body),
        repeat
    );
    let late = bench.later(&caller, 10 * LOCK_MS);
    assert_eq!(task::open_closing(&bench.file, &late, "complete", &body), repeat);
    for (operation, other) in [("complete", Value::map([("result", "else")])), ("failure", body)] {
        let refusal = task::open_closing(&bench.file, &caller, operation, &other).unwrap_err();
        assert_eq!(refusal.code, "WORK_RETIRED");
    }
}

#[test]
fn d32_a_second_closing_call_of_a_lease_is_stale() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    fail(&mut bench, &caller);
    assert_eq!(
        task::open_closing(&bench.file, &caller, "failure", &Value::from("no")),
        Ok(Opened::Repeat(TaskState::Open)),
        "a repeated failure counts once"
    );
    let refusal = task::open_closing(&bench.file, &caller, "complete", &Value::Null).unwrap_err();
    assert_eq!(refusal.code, "LEASE_EXPIRED");
}

#[test]
fn d33_a_counted_failure_starts_a_fresh_conversation_after_the_back_off() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.turn(&caller, 1, &[]);
    let outcome = fail(&mut bench, &caller);
    let available_at = bench.now + 5_000;
    assert_eq!(
        outcome,
        FailureOutcome::Retry {
            available_at,
            new_attempt: true
        }
    );
    assert_eq!((bench.file.task.attempt, bench.file.task.tokens_used), (2, 0));
    assert_eq!(task::claimable_at(&bench.file), Some(available_at));
    assert_eq!(bench.status(), TaskState::Open);
}

#[test]
fn d33_unsettled_steps_keep_the_attempt() {
    let write = tool(1, "pay/refund", Value::map([("amount", 89)]));
    let approved = tool(1, "pay/transfer", Value::map([("amount", 900)]));
    let running = delegation(1, "refund_payout", refund());
    for step in [write, approved, running, wait(1, 60_000), model(1)] {
        let mut bench = Bench::new();
        let caller = bench.lease("w1");
        bench.send(&caller, step).unwrap();
        let outcome = fail(&mut bench, &caller);
        assert!(matches!(
            outcome,
            FailureOutcome::Retry {
                new_attempt: false,
                ..
            }
        ));
        assert_eq!((bench.file.task.attempt, bench.file.task.tries), (1, 1));
    }
}

#[test]
fn d33_back_off_doubles_up_to_its_cap_and_jitters_both_ways() {
    let retry = Retry {
        max_attempts: 20,
        ..Retry::default()
    };
    let delay = |tries: u32, random: u32| {
        let mut bench = Bench::new();
        bench.file.task.tries = tries;
        match task::failure(&mut bench.file, &retry, &failed(), random, 0) {
            FailureOutcome::Retry { available_at, .. } => available_at,
            FailureOutcome::Exhausted => panic!("tries are left"),
        }
    };
    assert_eq!(
        [delay(0, 50), delay(1, 50), delay(2, 50)],
        [5_000, 10_000, 20_000]
    );
    assert_eq!([delay(0, 0), delay(0, 100)], [4_000, 6_000]);
    assert_eq!([delay(10, 50), delay(10, 100)], [300_000, 300_000]);
}

#[test]
fn d32_no_try_left_or_not_retryable_is_exhausted() {
    let mut bench = Bench::new();
    bench.file.task.tries = 2;
    assert_eq!(
        task::failure(&mut bench.file, &Retry::default(), &failed(), 50, 0),
        FailureOutcome::Exhausted
    );
    let mut bench = Bench::new();
    let fatal = Failure {
        retryable: false,
        ..failed()
    };
    assert_eq!(
        task::failure(&mut bench.file, &Retry::default(), &fatal, 50, 0),
        FailureOutcome::Exhausted
    );
}

#[test]
fn d33_a_retry_after_is_honoured_up_to_its_cap() {
    for (asked, wait) in [(60_000, 60_000), (1, 5_000), (i64::MAX, MAX_DEFERRAL_MS)] {
        let mut bench = Bench::new();
        let failure = Failure {
            retry_after_ms: Some(asked),
            ..failed()
        };
        let outcome = task::failure(&mut bench.file, &Retry::default(), &failure, 50, 0);
        assert_eq!(
            outcome,
            FailureOutcome::Retry {
                available_at: wait,
                new_attempt: true
            }
        );
    }
}

#[test]
fn d34_the_thirteenth_deferral_in_a_row_counts_as_a_failure() {
    let mut bench = Bench::new();
    for _ in 0..12 {
        let caller = bench.lease("w1");
        let now = bench.now;
        let outcome = task::release(&mut bench.file, Some(1_000), now);
        assert_eq!(
            outcome,
            ReleaseOutcome::Deferred {
                available_at: now + 1_000
            }
        );
        task::close(&mut bench.file, &caller, "release", &Value::Null, TaskState::Open);
        assert_eq!(task::claimable_at(&bench.file), Some(now + 1_000));
        bench.now += 1_000;
    }
    assert_eq!(
        (bench.file.task.attempt, bench.file.task.tries),
        (1, 0),
        "a deferral costs no attempt"
    );
    bench.lease("w1");
    assert_eq!(
        task::release(&mut bench.file, Some(1_000), bench.now),
        ReleaseOutcome::CountsAsFailure
    );
}

#[test]
fn d34_a_settled_step_breaks_the_row_and_a_hand_back_counts_nothing() {
    let mut bench = Bench::new();
    bench.file.task.deferrals = 12;
    let caller = bench.lease("w1");
    assert_eq!(
        task::release(&mut bench.file, None, bench.now),
        ReleaseOutcome::HandedBack
    );
    assert_eq!(bench.file.task.deferrals, 12);
    bench.turn(&caller, 1, &[]);
    assert_eq!(bench.file.task.deferrals, 0);
    let capped = task::release(&mut bench.file, Some(i64::MAX), 0);
    assert_eq!(
        capped,
        ReleaseOutcome::Deferred {
            available_at: MAX_DEFERRAL_MS
        }
    );
}

/// Core §3: one closing call per lease, also per one that the engine ended while the call was queued.
#[test]
fn a_lease_that_was_called_back_to_close_closes_once() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.now += 2;
    let now = bench.now;
    task::unlock(&mut bench.file, now);
    let queued = Caller {
        arrived_at: now - 1,
        ..caller
    };
    let open = |file: &task::TaskFile, operation| task::open_closing(file, &queued, operation, &Value::Null);
    assert_eq!(open(&bench.file, "release"), Ok(Opened::Fresh));
    task::close(&mut bench.file, &queued, "release", &Value::Null, TaskState::Open);
    assert_eq!(open(&bench.file, "release"), Ok(Opened::Repeat(TaskState::Open)));
    assert_eq!(open(&bench.file, "failure").unwrap_err().code, "LEASE_EXPIRED");
}
