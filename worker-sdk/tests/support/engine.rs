//! An engine with scripted answers on a real port: it notes every call.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::sync::watch;

/// One call of a worker: the verb is the last part of the path.
#[derive(Clone, Debug)]
pub struct Call {
    pub verb: String,
    pub lease: String,
    pub body: Value,
    pub authorization: String,
    pub traceparent: Option<String>,
}

#[derive(Clone)]
pub struct Engine {
    pub url: String,
    inner: Arc<Inner>,
}

struct Inner {
    tasks: Mutex<VecDeque<Value>>,
    answers: Mutex<HashMap<String, VecDeque<(u16, Value)>>>,
    calls: Mutex<Vec<Call>>,
    changed: watch::Sender<usize>,
}

impl Engine {
    pub async fn start() -> Engine {
        let inner = Arc::new(Inner {
            tasks: Mutex::default(),
            answers: Mutex::default(),
            calls: Mutex::default(),
            changed: watch::Sender::new(0),
        });
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0")
            .await
            .expect("a free port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let app = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Engine { url, inner }
    }

    /// Work that the next fetch of this topic gets.
    pub fn offer(&self, topic: &str, id: &str, variables: Value) {
        let task = json!({
            "id": format!("{id}~1-abc"), "topic": topic, "instanceId": "root", "nodeId": "pay", "attempt": 1,
            "variables": variables, "headers": {}, "idempotencyKey": format!("key-of-{id}"),
            "lockedUntil": "2026-11-03T09:15:00.000Z",
            "traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "journal": { "steps": [] },
        });
        self.inner.tasks.lock().expect("no panic before").push_back(task);
        self.inner.changed.send_modify(|n| *n += 1);
    }

    /// The next answers to this verb; without any, the call works.
    pub fn script(&self, verb: &str, answers: &[(u16, Value)]) {
        let mut scripted = self.inner.answers.lock().expect("no panic before");
        scripted
            .entry(verb.to_owned())
            .or_default()
            .extend(answers.iter().cloned());
    }

    pub fn calls(&self, verb: &str) -> Vec<Call> {
        let calls = self.inner.calls.lock().expect("no panic before");
        calls.iter().filter(|call| call.verb == verb).cloned().collect()
    }

    /// Waits until this verb was called so often.
    pub async fn called(&self, verb: &str, times: usize) -> Vec<Call> {
        let mut changed = self.inner.changed.subscribe();
        let wait = changed.wait_for(|_| self.calls(verb).len() >= times);
        let waited = tokio::time::timeout(Duration::from_secs(20), wait).await.is_ok();
        let calls = self.calls(verb);
        assert!(waited, "`{verb}` was called {} times, not {times}", calls.len());
        calls
    }
}

async fn answer(State(inner): State<Arc<Inner>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response {
    let parts: Vec<&str> = uri.path().trim_start_matches('/').split('/').collect();
    let verb = parts.last().copied().unwrap_or_default().to_owned();
    let text = |name: &str| {
        headers
            .get(name)
            .and_then(|value| value.to_str().ok())
            .map(str::to_owned)
    };
    let call = Call {
        lease: parts.get(2).copied().unwrap_or_default().to_owned(),
        body: serde_json::from_slice(&body).unwrap_or(Value::Null),
        authorization: text("authorization").unwrap_or_default(),
        traceparent: text("traceparent"),
        verb: verb.clone(),
    };
    inner.calls.lock().expect("no panic before").push(call.clone());
    inner.changed.send_modify(|n| *n += 1);
    let scripted = inner
        .answers
        .lock()
        .expect("no panic before")
        .get_mut(&verb)
        .and_then(VecDeque::pop_front);
    if let Some((status, body)) = scripted {
        let status = StatusCode::from_u16(status).expect("a status");
        return (
            status,
            [(header::CONTENT_TYPE, "application/problem+json")],
            body.to_string(),
        )
            .into_response();
    }
    let body = match verb.as_str() {
        "fetch-and-lock" => fetch(&inner, &call.body).await,
        "heartbeat" => json!({ "lockedUntil": "2026-11-03T09:16:00.000Z" }),
        "steps" => steps(&call.body),
        _ => json!({ "state": "COMPLETED" }),
    };
    (StatusCode::OK, body.to_string()).into_response()
}

/// Long polling as the engine does it: work at once, else wait for some.
async fn fetch(inner: &Inner, request: &Value) -> Value {
    let mut changed = inner.changed.subscribe();
    let long_poll = Duration::from_millis(request["longPollMs"].as_u64().unwrap_or(0));
    let most = usize::try_from(request["maxTasks"].as_u64().unwrap_or(1)).expect("a count");
    let some = changed.wait_for(|_| !inner.tasks.lock().expect("no panic before").is_empty());
    let _ = tokio::time::timeout(long_poll, some).await;
    let mut tasks = inner.tasks.lock().expect("no panic before");
    let count = most.min(tasks.len());
    json!({ "tasks": tasks.drain(..count).collect::<Vec<_>>() })
}

/// Grants what is asked for and settles what is reported, in order.
fn steps(request: &Value) -> Value {
    let answers: Vec<Value> = request["steps"]
        .as_array()
        .expect("the batch form")
        .iter()
        .map(|step| {
            let settled = (step["state"] != "STARTED").then(|| step["sequence"].clone());
            json!({ "sequence": step["sequence"], "kind": step["kind"], "state": step["state"], "settled": settled })
        })
        .collect();
    json!({ "steps": answers, "task": { "state": "LOCKED", "waitingFor": [] } })
}
