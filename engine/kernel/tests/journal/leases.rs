//! Leases: taken, extended, parked, lost (core §3). D30, D31, D33.

use legation_kernel::effect::Effect;
use legation_kernel::journal::StepState;
use legation_kernel::task::{self, Caller, LapseOutcome, Parked, TaskState};
use legation_language::Value;

use crate::bench::*;

fn read(sequence: u32) -> legation_kernel::journal::StepInput {
    tool(sequence, "crm/get_customer", Value::map([("id", sequence)]))
}

#[test]
fn d31_an_expired_lease_is_claimable_again_and_keeps_its_place() {
    let mut bench = Bench::new();
    assert_eq!(task::claimable_at(&bench.file), Some(bench.file.task.created_at));
    let caller = bench.lease("w1");
    assert_eq!(task::claimable_at(&bench.file), Some(bench.now + LOCK_MS));
    assert_eq!(bench.status(), TaskState::Locked);
    bench.send(&caller, read(1)).unwrap();
    bench.now += LOCK_MS;
    assert_eq!(bench.status(), TaskState::Open);
    assert!(task::claimable_at(&bench.file).unwrap() <= bench.now);
    assert_eq!(
        task::lapse_at(&bench.file),
        None,
        "an expiry alone needs no command"
    );
}

#[test]
fn a_heartbeat_extends_and_never_shortens() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let now = bench.now;
    assert_eq!(
        task::heartbeat(&mut bench.file, &caller, 30_000, now),
        Ok(now + 30_000)
    );
    assert_eq!(
        task::heartbeat(&mut bench.file, &caller, 1_000, now),
        Ok(now + 30_000)
    );
    let late = bench.later(&caller, 30_000);
    let code = task::heartbeat(&mut bench.file, &late, 1_000, bench.now)
        .unwrap_err()
        .code;
    assert_eq!(code, "LEASE_EXPIRED");
}

#[test]
fn d33_a_lost_lease_goes_on_in_the_same_attempt() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    bench.send(&first, read(1)).unwrap();
    bench.now += LOCK_MS;
    let second = bench.lease("w2");
    bench.send(&second, read(1)).unwrap();
    bench.send(&second, done(read(1), Value::Null)).unwrap();
    assert_eq!(
        (bench.file.task.attempt, bench.state(1)),
        (1, StepState::Completed)
    );
}

#[test]
fn five_expiries_in_a_row_end_in_an_incident() {
    let mut bench = Bench::new();
    for _ in 0..5 {
        bench.lease("w1");
        assert_eq!(task::lapse_at(&bench.file), None);
        bench.now += LOCK_MS;
    }
    bench.lease("w1");
    assert_eq!(bench.file.task.expiries, 5);
    assert_eq!(task::claimable_at(&bench.file), None);
    assert_eq!(task::lapse_at(&bench.file), Some(bench.now + 2 * LOCK_MS));
    bench.now += 2 * LOCK_MS;
    assert!(matches!(bench.lapse(), LapseOutcome::BudgetUsedUp(_)));
    assert_eq!(
        (bench.status(), bench.incidents()[0].code.as_str()),
        (TaskState::Incident, "LEASE_EXPIRY")
    );
    let (now, incident) = (bench.now, bench.file.task.incident().unwrap());
    assert_eq!(task::retry(&mut bench.file, incident, now), Ok(true));
    assert_eq!(
        (bench.status(), bench.file.task.expiries, bench.file.task.attempt),
        (TaskState::Open, 0, 2)
    );
}

#[test]
fn a_settled_step_or_a_lease_given_back_breaks_the_row_of_expiries() {
    let mut bench = Bench::new();
    bench.lease("w1");
    bench.now += LOCK_MS;
    let caller = bench.lease("w1");
    assert_eq!(bench.file.task.expiries, 1);
    bench.send(&caller, read(1)).unwrap();
    bench.send(&caller, done(read(1), Value::Null)).unwrap();
    assert_eq!(bench.file.task.expiries, 0);
    bench.now += LOCK_MS;
    bench.lease("w1");
    assert_eq!(bench.file.task.expiries, 1);
    let now = bench.now;
    task::unlock(&mut bench.file, now);
    assert_eq!((bench.file.task.expiries, bench.status()), (0, TaskState::Open));
}

