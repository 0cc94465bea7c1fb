//! The event feed over server-sent events.

use std::collections::BTreeSet;

use axum::body::Body;
use futures::StreamExt;
use serde_json::{Value, json};
use tower::ServiceExt;

use crate::support::{PAY, TestApp};

/// One message.
#[derive(Debug)]
pub struct Message {
    pub id: String,
    pub kind: String,
    pub data: Value,
}

fn messages(text: &str) -> Vec<Message> {
    let field = |message: &str, name: &str| {
        let lines = message
            .lines()
            .filter_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        lines.map(str::trim_start).collect::<Vec<_>>().join("\n")
    };
    let whole = text.split("\n\n").filter(|message| message.contains("data:"));
    whole
        .map(|message| Message {
            id: field(message, "id"),
            kind: field(message, "event"),
            data: serde_json::from_str(&field(message, "data")).expect("data is JSON"),
        })
        .collect()
}

/// Everything that is there after a cursor.
pub async fn once(app: &TestApp, query: &str, last: Option<&str>) -> Vec<Message> {
    let mut request = app.request("dev", "GET", &format!("/v1/events?once=true{query}"));
    if let Some(last) = last {
        request = request.header("last-event-id", last);
    }
    let answer = app.send(request.body(Body::empty()).expect("a request")).await;
    assert_eq!(
        (answer.status, answer.headers["content-type"].as_bytes()),
        (200, b"text/event-stream".as_slice())
    );
    messages(&answer.text)
}

async fn pay(app: &TestApp) -> String {
    let id = app.start("pay", json!({ "amount": 1 })).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    app.work(
        "payer",
        &lease,
        "complete",
        json!({ "variables": { "payout_id": "P" } }),
    )
    .await
    .ok();
    id
}

#[tokio::test]
async fn the_feed_tells_everything_in_order() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = pay(&app).await;
    let feed = once(&app, "&after=", None).await;
    let kinds: Vec<&str> = feed.iter().map(|message| message.kind.as_str()).collect();
    assert_eq!(
        (kinds[0], kinds[kinds.len() - 1]),
        ("INSTANCE_STARTED", "INSTANCE_COMPLETED")
    );
    let revisions: Vec<u64> = feed
        .iter()
        .filter_map(|message| message.data["revision"].as_u64())
        .collect();
    assert!(revisions.is_sorted(), "{revisions:?}");
    let created = feed
        .iter()
        .find(|message| message.kind == "TASK_CREATED")
        .expect("the event");
    assert_eq!(
        (
            &created.data["nodeId"],
            &created.data["process"],
            &created.data["instanceId"]
        ),
        (&json!("payout"), &json!("pay"), &json!(id))
    );
    assert!(
        created.data["taskId"]
            .as_str()
            .is_some_and(|task| task.starts_with(&id)),
        "{created:?}"
    );
}

#[tokio::test]
async fn a_reader_resumes_where_it_was() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    pay(&app).await;
    let all = once(&app, "&after=", None).await;
    let known: BTreeSet<String> = all.iter().map(|message| message.data.to_string()).collect();
    // Cut off after any message, nothing is missed.
    for cut in 1..=all.len() {
        let rest = once(&app, "", Some(&all[cut - 1].id)).await;
        let read: BTreeSet<String> = all[..cut]
            .iter()
            .chain(&rest)
            .map(|message| message.data.to_string())
            .collect();
        assert_eq!(read, known, "cut after {cut}");
    }
    let last = &all[all.len() - 1].id;
    assert!(once(&app, "", Some(last)).await.is_empty());
    pay(&app).await;
    let news = once(&app, "", Some(last)).await;
    assert_eq!(news[0].kind, "INSTANCE_STARTED");
    assert_eq!(news.len(), all.len());
    app.get("dev", "/v1/events?once=true&after=rubbish")
        .await
        .refused(400, "INVALID_REQUEST");
}

/// Each writer in a cursor costs a query a look, and every message carries the cursor.
#[tokio::test]
async fn a_cursor_keeps_only_writers_that_there_are() {
    use base64::Engine;
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    pay(&app).await;
    let honest = once(&app, "&after=", None).await;
    let made_up: std::collections::BTreeMap<String, i64> =
        (0..500).map(|n| (format!("w{n}"), i64::MAX)).collect();
    let bytes = serde_json::to_vec(&made_up).expect("JSON");
    let forged = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(bytes);
    let read = once(&app, "", Some(&forged)).await;
    let ids = |feed: &[Message]| feed.iter().map(|message| message.id.clone()).collect::<Vec<_>>();
    assert_eq!(ids(&read), ids(&honest));
}

