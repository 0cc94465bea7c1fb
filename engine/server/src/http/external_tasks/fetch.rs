//! `fetch-and-lock` (D31).

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::commands::Command;
use legation_kernel::ids::TaskId;
use legation_kernel::task::Caller;
use legation_protocol::external_tasks::{FetchAnswer, FetchRequest};
use legation_store::external_tasks::ExternalTaskRow;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{MAX_LOCK_MS, assemble, duration, need_worker};
use crate::http::Http;
use crate::http::auth::{Role, Who};
use crate::http::error::{Error, Result};
use crate::http::extract::Json;
use crate::writer::{self, Claimed};

const MAX_TASKS: u32 = 50;
const MAX_TOPICS: usize = 50;
const MAX_POLL_MS: u64 = 60_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(fetch_and_lock))
}

/// Leases open tasks of some topics; waits up to `longPollMs` for one. An empty list after that, never 204.
#[utoipa::path(post, path = "/v1/external-tasks/fetch-and-lock", tag = "external tasks",
    request_body = FetchRequest, responses((status = 200, body = FetchAnswer)))]
async fn fetch_and_lock(
    State(http): State<Http>,
    who: Who,
    Json(body): Json<FetchRequest>,
) -> Result<Answer<FetchAnswer>> {
    let (request, wait_ms) = request(&who, &body)?;
    http.seen()
        .worker(http.app(), &who.principal, &body.worker_id, &body.topics);
    let claimed = http.app().fetch(request, wait_ms).await?;
    metrics::counter!("legation_fetches_total").increment(1);
    metrics::counter!("legation_leases_total").increment(claimed.len() as u64);
    let mut leases = Leases::of(&http, &who, &claimed);
    if wait_ms > 0 && !leases.rows.is_empty() {
        leases.reason = "the key of the poll was revoked or ran out";
        who.need_still(&http, Role::Work).await?;
    }
    leases.reason = "the engine could not read the task, or its worker did not wait for it";
    for row in &leases.rows {
        http.topics().remember(row);
    }
    let tasks = assemble::assemble(&http, claimed, &body.have).await?;
    leases.given();
    Ok(Answer(FetchAnswer { tasks }))
}

/// Leases that are committed and not answered yet. They go back when this is dropped, also by a worker that hangs up
/// while its answer is read together; nobody would know of them until they run out.
struct Leases {
    http: Http,
    who: Who,
    rows: Vec<ExternalTaskRow>,
    reason: &'static str,
}

impl Leases {
    fn of(http: &Http, who: &Who, claimed: &[Claimed]) -> Self {
        Self {
            http: http.clone(),
            who: who.clone(),
            rows: claimed.iter().map(|claimed| claimed.row.clone()).collect(),
            reason: "",
        }
    }

    /// The worker gets them.
    fn given(mut self) {
        self.rows.clear();
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        for row in &self.rows {
            hand_back(&self.http, &self.who, row, self.reason);
        }
    }
}

fn request(who: &Who, body: &FetchRequest) -> Result<(writer::FetchRequest, i64)> {
    who.need(Role::Work)?;
    need_worker(&body.worker_id)?;
    if body.topics.is_empty() || body.topics.len() > MAX_TOPICS {
        return Err(Error::out_of_range(
            "topics",
            format!("name 1 to {MAX_TOPICS} topics"),
        ));
    }
    for topic in &body.topics {
        who.need_topic(topic)?;
    }
    if !(1..=MAX_TASKS).contains(&body.max_tasks) {
        return Err(Error::out_of_range(
            "maxTasks",
            format!("maxTasks is 1 to {MAX_TASKS}"),
        ));
    }
    let lock_ms = duration("lockDuration", body.lock_duration, 1, MAX_LOCK_MS)?;
    let wait_ms = duration("longPollMs", body.long_poll_ms, 0, MAX_POLL_MS)?;
    let mut topics = body.topics.clone();
    topics.sort();
    topics.dedup();
    let request = writer::FetchRequest {
        project: who.project().to_owned(),
        topics,
        worker: body.worker_id.clone(),
        credential: who.principal.id.clone(),
        lock_ms,
        max: body.max_tasks,
    };
    Ok((request, wait_ms))
}

fn hand_back(http: &Http, who: &Who, row: &ExternalTaskRow, reason: &str) {
    let caller = Caller {
        worker: row.worker.clone().unwrap_or_default(),
        credential: row.credential.clone().unwrap_or_default(),
        lease: Some((
            u32::try_from(row.lease_no).unwrap_or_default(),
            row.lease_random.clone().unwrap_or_default(),
        )),
        arrived_at: http.app().clock().now(),
    };
    let command = Command::Release {
        task: TaskId(row.id.clone()),
        caller,
        after_ms: None,
        reason: Some(reason.to_owned()),
    };
    let (app, sender) = (http.app().clone(), who.sender());
    http.app().spawn(async move {
        if let Err(error) = app.run(&sender, command).await {
            tracing::info!(%error, "a lease could not be handed back; it runs out by itself");
        }
    });
}