#[test]
fn a_park_with_nothing_left_to_do_gives_the_lease_back_and_is_repeatable() {
    let mut bench = Bench::handler();
    let caller = bench.lease("w1");
    let steps = vec![
        checkpoint(1, false),
        wait(2, 60_000),
        done(checkpoint(1, false), Value::Null),
    ];
    let answer = bench.batch(&caller, steps).unwrap();
    assert!(answer.parked, "the engine parks by itself");
    assert_eq!(
        task::park(&mut bench.file, &caller, bench.now).unwrap_err().code,
        "LEASE_EXPIRED"
    );

    let mut bench = Bench::handler();
    let old = bench.lease("w1");
    bench
        .batch(&old, vec![checkpoint(1, false), wait(2, 60_000)])
        .unwrap();
    bench.now += LOCK_MS;
    let caller = bench.lease("w2");
    assert_eq!(
        task::park(&mut bench.file, &caller, bench.now),
        Ok(Parked::News(TaskState::Locked)),
        "work is granted"
    );
    bench
        .send(&old, done(checkpoint(1, false), Value::from(1)))
        .unwrap();
    assert_eq!(
        task::park(&mut bench.file, &caller, bench.now),
        Ok(Parked::News(TaskState::Locked)),
        "it settled meanwhile"
    );
    for _ in 0..2 {
        assert_eq!(
            task::park(&mut bench.file, &caller, bench.now),
            Ok(Parked::Parked(TaskState::AwaitingTimer))
        );
    }
    assert_eq!(bench.file.task.lease, None);
}

#[test]
fn a_park_when_nothing_waits_is_news() {
    let mut bench = Bench::handler();
    let caller = bench.lease("w1");
    assert_eq!(
        task::park(&mut bench.file, &caller, bench.now),
        Ok(Parked::News(TaskState::Locked))
    );
}

#[test]
fn d30_the_first_wait_that_applies_is_shown() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let steps = vec![
        wait(1, 60_000),
        delegation(2, "refund_payout", refund()),
        tool(3, "pay/transfer", Value::map([("amount", 900)])),
    ];
    bench.batch(&caller, steps).unwrap();
    assert_eq!(bench.status(), TaskState::AwaitingApproval);
    assert_eq!(task::waiting_for(&bench.file).len(), 3);
    bench.decide_step(3, false, Some("no")).unwrap();
    assert_eq!(bench.status(), TaskState::AwaitingChild);
    let child = bench.step(2).child.clone().unwrap();
    bench.child_ends(&child, &completed(&[]));
    assert_eq!(bench.status(), TaskState::AwaitingTimer);
}

#[test]
fn a_lease_given_back_over_a_started_unkeyed_write_waits_for_its_result_or_its_lapse() {
    let write = || tool(1, "crm/create_ticket", Value::map([("text", "late")]));
    for result_comes in [true, false] {
        let mut bench = Bench::new();
        let caller = bench.lease("w1");
        bench.send(&caller, write()).unwrap();
        let now = bench.now;
        task::unlock(&mut bench.file, now);
        assert_eq!(bench.code(&caller, read(2)), "LEASE_EXPIRED");
        assert_eq!(task::claimable_at(&bench.file), None);
        assert_eq!(task::lapse_at(&bench.file), Some(now + LOCK_MS));
        if result_comes {
            bench.send(&caller, done(write(), Value::from("T-1"))).unwrap();
            assert!(task::claimable_at(&bench.file).is_some());
        } else {
            bench.now += LOCK_MS;
            assert!(matches!(bench.lapse(), LapseOutcome::Unknown(_)));
            assert_eq!(bench.state(1), StepState::OutcomeUnknown);
        }
    }
}

#[test]
fn two_writes_in_doubt_hold_the_task_until_both_are_resolved() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let write = |n: u32| tool(n, "crm/create_ticket", Value::map([("text", n)]));
    bench.batch(&caller, vec![write(1), write(2)]).unwrap();
    bench.now += 2 * LOCK_MS;
    assert!(matches!(bench.lapse(), LapseOutcome::Unknown(unknown) if unknown.len() == 2));
    bench.resolve(1, true, None).unwrap();
    assert_eq!(bench.status(), TaskState::Incident);
    let (now, incident) = (bench.now, bench.file.task.incident().unwrap());
    assert_eq!(
        task::retry(&mut bench.file, incident, now).unwrap_err().code,
        "OUTCOME_UNKNOWN"
    );
    bench.resolve(2, false, None).unwrap();
    assert_eq!(bench.status(), TaskState::Open);
}

