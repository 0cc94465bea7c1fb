//! What this machine can do at this moment, without an engine: the time of one sync on the disk, and how fast the
//! database takes the rows of one instance's life. Only the ratio to it says something about the engine.

use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use legation_store::external_tasks::{self, ClaimRequest, ExternalTaskRow};
use legation_store::history::{self, HistoryRow};
use legation_store::instances::{self, InstanceRow, InstanceUpdate};
use legation_store::roots::{self, RootRow};
use legation_store::scratch::{Scratch, durability};
use legation_store::{Db, Result};
use serde::Serialize;

use super::engine::{Folder, Place};
use super::times::Times;
use crate::chance::Chance;

/// How long each rate is measured.
const MEASURE: Duration = Duration::from_millis(1_500);

const SYNCS: usize = 200;

/// See the module's words.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Calibration {
    /// What holds when a commit is answered.
    pub durability: String,
    /// Writing 4 KiB and syncing it on the disk of the temporary files, ms.
    pub sync: Times,
    /// Lives of one instance and its task (three commits each) a second, one at a time.
    pub lives_singly: f64,
    /// The same, ten in every commit.
    pub lives_in_tens: f64,
    /// The same, fifty in every commit.
    pub lives_in_fifties: f64,
}

/// # Errors
/// When the database cannot be written.
pub async fn calibrate(place: &Place, sync_delay_ms: Option<u32>) -> anyhow::Result<Calibration> {
    let folder = Folder::new(&Chance::system())?;
    let sync = sync(folder.path())?;
    let (url, scratch) = match place {
        Place::Sqlite => {
            let url = format!("sqlite:{}", folder.path().join("calibration.db").display());
            (url, None)
        }
        Place::Postgres(server) => {
            let name = format!("legation_calibration_{}", std::process::id());
            let scratch = Scratch::create(server, &name, sync_delay_ms).await?;
            (scratch.url().to_owned(), Some(scratch))
        }
    };
    let db = Db::open(&url).await?;
    db.migrate().await?;
    db.delay_commits(u64::from(sync_delay_ms.unwrap_or_default()));
    let calibration = Calibration {
        durability: durability(&db).await?,
        sync,
        lives_singly: rate(&db, 1).await?,
        lives_in_tens: rate(&db, 10).await?,
        lives_in_fifties: rate(&db, 50).await?,
    };
    db.close().await;
    if let Some(scratch) = scratch {
        scratch.drop_it().await?;
    }
    Ok(calibration)
}

fn sync(folder: &Path) -> std::io::Result<Times> {
    let mut file = std::fs::File::create(folder.join("sync"))?;
    let page = [7; 4096];
    let mut micros = Vec::with_capacity(SYNCS);
    for _ in 0..SYNCS {
        let began = Instant::now();
        file.write_all(&page)?;
        file.sync_data()?;
        micros.push(u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX));
    }
    Ok(Times::of(micros))
}

/// Lives a second.
async fn rate(db: &Db, together: usize) -> Result<f64> {
    let began = Instant::now();
    let mut lives = 0_usize;
    while began.elapsed() < MEASURE {
        let first = lives;
        let names: Vec<String> = (first..first + together)
            .map(|number| format!("{together:08x}{number:024x}"))
            .collect();
        life(db, &names).await?;
        lives += together;
    }
    Ok(lives as f64 / began.elapsed().as_secs_f64())
}

