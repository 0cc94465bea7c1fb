//! `/v1/problems/{code}`: what a code means and what to do, without a network. The `type` of every problem leads here.

use axum::http::header;
use axum::response::{IntoResponse, Response};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::error::{Error, Result};
use super::extract::Id;

const ERRORS: &str = include_str!("../../../../docs/ERRORS.md");

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(problem))
}

/// What a code means, as Markdown.
#[utoipa::path(get, path = "/v1/problems/{code}", tag = "operations", security(()), params(("code" = String, Path)),
    responses((status = 200, body = String, content_type = "text/markdown")))]
async fn problem(Id(code): Id) -> Result<Response> {
    let section = section(&code).ok_or_else(|| Error::not_found(format!("no page about {code}")))?;
    Ok(([(header::CONTENT_TYPE, "text/markdown; charset=utf-8")], section).into_response())
}

/// The section of a code, up to the next heading.
fn section(code: &str) -> Option<String> {
    let heading = format!("### {code}\n");
    let start = ERRORS.find(&heading)?;
    let body = &ERRORS[start..];
    let end = body[heading.len()..]
        .find("\n#")
        .map_or(body.len(), |end| heading.len() + end + 1);
    Some(body[..end].trim_end().to_owned() + "\n")
}
