//! `/v1/workers`: who works, and which topics nobody serves.

use std::collections::{BTreeMap, HashMap};

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::dates::rfc3339;
use legation_protocol::workers::{TopicView, WorkerView, WorkersAnswer};
use legation_store::external_tasks::{self, ExternalTaskFilter, ExternalTaskRow};
use legation_store::workers::{self, WorkerRow};
use legation_store::{Conn, external_tasks::TopicRow};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::Result;
use crate::duties::KEEP_WORKERS_MS;

/// A worker that was seen within this time counts as live: longer than the longest poll, ms.
const LIVE_MS: i64 = 90_000;

/// Open tasks that are counted for leases.
const MOST_TASKS: i64 = 5_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(list))
}

/// Workers, topics, and topics with open work that no live worker asks for.
#[utoipa::path(get, path = "/v1/workers", tag = "operations", responses((status = 200, body = WorkersAnswer)))]
async fn list(State(http): State<Http>, who: Who) -> Result<Answer<WorkersAnswer>> {
    who.need(Role::Read)?;
    let now = http.app().clock().now();
    let mut read = http.app().db().read().await?;
    let rows = seen(&http, &mut read, who.project()).await?;
    let open = external_tasks::open_topics(&mut read, now).await?;
    let filter = ExternalTaskFilter {
        project: who.project().to_owned(),
        limit: MOST_TASKS,
        ..ExternalTaskFilter::default()
    };
    let tasks = external_tasks::list(&mut read, &filter).await?;
    let leased: Vec<&ExternalTaskRow> = tasks
        .iter()
        .filter(|task| task.worker.is_some() && task.locked_until.is_some_and(|until| until > now))
        .collect();
    let mut workers: Vec<WorkerView> = rows.iter().map(|row| worker(row, &leased, now)).collect();
    let open = open.into_iter().filter(|row| row.project == who.project());
    let mut topics = topics(open, &leased, &workers);
    let since = http.throughput().since(now);
    let done = http.throughput().workers(who.project(), now);
    for worker in &mut workers {
        worker.completed_last_hour = done.get(&worker.worker_id).map_or(0, |done| done.last_hour);
    }
    let done = http.throughput().topics(who.project(), now);
    for topic in &mut topics {
        let done = done.get(&topic.topic).copied().unwrap_or_default();
        topic.completed_last_5_min = done.last_5_min;
        topic.completed_last_hour = done.last_hour;
    }
    let unserved = topics.iter().filter(|topic| topic.open > 0 && topic.workers == 0);
    Ok(Answer(WorkersAnswer {
        unserved_topics: unserved.map(|topic| topic.topic.clone()).collect(),
        workers,
        topics,
        completed_since: Some(rfc3339(since)),
    }))
}

/// Topics that a live worker asks for.
pub(super) async fn served_topics(http: &Http, read: &mut Conn, project: &str) -> Result<Vec<String>> {
    let now = http.app().clock().now();
    let rows = seen(http, read, project).await?;
    Ok(rows
        .iter()
        .filter(|row| is_live(row, now))
        .flat_map(asked)
        .collect())
}

/// What the database knows and what is newer in memory, last seen first.
async fn seen(http: &Http, read: &mut Conn, project: &str) -> Result<Vec<WorkerRow>> {
    let mut rows: HashMap<String, WorkerRow> = workers::list(read, project)
        .await?
        .into_iter()
        .map(|row| (row.worker_id.clone(), row))
        .collect();
    for row in http.seen().workers(project) {
        let known = rows.get(&row.worker_id);
        if known.is_none_or(|known| known.last_seen <= row.last_seen) {
            let started_at = known.map_or(row.started_at, |known| known.started_at);
            rows.insert(row.worker_id.clone(), WorkerRow { started_at, ..row });
        }
    }
    let gone = http.app().clock().now() - KEEP_WORKERS_MS;
    let mut rows: Vec<WorkerRow> = rows.into_values().filter(|row| row.last_seen >= gone).collect();
    rows.sort_by(|a, b| (b.last_seen, &a.worker_id).cmp(&(a.last_seen, &b.worker_id)));
    Ok(rows)
}

fn is_live(row: &WorkerRow, now: i64) -> bool {
    now - row.last_seen <= LIVE_MS
}

fn asked(row: &WorkerRow) -> Vec<String> {
    serde_json::from_str(&row.topics).unwrap_or_default()
}

fn worker(row: &WorkerRow, leased: &[&ExternalTaskRow], now: i64) -> WorkerView {
    let own = leased
        .iter()
        .filter(|task| task.worker.as_ref() == Some(&row.worker_id));
    WorkerView {
        worker_id: row.worker_id.clone(),
        principal: row.principal.clone().unwrap_or_default(),
        topics: asked(row),
        last_seen_at: rfc3339(row.last_seen),
        live: is_live(row, now),
        leases: u32::try_from(own.count()).unwrap_or(u32::MAX),
        completed_last_hour: 0,
    }
}

fn topics(
    open: impl Iterator<Item = TopicRow>,
    leased: &[&ExternalTaskRow],
    workers: &[WorkerView],
) -> Vec<TopicView> {
    let mut topics: BTreeMap<String, TopicView> = BTreeMap::new();
    let empty = |topic: &str| TopicView {
        topic: topic.to_owned(),
        open: 0,
        locked: 0,
        parked: 0,
        oldest_open_at: None,
        workers: 0,
        completed_last_5_min: 0,
        completed_last_hour: 0,
    };
    for row in open {
        let locked = leased.iter().filter(|task| task.topic == row.topic).count() as u64;
        let (all, waiting) = (row.open.unsigned_abs(), row.waiting.unsigned_abs());
        let view = TopicView {
            open: waiting,
            locked,
            parked: all.saturating_sub(waiting + locked),
            oldest_open_at: row.oldest.map(rfc3339),
            ..empty(&row.topic)
        };
        topics.insert(row.topic, view);
    }
    for worker in workers.iter().filter(|worker| worker.live) {
        for topic in &worker.topics {
            topics
                .entry(topic.clone())
                .or_insert_with(|| empty(topic))
                .workers += 1;
        }
    }
    topics.into_values().collect()
}
