//! Background duties: timers, the mailbox, lost leases, waiting polls. Each is woken by its cause; a sweep at
//! most a second apart catches what another engine or a crash left (I9, D68).

use std::collections::HashMap;
use std::time::Duration;

use legation_store::{Dialect, Result, external_tasks, idempotency, mailbox, timers, workers};
use tokio::time::{Instant, MissedTickBehavior};
use tracing::{error, info, warn};

use crate::app::App;
use crate::wake::{BEAT, Topic};
use crate::writer::{self, FetchJob, Left};

/// Rows of a kind that one sweep sends.
const MOST: i64 = 500;

const SWEEP_MS: i64 = 1_000;

/// When a sweep found more than it sends, it looks for the rest after this.
const REST: Duration = Duration::from_millis(20);

/// Idempotency keys are kept a day.
const KEEP_KEYS_MS: i64 = 24 * 60 * 60 * 1_000;

/// A worker that was not seen for a week is gone; most have a new name with every start.
pub(crate) const KEEP_WORKERS_MS: i64 = 7 * KEEP_KEYS_MS;

/// Keys that one transaction forgets.
const KEYS_AT_ONCE: i64 = 2_000;

pub(crate) fn start(app: &App) {
    app.spawn(due_loop(app.clone()));
    app.spawn(hourly(app.clone()));
    if app.db().dialect() == Dialect::Postgres {
        app.spawn(listen(app.clone()));
        app.spawn(tell(app.clone()));
        app.spawn(calibrate(app.clone()));
    }
}

/// Sends what is due, when it is due.
async fn due_loop(app: App) {
    let wake = &app.shared().wake;
    let mut all_at = i64::MIN;
    let mut left = Left::default();
    loop {
        let now = app.clock().now();
        let more = sweep(&app, now, &mut left).await.unwrap_or_else(|error| {
            warn!(%error, "the sweep could not read the database");
            false
        });
        if now >= all_at {
            // The safety net for hints that were lost, however busy it is otherwise.
            again(&app, wake.take_all());
            all_at = now + SWEEP_MS;
        }
        let next = wake
            .next_due()
            .unwrap_or(all_at)
            .clamp(now + 1, all_at.max(now + 1));
        tokio::select! {
            () = app.clock().sleep_until(next) => {}
            () = wake.due.notified() => {}
            () = caught_up(&app), if more => {}
            () = app.stopping().cancelled() => return,
        }
    }
}

/// What is still queued would only be sent again.
async fn caught_up(app: &App) {
    loop {
        tokio::time::sleep(REST).await;
        if app.writer().waiting() < MOST as usize {
            return;
        }
    }
}

/// One look at everything that may be due; answers whether there is more. Commands whose row is gone meanwhile do
/// nothing.
async fn sweep(app: &App, now: i64, left: &mut Left) -> Result<bool> {
    let shared = app.shared();
    if shared.db.dialect() == Dialect::Postgres {
        // Another engine may have deployed since.
        shared.definitions.forget_latest();
    }
    let topics = shared.wake.pass(now);
    let mut read = shared.db.read().await?;
    let fired = timers::due(&mut read, now, MOST).await?;
    let mail = mailbox::due(&mut read, now, MOST).await?;
    let lapsed = external_tasks::lapsed(&mut read, now, MOST).await?;
    let more = [fired.len(), mail.len(), lapsed.len()]
        .iter()
        .any(|count| *count as i64 == MOST);
    let mut times = [
        timers::next_due(&mut read).await?,
        mailbox::next_due(&mut read).await?,
        external_tasks::next_lapse(&mut read).await?,
    ]
    .into_iter()
    .flatten()
    .filter(|at| *at > now)
    .collect::<Vec<_>>();
    times.sort_unstable();
    if let Some(first) = times.first() {
        shared.wake.at(*first, None);
    }
    drop(read);
    for row in &lapsed {
        app.writer().send(writer::lapse(shared, row));
    }
    left.send(app, &fired, &mail).await?;
    again(app, shared.wake.take(&topics));
    Ok(more)
}

/// Lets polls look again.
fn again(app: &App, polls: Vec<FetchJob>) {
    for poll in polls {
        // A poll that finds the queue full is answered without a task, and its worker comes back.
        let _ = app.writer().fetch(poll);
    }
}

