//! A network that a test can hold: workers call the engine through it. A call that fits is held before it reaches the
//! engine or after the engine answered, until the test lets it go; whoever sent it may be killed meanwhile.

use std::sync::{Arc, Mutex, PoisonError};

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use serde_json::Value;
use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::wait::until;

/// Where a call is held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hold {
    /// The engine does not know of it.
    Before,
    /// The engine has done it, the caller does not know.
    After,
}

type Fits = Box<dyn Fn(&str, &Value) -> bool + Send>;

struct Rule {
    hold: Hold,
    fits: Fits,
}

struct Inner {
    engine: String,
    http: reqwest::Client,
    rule: Mutex<Option<Rule>>,
    held: Mutex<Option<(String, Value)>>,
    go: Notify,
}

/// See the module's words. Ends with its test.
#[derive(Clone)]
pub struct Gate {
    inner: Arc<Inner>,
    pub url: String,
}

impl Gate {
    /// A gate before an engine.
    ///
    /// # Panics
    /// When no port is free.
    pub async fn before(engine: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port is free");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let inner = Arc::new(Inner {
            engine: engine.to_owned(),
            http: reqwest::Client::builder()
                .no_proxy()
                .build()
                .expect("an HTTP client"),
            rule: Mutex::new(None),
            held: Mutex::new(None),
            go: Notify::new(),
        });
        let app = Router::new().fallback(pass).with_state(inner.clone());
        tokio::spawn(async move { axum::serve(listener, app).await });
        Self { inner, url }
    }

    /// Holds the next call that fits: path and body.
    pub fn hold(&self, hold: Hold, fits: impl Fn(&str, &Value) -> bool + Send + 'static) {
        *lock(&self.inner.rule) = Some(Rule {
            hold,
            fits: Box::new(fits),
        });
    }

    /// Waits until a call is held, and gives its path and body.
    pub async fn held(&self) -> (String, Value) {
        until("a call to be held", async || lock(&self.inner.held).clone()).await
    }

    /// Lets it go, if its sender still lives.
    pub fn release(&self) {
        *lock(&self.inner.held) = None;
        self.inner.go.notify_waiters();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn pass(State(gate): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let Ok(body) = to_bytes(body, 64 * 1024 * 1024).await else {
        return StatusCode::BAD_REQUEST.into_response();
    };
    let path = parts
        .uri
        .path_and_query()
        .map_or("/", |path| path.as_str())
        .to_owned();
    let json: Value = serde_json::from_slice(&body).unwrap_or_default();
    let hold = {
        let mut rule = lock(&gate.rule);
        let fits = rule.as_ref().is_some_and(|rule| (rule.fits)(&path, &json));
        if fits {
            rule.take().map(|rule| rule.hold)
        } else {
            None
        }
    };
    if hold == Some(Hold::Before) {
        wait(&gate, &path, &json).await;
    }
    let mut call = gate
        .http
        .request(parts.method, format!("{}{path}", gate.engine))
        .body(body);
    for name in ["authorization", "content-type", "idempotency-key", "traceparent"] {
        if let Some(value) = parts.headers.get(name) {
            call = call.header(name, value);
        }
    }
    // An engine that is away or dies is a broken connection for the caller too: 502 says as much.
    let Ok(answer) = call.send().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    let (status, kind) = (answer.status(), answer.headers().get("content-type").cloned());
    let Ok(bytes) = answer.bytes().await else {
        return StatusCode::BAD_GATEWAY.into_response();
    };
    if hold == Some(Hold::After) {
        wait(&gate, &path, &json).await;
    }
    let mut response = Response::new(Body::from(bytes));
    *response.status_mut() = status;
    if let Some(kind) = kind {
        response.headers_mut().insert("content-type", kind);
    }
    response
}

async fn wait(gate: &Inner, path: &str, body: &Value) {
    let go = gate.go.notified();
    tokio::pin!(go);
    go.as_mut().enable();
    *lock(&gate.held) = Some((path.to_owned(), body.clone()));
    go.await;
}
