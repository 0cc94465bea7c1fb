//! `/v1/incidents`: what needs somebody.

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::commands::{Command, IncidentTarget};
use legation_kernel::ids::{InstanceId, TaskId, root_of};
use legation_kernel::task;
use legation_protocol::incidents::{
    IncidentAnswer, IncidentKind, IncidentList, IncidentQuery, IncidentState, IncidentView, ResolveOutcome,
    ResolveRequest,
};
use legation_store::incidents::{self, IncidentFilter, IncidentRow};
use legation_store::{Conn, Key};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::Result;
use super::extract::{Id, Json, Query, value};
use super::load;
use super::page;
use super::views;
use crate::writer;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(retry))
        .routes(routes!(resolve))
}

/// Incidents and notices, newest first; the open ones unless another state is asked for.
#[utoipa::path(get, path = "/v1/incidents", tag = "incidents", params(IncidentQuery),
    responses((status = 200, body = IncidentList)))]
async fn list(
    State(http): State<Http>,
    who: Who,
    Query(query): Query<IncidentQuery>,
) -> Result<Answer<IncidentList>> {
    who.need(Role::Read)?;
    let limit = page::limit(query.limit)?;
    let state = match query.state.unwrap_or(IncidentState::Open) {
        IncidentState::Open => "OPEN",
        IncidentState::Resolved => "RESOLVED",
    };
    let kind = query.kind.map(|kind| match kind {
        IncidentKind::Incident => "incident".to_owned(),
        IncidentKind::Notice => "notice".to_owned(),
    });
    let filter = IncidentFilter {
        project: who.project().to_owned(),
        kind,
        state: Some(state.to_owned()),
        instance: query.instance_id.as_deref().map(|id| Key::new(root_of(id), id)),
        process: query.process,
        after: page::place(query.after.as_deref())?,
        limit,
    };
    let mut read = http.app().db().read().await?;
    let rows = incidents::list(&mut read, &filter).await?;
    let next = rows
        .last()
        .filter(|_| rows.len() as i64 == limit)
        .map(|row| page::cursor(&row.place()));
    let mut list = Vec::new();
    for row in &rows {
        list.push(view(&mut read, row).await?);
    }
    Ok(Answer(IncidentList {
        incidents: list,
        next,
    }))
}

/// One incident or notice.
#[utoipa::path(get, path = "/v1/incidents/{id}", tag = "incidents", params(("id" = String, Path)),
    responses((status = 200, body = IncidentView)))]
async fn get(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<IncidentView>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let row = load::incident(&mut read, who.project(), &id).await?;
    view(&mut read, &row).await.map(Answer)
}

/// Tries again what the incident holds; the answer tells what that led to.
#[utoipa::path(post, path = "/v1/incidents/{id}/retry", tag = "incidents", params(("id" = String, Path)),
    responses((status = 200, body = IncidentAnswer)))]
async fn retry(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<IncidentAnswer>> {
    who.need(Role::Operate)?;
    let row = find(&http, &who, &id).await?;
    let command = Command::RetryIncident { target: target(&row) };
    run(&http, &who, &row, command).await.map(Answer)
}

/// Says what became of a write that was cut off.
#[utoipa::path(post, path = "/v1/incidents/{id}/resolve", tag = "incidents", params(("id" = String, Path)),
    request_body = ResolveRequest, responses((status = 200, body = IncidentAnswer)))]
async fn resolve(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Json(body): Json<ResolveRequest>,
) -> Result<Answer<IncidentAnswer>> {
    who.need(Role::Operate)?;
    let row = find(&http, &who, &id).await?;
    let command = Command::ResolveIncident {
        target: target(&row),
        performed: body.outcome == ResolveOutcome::Performed,
        result: body.result.as_ref().map(value).transpose()?,
        comment: body.comment,
    };
    run(&http, &who, &row, command).await.map(Answer)
}

async fn find(http: &Http, who: &Who, id: &str) -> Result<IncidentRow> {
    let mut read = http.app().db().read().await?;
    load::incident(&mut read, who.project(), id).await
}

fn target(row: &IncidentRow) -> IncidentTarget {
    IncidentTarget {
        id: row.id.clone(),
        instance: InstanceId(row.instance.clone()),
        task: row.external_task.clone().map(TaskId),
        attempt: views::incidents::attempt(row),
        sequence: row.sequence.and_then(|sequence| u32::try_from(sequence).ok()),
        notice: row.kind == "notice",
    }
}

/// Runs the command, then reads what it led to.
async fn run(http: &Http, who: &Who, row: &IncidentRow, command: Command) -> Result<IncidentAnswer> {
    let mut read = http.app().db().read().await?;
    let before = incidents::list_open(&mut read, &row.root).await?;
    drop(read);
    // What the engine could not do by itself it does again; the incident is its instance's, if that can be read.
    let again =
        row.code == writer::FAILED && row.state == "OPEN" && matches!(command, Command::RetryIncident { .. });
    let over = again && writer::run_again(http.app().shared(), row.clone(), &who.principal.id).await?;
    if !over {
        http.app().run(&who.sender(), command).await?;
    }
    let mut read = http.app().db().read().await?;
    let (instance, _) = load::instance(&mut read, who.project(), &row.instance).await?;
    let after = incidents::list_open(&mut read, &row.root).await?;
    let new = after
        .iter()
        .filter(|new| new.instance == row.instance && !before.iter().any(|old| old.id == new.id));
    let new_incidents = new
        .map(|new| views::incidents::view(new, &instance.process))
        .collect();
    let row = load::incident(&mut read, who.project(), &row.id).await?;
    let task_state = match &row.external_task {
        Some(task) => {
            let files = load::task_files(&mut read, &[Key::new(&row.root, task)]).await?;
            let state = files
                .first()
                .map(|file| task::status(file, http.app().clock().now()));
            state.map(views::tasks::wire_state)
        }
        None => None,
    };
    Ok(IncidentAnswer {
        incident: views::incidents::view(&row, &instance.process),
        status: views::instances::word(&instance.status),
        task_state,
        new_incidents,
    })
}

async fn view(read: &mut Conn, row: &IncidentRow) -> Result<IncidentView> {
    let process = load::process_of(read, &row.instance).await?;
    Ok(views::incidents::view(row, &process))
}
