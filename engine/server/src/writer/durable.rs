//! Durable commands: what a row in the database asks the engine to do. They are sent right after the commit that
//! wrote the row, and again after a crash, when the sweep finds the row.

use std::collections::HashMap;

use legation_kernel::commands::{Command, DURABLE_COMMAND_FAILED};
use legation_kernel::effect::{Held, Mail};
use legation_kernel::ids::{InstanceId, TaskId, local_of, owner_of, root_of};
use legation_kernel::task::Caller;
use legation_store::external_tasks::{self, ExternalTaskRow, HELD_LAPSE};
use legation_store::incidents::{self, IncidentRow};
use legation_store::mailbox::{self, MailboxRow};
use legation_store::timers::{self, TimerRow};
use legation_store::{Key, Result, Tx};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::{CommandJob, Origin, Shared};

/// Tries of a durable command before it becomes an incident (core §2).
pub(super) const MOST_TRIES: i64 = 5;

/// From one try to the next, ms.
const AGAIN_MS: i64 = 1_000;

/// The command of a mailbox row. One that nobody can read is refused each time, so that it is seen in the end.
#[must_use]
pub fn from_mail(shared: &Shared, row: &MailboxRow) -> CommandJob {
    let command = match serde_json::from_str(&row.body) {
        Ok(Mail::ChildDone { child }) => Command::ChildDone { child },
        Ok(Mail::Continue { instance }) => Command::Continue { instance },
        Err(error) => {
            error!(id = %row.id, %error, "a mailbox row cannot be read");
            Command::Unreadable {
                instance: concerned(row),
            }
        }
    };
    job(
        shared,
        &row.project,
        command,
        Some(Origin::Mailbox(Key::new(&row.root, &row.id))),
    )
}

/// The instance that a mailbox row is for: of a child's end, the one that waits for it.
pub(super) fn concerned(row: &MailboxRow) -> InstanceId {
    let named = row.key.split(':').next().unwrap_or(&row.key);
    let waiting = owner_of(named).filter(|_| row.kind == "CHILD_DONE");
    waiting.unwrap_or_else(|| InstanceId(named.to_owned()))
}

/// The command of a due timer.
#[must_use]
pub fn from_timer(shared: &Shared, row: &TimerRow) -> CommandJob {
    let command = Command::FireTimer {
        timer: row.id.clone(),
    };
    job(
        shared,
        &row.project,
        command,
        Some(Origin::Timer(Key::new(&row.root, &row.id))),
    )
}

/// Declares a lease lost.
#[must_use]
pub fn lapse(shared: &Shared, row: &ExternalTaskRow) -> CommandJob {
    job(
        shared,
        &row.project,
        Command::Lapse {
            task: TaskId(row.id.clone()),
        },
        Some(Origin::Lapse(Key::new(&row.root, &row.id))),
    )
}

/// Gives back a lease whose caller has gone before the answer.
pub(crate) fn hand_back(shared: &Shared, row: &ExternalTaskRow) -> CommandJob {
    let caller = Caller {
        worker: row.worker.clone().unwrap_or_default(),
        credential: row.credential.clone().unwrap_or_default(),
        lease: Some((row.lease_no as u32, row.lease_random.clone().unwrap_or_default())),
        arrived_at: shared.clock.now(),
    };
    let reason = Some("the worker's connection was gone before the answer".to_owned());
    let command = Command::Release {
        task: TaskId(row.id.clone()),
        caller,
        after_ms: None,
        reason,
    };
    job(shared, &row.project, command, None)
}

fn job(shared: &Shared, project: &str, command: Command, origin: Option<Origin>) -> CommandJob {
    CommandJob {
        command,
        project: project.to_owned(),
        actor: "engine".to_owned(),
        id: shared.chance.token(),
        traceparent: None,
        idempotency: None,
        origin,
        reply: None,
        turns: 0,
        doubt: None,
    }
}

/// The code of the incident that holds a durable command.
pub const FAILED: &str = DURABLE_COMMAND_FAILED;

/// A durable command that failed once too often.
pub(super) struct Failed {
    pub project: String,
    pub instance: InstanceId,
    pub message: String,
    pub tries: i64,
    pub held: Held,
}

