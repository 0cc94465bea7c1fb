//! The fetch loop: as many leased tasks as there are free places, until told to stop.

use std::sync::Arc;
use std::time::Duration;

use legation_protocol::external_tasks::{FetchRequest, LockedTask};
use legation_worker::{Client, Error};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::run::{Shared, run_task};

/// How the loop takes work.
#[derive(Debug, Clone)]
pub struct Settings {
    pub topics: Vec<String>,
    /// The most tasks at once.
    pub concurrency: usize,
    /// How long one fetch waits for work.
    pub long_poll: Duration,
    /// How long running tasks may take to come to an end after `stop`.
    pub grace: Duration,
}

/// Takes and runs tasks until `stop`, then lets the running ones come to an end.
pub async fn serve(client: Client, shared: Arc<Shared>, settings: Settings, stop: CancellationToken) {
    let mut running: JoinSet<()> = JoinSet::new();
    let mut pause = Duration::ZERO;
    while !stop.is_cancelled() {
        while running.try_join_next().is_some() {}
        let free = settings.concurrency.saturating_sub(running.len());
        if free == 0 {
            tokio::select! {
                () = stop.cancelled() => break,
                _ = running.join_next() => continue,
            }
        }
        let fetched = tokio::select! {
            () = stop.cancelled() => break,
            fetched = fetch(&client, &shared, &settings, free) => fetched,
        };
        match fetched {
            Ok(tasks) => {
                pause = Duration::ZERO;
                for task in tasks {
                    let (shared, drain) = (Arc::clone(&shared), stop.clone());
                    running.spawn(async move {
                        run_task(shared, task, drain).await;
                    });
                }
            }
            Err(error) => {
                tracing::warn!(%error, "no work could be fetched");
                pause = (pause * 2).clamp(Duration::from_millis(200), Duration::from_secs(5));
                tokio::select! {
                    () = stop.cancelled() => break,
                    () = tokio::time::sleep(pause) => {}
                }
            }
        }
    }
    drain(running, settings.grace).await;
}

async fn fetch(
    client: &Client,
    shared: &Shared,
    settings: &Settings,
    free: usize,
) -> Result<Vec<LockedTask>, Error> {
    let request = FetchRequest {
        worker_id: shared.worker_id.clone(),
        topics: settings.topics.clone(),
        lock_duration: shared.lock_ms,
        max_tasks: u32::try_from(free.min(50)).unwrap_or(50),
        long_poll_ms: u64::try_from(settings.long_poll.as_millis()).unwrap_or(0),
        have: std::collections::BTreeMap::new(),
    };
    Ok(client.fetch_and_lock(&request).await?.tasks)
}

async fn drain(mut running: JoinSet<()>, grace: Duration) {
    if running.is_empty() {
        return;
    }
    tracing::info!(
        tasks = running.len(),
        "stopping: running tasks finish their step and are given back"
    );
    let ended = tokio::time::timeout(grace, async { while running.join_next().await.is_some() {} }).await;
    if ended.is_err() {
        tracing::warn!(
            tasks = running.len(),
            "stopped before these tasks came to an end; their leases expire"
        );
    }
}
