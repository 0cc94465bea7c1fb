use legation_store::testing::TestDb;
use legation_store::{Dialect, Error, for_each_db, roots};

use super::support::*;

for_each_db!(
    a_root_comes_back_as_it_was_written,
    a_lock_gives_the_known_roots_in_order,
    a_waiting_lock_gets_the_root_when_it_is_free,
    an_update_counts_the_version_and_refuses_a_stale_one,
    a_second_root_of_the_same_id_is_a_conflict,
    more_rows_than_a_chunk_are_all_written,
);

fn ids(ids: &[&str]) -> Vec<String> {
    ids.iter().map(|id| (*id).to_owned()).collect()
}

async fn with_roots(test: &TestDb, ids: &[&str]) {
    let mut tx = begin(test).await;
    let rows: Vec<_> = ids.iter().map(|id| root(id)).collect();
    roots::insert(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
}

async fn a_root_comes_back_as_it_was_written(test: &TestDb) {
    let bare = roots::RootRow {
        key_id: None,
        data_key: None,
        ended_at: Some(5),
        ..root("b")
    };
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a"), bare.clone()]).await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(roots::get(&mut conn, "a").await.unwrap(), Some(root("a")));
    assert_eq!(roots::get(&mut conn, "b").await.unwrap(), Some(bare));
    assert_eq!(roots::get(&mut conn, "c").await.unwrap(), None);
}

async fn a_lock_gives_the_known_roots_in_order(test: &TestDb) {
    with_roots(test, &["c", "a", "b"]).await;
    let mut tx = begin(test).await;
    let locked = roots::lock(&mut tx, &ids(&["b", "unknown", "a", "c"]))
        .await
        .unwrap();
    let locked: Vec<_> = locked.into_iter().map(|row| row.id).collect();
    assert_eq!(locked, ["a", "b", "c"]);
    assert!(roots::lock(&mut tx, &[]).await.unwrap().is_empty());
    assert_eq!(
        roots::lock_waiting(&mut tx, "a")
            .await
            .unwrap()
            .map(|row| row.id)
            .as_deref(),
        Some("a")
    );
    assert!(roots::lock_waiting(&mut tx, "unknown").await.unwrap().is_none());
}

/// (SQLite has one writer: there is no second transaction that could be turned away.)
#[tokio::test]
async fn a_root_on_postgres_that_another_writer_holds_is_skipped() {
    let test = &TestDb::new(Dialect::Postgres).await;
    with_roots(test, &["a", "b"]).await;
    let mut first = begin(test).await;
    assert_eq!(roots::lock(&mut first, &ids(&["a"])).await.unwrap().len(), 1);
    let mut second = begin(test).await;
    let locked = roots::lock(&mut second, &ids(&["a", "b"])).await.unwrap();
    assert_eq!(
        locked.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
        ["b"]
    );
    first.commit().await.unwrap();
    assert_eq!(roots::lock(&mut second, &ids(&["a"])).await.unwrap().len(), 1);
}

async fn a_waiting_lock_gets_the_root_when_it_is_free(test: &TestDb) {
    with_roots(test, &["a"]).await;
    let mut first = begin(test).await;
    let held = roots::lock(&mut first, &ids(&["a"])).await.unwrap();
    let db = test.db.clone();
    let second = tokio::spawn(async move {
        let mut tx = db.begin_write().await.unwrap();
        roots::lock_waiting(&mut tx, "a").await.unwrap().unwrap().version
    });
    roots::update(&mut first, &held).await.unwrap();
    first.commit().await.unwrap();
    // Whoever waited sees what the first wrote.
    assert_eq!(second.await.unwrap(), 2);
}

async fn an_update_counts_the_version_and_refuses_a_stale_one(test: &TestDb) {
    with_roots(test, &["a", "b"]).await;
    let changed = roots::RootRow {
        stopping: Some("{}".to_owned()),
        data_key: None,
        ..root("a")
    };
    let mut tx = begin(test).await;
    roots::update(&mut tx, &[changed.clone(), root("b")])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let stored = roots::get(&mut *read(test).await, "a").await.unwrap().unwrap();
    assert_eq!(
        stored,
        roots::RootRow {
            version: 2,
            ..changed.clone()
        }
    );

    let mut tx = begin(test).await;
    let stale = roots::update(&mut tx, &[stored, root("b")]).await;
    let stale = refused(tx, stale).await;
    assert!(matches!(stale, Error::Conflict { .. }), "{stale:?}");
    let mut tx = begin(test).await;
    let unknown = roots::update(&mut tx, &[root("c")]).await;
    let unknown = refused(tx, unknown).await;
    assert!(matches!(unknown, Error::Conflict { .. }), "{unknown:?}");
}

async fn a_second_root_of_the_same_id_is_a_conflict(test: &TestDb) {
    with_roots(test, &["a"]).await;
    let mut tx = begin(test).await;
    let second = roots::insert(&mut tx, &[root("a")]).await;
    let second = refused(tx, second).await;
    assert!(matches!(second, Error::Conflict { .. }), "{second:?}");
}

async fn more_rows_than_a_chunk_are_all_written(test: &TestDb) {
    // 64 + 16 + 4 + 1 + 1 rows.
    let rows: Vec<_> = (0..86).map(|number| root(&format!("r{number:03}"))).collect();
    let names: Vec<_> = rows.iter().map(|row| row.id.clone()).collect();
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &rows).await.unwrap();
    roots::update(&mut tx, &rows).await.unwrap();
    let locked = roots::lock(&mut tx, &names).await.unwrap();
    assert_eq!(locked.len(), 86);
    assert!(locked.iter().all(|row| row.version == 2));
}
