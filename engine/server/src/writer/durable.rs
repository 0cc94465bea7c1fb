//! Durable commands: what a row in the database asks the engine to do. They are sent right after the commit that
//! wrote the row, and again after a crash, when the sweep finds the row.

use legation_kernel::commands::Command;
use legation_kernel::effect::Mail;
use legation_kernel::ids::{TaskId, root_of};
use legation_kernel::task::Caller;
use legation_store::external_tasks::ExternalTaskRow;
use legation_store::incidents::{self, IncidentRow};
use legation_store::mailbox::{self, MailboxRow};
use legation_store::timers::{self, TimerRow};
use legation_store::{Key, Result, Tx};
use serde::{Deserialize, Serialize};
use tracing::error;

use super::{CommandJob, Origin, Shared};

/// Tries of a durable command before it becomes an incident (core §2).
const MOST_TRIES: i64 = 5;

/// From one try to the next, ms.
const AGAIN_MS: i64 = 1_000;

/// The command of a mailbox row; None for a row that nobody can read, which the log names.
#[must_use]
pub fn from_mail(shared: &Shared, row: &MailboxRow) -> Option<CommandJob> {
    let mail: Mail = match serde_json::from_str(&row.body) {
        Ok(mail) => mail,
        Err(error) => {
            error!(id = %row.id, %error, "a mailbox row cannot be read");
            return None;
        }
    };
    let command = match mail {
        Mail::ChildDone { child } => Command::ChildDone { child },
        Mail::Continue { instance } => Command::Continue { instance },
    };
    Some(job(
        shared,
        &row.project,
        command,
        Some(Origin::Mailbox(Key::new(&row.root, &row.id))),
    ))
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
        Some(Origin::Lapse),
    )
}

/// Gives back a lease whose caller has gone before the answer.
pub(super) fn hand_back(shared: &Shared, row: &ExternalTaskRow) -> CommandJob {
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
pub const FAILED: &str = "DURABLE_COMMAND_FAILED";

/// What such an incident holds, as its body says.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Held {
    Mailbox(String),
    Timer(String),
}

/// A durable command that failed once more.
struct Failed {
    project: String,
    instance: String,
    /// CHILD_DONE, CONTINUE or a timer.
    what: String,
    tries: i64,
    held: Held,
}

/// Counts a failed try; the fifth holds the row and opens an incident.
pub(super) async fn count_try(shared: &Shared, origin: &Origin) -> Result<()> {
    let now = shared.clock.now();
    let mut tx = shared.db.begin_write().await?;
    let failed = match origin {
        Origin::Mailbox(key) => mail_failed(&mut tx, key, now).await?,
        Origin::Timer(key) => timer_failed(&mut tx, key, now).await?,
        Origin::Lapse => None,
    };
    if let Some(failed) = failed.filter(|failed| failed.tries >= MOST_TRIES) {
        incidents::insert(&mut tx, &[incident(&failed, now)?]).await?;
    }
    tx.commit().await
}

async fn mail_failed(tx: &mut Tx, key: &Key, now: i64) -> Result<Option<Failed>> {
    let Some(tries) = mailbox::count_try(tx, &key.root, &key.id, Some(now + AGAIN_MS)).await? else {
        return Ok(None);
    };
    let Some(row) = mailbox::get(tx, &key.root, &key.id).await? else {
        return Ok(None);
    };
    if tries >= MOST_TRIES {
        mailbox::reschedule(tx, std::slice::from_ref(key), None).await?;
    }
    let instance = row.key.split(':').next().unwrap_or(&row.key).to_owned();
    Ok(Some(Failed {
        project: row.project,
        instance,
        what: row.kind,
        tries,
        held: Held::Mailbox(row.id),
    }))
}

/// A timer's row is written anew, with its tries as body.
async fn timer_failed(tx: &mut Tx, key: &Key, now: i64) -> Result<Option<Failed>> {
    let Some(mut row) = timers::take(tx, std::slice::from_ref(key)).await?.pop() else {
        return Ok(None);
    };
    let before: Tries = serde_json::from_str(&row.body).unwrap_or_default();
    let tries = before.tries + 1;
    row.body = json(&Tries { tries })?;
    row.due_at = now + AGAIN_MS;
    row.held = tries >= MOST_TRIES;
    timers::insert(tx, std::slice::from_ref(&row)).await?;
    let what = row.node.clone().map_or_else(
        || "a timer".to_owned(),
        |node| format!("the timer of node {node}"),
    );
    Ok(Some(Failed {
        project: row.project,
        instance: row.instance,
        what,
        tries,
        held: Held::Timer(row.id),
    }))
}

#[derive(Default, Serialize, Deserialize)]
struct Tries {
    #[serde(default)]
    tries: i64,
}

fn incident(failed: &Failed, now: i64) -> Result<IncidentRow> {
    let (Held::Mailbox(held) | Held::Timer(held)) = &failed.held;
    let local = format!("{}-{}", held.replace([':', '.'], "-"), failed.tries);
    Ok(IncidentRow {
        root: root_of(&failed.instance).to_owned(),
        id: format!("{}.{local}", failed.instance),
        project: failed.project.clone(),
        instance: failed.instance.clone(),
        node: None,
        external_task: None,
        sequence: None,
        kind: "incident".to_owned(),
        code: FAILED.to_owned(),
        message: format!(
            "{} could not be carried out in {} tries",
            failed.what, failed.tries
        ),
        state: "OPEN".to_owned(),
        created_at: now,
        resolved_at: None,
        resolved_by: None,
        resolution: None,
        body: json(&failed.held)?,
    })
}

/// Ends the incident of a durable command and lets the command run again; one more failure opens another.
///
/// # Errors
/// `Conflict` when the incident is over.
pub async fn run_again(shared: &Shared, mut incident: IncidentRow, by: &str) -> Result<()> {
    let now = shared.clock.now();
    let held: Held = super::trees::parse("incidents", &incident.id, &incident.body)?;
    let root = incident.root.clone();
    incident.state = "RESOLVED".to_owned();
    incident.resolved_at = Some(now);
    incident.resolved_by = Some(by.to_owned());
    incident.resolution = Some(json(&"retried")?);
    let mut tx = shared.db.begin_write().await?;
    incidents::update(&mut tx, &[incident]).await?;
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
    }
    tx.commit().await?;
    shared.wake.due.notify_one();
    Ok(())
}

fn json<T: Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| legation_store::Error::Corrupt {
        table: "incidents",
        id: error.to_string(),
    })
}
