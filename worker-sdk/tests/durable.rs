//! The durable context against a journal in memory: replay, order, parking, divergence (core §4, I5, I8).
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/journal.rs"]
mod journal;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use journal::FakeJournal;
use legation_protocol::steps::StepView;
use legation_protocol::{StepState, to_json};
use legation_worker::TaskError;
use legation_worker::durable::{Ctx, Ended, Options, run};
use serde_json::{Value, json};
use tokio::sync::oneshot;

type Answer = Result<String, TaskError>;

async fn once_more<F, Fut>(journal: &FakeJournal, handler: F) -> Ended<String>
where
    F: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Answer> + Send,
{
    run(journal, journal.steps(), Options::default(), handler)
        .await
        .unwrap()
}

fn done(ended: Ended<String>) -> String {
    match ended {
        Ended::Done(answer) => answer.unwrap(),
        Ended::Parked => panic!("parked"),
        Ended::Diverged(why) => panic!("diverged: {why}"),
    }
}

/// The target of every step in the order of sequence.
fn names(journal: &FakeJournal) -> Vec<String> {
    journal.steps().into_iter().map(|step| step.tool_ref).collect()
}

/// Two branches; what each does second depends on nothing but its own first call.
async fn two_branches(ctx: Ctx) -> Answer {
    let left = async {
        let a: Value = ctx.delegate("a", &json!({})).await?;
        ctx.step("after_a", || async { Ok::<_, String>(a["n"].clone()) })
            .await
    };
    let right = async {
        let b: Value = ctx.delegate("b", &json!({})).await?;
        ctx.step("after_b", || async { Ok::<_, String>(b["n"].clone()) })
            .await
    };
    let (left, right) = futures::join!(left, right);
    Ok(format!("{} {}", left?, right?))
}

async fn b_settles_before_a() -> FakeJournal {
    let journal = FakeJournal::default();
    assert!(matches!(once_more(&journal, two_branches).await, Ended::Parked));
    journal.with(|kept| kept.settle(2, StepState::Completed, json!({ "n": 2 })));
    journal.with(|kept| kept.settle(1, StepState::Completed, json!({ "n": 1 })));
    assert_eq!(done(once_more(&journal, two_branches).await), "1 2");
    journal
}

#[tokio::test]
async fn parallel_calls_replay_in_the_order_in_which_they_settled() {
    let journal = b_settles_before_a().await;
    let order = ["delegate:a", "delegate:b", "step:after_b", "step:after_a"];
    assert_eq!(
        names(&journal),
        order,
        "b settled first, so the code went on there first"
    );
    let records = journal.with(|kept| kept.records);
    assert_eq!(done(once_more(&journal, two_branches).await), "1 2");
    assert_eq!(
        journal.with(|kept| kept.records),
        records,
        "a replay of finished steps sends nothing"
    );
}

/// The same journal read in the order of sequence: the code would go on in the other branch, and ask for other steps.
#[tokio::test]
async fn a_replay_in_the_order_of_sequence_would_diverge() {
    let journal = b_settles_before_a().await;
    let naive: Vec<StepView> = journal
        .steps()
        .into_iter()
        .map(|step| StepView {
            settled: Some(step.sequence),
            ..step
        })
        .collect();
    let ended = run(&journal, naive, Options::default(), two_branches)
        .await
        .unwrap();
    let Ended::Diverged(why) = ended else {
        panic!("the naive order went unnoticed: {ended:?}")
    };
    assert!(
        why.starts_with("step 3 is recorded as Checkpoint `step:after_b`"),
        "{why}"
    );
}

