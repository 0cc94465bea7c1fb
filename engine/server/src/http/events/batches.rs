//! Whole batches of one writer, out of two tables, and which writers there are.

use std::collections::BTreeMap;

use legation_store::Conn;
use legation_store::history::{self, HistoryRow};
use legation_store::steps::{self, StepRow};

use crate::http::error::Result;

/// All writers that ever wrote, and how far each got. One that has only granted steps so far is in no history.
pub(super) async fn writers(read: &mut Conn) -> Result<BTreeMap<String, i64>> {
    let mut known = BTreeMap::new();
    let in_history = history::writers(read).await?;
    for row in in_history.into_iter().chain(steps::writers(read).await?) {
        let last = known.entry(row.writer).or_insert(row.batch_no);
        *last = row.batch_no.max(*last);
    }
    Ok(known)
}

/// Rows of one writer that one look reads.
const PAGE: i64 = 500;

/// What one writer's batch brought.
pub(super) struct Batch {
    pub writer: String,
    pub number: i64,
    /// When it was committed, as far as its rows tell. Steps carry only when they began and ended, so that a batch
    /// of nothing but a step that goes on may have been later.
    pub at: i64,
    pub rows: Vec<HistoryRow>,
    pub steps: Vec<StepRow>,
}

/// The complete batches of a writer after a number, and whether there are more.
///
/// Rows of both tables commit together but are read one after the other: steps are read after the first look at
/// history, and history again when steps know of a later batch, so every batch up to the later of both is whole.
pub(super) async fn read_batches(read: &mut Conn, writer: &str, after: i64) -> Result<(Vec<Batch>, bool)> {
    let mut limit = PAGE;
    loop {
        let mut rows = history::after(read, writer, after, limit).await?;
        let steps = steps::after(read, writer, after, limit).await?;
        let seen = rows.last().map_or(after, |row| row.batch_no);
        let journaled = steps.last().map_or(after, |row| row.batch_no);
        if journaled > seen {
            rows = history::after(read, writer, after, limit).await?;
        }
        let is_cut = |count: usize| count as i64 == limit;
        let mut bound = seen.max(journaled);
        // A list that is cut off ends in a batch that may not be whole.
        if is_cut(rows.len()) {
            bound = bound.min(rows.last().map_or(after, |row| row.batch_no) - 1);
        }
        if is_cut(steps.len()) {
            bound = bound.min(journaled - 1);
        }
        let cut = is_cut(rows.len()) || is_cut(steps.len());
        if cut && bound <= after {
            limit *= 4;
            continue;
        }
        return Ok((group(writer, rows, steps, bound), cut));
    }
}

fn group(writer: &str, rows: Vec<HistoryRow>, steps: Vec<StepRow>, bound: i64) -> Vec<Batch> {
    let mut batches: BTreeMap<i64, Batch> = BTreeMap::new();
    let new = |number: i64, at: i64| Batch {
        writer: writer.to_owned(),
        number,
        at,
        rows: Vec::new(),
        steps: Vec::new(),
    };
    for row in rows.into_iter().filter(|row| row.batch_no <= bound) {
        batches
            .entry(row.batch_no)
            .or_insert_with(|| new(row.batch_no, row.at))
            .rows
            .push(row);
    }
    for row in steps.into_iter().filter(|row| row.batch_no <= bound) {
        let at = row.ended_at.unwrap_or(row.started_at);
        let batch = batches
            .entry(row.batch_no)
            .or_insert_with(|| new(row.batch_no, at));
        batch.at = batch.at.max(at);
        batch.steps.push(row);
    }
    let mut batches: Vec<Batch> = batches.into_values().collect();
    // A step's own time may lie before its batch's; the order of batches must not suffer from it.
    let mut latest = i64::MIN;
    for batch in &mut batches {
        latest = latest.max(batch.at);
        batch.at = latest;
    }
    batches
}