/// Some instances start, their tasks are leased, they end: three commits.
async fn life(db: &Db, ids: &[String]) -> Result<()> {
    let roots: Vec<RootRow> = ids.iter().map(|id| root(id)).collect();
    let started: Vec<InstanceRow> = ids.iter().map(|id| instance(id)).collect();
    let tasks: Vec<ExternalTaskRow> = ids.iter().map(|id| task(id)).collect();
    let mut tx = db.begin_write().await?;
    roots::insert(&mut tx, &roots).await?;
    instances::insert(&mut tx, &started).await?;
    external_tasks::insert(&mut tx, &tasks).await?;
    history::insert(&mut tx, &ids.iter().map(|id| event(id, 1)).collect::<Vec<_>>()).await?;
    tx.commit().await?;

    let claim = ClaimRequest {
        project: "calibration".to_owned(),
        topics: vec!["work".to_owned()],
        worker: "calibration".to_owned(),
        credential: None,
        now: 2,
        lock_ms: 30_000,
        max: ids.len() as i64,
        randoms: ids.to_vec(),
    };
    let mut tx = db.begin_write().await?;
    let mut leased = external_tasks::claim(&mut tx, &claim).await?;
    tx.commit().await?;

    for task in &mut leased {
        task.retired = true;
        task.claimable_at = None;
        task.ended_at = Some(3);
    }
    let ended: Vec<InstanceUpdate> = started
        .into_iter()
        .map(|row| InstanceUpdate {
            row: InstanceRow {
                status: "COMPLETED".to_owned(),
                ended_at: Some(3),
                revision: 2,
                ..row
            },
            loaded: 1,
        })
        .collect();
    let mut tx = db.begin_write().await?;
    roots::lock(&mut tx, ids).await?;
    roots::update(&mut tx, &roots).await?;
    instances::update(&mut tx, &ended).await?;
    external_tasks::update(&mut tx, &leased).await?;
    history::insert(&mut tx, &ids.iter().map(|id| event(id, 2)).collect::<Vec<_>>()).await?;
    tx.commit().await
}

fn root(id: &str) -> RootRow {
    RootRow {
        id: id.to_owned(),
        project: "calibration".to_owned(),
        version: 0,
        stopping: None,
        budget: None,
        key_id: None,
        data_key: Some(vec![0; 60]),
        created_at: 1,
        ended_at: None,
    }
}

/// As large as the engine's for 1 KB of variables.
fn instance(id: &str) -> InstanceRow {
    InstanceRow {
        root: id.to_owned(),
        id: id.to_owned(),
        project: "calibration".to_owned(),
        process: "calibration".to_owned(),
        version: 1,
        status: "RUNNING".to_owned(),
        suspended: false,
        business_key: None,
        parent: None,
        parent_task: None,
        parent_attempt: None,
        parent_sequence: None,
        depth: 0,
        initiator: Some("calibration".to_owned()),
        started_by: "null".to_owned(),
        labels: "{}".to_owned(),
        error_code: None,
        incidents: 0,
        started_at: 1,
        ended_at: None,
        updated_at: 1,
        revision: 1,
        format: 1,
        snapshot: "x".repeat(1_800),
    }
}

fn task(id: &str) -> ExternalTaskRow {
    ExternalTaskRow {
        root: id.to_owned(),
        id: format!("{id}.t1"),
        project: "calibration".to_owned(),
        instance: id.to_owned(),
        node: "work".to_owned(),
        topic: "work".to_owned(),
        agent: false,
        priority: 0,
        position: 1,
        lease_no: 0,
        lease_random: None,
        worker: None,
        credential: None,
        locked_until: None,
        lock_ms: None,
        claimable_at: Some(1),
        expiries: 0,
        lapse_at: None,
        attempt: 1,
        retired: false,
        outcome: None,
        created_at: 1,
        ended_at: None,
        traceparent: None,
        revision: 0,
        body: "x".repeat(600),
    }
}

fn event(id: &str, revision: i64) -> HistoryRow {
    HistoryRow {
        root: id.to_owned(),
        instance: id.to_owned(),
        revision,
        command_id: format!("{id}-{revision}"),
        writer: "calibration".to_owned(),
        batch_no: revision,
        at: revision,
        format: 1,
        actor: Some("calibration".to_owned()),
        events: "x".repeat(if revision == 1 { 1_600 } else { 400 }),
    }
}