/// Follows the hints of other engines: work that they opened wakes polls that wait here.
async fn listen(app: App) {
    loop {
        let hints = tokio::select! {
            hints = app.db().listen() => hints,
            () = app.stopping().cancelled() => return,
        };
        match hints {
            Ok(Some(mut hints)) => loop {
                let next = tokio::select! {
                    next = hints.next() => next,
                    () = app.stopping().cancelled() => return,
                };
                match next {
                    Ok(lines) => take_hints(&app, &lines),
                    Err(error) => {
                        info!(%error, "hints of other engines are lost for now");
                        break;
                    }
                }
            },
            Ok(None) => return,
            Err(error) => info!(%error, "hints of other engines cannot be had now"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = app.stopping().cancelled() => return,
        }
    }
}

fn take_hints(app: &App, lines: &[String]) {
    let wake = &app.shared().wake;
    let topics: HashMap<_, _> = lines.iter().filter_map(|line| heard(line)).collect();
    again(
        app,
        if lines.is_empty() {
            wake.take_all()
        } else {
            wake.take(&topics)
        },
    );
    // Whoever was missed is heard at the next beat.
    wake.hear(Instant::now());
    wake.committed.send_modify(|count| *count += 1);
}

/// A hint: how many tasks of a topic opened. As many waiting polls are woken and no more (core §2, "Wake-ups").
fn told((project, topic): &Topic, count: usize) -> String {
    format!("{project}\t{topic}\t{count}")
}

fn heard(line: &str) -> Option<(Topic, usize)> {
    let (project, rest) = line.split_once('\t')?;
    let (topic, count) = rest.rsplit_once('\t')?;
    Some(((project.to_owned(), topic.to_owned()), count.parse().ok()?))
}

/// Tells other engines what opened, at most once a millisecond, and now and then that this one is there. Telling costs
/// the database about as much as a small commit: where nobody listens it is left out.
async fn tell(app: App) {
    let wake = &app.shared().wake;
    let mut beats = tokio::time::interval(BEAT);
    beats.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let is_beat = tokio::select! {
            () = wake.hinted.notified() => false,
            _ = beats.tick() => true,
            () = app.stopping().cancelled() => return,
        };
        let hints = wake.take_hints();
        if !is_beat && wake.is_alone(Instant::now()) {
            continue;
        }
        let mut lines: Vec<String> = hints
            .into_iter()
            .map(|(topic, count)| told(&topic, count))
            .collect();
        if lines.is_empty() {
            // It still says that something was committed, for streams that follow the history.
            lines.push("\t".to_owned());
        }
        if let Err(error) = app.db().notify(&lines).await {
            info!(%error, "a hint was lost; the sweep makes up for it");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Keeps the clock with the database's.
async fn calibrate(app: App) {
    loop {
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(10)) => {}
            () = app.stopping().cancelled() => return,
        }
        set_clock(&app).await;
    }
}

/// Sets the clock by the database's, so that engines on one database agree. Waits for a database that is away.
pub(crate) async fn set_clock(app: &App) {
    if app.db().dialect() == Dialect::Sqlite || app.clock().is_fake() {
        return;
    }
    loop {
        let asked = app.clock().now();
        match app.db().now().await {
            Ok(theirs) => match app.clock().calibrate(asked, theirs) {
                Some(off) => {
                    if off.abs() > 1_000 {
                        error!(off_ms = off, "this engine's clock was off by more than a second");
                    }
                    return;
                }
                None => info!("the database answered too slowly to set the clock by it"),
            },
            Err(error) => info!(%error, "the clock could not be set by the database's"),
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_millis(500)) => {}
            () = app.stopping().cancelled() => return,
        }
    }
}

/// At the start as well: an engine may never run for an hour.
async fn hourly(app: App) {
    loop {
        if let Err(error) = forget_keys(&app).await {
            warn!(%error, "old idempotency keys could not be deleted");
        }
        if let Err(error) = forget_workers(&app).await {
            warn!(%error, "workers that are gone could not be deleted");
        }
        let next = app.clock().now() + 60 * 60 * 1_000;
        tokio::select! {
            () = app.clock().sleep_until(next) => {}
            () = app.stopping().cancelled() => return,
        }
    }
}

async fn forget_workers(app: &App) -> Result<()> {
    let mut tx = app.db().begin_write().await?;
    workers::delete_older_than(&mut tx, app.clock().now() - KEEP_WORKERS_MS).await?;
    tx.commit().await
}

/// In parts, so that the writers are not held up.
async fn forget_keys(app: &App) -> Result<()> {
    let before = app.clock().now() - KEEP_KEYS_MS;
    loop {
        let mut tx = app.db().begin_write().await?;
        let forgotten = idempotency::delete_older_than(&mut tx, before, KEYS_AT_ONCE).await?;
        tx.commit().await?;
        if (forgotten as i64) < KEYS_AT_ONCE || app.stopping().is_cancelled() {
            return Ok(());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_says_how_many_tasks_opened() {
        let topic = ("p".to_owned(), "pay".to_owned());
        assert_eq!(heard(&told(&topic, 3)), Some((topic, 3)));
        assert_eq!(heard("\t"), None, "something was committed, and nothing opened");
    }
}
