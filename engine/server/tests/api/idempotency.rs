//! The same call twice (B12).

use axum::body::Body;
use serde_json::json;

use crate::support::{Answer, PAY, TestApp};

async fn start(app: &TestApp, who: &str, key: &str, body: serde_json::Value) -> Answer {
    let request = app
        .request(who, "POST", "/v1/instances")
        .header("content-type", "application/json");
    let request = request
        .header("idempotency-key", key)
        .body(Body::from(body.to_string()));
    app.send(request.expect("a request")).await
}

#[tokio::test]
async fn b12_the_same_key_twice_at_once_starts_one_instance() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let body = json!({ "process": "pay", "businessKey": "A", "variables": { "amount": 1 } });
    let (first, second) = tokio::join!(
        start(&app, "dev", "k-1", body.clone()),
        start(&app, "dev", "k-1", body.clone())
    );
    assert_eq!((first.status, second.status), (201, 201));
    assert_eq!(first.body, second.body);
    let later = start(&app, "dev", "k-1", body.clone()).await;
    assert_eq!((later.status, &later.body), (201, &first.body));
    // The same JSON in another order and with other blanks is the same body.
    let same = "{ \"variables\": { \"amount\": 1.0 },\"businessKey\":\"A\", \"process\":\"pay\"}";
    let request = app
        .request("dev", "POST", "/v1/instances")
        .header("content-type", "application/json");
    let request = request
        .header("idempotency-key", "k-1")
        .body(Body::from(same))
        .expect("a request");
    assert_eq!(app.send(request).await.ok(), first.body);
    let all = app.get("dev", "/v1/instances").await.ok();
    assert_eq!(all["instances"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn b12_the_same_key_with_another_body_is_refused() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let body = |amount: i32| json!({ "process": "pay", "variables": { "amount": amount } });
    start(&app, "dev", "k-1", body(1)).await.ok();
    start(&app, "dev", "k-1", body(2))
        .await
        .refused(409, "IDEMPOTENCY_KEY_REUSED");
    let (one, two) = tokio::join!(
        start(&app, "dev", "k-2", body(1)),
        start(&app, "dev", "k-2", body(2))
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [201, 409]);
    let all = app.get("dev", "/v1/instances").await.ok();
    assert_eq!(all["instances"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn a_refused_call_keeps_no_answer() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    start(&app, "dev", "k-1", json!({ "process": "pay" }))
        .await
        .refused(422, "INPUT_INVALID");
    start(
        &app,
        "dev",
        "k-1",
        json!({ "process": "pay", "variables": { "amount": 1 } }),
    )
    .await
    .ok();
}

#[tokio::test]
async fn a_key_is_the_callers_own() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let files = json!({ "files": { "pay.process.yaml": PAY } });
    app.post("stranger", "/v1/deployments", files).await.ok();
    let body = json!({ "process": "pay", "variables": { "amount": 1 } });
    let mine = start(&app, "dev", "k-1", body.clone()).await.ok();
    let theirs = start(&app, "stranger", "k-1", body.clone()).await.ok();
    assert_ne!(mine["id"], theirs["id"]);
    start(&app, "dev", "", body).await.refused(400, "INVALID_REQUEST");
}
