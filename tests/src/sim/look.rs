//! Reading the database as the HTTP layer would: rows become the kernel's aggregates, payloads are decrypted.

use std::sync::Arc;

use legation_kernel::content::{Content, PayloadRef};
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::instance::{Event, Instance};
use legation_kernel::journal::Step;
use legation_kernel::task::{Lease, Task, TaskFile};
use legation_language::Value;
use legation_server::app::App;
use legation_server::writer::read_payloads;
use legation_store::external_tasks::ExternalTaskRow;
use legation_store::history::HistoryRow;
use legation_store::instances::InstanceRow;
use legation_store::payloads::PayloadKey;
use legation_store::{Conn, external_tasks, history, instances, steps};

use super::engine::key;

pub async fn row(conn: &mut Conn, id: &str) -> InstanceRow {
    let found = instances::get(conn, legation_kernel::ids::root_of(id), id)
        .await
        .expect("a query");
    found.unwrap_or_else(|| panic!("instance {id} is gone"))
}

pub async fn instance(conn: &mut Conn, id: &InstanceId) -> Instance {
    serde_json::from_str(&row(conn, id.as_str()).await.snapshot).expect("a snapshot")
}

pub async fn task_row(conn: &mut Conn, id: &TaskId) -> ExternalTaskRow {
    let found = external_tasks::get(conn, id.root(), id.as_str())
        .await
        .expect("a query");
    found.unwrap_or_else(|| panic!("task {id} is gone"))
}

/// A task with its steps, as its rows are.
pub async fn file(conn: &mut Conn, id: &TaskId) -> TaskFile {
    let row = task_row(conn, id).await;
    let mut task: Task = serde_json::from_str(&row.body).expect("a task");
    let lease_no = u32::try_from(row.lease_no).expect("a lease number");
    if lease_no > task.lease_no {
        // A fetch writes the columns only: the rest of what `task::take` does is done by whoever reads.
        task.ended_lease = None;
        task.available_at = None;
        task.parked = false;
        task.news = false;
    }
    task.lease_no = lease_no;
    task.expiries = u32::try_from(row.expiries).expect("a count");
    task.lease = row
        .worker
        .as_ref()
        .zip(row.locked_until)
        .map(|(worker, until)| Lease {
            number: task.lease_no,
            random: row.lease_random.clone().unwrap_or_default(),
            worker: worker.clone(),
            credential: row.credential.clone().unwrap_or_default(),
            until,
            duration_ms: row.lock_ms.unwrap_or_default(),
        });
    TaskFile {
        task,
        steps: steps_of(conn, id).await,
    }
}

async fn steps_of(conn: &mut Conn, id: &TaskId) -> Vec<Arc<Step>> {
    let rows = steps::list_for_tasks(conn, &[key(id.as_str())])
        .await
        .expect("a query");
    let mut found: Vec<Arc<Step>> = rows
        .iter()
        .map(|row| Arc::new(serde_json::from_str(&row.body).expect("a step")))
        .collect();
    found.sort_by_key(|step: &Arc<Step>| (step.attempt, step.sequence));
    found
}

pub async fn history_of(conn: &mut Conn, id: &InstanceId) -> Vec<(HistoryRow, Vec<Event>)> {
    let rows = history::list(conn, id.root(), id.as_str(), 0, 100_000)
        .await
        .expect("a query");
    let read = |row: HistoryRow| {
        let events = serde_json::from_str(&row.events).expect("events");
        (row, events)
    };
    rows.into_iter().map(read).collect()
}

/// The value behind a reference of this owner.
pub async fn payload(app: &App, conn: &mut Conn, owner: &str, reference: &PayloadRef) -> Value {
    let wanted = PayloadKey {
        root: legation_kernel::ids::root_of(owner).to_owned(),
        owner: owner.to_owned(),
        digest: reference.digest.clone(),
    };
    let values = read_payloads(app.shared(), conn, &[wanted]).await;
    let mut values = values.unwrap_or_else(|error| panic!("a payload of {owner} cannot be read: {error}"));
    values
        .remove(&reference.digest)
        .unwrap_or_else(|| panic!("a payload of {owner} is gone"))
}

pub async fn content(app: &App, conn: &mut Conn, owner: &str, content: &Content) -> Value {
    match content {
        Content::Inline(value) => value.clone(),
        Content::Payload(reference) => payload(app, conn, owner, reference).await,
    }
}

/// A variable of an instance, if it is set.
pub async fn variable(app: &App, conn: &mut Conn, instance: &Instance, name: &str) -> Option<Value> {
    let variable = instance.variables().get(name)?;
    Some(content(app, conn, instance.id.as_str(), &variable.content).await)
}
