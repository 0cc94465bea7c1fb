//! Durable commands: what a row in the database asks the engine to do. They are sent right after the commit that
//! wrote the row, and again after a crash, when the sweep finds the row.

use legation_kernel::commands::Command;
use legation_kernel::effect::Mail;
use legation_kernel::ids::{InstanceId, TaskId, root_of};
use legation_kernel::task::Caller;
use legation_store::external_tasks::ExternalTaskRow;
use legation_store::incidents::{self, IncidentRow};
use legation_store::mailbox::{self, MailboxRow};
use legation_store::timers::TimerRow;
use legation_store::{Key, Result};
use tracing::error;

use super::{CommandJob, Origin, Shared};

/// Tries of a durable command before it becomes an incident (core §2).
const MOST_TRIES: i64 = 5;

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
    Some(job(shared, &row.project, command, Some(Origin::Mailbox(Key::new(&row.root, &row.id)))))
}

/// The command of a due timer.
#[must_use]
pub fn from_timer(shared: &Shared, row: &TimerRow) -> CommandJob {
    let command = Command::FireTimer { timer: row.id.clone() };
    job(shared, &row.project, command, Some(Origin::Timer(Key::new(&row.root, &row.id))))
}

/// Declares a lease lost.
#[must_use]
pub fn lapse(shared: &Shared, row: &ExternalTaskRow) -> CommandJob {
    job(shared, &row.project, Command::Lapse { task: TaskId(row.id.clone()) }, Some(Origin::Lapse))
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
    let command = Command::Release { task: TaskId(row.id.clone()), caller, after_ms: None, reason };
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

/// Counts a failed try; the fifth holds the row and opens an incident.
pub(super) async fn count_try(shared: &Shared, key: &Key) -> Result<()> {
    let now = shared.clock.now();
    let mut tx = shared.db.begin_write().await?;
    let tries = mailbox::count_try(&mut tx, &key.root, &key.id, Some(now + 1_000)).await?;
    if tries.is_some_and(|tries| tries >= MOST_TRIES)
        && let Some(row) = mailbox::get(&mut tx, &key.root, &key.id).await?
    {
        mailbox::reschedule(&mut tx, std::slice::from_ref(key), None).await?;
        let instance = row.key.split(':').next().unwrap_or(&row.key).to_owned();
        let incident = IncidentRow {
            root: key.root.clone(),
            id: format!("{}.{}", InstanceId(instance.clone()), row.id.replace([':', '.'], "-")),
            project: row.project.clone(),
            instance,
            node: None,
            external_task: None,
            sequence: None,
            kind: "incident".to_owned(),
            code: "DURABLE_COMMAND_FAILED".to_owned(),
            message: format!("{} could not be carried out in {MOST_TRIES} tries", row.kind),
            state: "OPEN".to_owned(),
            created_at: now,
            resolved_at: None,
            resolved_by: None,
            resolution: None,
            body: "{}".to_owned(),
        };
        debug_assert_eq!(root_of(&incident.id), key.root);
        incidents::insert(&mut tx, &[incident]).await?;
    }
    tx.commit().await
}
