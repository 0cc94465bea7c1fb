//! `/v1/me`: whom a key names.

use axum::Json as Answer;
use legation_protocol::keys::PrincipalKind;
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::Who;
use super::error::Result;

/// The caller.
#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "camelCase")]
struct Me {
    /// The principal.
    principal: String,
    /// What it is.
    kind: PrincipalKind,
    /// The project of its key.
    project: String,
    /// Its groups.
    groups: Vec<String>,
    /// Its roles.
    roles: Vec<String>,
    /// The topics that its key reaches; absent: all.
    #[serde(skip_serializing_if = "Option::is_none")]
    topics: Option<Vec<String>>,
    /// The key's id.
    key: String,
}

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(me))
}

/// Whom the key of this call names.
#[utoipa::path(get, path = "/v1/me", tag = "access", responses((status = 200, body = Me)))]
async fn me(who: Who) -> Result<Answer<Me>> {
    let principal = &who.principal;
    Ok(Answer(Me {
        principal: principal.id.clone(),
        kind: principal.kind,
        project: principal.project.clone(),
        groups: principal.groups.clone(),
        roles: principal.roles.clone(),
        topics: principal.topics.clone(),
        key: principal.key.clone(),
    }))
}
