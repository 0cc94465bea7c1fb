use legation_store::testing::TestDb;
use legation_store::{Db, Dialect, Error, for_each_db, payloads, roots};

use super::support::*;

for_each_db!(
    a_dropped_transaction_leaves_nothing,
    a_transaction_in_which_a_statement_failed_cannot_be_committed,
    migrating_again_changes_nothing,
);

async fn a_dropped_transaction_leaves_nothing(test: &TestDb) {
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    drop(tx);
    // The same connection serves the next.
    let mut tx = begin(test).await;
    assert_eq!(roots::get(&mut tx, "a").await.unwrap(), None);
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    tx.commit().await.unwrap();
    assert!(roots::get(&mut *read(test).await, "a").await.unwrap().is_some());
}

/// PostgreSQL would answer the COMMIT with a silent rollback.
async fn a_transaction_in_which_a_statement_failed_cannot_be_committed(test: &TestDb) {
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    assert!(roots::insert(&mut tx, &[root("a")]).await.is_err());
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(Error::Database(_))), "{committed:?}");
    assert_eq!(roots::get(&mut *read(test).await, "a").await.unwrap(), None);
}

async fn migrating_again_changes_nothing(test: &TestDb) {
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    tx.commit().await.unwrap();
    test.db.migrate().await.unwrap();
    assert!(roots::get(&mut *read(test).await, "a").await.unwrap().is_some());
}

/// B17: the write fails with a name, nothing of it stays, and what fits can still be written.
#[tokio::test]
async fn a_full_sqlite_file_refuses_the_write_and_goes_on_afterwards() {
    let test = &TestDb::new(Dialect::Sqlite).await;
    let payload = |digest: &str, bytes: usize| payloads::PayloadRow {
        root: "a".to_owned(),
        owner: "a".to_owned(),
        digest: digest.to_owned(),
        size: bytes as i64,
        key_id: None,
        nonce: None,
        body: vec![7; bytes],
    };
    test.db.limit_pages(20).await.unwrap();
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    let full = payloads::insert(&mut tx, &[payload("big", 4_000_000)]).await;
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
    assert!(tx.commit().await.is_err());

    let mut tx = begin(test).await;
    assert_eq!(roots::get(&mut tx, "a").await.unwrap(), None);
    payloads::insert(&mut tx, &[payload("small", 100)]).await.unwrap();
    tx.commit().await.unwrap();
    // Also when the transaction is just dropped.
    let mut tx = begin(test).await;
    assert!(
        payloads::insert(&mut tx, &[payload("big", 4_000_000)])
            .await
            .is_err()
    );
    drop(tx);
    test.db.limit_pages(2_000).await.unwrap();
    let mut tx = begin(test).await;
    payloads::insert(&mut tx, &[payload("big", 4_000_000)])
        .await
        .unwrap();
    tx.commit().await.unwrap();
}

#[tokio::test]
async fn a_sqlite_file_that_another_process_writes_asks_to_retry_or_waits() {
    let test = &TestDb::new(Dialect::Sqlite).await;
    let other = Db::open(&test.url).await.unwrap();
    let mut first = begin(test).await;
    roots::insert(&mut first, &[root("a")]).await.unwrap();
    let waiting = tokio::spawn(async move {
        let mut tx = other.begin_write().await.unwrap();
        roots::get(&mut tx, "a").await.unwrap().is_some()
    });
    first.commit().await.unwrap();
    assert!(waiting.await.unwrap());
}

#[tokio::test]
async fn a_deadlock_on_postgres_asks_one_of_the_two_to_retry() {
    let test = &TestDb::new(Dialect::Postgres).await;
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a"), root("b")]).await.unwrap();
    tx.commit().await.unwrap();
    let (mut first, mut second) = (begin(test).await, begin(test).await);
    roots::lock_waiting(&mut first, "a").await.unwrap();
    roots::lock_waiting(&mut second, "b").await.unwrap();
    let crossing = async {
        let result = roots::lock_waiting(&mut first, "b").await;
        drop(first);
        result
    };
    let other = async {
        let result = roots::lock_waiting(&mut second, "a").await;
        drop(second);
        result
    };
    let results: [_; 2] = tokio::join!(crossing, other).into();
    assert_eq!(
        results
            .iter()
            .filter(|result| matches!(result, Err(Error::Retry(_))))
            .count(),
        1,
        "{results:?}"
    );
    assert_eq!(
        results.iter().filter(|result| result.is_ok()).count(),
        1,
        "{results:?}"
    );
}

/// The unknown commit: nobody can know, so it has a name of its own.
#[tokio::test]
async fn a_commit_over_a_lost_connection_is_unknown() {
    let test = &TestDb::new(Dialect::Postgres).await;
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    // Another connection ends all others on this database.
    kill_connections(test).await;
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(Error::Connection(_))), "{committed:?}");
    // The pool finds its way back without help.
    let mut tx = begin_again(test).await;
    assert_eq!(roots::get(&mut tx, "a").await.unwrap(), None);
}

async fn kill_connections(test: &TestDb) {
    use sqlx::Connection;
    let mut admin = sqlx::PgConnection::connect(&test.url).await.unwrap();
    let text = "SELECT pg_terminate_backend(pid, 5000) FROM pg_stat_activity
                WHERE datname = current_database() AND pid <> pg_backend_pid()";
    sqlx::query(text).execute(&mut admin).await.unwrap();
    admin.close().await.unwrap();
}

/// A dead connection that lay idle in the pool shows at the first use; the next attempt gets a new one.
async fn begin_again(test: &TestDb) -> legation_store::Tx {
    for _ in 0..20 {
        match test.db.begin_write().await {
            Ok(tx) => return tx,
            Err(error) => assert!(matches!(error, Error::Connection(_)), "{error:?}"),
        }
    }
    panic!("the pool does not recover");
}

#[tokio::test]
async fn a_server_that_is_not_there_is_a_connection_error() {
    let db = Db::open("postgres://nobody@127.0.0.1:1/nothing").await.unwrap();
    let Err(error) = db.begin_write().await else {
        panic!("nobody listens on port 1")
    };
    assert!(matches!(error, Error::Connection(_)), "{error:?}");
}

#[tokio::test]
async fn an_address_of_another_kind_is_refused_without_repeating_it() {
    for url in ["mysql://me:secret@host/db", "", "sqlite:", "sqlite::memory:"] {
        let Err(error) = Db::open(url).await else {
            panic!("{url} was opened")
        };
        assert!(matches!(error, Error::Setup(_)), "{error:?}");
        assert!(!error.to_string().contains("secret"));
    }
}

#[tokio::test]
async fn a_reader_of_sqlite_sees_only_what_is_committed() {
    let test = &TestDb::new(Dialect::Sqlite).await;
    let mut conn = read(test).await;
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    assert_eq!(roots::get(&mut conn, "a").await.unwrap(), None);
    tx.commit().await.unwrap();
    assert!(roots::get(&mut conn, "a").await.unwrap().is_some());
}
