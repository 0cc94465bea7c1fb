//! Core §2, "Feed": a writer's batches are numbered without gaps, and a commit in doubt ends its stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::future::BoxFuture;
use legation_server::writer::{Faults, Lost, Moment};
use legation_store::testing::TestDb;
use legation_store::{for_each_db, history};

use crate::ORDER;
use crate::support::{Engine, text};

/// Breaks the connection right after the next commit.
#[derive(Default)]
pub struct LoseNext(AtomicBool);

impl Faults for LoseNext {
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>> {
        let breaks = moment != Moment::BeforeCommit && self.0.swap(false, Ordering::SeqCst);
        Box::pin(std::future::ready(if breaks { Err(Lost) } else { Ok(()) }))
    }
}

async fn batches_are_numbered_without_gaps_and_a_commit_in_doubt_ends_a_stream(test: &TestDb) {
    let lose = Arc::new(LoseNext::default());
    let engine = Engine::with_faults(test, &[("order.process.yaml", ORDER)], lose.clone()).await;
    let book = [("title", text("book"))];
    for round in 0..6 {
        engine.start("order", &book).await.unwrap();
        assert!(
            engine.start("order", &[]).await.is_err(),
            "a refused start takes no number"
        );
        assert!(engine.fetch("nothing", 1, 0).await.is_empty());
        if round == 3 {
            lose.0.store(true, Ordering::SeqCst);
            engine.start("order", &book).await.unwrap();
        }
    }
    let mut read = engine.app.db().read().await.unwrap();
    let mut numbers: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for writer in history::writers(&mut read).await.unwrap() {
        let rows = history::after(&mut read, &writer.writer, 0, 100).await.unwrap();
        numbers
            .entry(writer.writer)
            .or_default()
            .extend(rows.iter().map(|row| row.batch_no));
    }
    assert_eq!(numbers.values().map(Vec::len).sum::<usize>(), 7);
    for (writer, numbers) in &numbers {
        let expected: Vec<i64> = (1..=numbers.len() as i64).collect();
        assert_eq!(numbers, &expected, "{writer}");
    }
}

for_each_db!(batches_are_numbered_without_gaps_and_a_commit_in_doubt_ends_a_stream);
