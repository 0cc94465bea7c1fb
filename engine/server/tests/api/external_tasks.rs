//! Leases over the wire (D30–D32, D46b).

use serde_json::{Value, json};

use crate::support::{PAY, TestApp, bare};

const FETCH: &str = "/v1/external-tasks/fetch-and-lock";

async fn with_tasks(count: usize) -> TestApp {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    for amount in 0..count {
        app.start("pay", json!({ "amount": amount })).await;
    }
    app
}

#[tokio::test]
async fn d31_competing_workers_get_disjoint_tasks() {
    let app = with_tasks(4).await;
    let body = |worker: &str| json!({ "workerId": worker, "topics": ["payments.payout"], "maxTasks": 2 });
    let (a, b) = tokio::join!(
        app.post("payer", FETCH, body("a")),
        app.post("payer", FETCH, body("b"))
    );
    let (a, b) = (a.ok(), b.ok());
    let mut ids: Vec<String> = [a, b]
        .iter()
        .flat_map(|answer| answer["tasks"].as_array().cloned().unwrap_or_default())
        .map(|task| bare(&task))
        .collect();
    assert_eq!(ids.len(), 4);
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 4);
    assert_eq!(
        app.post("payer", FETCH, body("c")).await.ok(),
        json!({ "tasks": [] })
    );
}

#[tokio::test]
async fn d31_a_long_poll_gets_work_that_comes_in_and_ends_empty_without() {
    let app = with_tasks(0).await;
    let body = json!({ "workerId": "a", "topics": ["payments.payout"], "longPollMs": 30_000,
        "lockDuration": 600_000 });
    let poll = app.post("payer", FETCH, body.clone());
    let start = async {
        while app.app.shared().wake.polls() == 0 {
            tokio::task::yield_now().await;
        }
        app.start("pay", json!({ "amount": 1 })).await
    };
    let (answer, id) = tokio::join!(poll, start);
    assert_eq!(answer.ok()["tasks"][0]["instanceId"], id);
    let poll = app.post("payer", FETCH, body);
    let pass = async {
        while app.app.shared().wake.polls() == 0 {
            tokio::task::yield_now().await;
        }
        app.advance(29_999);
        app.get("dev", "/v1/me").await.ok();
        app.advance(1);
    };
    let (answer, ()) = tokio::join!(poll, pass);
    assert_eq!(answer.ok(), json!({ "tasks": [] }));
}

#[tokio::test]
async fn d31_a_client_that_goes_away_takes_no_task_with_it() {
    let app = with_tasks(0).await;
    let body = json!({ "workerId": "a", "topics": ["payments.payout"], "longPollMs": 30_000 });
    let mut poll = Box::pin(app.post("payer", FETCH, body));
    while app.app.shared().wake.polls() == 0 {
        let waited = futures::future::select(&mut poll, Box::pin(tokio::task::yield_now())).await;
        assert!(matches!(waited, futures::future::Either::Right(_)));
    }
    drop(poll);
    app.start("pay", json!({ "amount": 1 })).await;
    assert!(app.fetch("payer", "payments.payout").await.is_some());
}

#[tokio::test]
async fn d31_an_expired_lease_is_leased_again_in_the_same_attempt() {
    let app = with_tasks(1).await;
    let first = app.fetch("payer", "payments.payout").await.expect("a task");
    assert_eq!(first["lockedUntil"], "2026-11-30T06:00:30.000Z");
    assert!(app.fetch("payer", "payments.payout").await.is_none());
    app.advance(30_001);
    let second = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the task again");
    assert_eq!((&second["attempt"], bare(&second)), (&json!(1), bare(&first)));
    // D46b: equal over leases.
    assert_eq!(first["idempotencyKey"], second["idempotencyKey"]);
    assert_eq!(second["idempotencyKey"].as_str().map(str::len), Some(64));
}

#[tokio::test]
async fn d32_a_heartbeat_extends_and_both_names_of_it_work() {
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    app.advance(20_000);
    let answer = app
        .work("payer", &lease, "heartbeat", json!({ "lockDuration": 60_000 }))
        .await
        .ok();
    assert_eq!(answer, json!({ "lockedUntil": "2026-11-30T06:01:20.000Z" }));
    app.advance(59_000);
    app.work("payer", &lease, "extend-lock", json!({ "lockDuration": 1_000 }))
        .await
        .ok();
    app.work("payer", &lease, "heartbeat", json!({ "lockDuration": 3_600_001 }))
        .await
        .refused(422, "INVALID_REQUEST");
    app.advance(1_001);
    app.work("payer", &lease, "heartbeat", json!({ "lockDuration": 1_000 }))
        .await
        .refused(409, "LEASE_EXPIRED");
}

#[tokio::test]
async fn d32_a_repeated_complete_gets_the_same_answer() {
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let body = json!({ "variables": { "payout_id": "P-1" } });
    let first = app.work("payer", &lease, "complete", body.clone()).await.ok();
    assert_eq!(app.work("payer", &lease, "complete", body).await.ok(), first);
    let other = json!({ "variables": { "payout_id": "P-2" } });
    app.work("payer", &lease, "complete", other)
        .await
        .refused(410, "WORK_RETIRED");
}

