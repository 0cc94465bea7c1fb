//! Starting, finding, looking, explaining, cancelling (D47, D69).

use serde_json::{Value, json};

use crate::support::{PAY, TestApp};

#[tokio::test]
async fn the_whole_story_of_one_instance() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let body = json!({ "process": "pay", "businessKey": "ORD-7", "labels": { "shop": "berlin" },
        "variables": { "amount": 12.50 } });
    let answer = app.post("dev", "/v1/instances", body).await;
    assert_eq!(answer.status, 201);
    let started = answer.body;
    let id = started["id"].as_str().expect("an id").to_owned();
    assert_eq!(
        started,
        json!({ "id": id, "key": "ORD-7", "process": "pay", "version": 1, "status": "RUNNING" })
    );
    let running = app.get("dev", &format!("/v1/instances/{id}")).await.ok();
    assert_eq!(
        (&running["activeNodes"], &running["initiator"]),
        (&json!(["payout"]), &json!("dev"))
    );
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    assert_eq!(lease["variables"], json!({ "amount": 12.50 }));
    assert_eq!(
        (&lease["businessKey"], &lease["process"]),
        (&json!("ORD-7"), &json!("pay"))
    );
    app.advance(1_500);
    let done = app
        .work(
            "payer",
            &lease,
            "complete",
            json!({ "variables": { "payout_id": "P-55" } }),
        )
        .await
        .ok();
    assert_eq!(done["state"], "COMPLETED");
    let ended = app.get("dev", &format!("/v1/instances/{id}")).await.ok();
    assert_eq!(
        (&ended["status"], &ended["outputs"]),
        (&json!("COMPLETED"), &json!({ "payout_id": "P-55" }))
    );
    assert_eq!(ended["endedAt"], "2026-11-30T06:00:01.500Z");
    let variables = app
        .get("dev", &format!("/v1/instances/{id}/variables"))
        .await
        .ok();
    assert_eq!(variables["variables"]["amount"]["source"]["actor"], "dev");
    assert_eq!(variables["variables"]["payout_id"]["source"]["nodeId"], "payout");
    let history = app.get("dev", &format!("/v1/instances/{id}/history")).await.ok();
    let kinds: Vec<&str> = kinds(&history);
    insta::assert_snapshot!(kinds.join(" "), @"INSTANCE_STARTED VARIABLE_SET NODE_ENTERED TASK_CREATED TASK_ENDED VARIABLE_SET NODE_ENTERED TOKEN_ENDED INSTANCE_COMPLETED");
    let ended = &history["entries"].as_array().expect("entries")[4];
    assert_eq!(
        (&ended["type"], &ended["nodeId"]),
        (&json!("TASK_ENDED"), &json!("payout"))
    );
    // Reading on begins after a revision.
    let rest = app
        .get("dev", &format!("/v1/instances/{id}/history?after=1"))
        .await
        .ok();
    assert_eq!(rest["entries"].as_array().map(Vec::len), Some(kinds.len() - 4));
}

fn kinds(history: &Value) -> Vec<&str> {
    history["entries"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|entry| entry["type"].as_str())
        .collect()
}

#[tokio::test]
async fn inputs_that_do_not_fit_are_refused_by_name() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let refusal = app
        .post("dev", "/v1/instances", json!({ "process": "pay" }))
        .await
        .refused(422, "INPUT_INVALID");
    assert_eq!(
        (&refusal["reason"], &refusal["argument"]),
        (&json!("missing-param"), &json!("amount"))
    );
    let body = json!({ "process": "pay", "variables": { "amount": "five" } });
    let refusal = app
        .post("dev", "/v1/instances", body)
        .await
        .refused(422, "INPUT_INVALID");
    assert_eq!(
        (&refusal["reason"], &refusal["argument"]),
        (&json!("invalid-param"), &json!("amount"))
    );
    let body = json!({ "process": "pay", "version": 2, "variables": { "amount": 1 } });
    app.post("dev", "/v1/instances", body)
        .await
        .refused(404, "NOT_FOUND");
}

/// PostgreSQL indexes no text of any length: without a bound here a start is answered 500.
#[tokio::test]
async fn what_an_instance_is_found_by_has_a_bound() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let start = |name: &str, value: Value| {
        let mut body = json!({ "process": "pay", "variables": { "amount": 1 } });
        body[name] = value;
        app.post("dev", "/v1/instances", body)
    };
    let (fits, long) = ("ü".repeat(255), "ü".repeat(256));
    let many: serde_json::Map<_, _> = (0..51).map(|n| (n.to_string(), json!(""))).collect();
    for (name, value) in [
        ("businessKey", json!(long)),
        ("businessKey", json!("")),
        ("labels", json!({ "": "x" })),
        ("labels", json!({ (&long): "x" })),
        ("labels", json!({ "x": long })),
        ("labels", json!(many)),
    ] {
        let refusal = start(name, value).await.refused(422, "INVALID_REQUEST");
        assert_eq!(refusal["argument"], name);
    }
    start("businessKey", json!(fits)).await.ok();
    start("labels", json!({ (&fits): fits, "empty": "" })).await.ok();
}

