//! What operators count and measure: instances by status, nodes of a version, throughput, values over time, leases.

use serde_json::{Value, json};

use crate::support::{PAY, REFUND, START, TestApp};

/// A sensitive variable, a decision that writes, and a task that writes over it.
const PRICE: &str = "
metadata:
  key: price
  variables:
    amount: { type: number }
    secret: { type: string, sensitive: true, required: false }
    rate: { type: number, required: false, input: false }
flow:
  nodes:
    - id: guess
      type: engine-task
      service: price.guess
      outputs: [rate]
    - id: fix
      type: engine-task
      service: price.fix
      outputs: [rate]
    - { id: done, type: end }
";

async fn paid(app: &TestApp, amount: i64) -> String {
    let id = app.start("pay", json!({ "amount": amount })).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    app.advance(2_000);
    let body = json!({ "variables": { "payout_id": "P-1" } });
    app.work("payer", &lease, "complete", body).await.ok();
    id
}

#[tokio::test]
async fn instances_are_counted_by_status_for_a_process_and_a_time() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    app.deploy(&REFUND).await;
    paid(&app, 1).await;
    app.advance(60_000);
    paid(&app, 2).await;
    let running = app.start("pay", json!({ "amount": 3 })).await;
    let cancelled = app.start("pay", json!({ "amount": 4 })).await;
    let body = json!({ "reason": "entered twice" });
    app.post("dev", &format!("/v1/instances/{cancelled}/cancel"), body)
        .await
        .ok();
    let counts = app.get("alice", "/v1/instances/counts").await.ok();
    assert_eq!(
        counts,
        json!({ "counts": [
            { "status": "RUNNING", "count": 1, "atLeast": false },
            { "status": "CANCELLED", "count": 1, "atLeast": false },
            { "status": "COMPLETED", "count": 2, "atLeast": false },
        ]})
    );
    let late = "/v1/instances/counts?process=pay&startedAfter=2026-11-30T06:00:30Z";
    let counts = app.get("dev", late).await.ok();
    assert_eq!(
        counts["counts"][2],
        json!({ "status": "COMPLETED", "count": 1, "atLeast": false })
    );
    let other = app
        .get("dev", "/v1/instances/counts?process=complaint")
        .await
        .ok();
    assert_eq!(other, json!({ "counts": [] }));
    // Another project has none, and whoever may not read learns nothing.
    let foreign = app.get("stranger", "/v1/instances/counts").await.ok();
    assert_eq!(foreign, json!({ "counts": [] }));
    app.get("payer", "/v1/instances/counts")
        .await
        .refused(403, "FORBIDDEN");
    app.get("dev", "/v1/instances/counts?startedAfter=yesterday")
        .await
        .refused(400, "INVALID_REQUEST");

    let ids = |list: Value| -> Vec<String> {
        let list = list["instances"].as_array().expect("instances").clone();
        list.iter()
            .map(|one| one["id"].as_str().expect("an id").to_owned())
            .collect()
    };
    let later = "/v1/instances?startedAfter=2026-11-30T06:00:30Z";
    let found = ids(app.get("dev", later).await.ok());
    assert!(found.len() == 3 && found.contains(&running), "{found:?}");
    let earlier = "/v1/instances?startedBefore=2026-11-30T06:00:30Z";
    assert_eq!(ids(app.get("dev", earlier).await.ok()).len(), 1);
    app.get("dev", "/v1/instances?startedBefore=1")
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn nodes_of_a_version_show_what_stands_there_and_how_long_it_took() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    for amount in 0..3 {
        paid(&app, amount).await;
    }
    app.start("pay", json!({ "amount": 9 })).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let body = json!({ "message": "the bank is gone", "retryable": false });
    app.work("payer", &lease, "failure", body).await.ok();
    app.start("pay", json!({ "amount": 10 })).await;
    let path = "/v1/processes/pay/versions/1/statistics";
    let answer = app.get("alice", path).await.ok();
    assert_eq!(
        (&answer["instances"], &answer["moreActive"], &answer["since"]),
        (&json!(5), &json!(false), &json!("2026-11-30T06:00:00.000Z"))
    );
    let node = |id: &str| {
        let nodes = answer["nodes"].as_array().expect("nodes");
        nodes
            .iter()
            .find(|node| node["nodeId"] == id)
            .expect("the node")
            .clone()
    };
    assert_eq!(
        node("payout"),
        json!({ "nodeId": "payout", "active": 2, "incidents": 1, "visits": 5, "failed": 1, "p50Ms": 2_000, "p95Ms": 2_000 })
    );
    assert_eq!(
        (&node("done")["visits"], &node("done")["active"]),
        (&json!(3), &json!(0))
    );
    for nowhere in [
        "pay/versions/2",
        "pay/versions/x",
        "nothing/versions/1",
        "__/versions/1",
    ] {
        let path = format!("/v1/processes/{nowhere}/statistics");
        app.get("dev", &path).await.refused(404, "NOT_FOUND");
    }
    app.get("stranger", path).await.refused(404, "NOT_FOUND");
    app.get("payer", path).await.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn completed_tasks_are_counted_by_topic_and_worker() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let before = app.get("dev", "/v1/workers").await.ok();
    assert_eq!(before["completedSince"], "2026-11-30T06:00:00.000Z");
    for amount in 0..3 {
        paid(&app, amount).await;
    }
    let answer = app.get("dev", "/v1/workers").await.ok();
    let topic = &answer["topics"][0];
    assert_eq!(
        (&topic["completedLast5Min"], &topic["completedLastHour"]),
        (&json!(3), &json!(3))
    );
    assert_eq!(answer["workers"][0]["completedLastHour"], json!(3));
    app.advance(10 * 60_000);
    let answer = app.get("dev", "/v1/workers").await.ok();
    assert_eq!(answer["workers"][0]["completedLastHour"], json!(3));
    app.fetch("payer", "payments.payout").await;
    let topic = app.get("dev", "/v1/workers").await.ok()["topics"][0].clone();
    assert_eq!(
        (&topic["completedLast5Min"], &topic["completedLastHour"]),
        (&Value::Null, &json!(3))
    );
}

