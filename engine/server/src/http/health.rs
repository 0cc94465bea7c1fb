//! `/health` and `/metrics`: for whoever watches the engine.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use legation_kernel::dates::rfc3339;
use legation_protocol::health::{Health, HealthStatus};
use legation_store::incidents::IncidentFilter;
use legation_store::{Dialect, external_tasks, incidents, projects};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::Result;
use crate::writer::{Failing, Why};

/// How long a failed write keeps the engine down, ms. Whoever is kept away by that writes nothing, so that nothing
/// else would ever show that there is room again.
const DOUBT_MS: i64 = 60_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(health))
        .routes(routes!(ready))
        .routes(routes!(live))
        .routes(routes!(metrics))
}

/// Whether the engine can work: 200, or 503 with the reason.
#[utoipa::path(get, path = "/health", tag = "operations", security(()),
    responses((status = 200, body = Health), (status = 503, body = Health)))]
async fn health(State(http): State<Http>) -> (StatusCode, Answer<Health>) {
    readiness(&http).await
}

/// The same, for orchestrators that ask for readiness.
#[utoipa::path(get, path = "/health/ready", tag = "operations", security(()),
    responses((status = 200, body = Health), (status = 503, body = Health)))]
async fn ready(State(http): State<Http>) -> (StatusCode, Answer<Health>) {
    readiness(&http).await
}

/// Whether the process answers at all.
#[utoipa::path(get, path = "/health/live", tag = "operations", security(()), responses((status = 200, body = Health)))]
async fn live(State(http): State<Http>) -> Answer<Health> {
    Answer(view(&http, HealthStatus::Up, None))
}

async fn readiness(http: &Http) -> (StatusCode, Answer<Health>) {
    let (state, detail) = state(http).await;
    let status = match state {
        HealthStatus::Up => StatusCode::OK,
        HealthStatus::Down => StatusCode::SERVICE_UNAVAILABLE,
    };
    (status, Answer(view(http, state, detail)))
}

async fn state(http: &Http) -> (HealthStatus, Option<String>) {
    let app = http.app();
    if app.stopping().is_cancelled() {
        return (HealthStatus::Down, Some("the engine is stopping".to_owned()));
    }
    if let Err(error) = app.db().now().await {
        tracing::warn!(%error, "the database does not answer");
        return (
            HealthStatus::Down,
            Some("the database does not answer".to_owned()),
        );
    }
    match app.shared().writes.failing() {
        Some(failing) => writes(failing, app.clock().now()),
        None => (HealthStatus::Up, None),
    }
}

/// What failed writes say about the engine.
fn writes(failing: Failing, now: i64) -> (HealthStatus, Option<String>) {
    let Failing { why, since, last } = failing;
    let why = match why {
        Why::Full => "the database is full",
        Why::Away => "the database could not be reached",
    };
    let since = rfc3339(since);
    if now - last < DOUBT_MS {
        return (
            HealthStatus::Down,
            Some(format!("writes fail since {since}: {why}")),
        );
    }
    let last = rfc3339(last);
    let detail = format!("writes failed from {since} to {last}: {why}; none was tried since");
    (HealthStatus::Up, Some(detail))
}

fn view(http: &Http, status: HealthStatus, detail: Option<String>) -> Health {
    Health {
        status,
        version: env!("CARGO_PKG_VERSION").to_owned(),
        database: match http.app().db().dialect() {
            Dialect::Sqlite => "sqlite",
            Dialect::Postgres => "postgres",
        }
        .to_owned(),
        detail,
    }
}

/// Counters and gauges in Prometheus's text format.
#[utoipa::path(get, path = "/metrics", tag = "operations",
    responses((status = 200, body = String, content_type = "text/plain")))]
async fn metrics(State(http): State<Http>, who: Option<Who>) -> Result<Response> {
    if !http.settings().open_metrics {
        who.ok_or_else(super::auth::unauthenticated)?.need(Role::Read)?;
    }
    gauges(&http).await?;
    let text = http
        .settings()
        .metrics
        .as_ref()
        .map(|recorder| recorder.render())
        .unwrap_or_default();
    Ok((
        [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")],
        text,
    )
        .into_response())
}

/// What is true now, and cheap to ask.
async fn gauges(http: &Http) -> Result<()> {
    let app = http.app();
    metrics::gauge!("legation_waiting_polls").set(app.shared().wake.polls() as f64);
    let mut read = app.db().read().await?;
    for row in external_tasks::open_topics(&mut read, app.clock().now()).await? {
        let labels = [("project", row.project), ("topic", row.topic)];
        metrics::gauge!("legation_open_tasks", &labels).set(row.open as f64);
        metrics::gauge!("legation_claimable_tasks", &labels).set(row.waiting as f64);
    }
    for project in projects::list(&mut read).await? {
        let filter = IncidentFilter {
            project: project.id.clone(),
            kind: Some("incident".to_owned()),
            state: Some("OPEN".to_owned()),
            limit: MOST_INCIDENTS,
            ..IncidentFilter::default()
        };
        let open = incidents::list(&mut read, &filter).await?.len();
        metrics::gauge!("legation_open_incidents", "project" => project.id).set(open as f64);
    }
    Ok(())
}

/// Past this many the gauge says only "many".
const MOST_INCIDENTS: i64 = 1_000;