/// The engine settles a child by itself, just before it takes in a result of the worker. The worker hears of its own
/// result first, and must not let the handler see it first.
#[tokio::test]
async fn a_child_that_settled_unseen_reaches_the_handler_before_the_step_that_settled_after_it() {
    async fn handler(ctx: Ctx, seen: Arc<Mutex<Vec<&'static str>>>) -> Answer {
        let child = async {
            ctx.delegate::<Value, _>("child", &json!({})).await?;
            seen.lock().unwrap().push("child");
            ctx.step("after_child", || async { Ok::<_, String>(()) }).await
        };
        let own = async {
            ctx.step("own", || async { Ok::<_, String>(()) }).await?;
            seen.lock().unwrap().push("own");
            ctx.step("after_own", || async { Ok::<_, String>(()) }).await
        };
        let (child, own) = futures::join!(child, own);
        child?;
        own?;
        Ok("both".to_owned())
    }
    let journal = FakeJournal::default();
    let mut calls = 0;
    journal.before_record(move |kept| {
        calls += 1;
        if calls == 2 {
            kept.settle(1, StepState::Completed, json!({}));
        }
    });
    let live = Arc::new(Mutex::new(Vec::new()));
    assert_eq!(
        done(once_more(&journal, |ctx| handler(ctx, Arc::clone(&live))).await),
        "both"
    );
    assert_eq!(*live.lock().unwrap(), ["child", "own"]);
    assert_eq!(
        names(&journal),
        ["delegate:child", "step:own", "step:after_child", "step:after_own"]
    );
    let replayed = Arc::new(Mutex::new(Vec::new()));
    assert_eq!(
        done(once_more(&journal, |ctx| handler(ctx, Arc::clone(&replayed))).await),
        "both"
    );
    assert_eq!(*replayed.lock().unwrap(), ["child", "own"]);
}

/// Steps that run at the same time, finished in the other order than they were begun.
#[tokio::test]
async fn steps_run_at_the_same_time_and_go_on_in_the_order_in_which_they_end() {
    let journal = FakeJournal::default();
    let (first, first_may) = oneshot::channel::<()>();
    let handler = |ctx: Ctx| async move {
        let slow = async {
            ctx.step("slow", || async { first_may.await.map_err(|_| "never told") })
                .await?;
            ctx.step("after_slow", || async { Ok::<_, String>(()) }).await
        };
        let fast = async {
            ctx.step("fast", || async { Ok::<_, String>(()) }).await?;
            ctx.step("after_fast", || async {
                first.send(()).map_err(|()| "nobody waits")
            })
            .await
        };
        let (slow, fast) = futures::join!(slow, fast);
        slow?;
        fast?;
        Ok("both".to_owned())
    };
    assert_eq!(done(once_more(&journal, handler).await), "both");
    assert_eq!(
        names(&journal),
        ["step:slow", "step:fast", "step:after_fast", "step:after_slow"]
    );
}

#[tokio::test]
async fn a_finished_step_is_not_run_again_and_a_cut_off_one_is() {
    let runs = Arc::new([AtomicU32::new(0), AtomicU32::new(0)]);
    let handler = |ctx: Ctx, runs: Arc<[AtomicU32; 2]>| async move {
        let one: u32 = ctx
            .step("one", || async {
                Ok::<_, String>(runs[0].fetch_add(1, Ordering::Relaxed) + 1)
            })
            .await?;
        let two: u32 = ctx
            .step("two", || async {
                Ok::<_, String>(runs[1].fetch_add(1, Ordering::Relaxed) + 1)
            })
            .await?;
        Ok(format!("{one} {two}"))
    };
    let journal = FakeJournal::default();
    // start one, its result, start two: the answer to that is lost, and the worker with it.
    journal.lose_answer_of_record(2);
    let cut = run(&journal, Vec::new(), Options::default(), |ctx| {
        handler(ctx, Arc::clone(&runs))
    })
    .await;
    assert!(cut.is_err_and(|error| error.retry_helps()));
    assert_eq!(journal.steps()[1].state, StepState::Started);
    assert_eq!(
        done(once_more(&journal, |ctx| handler(ctx, Arc::clone(&runs))).await),
        "1 1"
    );
    assert_eq!(
        done(once_more(&journal, |ctx| handler(ctx, Arc::clone(&runs))).await),
        "1 1"
    );
    assert_eq!(runs[0].load(Ordering::Relaxed), 1);
    assert_eq!(runs[1].load(Ordering::Relaxed), 1);
}

#[tokio::test]
async fn a_step_that_must_not_be_repeated_says_so_in_its_request() {
    let journal = FakeJournal::default();
    let handler = |ctx: Ctx| async move {
        ctx.step_once("pay", || async { Ok::<_, String>(()) }).await?;
        Ok(String::new())
    };
    done(once_more(&journal, handler).await);
    assert_eq!(
        journal.steps()[0].request.as_ref().unwrap().get(),
        r#"{"once":true}"#
    );
}

