//! `/v1/external-tasks`: leases on work, the calls that end them, and the journal (D30–D41).

mod agent;
mod assemble;
mod closing;
mod fetch;
mod lease;
mod read;
mod steps;

use legation_kernel::ids::{LeaseRef, TaskId};
use legation_kernel::task::Caller;
use utoipa_axum::router::OpenApiRouter;

use super::Http;
use super::auth::{Role, Who};
use super::error::{Error, Result};
use super::extract::Id;
use super::load;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .merge(fetch::router())
        .merge(closing::router())
        .merge(lease::router())
        .merge(steps::router())
        .merge(read::router())
}

/// A worker's call under its lease.
struct Call {
    task: TaskId,
    caller: Caller,
}

/// Reads the lease out of the path and checks that the key may work on this topic.
///
/// # Errors
/// 403 without the role `work`, 404 for another topic's task.
async fn call(http: &Http, who: &Who, Id(id): Id, worker: &str) -> Result<Call> {
    who.need(Role::Work)?;
    need_worker(worker)?;
    let lease = LeaseRef::parse(&id).ok_or_else(|| Error::not_found(format!("no external task {id}")))?;
    load::need_task_topic(http, who, &lease.task).await?;
    http.seen().call(http.app(), &who.principal, worker);
    let caller = Caller {
        worker: worker.to_owned(),
        credential: who.principal.id.clone(),
        lease: lease.lease,
        arrived_at: http.app().clock().now(),
    };
    Ok(Call {
        task: lease.task,
        caller,
    })
}

/// The task of an id, with or without its lease: for reading.
///
/// # Errors
/// 404
fn task_of(id: &str) -> Result<TaskId> {
    let lease = LeaseRef::parse(id).ok_or_else(|| Error::not_found(format!("no external task {id}")))?;
    Ok(lease.task)
}

fn need_worker(worker: &str) -> Result<()> {
    if worker.is_empty() || worker.len() > 200 {
        return Err(Error::out_of_range(
            "workerId",
            "workerId has 1 to 200 characters",
        ));
    }
    Ok(())
}

/// A duration of the wire within its bounds.
///
/// # Errors
/// 422
fn duration(argument: &str, ms: u64, least: u64, most: u64) -> Result<i64> {
    if !(least..=most).contains(&ms) {
        return Err(Error::out_of_range(
            argument,
            format!("{argument} is {least} to {most} ms"),
        ));
    }
    i64::try_from(ms).map_err(|_| Error::out_of_range(argument, "out of range"))
}

/// The longest lease, ms (D31).
const MAX_LOCK_MS: u64 = 3_600_000;
