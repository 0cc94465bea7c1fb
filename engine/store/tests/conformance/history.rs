use legation_store::history::{self, HistoryRow};
use legation_store::testing::TestDb;
use legation_store::{Error, for_each_db};

use super::support::*;

for_each_db!(
    history_is_paged_by_revision,
    a_revision_is_written_once,
    commands_of_an_unknown_commit_are_found,
    the_feed_reads_each_writer_by_batch,
);

async fn write(test: &TestDb, rows: &[HistoryRow]) {
    let mut tx = begin(test).await;
    history::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

async fn history_is_paged_by_revision(test: &TestDb) {
    let second = HistoryRow {
        actor: Some("{}".to_owned()),
        ..history("a", 2, "c2", 1)
    };
    write(
        test,
        &[
            history("a", 3, "c3", 2),
            second.clone(),
            history("a", 1, "c1", 1),
            history("b", 1, "c4", 2),
        ],
    )
    .await;
    let mut conn = read(test).await;
    let page = history::list(&mut conn, "a", "a", 0, 2).await.unwrap();
    assert_eq!(page, [history("a", 1, "c1", 1), second]);
    let page = history::list(&mut conn, "a", "a", 2, 2).await.unwrap();
    assert_eq!(page, [history("a", 3, "c3", 2)]);
    assert!(
        history::list(&mut conn, "a", "unknown", 0, 2)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn a_revision_is_written_once(test: &TestDb) {
    write(test, &[history("a", 1, "c1", 1)]).await;
    let mut tx = begin(test).await;
    let again = history::insert(&mut tx, &[history("a", 2, "c2", 2), history("a", 1, "c3", 2)]).await;
    let again = refused(tx, again).await;
    assert!(matches!(again, Error::Conflict { .. }), "{again:?}");
}

async fn commands_of_an_unknown_commit_are_found(test: &TestDb) {
    write(
        test,
        &[
            history("a", 1, "c1", 1),
            history("a", 2, "c2", 1),
            history("b", 1, "c1", 1),
        ],
    )
    .await;
    let mut tx = begin(test).await;
    let ids = ["c1".to_owned(), "unknown".to_owned()];
    let found = history::find_commands(&mut tx, &ids).await.unwrap();
    assert_eq!(found, [history("a", 1, "c1", 1), history("b", 1, "c1", 1)]);
    assert!(history::find_commands(&mut tx, &[]).await.unwrap().is_empty());
}

async fn the_feed_reads_each_writer_by_batch(test: &TestDb) {
    assert!(history::writers(&mut *read(test).await).await.unwrap().is_empty());
    let other = HistoryRow {
        writer: "w2".to_owned(),
        ..history("b", 1, "c4", 9)
    };
    write(
        test,
        &[
            history("a", 3, "c3", 2),
            history("a", 2, "c2", 1),
            history("a", 1, "c1", 1),
            other,
        ],
    )
    .await;
    let mut conn = read(test).await;
    let feed = history::after(&mut conn, "w1", 0, 10).await.unwrap();
    assert_eq!(
        feed.iter()
            .map(|row| (row.batch_no, row.revision))
            .collect::<Vec<_>>(),
        [(1, 1), (1, 2), (2, 3)]
    );
    assert_eq!(history::after(&mut conn, "w1", 1, 10).await.unwrap().len(), 1);
    assert_eq!(history::after(&mut conn, "w1", 0, 2).await.unwrap().len(), 2);
    let writers = history::writers(&mut conn).await.unwrap();
    let writers: Vec<_> = writers
        .iter()
        .map(|row| (row.writer.as_str(), row.batch_no))
        .collect();
    assert_eq!(writers, [("w1", 2), ("w2", 9)]);
}
