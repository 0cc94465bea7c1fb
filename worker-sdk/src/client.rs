//! The worker calls of the API, one method each.
//!
//! Every call but `fetch_and_lock` may be repeated without harm, and is, with back-off, while the engine cannot be
//! reached: a lost answer is indistinguishable from a lost call.

use std::sync::Arc;
use std::time::{Duration, Instant};

use legation_protocol::Problem;
use legation_protocol::external_tasks::{
    ClosedAnswer, CompleteRequest, ErrorRequest, FailureRequest, FetchAnswer, FetchRequest, HeartbeatAnswer,
    HeartbeatRequest, ParkAnswer, ParkRequest, ReleaseRequest,
};
use legation_protocol::steps::{StepList, StepsAnswer, StepsRequest};
use reqwest::{Method, StatusCode, Url};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::Error;
use crate::backoff::Backoff;

const CONNECT: Duration = Duration::from_secs(5);
const ANSWER: Duration = Duration::from_secs(30);
const PATIENCE: Duration = Duration::from_secs(60);

/// A connection to one engine under one key. Cheap to clone.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    base: Arc<str>,
    key: Arc<str>,
    traceparent: Option<Arc<str>>,
    patience: Duration,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Client")
            .field("base", &self.base)
            .finish_non_exhaustive()
    }
}

impl Client {
    /// A client for the engine at `base_url` (such as `http://127.0.0.1:8700`) with an API key.
    ///
    /// # Errors
    /// [`Error::Protocol`] when the address is no URL or TLS cannot be set up.
    pub fn new(base_url: &str, key: &str) -> Result<Client, Error> {
        let base = base_url.trim().trim_end_matches('/');
        let url =
            Url::parse(base).map_err(|err| Error::Protocol(format!("`{base_url}` is no URL: {err}")))?;
        let mut builder = reqwest::Client::builder()
            .connect_timeout(CONNECT)
            .redirect(reqwest::redirect::Policy::none());
        if is_loopback(&url) {
            builder = builder.no_proxy();
        }
        let http = builder.build().map_err(|err| Error::Protocol(chain(&err)))?;
        Ok(Client {
            http,
            base: base.into(),
            key: key.trim().into(),
            traceparent: None,
            patience: PATIENCE,
        })
    }

    /// The same client, sending this W3C trace context with every call.
    #[must_use]
    pub fn with_traceparent(&self, traceparent: &str) -> Client {
        Client {
            traceparent: Some(traceparent.into()),
            ..self.clone()
        }
    }

    /// The same client, repeating a call for at most so long while the engine is unavailable (default one minute).
    #[must_use]
    pub fn with_patience(&self, patience: Duration) -> Client {
        Client {
            patience,
            ..self.clone()
        }
    }

