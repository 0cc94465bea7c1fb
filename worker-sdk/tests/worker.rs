//! The worker loop against an engine with scripted answers on a real port.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/engine.rs"]
mod engine;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use engine::Engine;
use legation_worker::durable::Ctx;
use legation_worker::{CancellationToken, Client, Error, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payout {
    order_id: String,
    amount: Box<serde_json::value::RawValue>,
}

#[derive(Serialize)]
struct Paid {
    payout_id: String,
}

struct Running {
    shutdown: CancellationToken,
    ended: JoinHandle<Result<(), Error>>,
}

impl Running {
    async fn stop(self) -> Result<(), Error> {
        self.shutdown.cancel();
        tokio::time::timeout(Duration::from_secs(20), self.ended)
            .await
            .expect("the worker stops")
            .unwrap()
    }
}

fn worker(engine: &Engine) -> Worker {
    Worker::new(Client::new(&engine.url, "secret\n").unwrap(), "w1")
}

fn start(worker: Worker) -> Running {
    let shutdown = CancellationToken::new();
    Running {
        ended: tokio::spawn(worker.run(shutdown.clone())),
        shutdown,
    }
}

fn problem(status: u16, code: &str) -> (u16, Value) {
    (
        status,
        json!({ "type": "about:blank", "title": "no", "status": status, "code": code }),
    )
}

#[tokio::test]
async fn d46b_a_worker_in_ten_lines_gets_typed_variables_and_the_key_and_completes() {
    let engine = Engine::start().await;
    engine.offer(
        "payments.payout",
        "r.t1",
        json!({ "orderId": "5531", "amount": 89.10 }),
    );
    let running = start(
        worker(&engine).topic("payments.payout", |task: Task<Payout>| async move {
            let Payout { order_id, amount } = &task.variables;
            Ok::<_, TaskError>(Paid {
                payout_id: format!(
                    "{order_id} {} {} {} {}",
                    amount.get(),
                    task.id,
                    task.idempotency_key,
                    task.attempt
                ),
            })
        }),
    );
    let complete = engine.called("complete", 1).await.remove(0);
    running.stop().await.unwrap();
    assert_eq!(complete.lease, "r.t1~1-abc");
    assert_eq!(complete.authorization, "Bearer secret");
    assert!(
        complete
            .traceparent
            .unwrap()
            .starts_with("00-0af7651916cd43dd8448eb211c80319c-")
    );
    assert_eq!(
        complete.body,
        json!({ "workerId": "w1", "variables": { "payout_id": "5531 89.1 r.t1 key-of-r.t1 1" } })
    );
}

#[tokio::test]
async fn errors_of_a_handler_become_the_calls_that_they_stand_for() {
    let engine = Engine::start().await;
    let running = start(
        worker(&engine)
            .concurrency(1)
            .topic("t", |task: Task<Value>| async move {
                match task.variables["do"].as_str() {
                    Some("business") => Err(TaskError::business("SOLD_OUT", "nothing left")),
                    Some("permanent") => Err(TaskError::permanent("never works")),
                    Some("defer") => Err(TaskError::defer(Duration::from_secs(2), "closed today")),
                    Some("io") => Err(std::io::Error::other("disk on fire"))?,
                    Some("panic") => panic!("lost my head"),
                    _ => Ok(()),
                }
            }),
    );
    for kind in ["business", "permanent", "defer", "io", "panic"] {
        engine.offer("t", kind, json!({ "do": kind }));
    }
    let error = engine.called("error", 1).await.remove(0).body;
    assert_eq!(
        error,
        json!({ "workerId": "w1", "code": "SOLD_OUT", "message": "nothing left" })
    );
    let release = engine.called("release", 1).await.remove(0).body;
    assert_eq!(
        release,
        json!({ "workerId": "w1", "afterMs": 2000, "reason": "closed today" })
    );
    let failures: Vec<Value> = engine
        .called("failure", 3)
        .await
        .into_iter()
        .map(|call| call.body)
        .collect();
    running.stop().await.unwrap();
    assert_eq!(
        failures[0],
        json!({ "workerId": "w1", "message": "never works", "retryable": false })
    );
    assert_eq!(
        failures[1],
        json!({ "workerId": "w1", "message": "disk on fire" })
    );
    assert_eq!(
        failures[2],
        json!({ "workerId": "w1", "message": "the handler panicked: lost my head" })
    );
    assert!(engine.calls("complete").is_empty());
}

#[tokio::test]
async fn b7_variables_that_do_not_fit_the_handler_fail_for_good() {
    let engine = Engine::start().await;
    engine.offer("t", "r.t1", json!({ "orderId": 5531 }));
    let running = start(worker(&engine).topic("t", |_: Task<Payout>| async move { Ok::<_, TaskError>(()) }));
    let failure = engine.called("failure", 1).await.remove(0).body;
    running.stop().await.unwrap();
    assert_eq!(failure["retryable"], false);
    assert!(
        failure["message"]
            .as_str()
            .unwrap()
            .starts_with("the task's variables do not fit the handler")
    );
}

#[tokio::test]
async fn heartbeats_go_out_while_the_handler_runs() {
    let engine = Engine::start().await;
    engine.offer("t", "r.t1", json!({}));
    let go_on = Arc::new(Notify::new());
    let waits = Arc::clone(&go_on);
    let running = start(worker(&engine).lock_duration(Duration::from_millis(90)).topic(
        "t",
        move |_: Task<Value>| {
            let waits = Arc::clone(&waits);
            async move {
                waits.notified().await;
                Ok::<_, TaskError>(())
            }
        },
    ));
    let beats = engine.called("heartbeat", 3).await;
    assert_eq!(beats[0].body, json!({ "workerId": "w1", "lockDuration": 90 }));
    assert!(engine.calls("complete").is_empty());
    go_on.notify_one();
    engine.called("complete", 1).await;
    running.stop().await.unwrap();
}

/// The answer is lost, not the call: the same completion goes out again.
#[tokio::test]
async fn d32_a_completion_without_an_answer_is_sent_again_unchanged() {
    let engine = Engine::start().await;
    engine.script(
        "complete",
        &[
            problem(503, "UNAVAILABLE"),
            (502, json!("a proxy's page")),
            problem(429, "BUSY"),
        ],
    );
    engine.offer("t", "r.t1", json!({}));
    let runs = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&runs);
    let running = start(worker(&engine).topic("t", move |_: Task<Value>| {
        counted.fetch_add(1, Ordering::Relaxed);
        async move { Ok::<_, TaskError>(json!({ "payout_id": "P-1" })) }
    }));
    let calls = engine.called("complete", 4).await;
    running.stop().await.unwrap();
    assert!(
        calls
            .iter()
            .all(|call| call.body == calls[0].body && call.lease == calls[0].lease)
    );
    assert_eq!(runs.load(Ordering::Relaxed), 1);
    assert!(engine.calls("failure").is_empty());
}