/// A value was written many times over: an answer holds as much as an instance may hold at a time.
#[tokio::test]
async fn the_values_over_time_are_cut_at_what_one_answer_holds() {
    let mut app = TestApp::new().await;
    let worker = legation_protocol::keys::PrincipalKind::Worker;
    app.key("writer", "default", worker, &[], &[], &["write"]).await;
    let nodes: String = (0..10)
        .map(|number| {
            format!("    - {{ id: w{number}, type: engine-task, service: write, outputs: [text] }}\n")
        })
        .collect();
    let process =
        format!("metadata: {{ key: long }}\nflow:\n  nodes:\n{nodes}    - {{ id: done, type: end }}\n");
    app.deploy(&[("long.process.yaml", &process)]).await;
    let id = app.start("long", json!({})).await;
    for number in 0..10 {
        let lease = app.fetch("writer", "write").await.expect("a task");
        let text = format!("{number}").repeat(1_000_000);
        app.work(
            "writer",
            &lease,
            "complete",
            json!({ "variables": { "text": text } }),
        )
        .await
        .ok();
    }
    let answer = app
        .get("dev", &format!("/v1/instances/{id}/variables?history=true"))
        .await
        .ok();
    assert_eq!(answer["historyCut"], json!(true));
    let text = &answer["variables"]["text"];
    assert_eq!(text["history"].as_array().expect("writes").len(), 8);
    assert!(
        text["value"].as_str().is_some_and(|text| text.starts_with('9')),
        "as it is now"
    );
}

