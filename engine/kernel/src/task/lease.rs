//! Leases: who may act, until when, and what becomes of a lease that nobody kept (core §3).

use super::status::{gave_back, is_idle, is_last_expiry, lapse_at};
use super::{Caller, Lease, Task, TaskFile};
use crate::effect::{Effect, Incident};
use crate::journal::{declare_unknown, number};
use crate::rejection::Rejection;

/// Expiries in a row without a settled step or a lease given back; a lease taken after so many is the last, and its
/// loss opens an incident (core §3).
pub const MAX_EXPIRIES: u32 = 5;

/// Whether the caller may act, in D36's order. A lease that had expired when the call arrived is refused even if
/// nobody took the task since; one that was live at arrival counts, however long the call queued, unless the
/// task was taken in between, which its number shows.
///
/// # Errors
/// `WORK_RETIRED` (410), `LEASE_EXPIRED` (409), `LEASE_NOT_OWNED` (403).
pub fn check_lease(file: &TaskFile, caller: &Caller) -> Result<(), Rejection> {
    let task = &file.task;
    if task.retired.is_some() {
        return Err(
            Rejection::gone("WORK_RETIRED", format!("task {} has ended", task.id))
                .hint("stop working on it; nothing that is sent now counts"),
        );
    }
    let lease = task.lease.as_ref().filter(|_| !gave_back(file));
    let live = lease
        .or_else(|| ended(task))
        .filter(|lease| lease.until > caller.arrived_at);
    let Some(lease) = live else {
        return Err(expired(task));
    };
    let Some((number, random)) = &caller.lease else {
        return Err(not_owned(task).hint("use the id that the fetch answered: it names the lease"));
    };
    if *number < lease.number {
        return Err(expired(task));
    }
    let same = *number == lease.number
        && *random == lease.random
        && caller.worker == lease.worker
        && caller.credential == lease.credential;
    if same { Ok(()) } else { Err(not_owned(task)) }
}

/// The lease that the engine or an operator ended, while nobody took the task since.
fn ended(task: &Task) -> Option<&Lease> {
    let newest = |lease: &&Lease| task.lease.is_none() && lease.number == task.lease_no;
    task.ended_lease.as_ref().filter(newest)
}

/// Gives a call that counts by its arrival its lease back as it was: what it is granted needs one. An expired one is
/// declared lost again when it is due.
pub(crate) fn call_back(file: &mut TaskFile, caller: &Caller) {
    if ended(&file.task).is_some() && check_lease(file, caller).is_ok() {
        file.task.lease = file.task.ended_lease.take();
    }
}

fn expired(task: &Task) -> Rejection {
    Rejection::conflict(
        "LEASE_EXPIRED",
        format!("this call has no live lease on task {}", task.id),
    )
    .hint("fetch the task again and go on from its journal")
}

fn not_owned(task: &Task) -> Rejection {
    Rejection::forbidden(
        "LEASE_NOT_OWNED",
        format!("the lease on task {} belongs to another worker", task.id),
    )
}

/// Gives the task to a worker. An expired lease that is still on the task counts as one more expiry.
pub fn take(task: &mut Task, worker: &str, credential: &str, random: &str, duration_ms: i64, now: i64) {
    let closed = |lease: &Lease| {
        task.closing
            .as_ref()
            .is_some_and(|closing| closing.lease_no == lease.number)
    };
    if task.lease.as_ref().is_some_and(|lease| !closed(lease)) {
        task.expiries += 1;
    }
    task.lease_no += 1;
    task.lease = Some(Lease {
        number: task.lease_no,
        random: random.to_owned(),
        worker: worker.to_owned(),
        credential: credential.to_owned(),
        until: now.saturating_add(duration_ms),
        duration_ms,
    });
    task.ended_lease = None;
    task.available_at = None;
    task.parked = false;
    task.news = false;
}

