//! `/v1/instances/counts`: how many instances have which status.

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::dates::parse_rfc3339;
use legation_protocol::statistics::{CountsQuery, InstanceCounts, StatusCount};
use legation_store::counts::{self, CountFilter};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::{Error, Result};
use super::extract::Query;
use super::views;

/// Past this many the engine stops counting: finished instances are never counted one by one at every call.
const MOST: i64 = 50_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(instance_counts))
}

/// Instances by status. Past 50 000 of one status the engine stops counting and says so.
#[utoipa::path(get, path = "/v1/instances/counts", tag = "instances", params(CountsQuery),
    responses((status = 200, body = InstanceCounts)))]
async fn instance_counts(
    State(http): State<Http>,
    who: Who,
    Query(query): Query<CountsQuery>,
) -> Result<Answer<InstanceCounts>> {
    who.need(Role::Read)?;
    let filter = CountFilter {
        project: who.project().to_owned(),
        process: query.process,
        started_from: time("startedAfter", query.started_after.as_deref())?,
        started_before: time("startedBefore", query.started_before.as_deref())?,
        most: MOST,
    };
    let mut read = http.app().db().read().await?;
    let counts = counts::by_status(&mut read, &filter).await?;
    let view = |count: counts::StatusCount| StatusCount {
        status: views::instances::word(count.status),
        count: count.count.unsigned_abs(),
        at_least: count.at_least,
    };
    Ok(Answer(InstanceCounts {
        counts: counts.into_iter().map(view).collect(),
    }))
}

/// A time out of a query string, epoch milliseconds.
///
/// # Errors
/// 400
pub(super) fn time(argument: &str, text: Option<&str>) -> Result<Option<i64>> {
    let Some(text) = text.filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    let at = parse_rfc3339(text);
    at.map(Some).ok_or_else(|| {
        Error::invalid(format!("{argument} is no time"))
            .argument(argument)
            .hint("write it like 2026-11-30T06:00:00Z")
    })
}