#[tokio::test]
async fn a_variable_tells_every_value_it_had_and_which_step_wrote_it() {
    let mut app = TestApp::new().await;
    let worker = legation_protocol::keys::PrincipalKind::Worker;
    app.key("pricer", "default", worker, &[], &[], &["price.*"]).await;
    app.deploy(&[("price.process.yaml", PRICE)]).await;
    let id = app
        .start("price", json!({ "amount": 5, "secret": "s3cret" }))
        .await;
    for (topic, rate) in [("price.guess", "0.1"), ("price.fix", "0.25")] {
        let lease = app.fetch("pricer", topic).await.expect("a task");
        app.advance(1_000);
        let body: Value =
            serde_json::from_str(&format!(r#"{{"variables":{{"rate":{rate}}}}}"#)).expect("JSON");
        app.work("pricer", &lease, "complete", body).await.ok();
    }
    let path = format!("/v1/instances/{id}/variables");
    let plain = app.get("alice", &path).await.ok();
    assert_eq!(plain["variables"]["rate"].get("history"), None);
    let answer = app.get("alice", &format!("{path}?history=true")).await.ok();
    assert_eq!(answer.get("historyCut"), None);
    let rate = &answer["variables"]["rate"]["history"];
    let seen: Vec<_> = rate
        .as_array()
        .expect("writes")
        .iter()
        .map(|one| {
            (
                one["value"].clone(),
                one["source"]["nodeId"].clone(),
                one["source"]["attempt"].clone(),
                one["at"].clone(),
            )
        })
        .collect();
    let write = |value: f64, node: &str, at: &str| (json!(value), json!(node), json!(1), json!(at));
    assert_eq!(
        seen,
        [
            write(0.1, "guess", "2026-11-30T06:00:01.000Z"),
            write(0.25, "fix", "2026-11-30T06:00:02.000Z")
        ]
    );
    assert!(
        rate[0]["source"]["taskId"]
            .as_str()
            .is_some_and(|task| task.starts_with(&id))
    );
    let started = &answer["variables"]["amount"]["history"][0];
    assert_eq!(
        (&started["value"], &started["source"]["actor"]),
        (&json!(5), &json!("dev"))
    );
    // A sensitive value is in no write, unless the caller may see it.
    let hidden = &answer["variables"]["secret"]["history"][0];
    assert_eq!((hidden.get("value"), hidden["revision"].is_u64()), (None, true));
    assert!(!answer.to_string().contains("s3cret"));
    let all = app.get("dev", &format!("{path}?history=true")).await.ok();
    assert_eq!(all["variables"]["secret"]["history"][0]["value"], "s3cret");
    app.get("alice", &format!("{path}?history=perhaps"))
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn the_journal_tells_when_the_lease_began() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 1 })).await;
    let path = format!("/v1/instances/{id}/journal");
    let task = app.get("dev", &path).await.ok()["tasks"][0]["task"].clone();
    assert_eq!(task.get("lockedAt"), None);
    app.advance(7_000);
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    app.advance(3_000);
    let body = json!({ "variables": { "payout_id": "P-1" } });
    app.work("payer", &lease, "complete", body).await.ok();
    let task = app.get("dev", &path).await.ok()["tasks"][0]["task"].clone();
    assert_eq!(
        (&task["createdAt"], &task["lockedAt"], &task["endedAt"]),
        (
            &json!("2026-11-30T06:00:00.000Z"),
            &json!("2026-11-30T06:00:07.000Z"),
            &json!("2026-11-30T06:00:10.000Z")
        )
    );
    assert_eq!(app.app.clock().now(), START + 10_000);
}

#[tokio::test]
async fn tool_servers_and_the_project_are_shown_to_its_members() {
    let app = TestApp::new().await;
    app.deploy(&REFUND).await;
    let answer = app.get("alice", "/v1/servers").await.ok();
    let server = &answer["servers"][0];
    assert_eq!(
        (&server["name"], &server["transport"], &server["version"]),
        (&json!("crm"), &json!("stdio"), &json!(1))
    );
    let tool = &server["tools"][0];
    assert!(tool["name"].is_string() && tool["policy"].is_string(), "{server}");
    let projects = app.get("alice", "/v1/projects").await.ok();
    let only = projects["projects"].as_array().expect("projects");
    assert_eq!(only.len(), 1);
    assert_eq!(
        (&only[0]["id"], &only[0]["processes"], &only[0]["servers"]),
        (&json!("default"), &json!(3), &json!(1))
    );
    let foreign = app.get("stranger", "/v1/servers").await.ok();
    assert_eq!(foreign["servers"], json!([]));
    assert_eq!(
        app.get("stranger", "/v1/projects").await.ok()["projects"][0]["id"],
        "other"
    );
    for path in ["/v1/servers", "/v1/projects"] {
        app.get("payer", path).await.refused(403, "FORBIDDEN");
    }
}