/// How often declaring a lease lost failed. It has no row of its own that could count; a writer that is gone forgets it.
#[derive(Default)]
pub(super) struct Lapses(HashMap<Key, i64>);

impl Lapses {
    fn count(&mut self, key: &Key) -> i64 {
        let tries = self.0.entry(key.clone()).or_default();
        *tries += 1;
        *tries
    }

    /// Forgets one that was carried out.
    pub(super) fn done(&mut self, job: &CommandJob) {
        if let Some(Origin::Lapse(key)) = &job.origin {
            self.0.remove(key);
        }
    }
}

/// Counts a failed try, in a commit of its own, and makes the command due again. After the fifth it is to be given
/// up.
pub(super) async fn count_try(
    shared: &Shared,
    job: &CommandJob,
    lapses: &mut Lapses,
) -> Result<Option<Failed>> {
    let Some(origin) = &job.origin else {
        return Ok(None);
    };
    let now = shared.clock.now();
    let mut tx = shared.db.begin_write().await?;
    let failed = match origin {
        Origin::Mailbox(key) => mail_failed(&mut tx, key, now).await?,
        Origin::Timer(key) => timer_failed(&mut tx, key, now).await?,
        Origin::Lapse(key) => lapse_failed(&mut tx, key, now, lapses.count(key), &job.project).await?,
    };
    tx.commit().await?;
    Ok(failed.filter(|failed| failed.tries >= MOST_TRIES))
}

async fn mail_failed(tx: &mut Tx, key: &Key, now: i64) -> Result<Option<Failed>> {
    let Some(tries) = mailbox::count_try(tx, &key.root, &key.id, Some(now + AGAIN_MS)).await? else {
        return Ok(None);
    };
    let Some(row) = mailbox::get(tx, &key.root, &key.id).await? else {
        return Ok(None);
    };
    Ok(Some(Failed {
        instance: concerned(&row),
        message: message(&row.kind, tries),
        project: row.project,
        tries,
        held: Held::Mailbox(row.id),
    }))
}

/// `None`: the lease is not to be declared lost any more.
async fn lapse_failed(tx: &mut Tx, key: &Key, now: i64, tries: i64, project: &str) -> Result<Option<Failed>> {
    if external_tasks::move_lapse(tx, key, 0..=now, now + AGAIN_MS).await? == 0 {
        return Ok(None);
    }
    let task = TaskId(key.id.clone());
    Ok(Some(Failed {
        instance: task.instance(),
        message: message(&format!("declaring the lease of task {} lost", key.id), tries),
        project: project.to_owned(),
        tries,
        held: Held::Lease(task.0),
    }))
}

/// A timer's row is written anew, with its tries as body.
async fn timer_failed(tx: &mut Tx, key: &Key, now: i64) -> Result<Option<Failed>> {
    let Some(mut row) = timers::take(tx, std::slice::from_ref(key)).await?.pop() else {
        return Ok(None);
    };
    let tries = count_timer(&mut row)?;
    row.due_at = now + AGAIN_MS;
    timers::insert(tx, std::slice::from_ref(&row)).await?;
    Ok(Some(Failed {
        message: message(&timer_name(&row), tries),
        project: row.project,
        instance: InstanceId(row.instance),
        tries,
        held: Held::Timer(row.id),
    }))
}

pub(super) fn timer_name(row: &TimerRow) -> String {
    row.node.as_ref().map_or_else(
        || "a timer".to_owned(),
        |node| format!("the timer of node {node}"),
    )
}

pub(super) fn timer_tries(row: &TimerRow) -> i64 {
    let tries: Tries = serde_json::from_str(&row.body).unwrap_or_default();
    tries.tries
}

/// Counts a try in the row, and answers how many they are.
pub(super) fn count_timer(row: &mut TimerRow) -> Result<i64> {
    let tries = timer_tries(row) + 1;
    row.body = json(&Tries { tries })?;
    Ok(tries)
}

fn message(what: &str, tries: i64) -> String {
    format!("{what} could not be carried out in {tries} tries")
}

#[derive(Default, Serialize, Deserialize)]
struct Tries {
    #[serde(default)]
    tries: i64,
}