    /// Leases up to `maxTasks` tasks (D31); waits up to `longPollMs` for work. Tried once: the caller's loop repeats it.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn fetch_and_lock(&self, request: &FetchRequest) -> Result<FetchAnswer, Error> {
        let patience = ANSWER + Duration::from_millis(request.long_poll_ms);
        self.once(
            Method::POST,
            "/v1/external-tasks/fetch-and-lock",
            Some(request),
            patience,
        )
        .await
    }

    /// Ends a task with its results; repeated, it gets the same answer.
    ///
    /// # Errors
    /// [`Error::Rejected`] with 409 `OPEN_STEP` or 422 closes nothing: the lease stands.
    pub async fn complete(&self, lease: &str, request: &CompleteRequest) -> Result<ClosedAnswer, Error> {
        self.post(lease, "complete", request).await
    }

    /// Ends a lease with a technical failure; the definition decides about the next try.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn failure(&self, lease: &str, request: &FailureRequest) -> Result<ClosedAnswer, Error> {
        self.post(lease, "failure", request).await
    }

    /// Ends a task with a business error, routed by its code.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn error(&self, lease: &str, request: &ErrorRequest) -> Result<ClosedAnswer, Error> {
        self.post(lease, "error", request).await
    }

    /// Hands a lease back; with `afterMs` a deferral (D34).
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn release(&self, lease: &str, request: &ReleaseRequest) -> Result<ClosedAnswer, Error> {
        self.post(lease, "release", request).await
    }

    /// Extends a lease from now.
    ///
    /// # Errors
    /// [`Error::lease_is_over`] says that the work must stop.
    pub async fn heartbeat(&self, lease: &str, request: &HeartbeatRequest) -> Result<HeartbeatAnswer, Error> {
        self.post(lease, "heartbeat", request).await
    }

    /// Gives the lease back until a waiting step settles; LOCKED in the answer means that there is news instead.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn park(&self, lease: &str, request: &ParkRequest) -> Result<ParkAnswer, Error> {
        self.post(lease, "park", request).await
    }

    /// Records steps in the journal (D8, D35–D41); the same steps sent again get the stored ones.
    ///
    /// # Errors
    /// [`Error::Rejected`] with the codes of D36.
    pub async fn steps(&self, lease: &str, request: &StepsRequest) -> Result<StepsAnswer, Error> {
        self.post(lease, "steps", request).await
    }

    /// Reads steps of the current attempt with a sequence greater than `after`; one page.
    ///
    /// # Errors
    /// See [`Error`].
    pub async fn list_steps(&self, task: &str, after: u32) -> Result<StepList, Error> {
        let path = format!("/v1/external-tasks/{task}/steps?after={after}");
        self.patiently(Method::GET, &path, None::<&()>).await
    }

    async fn post<B: Serialize, A: DeserializeOwned>(
        &self,
        lease: &str,
        verb: &str,
        body: &B,
    ) -> Result<A, Error> {
        self.patiently(
            Method::POST,
            &format!("/v1/external-tasks/{lease}/{verb}"),
            Some(body),
        )
        .await
    }

    /// Repeats a call that is safe to repeat while the engine is unavailable.
    async fn patiently<B: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<A, Error> {
        let begun = Instant::now();
        let mut backoff = Backoff::default();
        loop {
            let error = match self.once(method.clone(), path, body, ANSWER).await {
                Ok(answer) => return Ok(answer),
                Err(error) => error,
            };
            if !error.retry_helps() || begun.elapsed() >= self.patience {
                return Err(error);
            }
            let wait = backoff.next(error.retry_after());
            tracing::debug!(path, error = %error, wait_ms = wait.as_millis(), "call is repeated");
            tokio::time::sleep(wait).await;
        }
    }

    async fn once<B: Serialize, A: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
        timeout: Duration,
    ) -> Result<A, Error> {
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.base))
            .bearer_auth(&self.key)
            .header("accept", "application/json")
            .timeout(timeout);
        if let Some(traceparent) = &self.traceparent {
            request = request.header("traceparent", traceparent.as_ref());
        }
        if let Some(body) = body {
            request = request.json(body);
        }
        let response = request.send().await.map_err(|err| unavailable(&err))?;
        let status = response.status();
        let retry_after = retry_after(&response);
        let bytes = response.bytes().await.map_err(|err| unavailable(&err))?;
        if status.is_success() {
            return serde_json::from_slice(&bytes)
                .map_err(|err| Error::Protocol(format!("{status} at {path}: {err}")));
        }
        Err(refusal(status, retry_after, &bytes))
    }
}

fn refusal(status: StatusCode, retry_after: Option<Duration>, body: &[u8]) -> Error {
    let problem = serde_json::from_slice::<Problem>(body).ok();
    if status == StatusCode::TOO_MANY_REQUESTS || status.is_server_error() {
        let message = problem.map_or_else(|| status.to_string(), |problem| format!("{status}, {problem}"));
        return Error::Unavailable { message, retry_after };
    }
    match problem {
        Some(mut problem) => {
            problem.status = status.as_u16();
            Error::Rejected(Box::new(problem))
        }
        None => Error::Protocol(format!("{status} without a problem body")),
    }
}

fn retry_after(response: &reqwest::Response) -> Option<Duration> {
    let seconds = response
        .headers()
        .get("retry-after")?
        .to_str()
        .ok()?
        .trim()
        .parse()
        .ok()?;
    Some(Duration::from_secs(seconds))
}

fn unavailable(err: &reqwest::Error) -> Error {
    Error::Unavailable {
        message: chain(err),
        retry_after: None,
    }
}

/// An error with its causes: reqwest's own text names only the URL.
fn chain(err: &dyn std::error::Error) -> String {
    let mut text = err.to_string();
    let mut cause = err.source();
    while let Some(inner) = cause {
        text.push_str(": ");
        text.push_str(&inner.to_string());
        cause = inner.source();
    }
    text
}

/// A proxy of the environment must not stand between a worker and the engine on the same machine.
fn is_loopback(url: &Url) -> bool {
    match url.host_str() {
        Some("localhost" | "[::1]") => true,
        Some(host) => host
            .parse::<std::net::Ipv4Addr>()
            .is_ok_and(|ip| ip.is_loopback()),
        None => false,
    }
}
