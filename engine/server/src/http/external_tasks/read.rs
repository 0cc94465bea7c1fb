//! Reading tasks and their journals.

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::ids::{TaskId, root_of};
use legation_kernel::task::TaskFile;
use legation_protocol::external_tasks::{ExternalTaskList, ExternalTaskQuery, ExternalTaskView};
use legation_protocol::keys::PrincipalKind;
use legation_protocol::steps::{StepList, StepView, StepsQuery};
use legation_store::external_tasks::{self, ExternalTaskFilter};
use legation_store::{Conn, Key, steps};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::task_of;
use crate::http::Http;
use crate::http::auth::{Role, Who};
use crate::http::error::Result;
use crate::http::extract::{Id, Query};
use crate::http::load;
use crate::http::page;
use crate::http::views::{self, steps::Sight};

/// Pages that one list call looks through for tasks in a state.
const MOST_PAGES: usize = 10;

/// Bytes of requests and results in one page of a journal.
pub(super) const PAGE_BYTES: u64 = 256 * 1024;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get))
        .routes(routes!(list_steps))
}

/// Tasks, newest first: the open ones of the project, or all of one instance.
#[utoipa::path(get, path = "/v1/external-tasks", tag = "external tasks", params(ExternalTaskQuery),
    responses((status = 200, body = ExternalTaskList)))]
async fn list(
    State(http): State<Http>,
    who: Who,
    Query(query): Query<ExternalTaskQuery>,
) -> Result<Answer<ExternalTaskList>> {
    who.need(Role::Read)?;
    let limit = page::limit(query.limit)?;
    let mut filter = ExternalTaskFilter {
        project: who.project().to_owned(),
        instance: query.instance_id.as_deref().map(|id| Key::new(root_of(id), id)),
        topic: query.topic.clone(),
        worker: None,
        after: page::place(query.after.as_deref())?,
        limit,
    };
    let now = http.app().clock().now();
    let mut read = http.app().db().read().await?;
    let mut tasks = Vec::new();
    for _ in 0..MOST_PAGES {
        let rows = external_tasks::list(&mut read, &filter).await?;
        let is_last = (rows.len() as i64) < limit;
        let keys: Vec<Key> = rows.iter().map(external_tasks::ExternalTaskRow::key).collect();
        let files = load::task_files(&mut read, &keys).await?;
        let views = files.iter().map(|file| views::tasks::view(file, now));
        tasks.extend(views.filter(|view| query.state.is_none_or(|state| view.state == state)));
        filter.after = rows
            .last()
            .map(external_tasks::ExternalTaskRow::place)
            .filter(|_| !is_last);
        if filter.after.is_none() || tasks.len() as i64 >= limit {
            break;
        }
    }
    Ok(Answer(ExternalTaskList {
        tasks,
        next: filter.after.as_ref().map(page::cursor),
    }))
}

/// One task.
#[utoipa::path(get, path = "/v1/external-tasks/{id}", tag = "external tasks", params(("id" = String, Path)),
    responses((status = 200, body = ExternalTaskView)))]
async fn get(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<ExternalTaskView>> {
    need_reader(&who)?;
    let task = task_of(&id)?;
    let mut read = http.app().db().read().await?;
    let row = load::task_row(&mut read, &who, &task).await?;
    let file = load::task_file(&mut read, &row).await?;
    Ok(Answer(views::tasks::view(&file, http.app().clock().now())))
}

/// Steps of the current attempt, or of another one, in the order of `sequence`.
#[utoipa::path(get, path = "/v1/external-tasks/{id}/steps", tag = "external tasks",
    params(("id" = String, Path), StepsQuery), responses((status = 200, body = StepList)))]
async fn list_steps(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Query(query): Query<StepsQuery>,
) -> Result<Answer<StepList>> {
    need_reader(&who)?;
    let limit = page::limit_up_to(query.limit, 200, 1_000)?;
    let task = task_of(&id)?;
    let mut read = http.app().db().read().await?;
    let row = load::task_row(&mut read, &who, &task).await?;
    let attempt = query
        .attempt
        .unwrap_or(u32::try_from(row.attempt).unwrap_or_default());
    let after = query.after.unwrap_or(0);
    let (steps, next) = page_of_steps(&http, &mut read, &task, attempt, after, limit).await?;
    Ok(Answer(StepList {
        attempt,
        steps,
        after: next,
    }))
}

/// People and services need the role to read; a worker's key reads tasks of its topics.
fn need_reader(who: &Who) -> Result<()> {
    if who.principal.kind == PrincipalKind::Worker {
        who.need(Role::Work)
    } else {
        who.need(Role::Read)
    }
}

/// One page of an attempt: as many steps as fit, at least one, and where the next page begins.
async fn page_of_steps(
    http: &Http,
    read: &mut Conn,
    task: &TaskId,
    attempt: u32,
    after: u32,
    limit: i64,
) -> Result<(Vec<StepView>, Option<u32>)> {
    let place = (i64::from(attempt), i64::from(after));
    let rows = steps::list(
        read,
        task.root(),
        task.as_str(),
        Some(i64::from(attempt)),
        place,
        limit,
    )
    .await?;
    let is_last = (rows.len() as i64) < limit;
    let mut list = rows.iter().map(load::step).collect::<Result<Vec<_>>>()?;
    let fitting = fitting(list.iter().map(bytes));
    let next = (fitting < list.len() || !is_last)
        .then(|| list.get(fitting.saturating_sub(1)).map_or(after, |s| s.sequence));
    list.truncate(fitting);
    let values = load::values(http, read, &load::wanted_by_steps(list.iter())).await?;
    let views = list
        .iter()
        .map(|step| views::steps::view(step, &values, Sight::Reader, false));
    Ok((views.collect::<Result<_>>()?, next))
}

/// How many of these sizes fit in a page, at least one.
pub(super) fn fitting(sizes: impl Iterator<Item = u64>) -> usize {
    let mut sum = 0;
    let counted = sizes.take_while(|size| {
        let first = sum == 0;
        sum += size + 1;
        first || sum <= PAGE_BYTES
    });
    counted.count()
}

/// The bytes that a step brings into an answer.
pub(super) fn bytes(step: &legation_kernel::journal::Step) -> u64 {
    let named = std::iter::once(&step.request)
        .chain(&step.effective)
        .chain(&step.result)
        .chain(&step.late_result);
    named.map(|reference| reference.size).sum()
}

/// All steps of the current attempt, for a worker that holds the lease.
pub(super) async fn current_steps(http: &Http, task: &TaskId) -> Result<Vec<StepView>> {
    let mut read = http.app().db().read().await?;
    let row = external_tasks::get(&mut read, task.root(), task.as_str()).await?;
    let row = row.ok_or_else(|| load::no_task(task))?;
    let file: TaskFile = load::task_file(&mut read, &row).await?;
    let values = load::values(http, &mut read, &load::wanted_by_steps(file.current())).await?;
    file.current()
        .map(|step| views::steps::view(step, &values, Sight::Lease, false))
        .collect()
}