#[tokio::test]
async fn pages_hold_every_instance_once() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let mut started = Vec::new();
    for amount in 0..7 {
        // Two at a time, so that a page ends between instances of the same millisecond.
        app.advance(i64::from(amount % 2));
        started.push(app.start("pay", json!({ "amount": amount })).await);
    }
    started.reverse();
    let mut found = Vec::new();
    let mut path = "/v1/instances?limit=3".to_owned();
    loop {
        let page = app.get("dev", &path).await.ok();
        let list = page["instances"].as_array().expect("a list");
        assert!(list.len() <= 3);
        found.extend(
            list.iter()
                .map(|one| one["id"].as_str().unwrap_or_default().to_owned()),
        );
        let Some(next) = page["next"].as_str() else { break };
        path = format!("/v1/instances?limit=3&after={next}");
    }
    let mut sorted = found.clone();
    sorted.sort();
    sorted.dedup();
    assert_eq!(sorted.len(), 7);
    let mut expected = started.clone();
    expected.sort();
    assert_eq!(sorted, expected);
}

#[tokio::test]
async fn lists_are_filtered() {
    let app = TestApp::new().await;
    app.deploy(&[
        ("pay.process.yaml", PAY),
        ("b.process.yaml", &PAY.replace("key: pay", "key: other")),
    ])
    .await;
    let first = app.start("pay", json!({ "amount": 1 })).await;
    let body = json!({ "process": "other", "businessKey": "K", "labels": { "a": "b" }, "variables": { "amount": 1 } });
    let second = app.post("dev", "/v1/instances", body).await.ok()["id"].clone();
    let cancel = json!({ "reason": "not wanted" });
    app.post("dev", &format!("/v1/instances/{first}/cancel"), cancel)
        .await
        .ok();
    for (query, expected) in [
        ("process=pay", json!([first])),
        ("status=CANCELLED", json!([first])),
        ("status=RUNNING", json!([second])),
        ("businessKey=K", json!([second])),
        ("label=a=b", json!([second])),
        ("label=a=c", json!([])),
        ("status=COMPLETED", json!([])),
    ] {
        let page = app.get("dev", &format!("/v1/instances?{query}")).await.ok();
        let ids: Vec<Value> = page["instances"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|one| one["id"].clone())
            .collect();
        assert_eq!(json!(ids), expected, "{query}");
    }
    app.get("dev", "/v1/instances?status=DONE")
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn explain_says_what_would_move_it() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 1 })).await;
    app.advance(180_000);
    let path = format!("/v1/instances/{id}/explain");
    let waits = app.get("dev", &path).await.ok()["waits"].clone();
    assert_eq!(
        waits[0]["text"],
        "waits 3m for a worker on topic payments.payout: no worker polls it; start one"
    );
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let waits = app.get("dev", &path).await.ok()["waits"].clone();
    assert!(
        waits[0]["text"]
            .as_str()
            .is_some_and(|text| text.starts_with("worker payer-1 has the task")),
        "{waits}"
    );
    app.work("payer", &lease, "failure", json!({ "message": "no money" }))
        .await
        .ok();
    let waits = app.get("dev", &path).await.ok()["waits"].clone();
    assert_eq!(
        waits[0]["text"],
        "try 1 failed; the next one is due at 2026-11-30T06:03:10.000Z"
    );
    app.advance(60_000);
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    app.work("payer", &lease, "release", json!({ "afterMs": 5000 }))
        .await
        .ok();
    let waits = app.get("dev", &path).await.ok()["waits"].clone();
    let text = waits[0]["text"].as_str().expect("a text");
    assert!(
        text.starts_with("given back by its worker for later; offered again at 2026-"),
        "no try failed: {text}"
    );
    app.post(
        "dev",
        &format!("/v1/instances/{id}/cancel"),
        json!({ "reason": "enough" }),
    )
    .await
    .ok();
    let text = app.get("dev", &path).await.ok()["text"].clone();
    assert!(
        text.as_str()
            .is_some_and(|text| text.contains("CANCELLED") && text.contains("enough")),
        "{text}"
    );
}

#[tokio::test]
async fn a_cancel_is_repeatable_and_retires_the_work_d69() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 1 })).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let path = format!("/v1/instances/{id}/cancel");
    for _ in 0..2 {
        let answer = app
            .post("dev", &path, json!({ "reason": "customer withdrew" }))
            .await
            .ok();
        assert_eq!(answer, json!({ "id": id, "status": "CANCELLED" }));
    }
    app.post("dev", &path, json!({}))
        .await
        .refused(400, "INVALID_REQUEST");
    app.work("payer", &lease, "complete", json!({ "variables": {} }))
        .await
        .refused(410, "WORK_RETIRED");
    let view = app.get("dev", &format!("/v1/instances/{id}")).await.ok();
    assert_eq!(
        view["error"],
        json!({ "code": "CANCELLED", "message": "customer withdrew" })
    );
}

#[tokio::test]
async fn a_sensitive_value_is_shown_to_nobody_but_an_admin() {
    let app = TestApp::new().await;
    let secret = PAY.replace(
        "note: { type: string, required: false }",
        "iban: { type: string, sensitive: true }",
    );
    app.deploy(&[("pay.process.yaml", &secret)]).await;
    let id = app
        .start("pay", json!({ "amount": 1, "iban": "DE02120300000000202051" }))
        .await;
    let path = format!("/v1/instances/{id}/variables");
    let seen = app.get("alice", &path).await;
    assert!(!seen.text.contains("DE0212"), "{}", seen.text);
    assert_eq!(seen.body["variables"]["iban"]["sensitive"], true);
    assert_eq!(
        app.get("dev", &path).await.ok()["variables"]["iban"]["value"],
        "DE02120300000000202051"
    );
    for path in ["history", "journal", "explain"] {
        let text = app.get("dev", &format!("/v1/instances/{id}/{path}")).await.text;
        assert!(!text.contains("DE0212"), "{text}");
    }
    // A worker without mapped inputs gets every variable but the sensitive ones.
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    assert_eq!(lease["variables"], json!({ "amount": 1 }));
}