#[tokio::test]
async fn d32_failures_back_off_and_end_in_an_incident() {
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let failure = json!({ "message": "the bank is closed" });
    let answer = app.work("payer", &lease, "failure", failure.clone()).await.ok();
    assert_eq!(answer["state"], "OPEN");
    assert_eq!(
        (&answer["attempt"], &answer["availableAt"]),
        (&json!(2), &json!("2026-11-30T06:00:10.000Z"))
    );
    assert!(app.fetch("payer", "payments.payout").await.is_none());
    app.advance(10_000);
    let lease = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the second attempt");
    assert_eq!(lease["attempt"], 2);
    let answer = app.work("payer", &lease, "failure", failure).await.ok();
    assert_eq!(answer["state"], "INCIDENT");
    let id = answer["incidentId"].as_str().expect("an incident");
    let incident = app.get("dev", &format!("/v1/incidents/{id}")).await.ok();
    assert_eq!(
        (&incident["code"], &incident["state"]),
        (&json!("WORK_FAILED"), &json!("OPEN"))
    );
}

#[tokio::test]
async fn d32_a_business_error_without_a_route_is_an_incident() {
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let body = json!({ "code": "NO_SUCH_ACCOUNT", "message": "unknown account" });
    let answer = app.work("payer", &lease, "error", body).await.ok();
    assert_ne!(answer["state"], "LOCKED");
    let incidents = app.get("dev", "/v1/incidents").await.ok();
    assert_eq!(
        incidents["incidents"].as_array().map(Vec::len),
        Some(1),
        "{incidents}"
    );
}

#[tokio::test]
async fn d32_a_release_counts_nothing_and_an_unlock_takes_the_lease() {
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let answer = app
        .work("payer", &lease, "release", json!({ "reason": "shutting down" }))
        .await
        .ok();
    assert_eq!(
        (&answer["state"], &answer["attempt"]),
        (&json!("OPEN"), &json!(1))
    );
    let lease = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the task again");
    let path = format!("/v1/external-tasks/{}/unlock", bare(&lease));
    app.post("payer", &path, json!({}))
        .await
        .refused(403, "FORBIDDEN");
    assert_eq!(app.post("dev", &path, json!({})).await.ok()["state"], "OPEN");
    app.work("payer", &lease, "complete", json!({}))
        .await
        .refused(409, "LEASE_EXPIRED");
    let lease = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the task again");
    let late = app
        .work("payer", &lease, "release", json!({ "afterMs": 60_000 }))
        .await
        .ok();
    assert_eq!(late["availableAt"], "2026-11-30T06:01:00.000Z");
    app.advance(59_999);
    assert!(app.fetch("payer", "payments.payout").await.is_none());
}

#[tokio::test]
async fn d30_states_are_shown_to_operators() {
    let app = with_tasks(1).await;
    let list = |query: &str| {
        let path = format!("/v1/external-tasks?{query}");
        let app = &app;
        async move { app.get("dev", &path).await.ok()["tasks"].clone() }
    };
    let state = |tasks: &Value| tasks[0]["state"].clone();
    assert_eq!(state(&list("topic=payments.payout").await), "OPEN");
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let locked = list("state=LOCKED").await;
    assert_eq!(
        (state(&locked), &locked[0]["workerId"]),
        (json!("LOCKED"), &json!("payer-1"))
    );
    assert_eq!(list("state=OPEN").await, json!([]));
    app.work(
        "payer",
        &lease,
        "complete",
        json!({ "variables": { "payout_id": "P" } }),
    )
    .await
    .ok();
    assert_eq!(list("").await, json!([]));
    let instance = lease["instanceId"].as_str().expect("an id");
    assert_eq!(state(&list(&format!("instanceId={instance}")).await), "COMPLETED");
    let one = app
        .get("dev", &format!("/v1/external-tasks/{}", bare(&lease)))
        .await
        .ok();
    assert_eq!(one["endedAt"], "2026-11-30T06:00:00.000Z");
}

#[tokio::test]
async fn a_result_that_breaks_a_rule_closes_nothing() {
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let body = json!({ "variables": { "payout_id": "P-1", "amount": 9 } });
    let answer = app.work("payer", &lease, "complete", body).await;
    // The node's outputs name payout_id alone, so the input is left alone; a bad name is refused.
    answer.ok();
    let app = with_tasks(1).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    app.work("payer", &lease, "complete", json!({ "result": "x" }))
        .await
        .refused(422, "VARIABLES_EXPECTED");
    let both = json!({ "result": "x", "variables": {} });
    app.work("payer", &lease, "complete", both)
        .await
        .refused(400, "INVALID_REQUEST");
    app.work(
        "payer",
        &lease,
        "complete",
        json!({ "variables": { "payout_id": "P-1" } }),
    )
    .await
    .ok();
}

#[tokio::test]
async fn the_trace_of_a_start_reaches_the_worker() {
    let app = with_tasks(0).await;
    let trace = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    for (sent, expected) in [(trace, json!(trace)), ("00-0-0-01", Value::Null)] {
        let body = json!({ "process": "pay", "variables": { "amount": 1 } }).to_string();
        let request = app
            .request("dev", "POST", "/v1/instances")
            .header("content-type", "application/json");
        let request = request
            .header("traceparent", sent)
            .body(axum::body::Body::from(body))
            .expect("a request");
        app.send(request).await.ok();
        let lease = app.fetch("payer", "payments.payout").await.expect("a task");
        assert_eq!(lease["traceparent"], expected);
    }
}