/// B9, D36: whichever way the lease ends, the handler is told and its result goes nowhere.
#[tokio::test]
async fn b9_retired_and_foreign_leases_cancel_the_handler_and_drop_its_result() {
    for (status, code) in [
        (410, "WORK_RETIRED"),
        (409, "LEASE_EXPIRED"),
        (403, "LEASE_NOT_OWNED"),
    ] {
        let engine = Engine::start().await;
        engine.script("heartbeat", &[problem(status, code)]);
        engine.offer("t", "r.t1", json!({}));
        let told = Arc::new(Semaphore::new(0));
        let tells = Arc::clone(&told);
        let running = start(worker(&engine).lock_duration(Duration::from_millis(30)).topic(
            "t",
            move |task: Task<Value>| {
                let tells = Arc::clone(&tells);
                async move {
                    task.cancelled.cancelled().await;
                    tells.add_permits(1);
                    Ok::<_, TaskError>(())
                }
            },
        ));
        told.acquire().await.unwrap().forget();
        running.stop().await.unwrap();
        for verb in ["complete", "failure", "release"] {
            assert!(engine.calls(verb).is_empty(), "{verb} after {code}");
        }
    }
}

#[tokio::test]
async fn a_result_that_the_engine_refuses_is_reported_as_a_failure() {
    let engine = Engine::start().await;
    engine.script("complete", &[problem(422, "VARIABLE_LOCKED")]);
    engine.offer("t", "r.t1", json!({}));
    let running = start(worker(&engine).topic("t", |_: Task<Value>| async move {
        Ok::<_, TaskError>(json!({"a": 1}))
    }));
    let failure = engine.called("failure", 1).await.remove(0).body;
    running.stop().await.unwrap();
    assert_eq!(failure["code"], "VARIABLE_LOCKED");
    assert_eq!(failure["retryable"], false);
}