/// Core §3: each incident is resolved by itself, in any order, and the task goes on when none holds it.
#[test]
fn a_task_held_twice_goes_on_when_both_incidents_are_over() {
    for unknown_first in [true, false] {
        let mut bench = Bench::new();
        bench.agent.max_steps = 2;
        let caller = bench.lease("w1");
        let write = tool(1, "crm/create_ticket", Value::map([("text", 1)]));
        bench.batch(&caller, vec![write.clone(), read(2)]).unwrap();
        bench
            .send(&caller, with(write, StepState::OutcomeUnknown, None))
            .unwrap();
        bench.send(&caller, done(read(2), Value::Null)).unwrap();
        let unknown = bench.file.task.incident().unwrap();
        // A second reason to hold it, while the first stands.
        let caller = bench.lease("w2");
        let limit = bench.batch(&caller, vec![read(3)]).unwrap();
        assert_eq!(limit.refusal.unwrap().code, "STEP_LIMIT");
        assert_eq!(bench.incidents().len(), 2, "both are visible");
        let held = bench.file.task.incident().unwrap();
        assert_ne!(held, unknown);
        let now = bench.now;
        assert_eq!(
            task::retry(&mut bench.file, unknown, now).unwrap_err().code,
            "OUTCOME_UNKNOWN"
        );
        if unknown_first {
            bench.resolve(1, true, None).unwrap();
            assert_eq!(
                (bench.status(), task::claimable_at(&bench.file)),
                (TaskState::Incident, None)
            );
            assert_eq!(task::retry(&mut bench.file, held, now), Ok(true));
        } else {
            assert_eq!(
                task::retry(&mut bench.file, held, now),
                Ok(false),
                "the other still holds it"
            );
            assert_eq!(
                (bench.status(), task::claimable_at(&bench.file)),
                (TaskState::Incident, None)
            );
            bench.resolve(1, true, None).unwrap();
        }
        assert_eq!(bench.status(), TaskState::Open);
        assert!(task::claimable_at(&bench.file).is_some());
    }
}

#[test]
fn a_retired_task_closes_every_incident_that_held_it() {
    let mut bench = Bench::new();
    bench.agent.max_steps = 1;
    let caller = bench.lease("w1");
    let write = tool(1, "crm/create_ticket", Value::map([("text", 1)]));
    bench.send(&caller, write.clone()).unwrap();
    bench
        .send(&caller, with(write, StepState::OutcomeUnknown, None))
        .unwrap();
    let caller = bench.lease("w2");
    bench.batch(&caller, vec![read(2)]).unwrap();
    let now = bench.now;
    bench.decide(|_, file, numbers, out| {
        task::retire(file, task::TaskOutcome::Cancelled, "cancelled", now, numbers, out)
    });
    assert!(bench.file.task.incidents.is_empty());
    let closed = |id: &str| {
        let ends =
            |effect: &&Effect| matches!(effect, Effect::CloseIncident { id: closed, .. } if closed == id);
        bench.effects.iter().filter(ends).count()
    };
    for incident in bench.incidents().iter().filter(|incident| !incident.notice) {
        assert_eq!(closed(&incident.id), 1, "{incident:?}");
    }
}

/// Core §2, "Group commit": a lease is judged at the call's arrival and, if nobody took the task since, by its
/// number, also when the engine ended it while the call was queued.
#[test]
fn a_call_that_arrived_before_the_engine_ended_its_lease_still_counts() {
    for ends in ["lapse", "unlock"] {
        let mut bench = Bench::new();
        for _ in 0..5 {
            bench.lease("w1");
            bench.now += LOCK_MS;
        }
        let caller = bench.lease("w1");
        let live = Caller {
            arrived_at: bench.now + 1,
            ..caller.clone()
        };
        let until = bench.now + LOCK_MS;
        let late = if ends == "lapse" {
            bench.now += 2 * LOCK_MS;
            assert!(matches!(bench.lapse(), LapseOutcome::BudgetUsedUp(_)));
            Caller {
                arrived_at: until,
                ..caller.clone()
            }
        } else {
            bench.now += 2;
            let now = bench.now;
            task::unlock(&mut bench.file, now);
            Caller {
                arrived_at: now,
                ..caller.clone()
            }
        };
        assert_eq!(bench.file.task.lease, None);
        assert_eq!(
            task::check_lease(&bench.file, &late).unwrap_err().code,
            "LEASE_EXPIRED",
            "{ends}"
        );
        let other = Caller {
            worker: "w2".to_owned(),
            ..live.clone()
        };
        assert_eq!(
            task::check_lease(&bench.file, &other).unwrap_err().code,
            "LEASE_NOT_OWNED",
            "{ends}"
        );
        assert_eq!(task::check_lease(&bench.file, &live), Ok(()), "{ends}");

        let before = bench.file.clone();
        let answer = bench.batch(&live, vec![read(1)]).unwrap();
        assert!(
            answer.live && answer.steps[0].arguments.is_some(),
            "{ends}: the step is granted"
        );
        assert!(
            bench.file.task.lease.is_some(),
            "{ends}: what is granted is under a lease"
        );
        bench.file = before;

        let mut taken = bench.file.clone();
        task::take(&mut taken.task, "w2", "key-2", "other", LOCK_MS, bench.now);
        assert_eq!(
            task::check_lease(&taken, &live).unwrap_err().code,
            "LEASE_EXPIRED",
            "{ends}: taken since"
        );
    }
}

#[test]
fn a_lease_that_its_worker_gave_back_is_not_called_back() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let now = bench.now;
    task::close(&mut bench.file, &caller, "release", &Value::Null, TaskState::Open);
    let before = Caller {
        arrived_at: now - 1,
        ..caller
    };
    assert_eq!(
        task::check_lease(&bench.file, &before).unwrap_err().code,
        "LEASE_EXPIRED"
    );
}
