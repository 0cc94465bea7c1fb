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

/// What the page of a code says to do, in the form of a hint: without links, capital and full stop.
pub(super) fn advice(code: &str) -> Option<String> {
    let section = section(code)?;
    let advice = section.lines().find_map(|line| line.strip_prefix("**Do:** "))?;
    let mut hint = String::new();
    let mut rest = advice.strip_suffix('.').unwrap_or(advice);
    while let Some((before, link)) = rest.split_once('[') {
        let (name, after) = link.split_once("](")?;
        hint.push_str(before);
        hint.push_str(name);
        rest = after.split_once(')')?.1;
    }
    hint.push_str(rest);
    let first = hint.get(..1)?.to_ascii_lowercase();
    hint.replace_range(..1, &first);
    Some(hint)
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