#[tokio::test]
async fn a_completion_that_comes_too_late_is_not_turned_into_a_failure() {
    let engine = Engine::start().await;
    engine.script("complete", &[problem(410, "WORK_RETIRED")]);
    engine.offer("t", "r.t1", json!({}));
    let running = start(worker(&engine).topic("t", |_: Task<Value>| async move { Ok::<_, TaskError>(()) }));
    engine.called("complete", 1).await;
    running.stop().await.unwrap();
    assert!(engine.calls("failure").is_empty());
}

#[tokio::test]
async fn no_more_tasks_are_asked_for_than_places_are_free() {
    let engine = Engine::start().await;
    let go_on = Arc::new(Semaphore::new(0));
    let (waits, now, most) = (
        Arc::clone(&go_on),
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicUsize::new(0)),
    );
    let (counted, peak) = (Arc::clone(&now), Arc::clone(&most));
    let running = start(worker(&engine).concurrency(3).topic("t", move |_: Task<Value>| {
        let (waits, now, most) = (Arc::clone(&waits), Arc::clone(&counted), Arc::clone(&peak));
        async move {
            most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            waits.acquire().await?.forget();
            now.fetch_sub(1, Ordering::SeqCst);
            Ok::<_, TaskError>(())
        }
    }));
    engine.called("fetch-and-lock", 1).await;
    for n in 0..9 {
        engine.offer("t", &format!("r.t{n}"), json!({}));
    }
    go_on.add_permits(9);
    engine.called("complete", 9).await;
    running.stop().await.unwrap();
    assert_eq!(engine.calls("fetch-and-lock")[0].body["maxTasks"], 3);
    assert!(
        engine
            .calls("fetch-and-lock")
            .iter()
            .all(|call| call.body["maxTasks"].as_u64().unwrap() <= 3)
    );
    assert!(most.load(Ordering::SeqCst) <= 3);
}

#[tokio::test]
async fn b20_an_engine_that_is_away_is_asked_again_and_one_that_refuses_ends_the_worker() {
    let engine = Engine::start().await;
    engine.script(
        "fetch-and-lock",
        &[problem(503, "UNAVAILABLE"), problem(429, "BUSY")],
    );
    engine.offer("t", "r.t1", json!({}));
    let running = start(worker(&engine).topic("t", |_: Task<Value>| async move { Ok::<_, TaskError>(()) }));
    engine.called("complete", 1).await;
    running.stop().await.unwrap();

    engine.script("fetch-and-lock", &[problem(401, "UNAUTHENTICATED")]);
    let refused = start(worker(&engine).topic("t", |_: Task<Value>| async move { Ok::<_, TaskError>(()) }));
    let error = refused.ended.await.unwrap().unwrap_err();
    assert_eq!(error.code(), Some("UNAUTHENTICATED"));
    assert!(!error.retry_helps());
}