#[tokio::test]
async fn a_recorded_error_is_replayed_as_the_same_error() {
    let runs = Arc::new(AtomicU32::new(0));
    let handler = |ctx: Ctx, runs: Arc<AtomicU32>| async move {
        let work = || async {
            runs.fetch_add(1, Ordering::Relaxed);
            Err::<(), _>("the shelf is empty")
        };
        let error = ctx.step("reserve", work).await.unwrap_err();
        Ok(error.to_string())
    };
    let journal = FakeJournal::default();
    for _ in 0..2 {
        let said = done(once_more(&journal, |ctx| handler(ctx, Arc::clone(&runs))).await);
        assert_eq!(said, "the shelf is empty");
    }
    assert_eq!(runs.load(Ordering::Relaxed), 1);
}

/// D13: while a child or a wait is open nothing is held.
#[tokio::test]
async fn d13_a_child_and_a_wait_park_the_task_and_the_handler_goes_on_with_what_they_brought() {
    async fn handler(ctx: Ctx) -> Answer {
        ctx.wait(Duration::from_millis(1500)).await?;
        let paid: Value = ctx
            .delegate("refund_payout", &json!({ "orderId": "5531" }))
            .await?;
        Ok(paid["payout_id"].to_string())
    }
    let journal = FakeJournal::default();
    assert!(matches!(once_more(&journal, handler).await, Ended::Parked));
    assert_eq!(
        journal.steps()[0].request.as_ref().unwrap().get(),
        r#"{"durationMs":1500}"#
    );
    journal.with(|kept| kept.settle(1, StepState::Completed, Value::Null));
    assert!(matches!(once_more(&journal, handler).await, Ended::Parked));
    let request = journal.steps()[1].request.as_ref().unwrap().get().to_owned();
    assert_eq!(request, r#"{"arguments":{"orderId":"5531"}}"#);
    journal.with(|kept| kept.settle(2, StepState::Completed, json!({ "payout_id": "P-55" })));
    assert_eq!(done(once_more(&journal, handler).await), "\"P-55\"");
}

/// D16: a child that ended otherwise is an error with its actual status.
#[tokio::test]
async fn d16_a_child_that_did_not_complete_is_an_error_of_the_call() {
    async fn handler(ctx: Ctx) -> Answer {
        let error = ctx
            .delegate::<Value, _>("refund_payout", &json!({}))
            .await
            .unwrap_err();
        Ok(format!("{:?} {error}", error.state))
    }
    let journal = FakeJournal::default();
    assert!(matches!(once_more(&journal, handler).await, Ended::Parked));
    let sentence = "The delegated process ended CANCELLED; it returned nothing.";
    journal.with(|kept| kept.settle(1, StepState::Failed, json!(sentence)));
    assert_eq!(
        done(once_more(&journal, handler).await),
        format!("Failed {sentence}")
    );
}

#[tokio::test]
async fn changed_code_is_stopped_with_what_is_recorded_and_what_it_asks_for() {
    let journal = FakeJournal::default();
    let step = |name: &'static str| {
        move |ctx: Ctx| async move {
            ctx.step(name, || async { Ok::<_, String>(()) }).await?;
            Ok(String::new())
        }
    };
    done(once_more(&journal, step("reserve")).await);
    let Ended::Diverged(why) = once_more(&journal, step("book")).await else {
        panic!("went unnoticed")
    };
    assert_eq!(
        why,
        "step 1 is recorded as Checkpoint `step:reserve`, and the code asks for Checkpoint `step:book`"
    );
}

