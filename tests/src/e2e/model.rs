//! A model server that speaks OpenAI's chat completions, says what a test wants and remembers what it was asked.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use tokio::net::TcpListener;

/// What the server answers one request.
pub enum Reply {
    /// An assistant's message, as the `message` of a choice.
    Says(Value),
    /// Another status, with its `Retry-After` in seconds.
    Status(u16, u32),
    /// Status 200 and whatever this is.
    Rubbish(String),
}

type Script = Box<dyn Fn(&Value) -> Reply + Send + Sync>;

struct Inner {
    script: Script,
    asked: Mutex<Vec<Value>>,
}

/// See the module's words. Ends with its test.
pub struct FakeModel {
    inner: Arc<Inner>,
    /// Up to and including `/v1`.
    pub url: String,
}

impl FakeModel {
    /// A server whose answers depend on nothing but the request.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn new(script: impl Fn(&Value) -> Reply + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}/v1", listener.local_addr().expect("an address"));
        let inner = Arc::new(Inner {
            script: Box::new(script),
            asked: Mutex::default(),
        });
        let app = Router::new().fallback(answer).with_state(Arc::clone(&inner));
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { inner, url }
    }

    /// Every request so far, in the order of arrival: each is a turn that somebody pays for.
    #[must_use]
    pub fn asked(&self) -> Vec<Value> {
        self.inner
            .asked
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }
}

async fn answer(State(model): State<Arc<Inner>>, request: Request) -> Response {
    let Ok(bytes) = to_bytes(request.into_body(), 64 * 1024 * 1024).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let asked: Value = serde_json::from_slice(&bytes).unwrap_or_default();
    let reply = (model.script)(&asked);
    model
        .asked
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(asked);
    let (status, retry_after, body) = match reply {
        Reply::Says(message) => (200, None, completion(&message).to_string()),
        Reply::Rubbish(body) => (200, None, body),
        Reply::Status(status, after) => {
            let body = json!({ "error": { "message": "not now" } });
            (status, Some(after), body.to_string())
        }
    };
    let mut response = Response::builder()
        .status(status)
        .header("content-type", "application/json");
    if let Some(after) = retry_after {
        response = response.header("retry-after", after);
    }
    response.body(Body::from(body)).expect("a response")
}

fn completion(message: &Value) -> Value {
    let reason = if message.get("tool_calls").is_some() {
        "tool_calls"
    } else {
        "stop"
    };
    json!({
        "model": "fake-1",
        "choices": [{ "index": 0, "message": message, "finish_reason": reason }],
        "usage": { "prompt_tokens": 10, "completion_tokens": 5 },
    })
}

/// An answer in words.
#[must_use]
pub fn text(text: &str) -> Reply {
    Reply::Says(json!({ "role": "assistant", "content": text }))
}

/// Calls of functions: call id, function, arguments as text.
#[must_use]
pub fn calls(calls: &[(&str, &str, &str)]) -> Reply {
    let calls: Vec<Value> = calls
        .iter()
        .map(|(id, name, arguments)| {
            json!({ "id": id, "type": "function", "function": { "name": name, "arguments": arguments } })
        })
        .collect();
    Reply::Says(json!({ "role": "assistant", "content": null, "tool_calls": calls }))
}

/// Which turn of its conversation a request asks for, from 1.
#[must_use]
pub fn turn(request: &Value) -> usize {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    1 + messages
        .iter()
        .filter(|message| message["role"] == "assistant")
        .count()
}

/// What a request shows of the answers of tools since the model spoke last, in their order.
#[must_use]
pub fn answers(request: &Value) -> Vec<String> {
    let messages = request["messages"].as_array().map_or(&[][..], Vec::as_slice);
    let since = messages
        .iter()
        .rposition(|message| message["role"] == "assistant")
        .unwrap_or(0);
    messages[since..]
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| message["content"].as_str().unwrap_or_default().to_owned())
        .collect()
}
