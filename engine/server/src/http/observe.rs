//! What is counted and logged of every request. Bodies and headers never are.

use std::any::Any;
use std::sync::OnceLock;
use std::time::Instant;

use axum::extract::{MatchedPath, Request};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use metrics_exporter_prometheus::{PrometheusBuilder, PrometheusHandle};
use tracing::{debug, error};

use super::error::Error;

/// The process's recorder of counters, installed by the first call. None when another one is installed already.
pub fn recorder() -> Option<PrometheusHandle> {
    static RECORDER: OnceLock<Option<PrometheusHandle>> = OnceLock::new();
    RECORDER
        .get_or_init(|| PrometheusBuilder::new().install_recorder().ok())
        .clone()
}

/// Counts by route, so that ids in paths make no series of their own.
pub async fn observe(request: Request, next: Next) -> Response {
    let started = Instant::now();
    let method = request.method().clone();
    let route = request
        .extensions()
        .get::<MatchedPath>()
        .map_or("none", MatchedPath::as_str)
        .to_owned();
    let response = next.run(request).await;
    let status = response.status().as_u16();
    let labels = [
        ("method", method.to_string()),
        ("route", route.clone()),
        ("status", status.to_string()),
    ];
    metrics::counter!("legation_http_requests_total", &labels).increment(1);
    debug!(%method, route, status, ms = started.elapsed().as_millis() as u64, "request");
    response
}

/// A handler panicked: that request gets 500, the others go on.
pub fn panicked(cause: Box<dyn Any + Send + 'static>) -> Response {
    let words = cause
        .downcast_ref::<String>()
        .map(String::as_str)
        .or_else(|| cause.downcast_ref::<&str>().copied());
    error!(cause = words.unwrap_or("unknown"), "a handler panicked");
    Error::internal(&"a handler panicked").into_response()
}
