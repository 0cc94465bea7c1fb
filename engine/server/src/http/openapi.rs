//! `/v1/openapi.json`: the contract, generated from the handlers. `specs/openapi.json` is the same, checked in; a
//! test compares them.

use axum::Json as Answer;
use utoipa::openapi::security::{Http as HttpScheme, HttpAuthScheme, SecurityScheme};
use utoipa::{Modify, OpenApi};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{
    Http, counts, events, external_tasks, health, incidents, instances, keys, me, problems, processes,
    servers, statistics, tasks, workers,
};

#[derive(OpenApi)]
#[openapi(
    info(title = "Legation", description = "A process engine whose external tasks may be AI agents. JSON in \
        camelCase, durations integer milliseconds, times RFC 3339 in UTC. Every answer that is not 2xx is a problem \
        (RFC 9457) with a stable code."),
    components(schemas(legation_protocol::Problem)),
    modifiers(&Bearer),
    security(("key" = []))
)]
struct Contract;

struct Bearer;

impl Modify for Bearer {
    fn modify(&self, contract: &mut utoipa::openapi::OpenApi) {
        let scheme = SecurityScheme::Http(HttpScheme::new(HttpAuthScheme::Bearer));
        contract
            .components
            .get_or_insert_default()
            .add_security_scheme("key", scheme);
    }
}

/// Every route with its description.
pub(super) fn routes() -> OpenApiRouter<Http> {
    OpenApiRouter::with_openapi(Contract::openapi())
        .merge(processes::router())
        .merge(statistics::router())
        .merge(instances::router())
        .merge(counts::router())
        .merge(external_tasks::router())
        .merge(tasks::router())
        .merge(incidents::router())
        .merge(workers::router())
        .merge(servers::router())
        .merge(keys::router())
        .merge(me::router())
        .merge(events::router())
        .merge(health::router())
        .merge(problems::router())
        .routes(routes!(openapi_json))
}

/// The contract of this API.
#[must_use]
pub fn document() -> utoipa::openapi::OpenApi {
    routes().into_openapi()
}

/// This document.
#[utoipa::path(get, path = "/v1/openapi.json", tag = "operations", security(()),
    responses((status = 200, body = Object)))]
async fn openapi_json() -> Answer<utoipa::openapi::OpenApi> {
    Answer(document())
}
