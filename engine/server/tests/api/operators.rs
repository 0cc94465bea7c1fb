//! Incidents and workers: what operators look at and do.

use legation_store::workers::{self, WorkerRow};
use serde_json::{Value, json};

use crate::support::{PAY, TestApp};

/// An instance whose work failed for good: the app, its id and the incident's.
async fn stuck() -> (TestApp, String, String) {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 1 })).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let body = json!({ "message": "the bank is gone", "retryable": false });
    let answer = app.work("payer", &lease, "failure", body).await.ok();
    let incident = answer["incidentId"].as_str().expect("an incident").to_owned();
    (app, id, incident)
}

#[tokio::test]
async fn an_incident_is_listed_explained_and_retried() {
    let (app, id, incident) = stuck().await;
    let list = app
        .get("dev", &format!("/v1/incidents?instanceId={id}"))
        .await
        .ok();
    assert_eq!(list["incidents"][0]["id"], json!(incident));
    assert_eq!(
        (&list["incidents"][0]["process"], &list["incidents"][0]["nodeId"]),
        (&json!("pay"), &json!("payout"))
    );
    for (process, found) in [("pay", 1), ("refund", 0)] {
        let path = format!("/v1/incidents?process={process}");
        let list = app.get("dev", &path).await.ok();
        assert_eq!(list["incidents"].as_array().map(Vec::len), Some(found), "{path}");
    }
    let view = app.get("dev", &format!("/v1/instances/{id}")).await.ok();
    assert_eq!(
        (&view["incidentCount"], &view["incidents"][0]["code"]),
        (&json!(1), &json!("WORK_FAILED"))
    );
    let waits = app.get("dev", &format!("/v1/instances/{id}/explain")).await.ok()["waits"].clone();
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["id"]),
        (&json!("INCIDENT"), &json!(incident))
    );
    app.post("alice", &format!("/v1/incidents/{incident}/retry"), json!({}))
        .await
        .refused(403, "FORBIDDEN");
    let request = app.request("dev", "POST", &format!("/v1/incidents/{incident}/retry"));
    let answer = app
        .send(request.body(axum::body::Body::empty()).expect("a request"))
        .await
        .ok();
    assert_eq!(
        (
            &answer["incident"]["state"],
            &answer["taskState"],
            &answer["status"]
        ),
        (&json!("RESOLVED"), &json!("OPEN"), &json!("RUNNING"))
    );
    assert_eq!(answer["incident"]["resolvedBy"], "dev");
    app.post("dev", &format!("/v1/incidents/{incident}/retry"), json!({}))
        .await
        .refused(409, "INCIDENT_CLOSED");
    let lease = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the next attempt");
    assert_eq!(lease["attempt"], 2);
    assert_eq!(app.get("dev", "/v1/incidents").await.ok()["incidents"], json!([]));
    let resolved = app.get("dev", "/v1/incidents?state=RESOLVED").await.ok();
    assert_eq!(resolved["incidents"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn only_an_unknown_outcome_is_resolved() {
    let (app, _id, incident) = stuck().await;
    let body = json!({ "outcome": "performed", "comment": "seen in the ledger" });
    app.post("dev", &format!("/v1/incidents/{incident}/resolve"), body)
        .await
        .refused(409, "NOT_RESOLVABLE");
    let body = json!({ "outcome": "perhaps", "comment": "" });
    let path = format!("/v1/incidents/{incident}/resolve");
    app.post("dev", &path, body).await.refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn workers_are_listed_with_liveness_and_unserved_topics() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    app.start("pay", json!({ "amount": 1 })).await;
    let answer = app.get("dev", "/v1/workers").await.ok();
    assert_eq!(answer["workers"], json!([]));
    assert_eq!(answer["unservedTopics"], json!(["payments.payout"]));
    app.advance(5_000);
    app.fetch("payer", "payments.payout").await.expect("a task");
    let answer = app.get("dev", "/v1/workers").await.ok();
    let worker = &answer["workers"][0];
    assert_eq!(
        (
            &worker["workerId"],
            &worker["principal"],
            &worker["live"],
            &worker["leases"]
        ),
        (&json!("payer-1"), &json!("payer"), &json!(true), &json!(1))
    );
    assert_eq!(answer["unservedTopics"], json!([]));
    assert_eq!(
        answer["topics"],
        json!([{ "topic": "payments.payout", "open": 0, "locked": 1, "parked": 0, "workers": 1 }])
    );
    app.advance(91_000);
    let answer = app.get("dev", "/v1/workers").await.ok();
    assert_eq!(
        (&answer["workers"][0]["live"], &answer["unservedTopics"]),
        (&json!(false), &json!(["payments.payout"]))
    );
    assert_eq!(answer["topics"][0]["oldestOpenAt"], "2026-11-30T06:00:00.000Z");
}

#[tokio::test]
async fn what_was_seen_is_in_the_database_for_other_engines() {
    let app = TestApp::new().await;
    app.fetch("payer", "payments.payout").await;
    let rows = workers_in_database(&app, |rows| !rows.is_empty()).await;
    assert_eq!(
        (rows[0].worker_id.as_str(), rows[0].topics.as_str()),
        ("payer-1", "[\"payments.payout\"]")
    );
}

/// Workers mostly have a new name with every start: those that are gone must not pile up.
#[tokio::test]
async fn a_worker_that_was_not_seen_for_a_week_is_forgotten() {
    let app = TestApp::new().await;
    app.fetch("payer", "payments.payout").await;
    workers_in_database(&app, |rows| !rows.is_empty()).await;
    let day = 24 * 60 * 60 * 1_000;
    app.advance(6 * day);
    let listed = app.get("dev", "/v1/workers").await.ok();
    assert_eq!(listed["workers"].as_array().map(Vec::len), Some(1));
    app.advance(2 * day);
    let listed = app.get("dev", "/v1/workers").await.ok();
    assert_eq!(listed["workers"], json!([]));
    workers_in_database(&app, <[_]>::is_empty).await;
}

/// The stored workers, once they are as wanted.
async fn workers_in_database(app: &TestApp, wanted: impl Fn(&[WorkerRow]) -> bool) -> Vec<WorkerRow> {
    let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
    loop {
        let mut read = app.app.db().read().await.expect("a connection");
        let rows = workers::list(&mut read, "default").await.expect("rows");
        if wanted(&rows) {
            return rows;
        }
        assert!(
            tokio::time::Instant::now() < deadline,
            "the workers are still {rows:?}"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn metrics_count_requests_by_route() {
    let app = TestApp::new().await;
    let text = app.get("dev", "/metrics").await;
    assert_eq!(text.status, 200);
    assert_eq!(text.body, Value::Null);
}
