//! The HTTP API: one file per resource with its handlers, which extract, call and answer. Rules are the kernel's,
//! queries the store's; here is only what HTTP itself asks for.

mod auth;
mod counts;
mod error;
mod events;
mod external_tasks;
mod extract;
mod health;
mod incidents;
mod instances;
mod keys;
mod listen;
mod load;
mod me;
mod models;
mod observe;
mod openapi;
mod page;
mod parts;
mod problems;
mod processes;
mod seen;
mod servers;
mod statistics;
mod studio;
mod tasks;
mod throughput;
mod views;
mod words;
mod workers;

use std::sync::Arc;

use axum::Router;
use axum::http::StatusCode;
use metrics_exporter_prometheus::PrometheusHandle;
use tokio::net::TcpListener;
use tower_http::catch_panic::CatchPanicLayer;

pub use auth::{Principal, ROLES, Role};
pub use error::{Error, PROBLEM_JSON};
pub use extract::{BodyTime, MAX_BODY, MAX_DOCUMENTS};
pub use keys::{NewKey, create as create_key, misplaced};
pub use openapi::document as openapi;
pub use processes::{answer as deploy_answer, problems as document_problems};
pub use studio::Login;

use crate::app::App;

/// What the API is served with.
#[derive(Clone, Default)]
pub struct Settings {
    /// What `/metrics` shows; [`recorder`] makes one. None: only what is asked of the database.
    pub metrics: Option<PrometheusHandle>,
    /// `/metrics` without a key, for a scraper on a closed network. False: a key with the role `read`.
    pub open_metrics: bool,
    /// Lets the reader of a terminal into Studio; only `legation dev` sets it.
    pub login: Option<Arc<Login>>,
}

/// What handlers share. Cheap to clone.
#[derive(Clone)]
pub struct Http(Arc<Inner>);

struct Inner {
    app: App,
    settings: Settings,
    keys: auth::Keys,
    seen: seen::Seen,
    topics: load::Topics,
    names: events::Names,
    throughput: throughput::Throughput,
}

impl Http {
    fn app(&self) -> &App {
        &self.0.app
    }

    fn settings(&self) -> &Settings {
        &self.0.settings
    }

    fn keys(&self) -> &auth::Keys {
        &self.0.keys
    }

    fn seen(&self) -> &seen::Seen {
        &self.0.seen
    }

    fn topics(&self) -> &load::Topics {
        &self.0.topics
    }

    fn names(&self) -> &events::Names {
        &self.0.names
    }

    fn throughput(&self) -> &throughput::Throughput {
        &self.0.throughput
    }
}

/// Every route of the API. Every other path is Studio's.
pub fn router(app: App, settings: Settings) -> Router {
    let http = Http(Arc::new(Inner {
        app,
        settings,
        keys: auth::Keys::default(),
        seen: seen::Seen::default(),
        topics: load::Topics::default(),
        names: events::Names::default(),
        throughput: throughput::Throughput::default(),
    }));
    let (router, _) = openapi::routes().split_for_parts();
    router
        .route("/v1/dev/login", axum::routing::post(studio::login))
        .fallback(studio::serve)
        .method_not_allowed_fallback(|| async {
            let detail = "the path exists, this method on it does not";
            Error::new(StatusCode::METHOD_NOT_ALLOWED, "METHOD_NOT_ALLOWED", detail)
        })
        .layer(axum::middleware::from_fn(observe::observe))
        .layer(CatchPanicLayer::custom(observe::panicked))
        .with_state(http)
}

/// Serves the API until the engine stops; requests that run are finished.
pub async fn serve(app: App, listener: TcpListener, settings: Settings) {
    let stopping = app.stopping().clone();
    listen::listen(listener, router(app, settings), listen::HEAD, stopping).await;
}

pub use observe::recorder;