#[tokio::test]
async fn other_arguments_for_a_known_call_are_a_divergence_and_another_writing_of_them_is_none() {
    async fn handler(ctx: Ctx, arguments: Value) -> Answer {
        Ok(ctx.delegate::<Value, _>("a", &arguments).await?.to_string())
    }
    let journal = FakeJournal::default();
    let first = json!({ "amount": 1.0, "currency": "EUR" });
    assert!(matches!(
        once_more(&journal, |ctx| handler(ctx, first)).await,
        Ended::Parked
    ));
    journal.with(|kept| {
        kept.settle(1, StepState::Completed, json!(7));
        let canonical = json!({ "arguments": { "currency": "EUR", "amount": 1 } });
        kept.steps[0].request = Some(to_json(&canonical).unwrap());
    });
    let same = json!({ "currency": "EUR", "amount": 1.0 });
    assert_eq!(done(once_more(&journal, |ctx| handler(ctx, same)).await), "7");
    let other = json!({ "currency": "EUR", "amount": 2 });
    assert!(matches!(
        once_more(&journal, |ctx| handler(ctx, other)).await,
        Ended::Diverged(_)
    ));
}

#[tokio::test]
async fn a_recorded_call_that_the_code_does_not_make_any_more_is_a_divergence() {
    let journal = FakeJournal::default();
    let two = |ctx: Ctx| async move {
        ctx.step("one", || async { Ok::<_, String>(()) }).await?;
        ctx.step("two", || async { Ok::<_, String>(()) }).await?;
        Ok(String::new())
    };
    done(once_more(&journal, two).await);
    let stuck = |ctx: Ctx| async move {
        ctx.step("one", || async { Ok::<_, String>(()) }).await?;
        std::future::pending::<()>().await;
        Ok(String::new())
    };
    let Ended::Diverged(why) = once_more(&journal, stuck).await else {
        panic!("went unnoticed")
    };
    assert_eq!(
        why,
        "step 2 is recorded as Checkpoint `step:two`, and the code does not ask for it"
    );
}

/// No `OPEN_STEP` at the end: what the code dropped is settled before the task is completed.
#[tokio::test]
async fn a_step_that_the_code_drops_is_given_up_before_the_task_ends() {
    async fn handler(ctx: Ctx) -> Answer {
        let never = Box::pin(ctx.step("never", std::future::pending::<Result<(), String>>));
        let quick = Box::pin(ctx.step("quick", || async { Ok::<_, String>(7) }));
        match futures::future::select(never, quick).await {
            futures::future::Either::Left(_) => Ok("never".to_owned()),
            futures::future::Either::Right((quick, _)) => Ok(quick?.to_string()),
        }
    }
    let journal = FakeJournal::default();
    for _ in 0..2 {
        assert_eq!(done(once_more(&journal, handler).await), "7");
        let steps = journal.steps();
        assert_eq!(
            (steps[0].state, steps[1].state),
            (StepState::Failed, StepState::Completed)
        );
        assert_eq!(steps.len(), 2);
    }
}

#[tokio::test]
async fn an_answer_beside_an_open_child_waits_for_the_child() {
    async fn handler(ctx: Ctx) -> Answer {
        let nothing = json!({});
        let child = Box::pin(ctx.delegate::<Value, _>("audit", &nothing));
        let quick = Box::pin(ctx.step("quick", || async { Ok::<_, String>(7) }));
        match futures::future::select(child, quick).await {
            futures::future::Either::Left(_) => Ok("the child first".to_owned()),
            futures::future::Either::Right((quick, _)) => Ok(quick?.to_string()),
        }
    }
    let journal = FakeJournal::default();
    assert!(matches!(once_more(&journal, handler).await, Ended::Parked));
    journal.with(|kept| kept.settle(1, StepState::Completed, json!({})));
    assert_eq!(done(once_more(&journal, handler).await), "7");
}

/// Timers and I/O inside of steps need the runtime's turn between polls.
#[tokio::test]
async fn a_step_may_use_the_runtime_for_as_long_as_it_likes() {
    let journal = FakeJournal::default();
    let handler = |ctx: Ctx| async move {
        let (tx, mut rx) = tokio::sync::mpsc::channel::<u32>(1);
        let send = ctx.step("send", || async move {
            for n in 0..2000 {
                tx.send(n).await.map_err(|err| err.to_string())?;
            }
            Ok::<_, String>(())
        });
        let receive = ctx.step("receive", || async move {
            let mut sum = 0;
            while let Some(n) = rx.recv().await {
                sum += n;
            }
            Ok::<_, String>(sum)
        });
        let (sent, sum) = futures::join!(send, receive);
        sent?;
        Ok(sum?.to_string())
    };
    assert_eq!(done(once_more(&journal, handler).await), "1999000");
}