/// Extends the lease, never shortens it; answers until when it holds (epoch ms).
///
/// # Errors
/// As [`check_lease`].
pub fn heartbeat(file: &mut TaskFile, caller: &Caller, duration_ms: i64, now: i64) -> Result<i64, Rejection> {
    check_lease(file, caller)?;
    call_back(file, caller);
    let Some(lease) = &mut file.task.lease else {
        return Err(expired(&file.task));
    };
    lease.until = lease.until.max(now.saturating_add(duration_ms));
    lease.duration_ms = duration_ms;
    Ok(lease.until)
}

/// An operator takes the lease back. Counts nothing.
pub fn unlock(file: &mut TaskFile, now: i64) {
    let ended = file.task.lease.clone().filter(|_| !gave_back(file));
    end_lease(file, now);
    if file.task.lease.is_none() {
        file.task.ended_lease = ended.map(|lease| Lease {
            until: lease.until.min(now),
            ..lease
        });
    }
}

/// Ends a lease. While an unkeyed write is in doubt the lease stays as an expired one: its result may still come,
/// and the durable command declares it unknown when it does not.
pub(crate) fn end_lease(file: &mut TaskFile, now: i64) {
    if file.steps.iter().any(|step| step.is_in_doubt()) {
        if let Some(lease) = &mut file.task.lease {
            lease.until = lease.until.min(now);
        }
    } else {
        file.task.lease = None;
    }
    // Whoever gives a lease back is alive: expiries are no longer in a row.
    file.task.expiries = 0;
    file.task.news = false;
    file.task.parked = is_idle(file);
}

/// What the durable command "lease lost" did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LapseOutcome {
    /// The lease was kept, taken anew or given back meanwhile.
    NotDue,
    /// Writes of which nobody knows the outcome: (sequence, incident number); the task is held.
    Unknown(Vec<(u32, u32)>),
    /// The budget of expiries is used up: the incident number; the task is held.
    BudgetUsedUp(u32),
}

/// The durable command "lease lost", due at [`lapse_at`] and checked again here, under the lock.
pub fn lapse(file: &mut TaskFile, now: i64, numbers: &mut u32, out: &mut Vec<Effect>) -> LapseOutcome {
    if lapse_at(file).is_none_or(|due| due > now) {
        return LapseOutcome::NotDue;
    }
    let last = is_last_expiry(file);
    let gave_back = gave_back(file);
    let lease = file.task.lease.take();
    if !gave_back {
        file.task.expiries += 1;
        file.task.ended_lease = lease;
    }
    file.task.news = false;
    let doubtful: Vec<usize> = (0..file.steps.len())
        .filter(|at| file.steps[*at].is_in_doubt())
        .collect();
    let mut unknown = Vec::new();
    for at in doubtful {
        let incident = declare_unknown(
            file,
            at,
            false,
            "the lease was lost while the write ran",
            now,
            numbers,
            out,
        );
        unknown.push((file.steps[at].sequence, incident));
    }
    file.task.parked = is_idle(file);
    if !unknown.is_empty() || !last {
        return LapseOutcome::Unknown(unknown);
    }
    let message = format!("{MAX_EXPIRIES} leases in a row expired without a settled step");
    LapseOutcome::BudgetUsedUp(hold(file, "LEASE_EXPIRY", message, now, numbers, out))
}

/// Opens an incident that holds the task as a whole.
pub(crate) fn hold(
    file: &mut TaskFile,
    code: &str,
    message: String,
    now: i64,
    numbers: &mut u32,
    out: &mut Vec<Effect>,
) -> u32 {
    let local = number(numbers);
    let instance = file.task.id.instance();
    out.push(Effect::OpenIncident(Box::new(Incident {
        id: instance.incident(local),
        instance,
        node: file.task.node.clone(),
        task: Some(file.task.id.clone()),
        attempt: Some(file.task.attempt),
        sequence: None,
        notice: false,
        code: code.to_owned(),
        message,
        created_at: now,
        held: None,
    })));
    file.task.incidents.insert(local);
    local
}
