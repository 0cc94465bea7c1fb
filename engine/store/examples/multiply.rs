//! `cargo run -p legation-store --example multiply -- sqlite:PATH COUNT`: fills a database with copies of its finished
//! instances, each with its history and under an id of its own, until it holds COUNT more. For looking at a screen or
//! measuring a list at 100 000 instances. Copies start a few seconds apart, the last one now. Never for real data.

use std::time::Instant;

use legation_store::history::{self, HistoryRow};
use legation_store::instances::{self, InstanceFilter, InstanceRow};
use legation_store::roots::{self, RootRow};
use legation_store::{Db, Error, Result};

const AT_ONCE: usize = 500;
const APART_MS: i64 = 20_000;
const PROJECT: &str = "default";

struct Sample {
    root: RootRow,
    instance: InstanceRow,
    history: Vec<HistoryRow>,
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<()> {
    let usage = || Error::Setup("usage: multiply sqlite:PATH COUNT".to_owned());
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().ok_or_else(usage)?;
    let count: usize = arguments
        .next()
        .and_then(|count| count.parse().ok())
        .ok_or_else(usage)?;
    let db = Db::open(&url).await?;
    let samples = samples(&db).await?;
    if samples.is_empty() {
        return Err(Error::Setup(
            "there is no finished root instance to copy".to_owned(),
        ));
    }
    let began = Instant::now();
    let now = db.now().await?;
    for first in (0..count).step_by(AT_ONCE) {
        let copies: Vec<Sample> = (first..count.min(first + AT_ONCE))
            .map(|number| {
                copy(
                    &samples[number % samples.len()],
                    number,
                    now - (count - number) as i64 * APART_MS,
                )
            })
            .collect();
        let mut tx = db.begin_write().await?;
        let rows: Vec<RootRow> = copies.iter().map(|copy| copy.root.clone()).collect();
        roots::insert(&mut tx, &rows).await?;
        let rows: Vec<InstanceRow> = copies.iter().map(|copy| copy.instance.clone()).collect();
        instances::insert(&mut tx, &rows).await?;
        let rows: Vec<HistoryRow> = copies.iter().flat_map(|copy| copy.history.clone()).collect();
        history::insert(&mut tx, &rows).await?;
        tx.commit().await?;
    }
    println!("{count} instances in {} ms", began.elapsed().as_millis());
    db.close().await;
    Ok(())
}

/// Finished root instances, whole.
async fn samples(db: &Db) -> Result<Vec<Sample>> {
    let mut read = db.read().await?;
    let mut samples = Vec::new();
    let filter = InstanceFilter {
        project: PROJECT.to_owned(),
        roots_only: true,
        limit: 200,
        ..InstanceFilter::default()
    };
    for row in instances::list(&mut read, &filter).await? {
        if row.ended_at.is_none() {
            continue;
        }
        let root = roots::get(&mut read, &row.root).await?;
        let instance = instances::get(&mut read, &row.root, &row.id).await?;
        let history = history::list(&mut read, &row.root, &row.id, 0, 1_000).await?;
        if let (Some(root), Some(instance)) = (root, instance) {
            samples.push(Sample {
                root,
                instance,
                history,
            });
        }
    }
    Ok(samples)
}

fn copy(sample: &Sample, number: usize, started_at: i64) -> Sample {
    // Ordered by time, like the ids that the engine makes.
    let id = format!("{started_at:012x}7000800000{number:010x}");
    let later = started_at - sample.instance.started_at;
    let renamed = |text: &str| text.replace(&sample.root.id, &id);
    let root = RootRow {
        id: id.clone(),
        created_at: sample.root.created_at + later,
        ended_at: sample.root.ended_at.map(|at| at + later),
        ..sample.root.clone()
    };
    let instance = InstanceRow {
        root: id.clone(),
        id: id.clone(),
        business_key: Some(format!("COPY-{number}")),
        snapshot: renamed(&sample.instance.snapshot),
        started_at,
        ended_at: sample.instance.ended_at.map(|at| at + later),
        updated_at: sample.instance.updated_at + later,
        ..sample.instance.clone()
    };
    let history = sample.history.iter().map(|row| HistoryRow {
        root: id.clone(),
        instance: id.clone(),
        command_id: format!("copy-{number}-{}", row.revision),
        writer: "copies".to_owned(),
        batch_no: number as i64 + 1,
        at: row.at + later,
        events: renamed(&row.events),
        ..row.clone()
    });
    Sample {
        root,
        instance,
        history: history.collect(),
    }
}