/// The command that opens the incident of a failed one on its instance, and holds its row with it.
pub(super) fn give_up(shared: &Shared, failed: &Failed) -> CommandJob {
    let command = Command::GiveUp {
        instance: failed.instance.clone(),
        held: failed.held.clone(),
        message: failed.message.clone(),
    };
    job(shared, &failed.project, command, None)
}

/// Of an instance that cannot be changed itself, the incident stands alone.
pub(super) async fn hold_alone(shared: &Shared, failed: &Failed) -> Result<()> {
    let now = shared.clock.now();
    let row = incident(failed, now)?;
    let mut tx = shared.db.begin_write().await?;
    hold(&mut tx, &row.root, &failed.held, now).await?;
    incidents::insert(&mut tx, &[row]).await?;
    tx.commit().await
}

/// Holds the row of a durable command until somebody retries.
pub(super) async fn hold(tx: &mut Tx, root: &str, held: &Held, now: i64) -> Result<()> {
    match held {
        Held::Mailbox(id) => {
            mailbox::reschedule(tx, &[Key::new(root, id)], None).await?;
        }
        Held::Timer(id) => {
            let mut rows = timers::take(tx, &[Key::new(root, id)]).await?;
            rows.iter_mut().for_each(|row| row.held = true);
            timers::insert(tx, &rows).await?;
        }
        Held::Lease(id) => {
            // Unless the task was leased again since the try was counted.
            external_tasks::move_lapse(tx, &Key::new(root, id), 0..=now + AGAIN_MS, HELD_LAPSE).await?;
        }
    }
    Ok(())
}

fn incident(failed: &Failed, now: i64) -> Result<IncidentRow> {
    let (Held::Mailbox(held) | Held::Timer(held) | Held::Lease(held)) = &failed.held;
    let instance = failed.instance.as_str();
    let local = format!("{}-{}-{now}", held.replace([':', '.'], "-"), failed.tries);
    Ok(IncidentRow {
        root: root_of(instance).to_owned(),
        id: format!("{instance}.{local}"),
        project: failed.project.clone(),
        instance: instance.to_owned(),
        node: None,
        external_task: None,
        sequence: None,
        kind: "incident".to_owned(),
        code: FAILED.to_owned(),
        message: failed.message.clone(),
        state: "OPEN".to_owned(),
        created_at: now,
        resolved_at: None,
        resolved_by: None,
        resolution: None,
        body: json(&Body {
            held: failed.held.clone(),
        })?,
    })
}

#[derive(Serialize, Deserialize)]
struct Body {
    held: Held,
}

/// Lets the durable command of an incident run again; one more failure opens another incident. Answers whether the
/// incident is over with it: one that is its instance's own is closed by the instance's retry.
///
/// # Errors
/// `Conflict` when the incident is over.
pub async fn run_again(shared: &Shared, mut incident: IncidentRow, by: &str) -> Result<bool> {
    let now = shared.clock.now();
    let Body { held } = super::trees::parse("incidents", &incident.id, &incident.body)?;
    let root = incident.root.clone();
    let alone = local_of(&incident.id).is_none();
    let mut tx = shared.db.begin_write().await?;
    if alone {
        incident.state = "RESOLVED".to_owned();
        incident.resolved_at = Some(now);
        incident.resolved_by = Some(by.to_owned());
        incident.resolution = Some(json(&"retried")?);
        incidents::update(&mut tx, &[incident]).await?;
    }
    match held {
        Held::Mailbox(id) => {
            mailbox::reschedule(&mut tx, &[Key::new(root, id)], Some(now)).await?;
        }
        Held::Timer(id) => {
            let mut rows = timers::take(&mut tx, &[Key::new(root, id)]).await?;
            rows.iter_mut()
                .for_each(|row| (row.due_at, row.held) = (now, false));
            timers::insert(&mut tx, &rows).await?;
        }
        Held::Lease(id) => {
            let key = Key::new(root, id);
            external_tasks::move_lapse(&mut tx, &key, HELD_LAPSE..=HELD_LAPSE, now).await?;
        }
    }
    tx.commit().await?;
    shared.wake.due.notify_one();
    Ok(alone)
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| legation_store::Error::Corrupt {
        table: "incidents",
        id: error.to_string(),
    })
}