#[tokio::test]
async fn a_shutdown_takes_no_new_work_and_lets_running_work_end() {
    let engine = Engine::start().await;
    engine.offer("t", "r.t1", json!({}));
    let begun = Arc::new(Semaphore::new(0));
    let go_on = Arc::new(Semaphore::new(0));
    let (begins, waits) = (Arc::clone(&begun), Arc::clone(&go_on));
    let running = start(worker(&engine).topic("t", move |_: Task<Value>| {
        let (begins, waits) = (Arc::clone(&begins), Arc::clone(&waits));
        async move {
            begins.add_permits(1);
            waits.acquire().await?.forget();
            Ok::<_, TaskError>(())
        }
    }));
    begun.acquire().await.unwrap().forget();
    running.shutdown.cancel();
    go_on.add_permits(1);
    running.stop().await.unwrap();
    assert_eq!(engine.calls("complete").len(), 1);
    assert!(engine.calls("release").is_empty());
}

#[tokio::test]
async fn work_that_a_shutdown_cannot_wait_for_is_cancelled_and_handed_back() {
    let engine = Engine::start().await;
    engine.offer("t", "r.t1", json!({}));
    let begun = Arc::new(Semaphore::new(0));
    let begins = Arc::clone(&begun);
    let patience = Duration::from_millis(50);
    let running = start(worker(&engine).drain(patience).cancel_grace(patience).topic(
        "t",
        move |_: Task<Value>| {
            let begins = Arc::clone(&begins);
            async move {
                begins.add_permits(1);
                std::future::pending::<()>().await;
                Ok::<_, TaskError>(())
            }
        },
    ));
    begun.acquire().await.unwrap().forget();
    running.stop().await.unwrap();
    let released = engine.calls("release");
    assert_eq!(released.len(), 1);
    assert_eq!(
        released[0].body,
        json!({ "workerId": "w1", "reason": "the worker stops" })
    );
}

#[tokio::test]
async fn a_durable_topic_journals_its_steps_and_completes() {
    let engine = Engine::start().await;
    engine.offer("t", "r.t1", json!({ "n": 20 }));
    let running = start(
        worker(&engine).durable_topic("t", |ctx: Ctx, task: Task<Value>| async move {
            let n = task.variables["n"].as_u64().unwrap_or(0);
            let more = ctx.step("add", || async move { Ok::<_, String>(n + 1) }).await?;
            Ok(json!({ "sum": more }))
        }),
    );
    let complete = engine.called("complete", 1).await.remove(0).body;
    running.stop().await.unwrap();
    assert_eq!(complete["variables"], json!({ "sum": 21 }));
    let sent: Vec<Value> = engine.calls("steps").into_iter().map(|call| call.body).collect();
    assert_eq!(
        sent,
        [
            json!({ "workerId": "w1", "attempt": 1, "steps": [{ "sequence": 1, "kind": "CHECKPOINT", "state": "STARTED",
                "toolRef": "step:add", "request": { "once": false } }] }),
            json!({ "workerId": "w1", "attempt": 1, "steps": [{ "sequence": 1, "kind": "CHECKPOINT", "state": "COMPLETED",
                "toolRef": "step:add", "result": 21 }] }),
        ]
    );
}

#[tokio::test]
async fn a_durable_topic_that_the_engine_parked_sends_no_closing_call() {
    let engine = Engine::start().await;
    let parked = json!({
        "steps": [{ "sequence": 1, "kind": "DELEGATION", "state": "STARTED", "childInstanceId": "root.i4" }],
        "task": { "state": "AWAITING_CHILD", "waitingFor": [{ "kind": "CHILD", "sequence": 1, "id": "root.i4" }] },
    });
    engine.script("steps", &[(200, parked)]);
    engine.offer("t", "r.t1", json!({}));
    let running = start(
        worker(&engine).durable_topic("t", |ctx: Ctx, _: Task<Value>| async move {
            Ok(ctx
                .delegate::<Value, _>("refund_payout", &json!({ "orderId": "5531" }))
                .await?)
        }),
    );
    engine.called("steps", 1).await;
    running.stop().await.unwrap();
    for verb in ["complete", "failure", "release", "error"] {
        assert!(engine.calls(verb).is_empty(), "{verb} after parking");
    }
}