#[tokio::test]
async fn the_feed_is_filtered_by_instance_and_project() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let first = pay(&app).await;
    pay(&app).await;
    let feed = once(&app, &format!("&after=&instanceId={first}"), None).await;
    assert!(
        !feed.is_empty()
            && feed
                .iter()
                .all(|message| message.data["instanceId"] == json!(first))
    );
    let feed = once(&app, &format!("&after=&rootId={first}"), None).await;
    assert!(!feed.is_empty() && feed.iter().all(|message| message.data["rootId"] == json!(first)));
    let request = app
        .request("stranger", "GET", "/v1/events?once=true&after=")
        .body(Body::empty())
        .expect("a request");
    assert!(messages(&app.send(request).await.text).is_empty());
}

#[tokio::test]
async fn a_commit_wakes_the_reader() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    pay(&app).await;
    let request = app
        .request("dev", "GET", "/v1/events")
        .body(Body::empty())
        .expect("a request");
    let response = app.router().oneshot(request).await.expect("an answer");
    let mut chunks = response.into_body().into_data_stream();
    let id = app.start("pay", json!({ "amount": 2 })).await;
    let chunk = tokio::time::timeout(std::time::Duration::from_secs(10), chunks.next()).await;
    let chunk = chunk.expect("in time").expect("a message").expect("bytes");
    let news = messages(std::str::from_utf8(&chunk).expect("text"));
    // Without a cursor the feed begins now: what was before is not told.
    assert_eq!(
        (news[0].kind.as_str(), &news[0].data["instanceId"]),
        ("INSTANCE_STARTED", &json!(id))
    );
}

#[tokio::test]
async fn steps_are_told_with_their_node() {
    let (app, lease) = crate::journal::leased().await;
    crate::journal::turn(&app, &lease, 1, json!([])).await;
    let feed = once(&app, "&after=", None).await;
    let steps: Vec<&Message> = feed
        .iter()
        .filter(|message| message.kind.starts_with("STEP_"))
        .collect();
    // A step is told as it is now: its earlier states are no longer in the feed.
    assert_eq!(steps.len(), 1);
    let data = &steps[0].data;
    assert_eq!(
        (
            &data["type"],
            &data["nodeId"],
            &data["sequence"],
            &data["data"]["kind"]
        ),
        (
            &json!("STEP_COMPLETED"),
            &json!("triage"),
            &json!(1),
            &json!("MODEL")
        )
    );
}

/// An engine that has just started grants steps before it writes any history.
#[tokio::test]
async fn a_writer_that_has_only_steps_is_in_the_feed() {
    let (app, lease) = crate::journal::leased().await;
    crate::journal::turn(&app, &lease, 1, json!([])).await;
    let task = crate::support::bare(&lease);
    let key = legation_store::Key::new(legation_kernel::ids::root_of(&task), &task);
    let mut tx = app.app.db().begin_write().await.expect("a transaction");
    let mut rows = legation_store::steps::list_for_tasks(&mut tx, &[key])
        .await
        .expect("the step");
    rows[0].writer = "anotherengine".to_owned();
    rows[0].batch_no = 1;
    legation_store::steps::upsert(&mut tx, &rows)
        .await
        .expect("a write");
    tx.commit().await.expect("a commit");

    let feed = once(&app, "&after=", None).await;
    let told = feed.iter().find(|message| message.kind == "STEP_COMPLETED");
    let told = told.expect("the step of the other engine");
    assert_eq!(told.data["taskId"], json!(task));
    // Who begins now has it behind them.
    assert!(once(&app, "", None).await.is_empty());
}

/// Nobody's reading depends on somebody else's: a feed whose reader stands still holds no connection of the database.
#[tokio::test(flavor = "multi_thread")]
async fn readers_that_stand_still_hold_up_nobody() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    for _ in 0..150 {
        app.start("pay", json!({ "amount": 1 })).await;
    }
    let told = once(&app, "&after=", None).await.len();
    assert!(told > 256, "more than waits for a slow reader: {told}");
    let mut held = Vec::new();
    // More than there are connections for reading.
    for _ in 0..12 {
        let request = app.request("dev", "GET", "/v1/events?after=");
        let request = request.body(Body::empty()).expect("a request");
        let answer = app.router().oneshot(request).await.expect("an answer");
        let mut body = answer.into_body().into_data_stream();
        // It runs by now, and comes to a stop when nobody reads on.
        body.next().await.expect("a message").expect("bytes");
        held.push(body);
    }
    for _ in 0..20 {
        let listed = app.get("dev", "/v1/instances?limit=1");
        let listed = tokio::time::timeout(std::time::Duration::from_secs(5), listed).await;
        listed.expect("a connection is free").ok();
    }
}
