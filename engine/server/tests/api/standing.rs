//! A key that ends takes with it what it began: streams and long polls (B8, B9).

use std::time::Duration;

use axum::body::{Body, BodyDataStream};
use futures::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{Answer, PAY, TestApp};

const FETCH: &str = "/v1/external-tasks/fetch-and-lock";

/// A fresh key: its secret and its id.
async fn key(app: &TestApp, body: Value) -> (String, String) {
    let created = app.post("dev", "/v1/keys", body).await.ok();
    let text = |value: &Value| value.as_str().expect("text").to_owned();
    (text(&created["secret"]), text(&created["key"]["id"]))
}

async fn revoke(app: &TestApp, id: &str) {
    let request = app.request("dev", "DELETE", &format!("/v1/keys/{id}"));
    let answer = app.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(answer.status, 204);
}

async fn feed(app: &TestApp, secret: &str) -> BodyDataStream {
    let request = app.request(secret, "GET", "/v1/events").body(Body::empty());
    let response = app.router().oneshot(request.expect("a request")).await;
    response.expect("an answer").into_body().into_data_stream()
}

/// What comes next; None when the stream ends.
async fn next(feed: &mut BodyDataStream) -> Option<String> {
    let chunk = tokio::time::timeout(Duration::from_secs(10), feed.next()).await;
    let bytes = chunk.expect("in time")?.expect("bytes");
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

async fn ends_untold(app: &TestApp, feed: &mut BodyDataStream) {
    let id = app.start("pay", json!({ "amount": 2 })).await;
    while let Some(chunk) = next(feed).await {
        assert!(!chunk.contains(&id), "{chunk}");
    }
}

async fn with_process() -> TestApp {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    app
}

#[tokio::test]
async fn a_feed_ends_when_its_key_is_revoked() {
    let app = with_process().await;
    let (secret, id) = key(&app, json!({ "principal": "reader", "kind": "PERSON" })).await;
    let mut feed = feed(&app, &secret).await;
    app.start("pay", json!({ "amount": 1 })).await;
    assert!(next(&mut feed).await.is_some());
    revoke(&app, &id).await;
    ends_untold(&app, &mut feed).await;
}

#[tokio::test]
async fn a_feed_ends_when_its_key_runs_out() {
    let app = with_process().await;
    let body = json!({ "principal": "reader", "kind": "PERSON", "expiresInMs": 60_000 });
    let (secret, _) = key(&app, body).await;
    let mut feed = feed(&app, &secret).await;
    app.start("pay", json!({ "amount": 1 })).await;
    assert!(next(&mut feed).await.is_some());
    app.advance(60_000);
    ends_untold(&app, &mut feed).await;
}

#[tokio::test]
async fn a_feed_ends_when_its_reader_loses_the_role() {
    let app = with_process().await;
    let (secret, _) = key(&app, json!({ "principal": "reader", "kind": "PERSON" })).await;
    let mut feed = feed(&app, &secret).await;
    app.start("pay", json!({ "amount": 1 })).await;
    assert!(next(&mut feed).await.is_some());
    key(
        &app,
        json!({ "principal": "reader", "kind": "PERSON", "roles": ["start"] }),
    )
    .await;
    ends_untold(&app, &mut feed).await;
}

/// Polls with a worker's key that ends while the poll waits, then work comes.
async fn poll_across(app: &TestApp, key: Value, end: impl AsyncFnOnce(&str)) -> Answer {
    let (secret, id) = self::key(app, key).await;
    let body = json!({ "workerId": "w", "topics": ["payments.payout"], "longPollMs": 60_000,
        "lockDuration": 600_000 });
    let poll = app.post(&secret, FETCH, body);
    let work = async {
        let waiting = async {
            while app.app.shared().wake.polls() == 0 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(std::time::Duration::from_secs(10), waiting)
            .await
            .expect("the poll waits");
        end(&id).await;
        app.start("pay", json!({ "amount": 1 })).await;
    };
    tokio::join!(poll, work).0
}

/// The lease that the ended key was about to get is somebody else's.
async fn is_open_again(app: &TestApp) {
    let body = json!({ "workerId": "payer-1", "topics": ["payments.payout"], "longPollMs": 60_000 });
    let poll = tokio::time::timeout(Duration::from_secs(10), app.post("payer", FETCH, body)).await;
    assert_eq!(
        poll.expect("in time").ok()["tasks"].as_array().map(Vec::len),
        Some(1)
    );
}

#[tokio::test]
async fn a_poll_whose_key_is_revoked_gets_no_work() {
    let app = with_process().await;
    let body = json!({ "principal": "gone", "kind": "WORKER", "topics": ["payments.*"] });
    poll_across(&app, body, async |id| revoke(&app, id).await)
        .await
        .refused(401, "UNAUTHENTICATED");
    is_open_again(&app).await;
}

#[tokio::test]
async fn a_poll_whose_key_runs_out_gets_no_work() {
    let app = with_process().await;
    let body =
        json!({ "principal": "gone", "kind": "WORKER", "topics": ["payments.*"], "expiresInMs": 30_000 });
    poll_across(&app, body, async |_| app.advance(30_000))
        .await
        .refused(401, "UNAUTHENTICATED");
    is_open_again(&app).await;
}
