//! Who was seen when: workers by their fetches, keys by their use. Kept in memory and written in the background at
//! most every few seconds, so that a fetch costs no write of its own.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use legation_store::workers::WorkerRow;
use legation_store::{Result, api_keys, workers};
use tracing::info;

use super::auth::Principal;
use crate::app::App;

/// How often at most what was seen is written, ms. A new worker is written at once.
const EVERY_MS: i64 = 5_000;

/// A key's last use is exact to this, ms.
const KEY_USE_MS: i64 = 60_000;

/// Past this many the memory is emptied: a flood of invented worker names must not eat it.
const MOST: usize = 10_000;

#[derive(Default)]
pub struct Seen(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    workers: HashMap<(String, String), WorkerRow>,
    /// Not written yet.
    dirty: HashMap<(String, String), WorkerRow>,
    keys: HashMap<String, i64>,
    dirty_keys: HashMap<String, i64>,
    written_at: i64,
}

impl Seen {
    /// A worker asked for work.
    pub fn worker(&self, app: &App, who: &Principal, worker: &str, topics: &[String]) {
        let now = app.clock().now();
        let mut sorted = topics.to_vec();
        sorted.sort();
        sorted.dedup();
        let topics = serde_json::to_string(&sorted).unwrap_or_default();
        let name = (who.project.clone(), worker.to_owned());
        let mut inner = self.lock();
        if inner.workers.len() >= MOST {
            inner.workers.clear();
        }
        let known = inner.workers.get(&name);
        let is_new = known.is_none_or(|known| known.topics != topics);
        let row = WorkerRow {
            project: who.project.clone(),
            worker_id: worker.to_owned(),
            topics,
            principal: Some(who.id.clone()),
            leases: None,
            started_at: known.map_or(now, |known| known.started_at),
            last_seen: now,
        };
        inner.workers.insert(name.clone(), row.clone());
        inner.dirty.insert(name, row);
        self.write(app, inner, is_new, now);
    }

    /// A worker made a call under its lease.
    pub fn call(&self, app: &App, who: &Principal, worker: &str) {
        let now = app.clock().now();
        let name = (who.project.clone(), worker.to_owned());
        let mut inner = self.lock();
        let Some(row) = inner.workers.get_mut(&name) else {
            return;
        };
        row.last_seen = now;
        let row = row.clone();
        inner.dirty.insert(name, row);
        self.write(app, inner, false, now);
    }

    /// A key was used.
    pub fn used(&self, app: &App, key: &str, now: i64) {
        let mut inner = self.lock();
        if inner.keys.get(key).is_some_and(|at| now - at < KEY_USE_MS) {
            return;
        }
        if inner.keys.len() >= MOST {
            inner.keys.clear();
        }
        inner.keys.insert(key.to_owned(), now);
        inner.dirty_keys.insert(key.to_owned(), now);
        self.write(app, inner, false, now);
    }

    /// What is newer than the database.
    pub fn workers(&self, project: &str) -> Vec<WorkerRow> {
        self.lock()
            .workers
            .values()
            .filter(|row| row.project == project)
            .cloned()
            .collect()
    }

    fn write(&self, app: &App, mut inner: std::sync::MutexGuard<'_, Inner>, at_once: bool, now: i64) {
        if !at_once && now - inner.written_at < EVERY_MS {
            return;
        }
        inner.written_at = now;
        let workers: Vec<WorkerRow> = std::mem::take(&mut inner.dirty).into_values().collect();
        let keys: Vec<(String, i64)> = std::mem::take(&mut inner.dirty_keys).into_iter().collect();
        drop(inner);
        let db = app.clone();
        app.spawn(async move {
            if let Err(error) = save(&db, &workers, &keys).await {
                info!(%error, "who was seen could not be written; the next write makes up for it");
            }
        });
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

async fn save(app: &App, rows: &[WorkerRow], keys: &[(String, i64)]) -> Result<()> {
    let mut tx = app.db().begin_write().await?;
    if !rows.is_empty() {
        workers::upsert(&mut tx, rows).await?;
    }
    if !keys.is_empty() {
        api_keys::touch(&mut tx, keys).await?;
    }
    tx.commit().await
}
