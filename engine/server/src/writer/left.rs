//! Durable commands that an engine finds at its start: an engine before it was stopped, or died of one of them. A try
//! is counted before they run, so that one that kills every engine becomes an incident and no crash loop (core §2).
//! What is found later only waits in a queue, and costs no commit.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use legation_kernel::effect::Held;
use legation_kernel::ids::InstanceId;
use legation_store::mailbox::{self, MailboxRow};
use legation_store::timers::{self, TimerRow};
use legation_store::{Key, Result, roots};
use tracing::{error, warn};

use super::durable::{self, Failed, MOST_TRIES};
use super::{CommandJob, Failure, Origin, Shared};
use crate::app::App;

/// What of the rows that were there at the start was not counted yet.
#[derive(Default)]
pub(crate) struct Left {
    looked: bool,
    /// Another engine was at work on their trees: looked at again.
    busy: HashSet<Origin>,
}

#[derive(Clone, Copy)]
enum Row<'a> {
    Timer(&'a TimerRow),
    Mail(&'a MailboxRow),
}

impl Row<'_> {
    fn origin(&self) -> Origin {
        match self {
            Self::Timer(row) => Origin::Timer(Key::new(&row.root, &row.id)),
            Self::Mail(row) => Origin::Mailbox(Key::new(&row.root, &row.id)),
        }
    }

    fn tries(&self) -> i64 {
        match self {
            Self::Timer(row) => durable::timer_tries(row),
            Self::Mail(row) => row.tries,
        }
    }

    fn job(&self, shared: &Shared) -> CommandJob {
        match self {
            Self::Timer(row) => durable::from_timer(shared, row),
            Self::Mail(row) => durable::from_mail(shared, row),
        }
    }

    fn failed(&self, tries: i64) -> Failed {
        let (project, instance, what, held) = match self {
            Self::Timer(row) => (
                row.project.clone(),
                InstanceId(row.instance.clone()),
                durable::timer_name(row),
                Held::Timer(row.id.clone()),
            ),
            Self::Mail(row) => (
                row.project.clone(),
                durable::concerned(row),
                row.kind.clone(),
                Held::Mailbox(row.id.clone()),
            ),
        };
        let before = tries - 1;
        Failed {
            project,
            instance,
            message: format!(
                "{what} was tried {before} times, and the engine ended before it was carried out"
            ),
            tries,
            held,
        }
    }
}

impl Left {
    /// Sends what is due, and counts what was there at the start before.
    pub(crate) async fn send(&mut self, app: &App, timers: &[TimerRow], mail: &[MailboxRow]) -> Result<()> {
        let shared = app.shared();
        let rows = timers.iter().map(Row::Timer).chain(mail.iter().map(Row::Mail));
        if self.looked && self.busy.is_empty() {
            rows.for_each(|row| app.writer().send(row.job(shared)));
            return Ok(());
        }
        let mut busy = HashSet::new();
        let (found, since): (Vec<_>, Vec<_>) =
            rows.partition(|row| !self.looked || self.busy.contains(&row.origin()));
        // One that outlived a start before runs alone: what only shared a batch or a queue with the one that kills is
        // done meanwhile.
        let (fresh, suspect): (Vec<_>, Vec<_>) = found.into_iter().partition(|row| row.tries() == 0);
        for row in suspect {
            if app.stopping().is_cancelled() {
                return Ok(());
            }
            match count(shared, &[row]).await?.get(&row.origin()) {
                Some(tries) if *tries > MOST_TRIES => give_up(app, &row.failed(*tries)).await,
                Some(_) => drop(app.writer().run(row.job(shared)).await),
                None => drop(busy.insert(row.origin())),
            }
        }
        let counted = count(shared, &fresh).await?;
        for row in fresh {
            if counted.contains_key(&row.origin()) {
                app.writer().send(row.job(shared));
            } else {
                busy.insert(row.origin());
            }
        }
        for row in since {
            app.writer().send(row.job(shared));
        }
        self.looked = true;
        self.busy = busy;
        Ok(())
    }
}

/// Counts a try of each, in one commit, under the locks of their trees: a row that another engine is at work on is not
/// counted, nor one that it took meanwhile. Answers the tries of those that were.
async fn count(shared: &Shared, rows: &[Row<'_>]) -> Result<HashMap<Origin, i64>> {
    let mut tries = HashMap::new();
    if rows.is_empty() {
        return Ok(tries);
    }
    let origins: Vec<Origin> = rows.iter().map(Row::origin).collect();
    let mut trees: Vec<String> = origins.iter().map(|origin| origin.key().root.clone()).collect();
    trees.sort();
    trees.dedup();
    let mut tx = shared.db.begin_write().await?;
    let free = roots::lock(&mut tx, &trees).await?;
    let free: HashSet<&str> = free.iter().map(|root| root.id.as_str()).collect();
    let (mut mail, mut fired) = (Vec::new(), Vec::new());
    for origin in origins {
        match origin {
            Origin::Mailbox(key) if free.contains(key.root.as_str()) => mail.push(key),
            Origin::Timer(key) if free.contains(key.root.as_str()) => fired.push(key),
            _ => {}
        }
    }
    if !mail.is_empty() {
        for row in mailbox::count_tries(&mut tx, &mail).await? {
            tries.insert(Origin::Mailbox(Key::new(row.root, row.id)), row.tries);
        }
    }
    if !fired.is_empty() {
        let mut taken = timers::take(&mut tx, &fired).await?;
        let now = shared.clock.now();
        for row in taken.iter_mut().filter(|row| !row.held && row.due_at <= now) {
            let key = Key::new(&row.root, &row.id);
            tries.insert(Origin::Timer(key), durable::count_timer(row)?);
        }
        timers::insert(&mut tx, &taken).await?;
    }
    tx.commit().await?;
    Ok(tries)
}

/// Makes it the incident that holds its row, however long that takes: sent again it would end this engine too.
async fn give_up(app: &App, failed: &Failed) {
    let shared = app.shared();
    error!(instance = %failed.instance, "{}", failed.message);
    loop {
        // Should its instance be what kills, the next engine does not even load that.
        let alone = failed.tries > MOST_TRIES + 1;
        let answer = match alone {
            false => app.writer().run(durable::give_up(shared, failed)).await,
            true => Err(Failure::Internal),
        };
        match answer {
            Ok(_) => return,
            Err(Failure::Rejected(_) | Failure::Internal) => {
                match durable::hold_alone(shared, failed).await {
                    Ok(()) => return,
                    Err(error) => warn!(%error, "a durable command could not be held"),
                }
            }
            Err(failure) => warn!(%failure, "a durable command could not be held yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = app.stopping().cancelled() => return,
        }
    }
}
