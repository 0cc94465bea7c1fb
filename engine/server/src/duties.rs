//! Background duties: timers, the mailbox, lost leases, waiting polls. Each is woken by its cause; a sweep at
//! most a second apart catches what another engine or a crash left (I9, D68).

use std::collections::HashMap;
use std::time::Duration;

use legation_store::{Dialect, Result, external_tasks, idempotency, mailbox, timers};
use tracing::{error, info, warn};

use crate::app::App;
use crate::writer;

/// Rows of a kind that one sweep sends.
const MOST: i64 = 500;

const SWEEP_MS: i64 = 1_000;

/// Idempotency keys are kept a day.
const KEEP_KEYS_MS: i64 = 24 * 60 * 60 * 1_000;

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
    loop {
        let now = app.clock().now();
        if let Err(error) = sweep(&app, now).await {
            warn!(%error, "the sweep could not read the database");
        }
        let next = wake.next_due().unwrap_or(now + SWEEP_MS).clamp(now + 1, now + SWEEP_MS);
        tokio::select! {
            () = app.clock().sleep_until(next) => {}
            () = wake.due.notified() => {}
            () = app.stopping().cancelled() => return,
        }
    }
}

/// One look at everything that may be due. Commands whose row is gone meanwhile do nothing.
async fn sweep(app: &App, now: i64) -> Result<()> {
    let shared = app.shared();
    let topics = shared.wake.pass(now);
    let mut read = shared.db.read().await?;
    for row in timers::due(&mut read, now, MOST).await? {
        app.writer().send(writer::from_timer(shared, &row));
    }
    for row in mailbox::due(&mut read, now, MOST).await? {
        if let Some(job) = writer::from_mail(shared, &row) {
            app.writer().send(job);
        }
    }
    for row in external_tasks::lapsed(&mut read, now, MOST).await? {
        app.writer().send(writer::lapse(shared, &row));
    }
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
    let polls = if topics.is_empty() { shared.wake.take_all() } else { shared.wake.take(&topics) };
    for poll in polls {
        // A poll that finds the queue full is answered by its own timeout.
        let _ = app.writer().fetch(poll);
    }
    Ok(())
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
    let topics: HashMap<_, _> = lines
        .iter()
        .filter_map(|line| line.split_once('\t'))
        .map(|(project, topic)| ((project.to_owned(), topic.to_owned()), usize::MAX))
        .collect();
    let polls = if lines.is_empty() { wake.take_all() } else { wake.take(&topics) };
    for poll in polls {
        let _ = app.writer().fetch(poll);
    }
    wake.committed.send_modify(|count| *count += 1);
}

/// Tells other engines what opened, at most once a millisecond.
async fn tell(app: App) {
    loop {
        tokio::select! {
            () = app.shared().wake.hinted.notified() => {}
            () = app.stopping().cancelled() => return,
        }
        let lines: Vec<String> = app
            .shared()
            .wake
            .take_hints()
            .into_iter()
            .map(|(project, topic)| format!("{project}\t{topic}"))
            .collect();
        // An empty hint still says that something was committed, for streams that follow the history.
        let lines = if lines.is_empty() { vec!["\t".to_owned()] } else { lines };
        if let Err(error) = app.db().notify(&lines).await {
            info!(%error, "a hint was lost; the sweep makes up for it");
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Sets the clock by the database's, so that engines on one database agree.
async fn calibrate(app: App) {
    loop {
        if !app.clock().is_fake() {
            match app.db().now().await {
                Ok(now) => {
                    let off = app.clock().calibrate(now);
                    if off.abs() > 1_000 {
                        error!(off_ms = off, "this engine's clock was off by more than a second");
                    }
                }
                Err(error) => info!(%error, "the clock could not be set by the database's"),
            }
        }
        tokio::select! {
            () = tokio::time::sleep(Duration::from_secs(10)) => {}
            () = app.stopping().cancelled() => return,
        }
    }
}

async fn hourly(app: App) {
    loop {
        let next = app.clock().now() + 60 * 60 * 1_000;
        tokio::select! {
            () = app.clock().sleep_until(next) => {}
            () = app.stopping().cancelled() => return,
        }
        if let Err(error) = forget_keys(&app).await {
            warn!(%error, "old idempotency keys could not be deleted");
        }
    }
}

async fn forget_keys(app: &App) -> Result<()> {
    let mut tx = app.db().begin_write().await?;
    idempotency::delete_older_than(&mut tx, app.clock().now() - KEEP_KEYS_MS, 10_000).await?;
    tx.commit().await
}
