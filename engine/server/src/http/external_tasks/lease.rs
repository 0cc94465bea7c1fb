//! Calls about the lease alone: heartbeat, park, and an operator's unlock.

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::commands::{self, Command};
use legation_kernel::dates::rfc3339;
use legation_protocol::external_tasks::{
    ClosedAnswer, HeartbeatAnswer, HeartbeatRequest, ParkAnswer, ParkRequest,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::closing::closed;
use super::{Call, MAX_LOCK_MS, call, duration, read, task_of};
use crate::http::Http;
use crate::http::auth::{Role, Who};
use crate::http::error::{Error, Result};
use crate::http::extract::{Id, Json};
use crate::http::{load, views};

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(heartbeat))
        .routes(routes!(extend_lock))
        .routes(routes!(park))
        .routes(routes!(unlock))
}

/// Extends the lease from now.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/heartbeat", tag = "external tasks", params(("id" = String, Path)),
    request_body = HeartbeatRequest, responses((status = 200, body = HeartbeatAnswer)))]
async fn heartbeat(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<HeartbeatRequest>,
) -> Result<Answer<HeartbeatAnswer>> {
    extend(&http, &who, id, &body).await
}

/// The same as `heartbeat`, under the name that other engines have for it.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/extend-lock", tag = "external tasks", params(("id" = String, Path)),
    request_body = HeartbeatRequest, responses((status = 200, body = HeartbeatAnswer)))]
async fn extend_lock(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<HeartbeatRequest>,
) -> Result<Answer<HeartbeatAnswer>> {
    extend(&http, &who, id, &body).await
}

/// Gives the lease back until a waiting step settles; or tells the news that came in between.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/park", tag = "external tasks", params(("id" = String, Path)),
    request_body = ParkRequest, responses((status = 200, body = ParkAnswer)))]
async fn park(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<ParkRequest>,
) -> Result<Answer<ParkAnswer>> {
    let Call { task, caller } = call(&http, &who, id, &body.worker_id).await?;
    let answer = http
        .app()
        .run(
            &who.sender(),
            Command::Park {
                task: task.clone(),
                caller,
            },
        )
        .await?;
    let commands::Answer::Parked { state, waiting, news } = answer else {
        return Err(Error::internal(&format!("park answered {answer:?}")));
    };
    let steps = if news {
        read::current_steps(&http, &task).await?
    } else {
        Vec::new()
    };
    Ok(Answer(ParkAnswer {
        task: views::tasks::status(state, &waiting),
        steps,
    }))
}

/// Takes a lease away; for operators, with the bare id.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/unlock", tag = "external tasks", params(("id" = String, Path)),
    responses((status = 200, body = ClosedAnswer)))]
async fn unlock(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<ClosedAnswer>> {
    who.need(Role::Operate)?;
    let task = task_of(&id)?;
    let mut conn = http.app().db().read().await?;
    load::task_row(&mut conn, &who, &task).await?;
    drop(conn);
    let answer = http
        .app()
        .run(&who.sender(), Command::Unlock { task: task.clone() })
        .await?;
    closed(Some(&task), answer).map(Answer)
}

async fn extend(http: &Http, who: &Who, id: Id, body: &HeartbeatRequest) -> Result<Answer<HeartbeatAnswer>> {
    let Call { task, caller } = call(http, who, id, &body.worker_id).await?;
    let duration_ms = duration("lockDuration", body.lock_duration, 1, MAX_LOCK_MS)?;
    let answer = http
        .app()
        .run(
            &who.sender(),
            Command::Heartbeat {
                task,
                caller,
                duration_ms,
            },
        )
        .await?;
    let commands::Answer::Lease { until } = answer else {
        return Err(Error::internal(&format!("a heartbeat answered {answer:?}")));
    };
    Ok(Answer(HeartbeatAnswer {
        locked_until: rfc3339(until),
    }))
}
