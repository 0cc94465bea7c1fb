use legation_store::principals::PrincipalRow;
use legation_store::testing::TestDb;
use legation_store::{
    Db, Dialect, Error, external_tasks, for_each_db, history, instances, mailbox, payloads,
};
use legation_store::{Key, Result, Tx, incidents, principals, roots, steps, tasks, timers};

use super::support::{history as history_row, *};

for_each_db!(
    a_dropped_transaction_leaves_nothing,
    a_transaction_in_which_a_statement_failed_cannot_be_committed,
    nothing_is_written_after_a_statement_that_failed,
    migrating_again_changes_nothing,
    a_batch_writes_all_its_tables_or_none,
);

/// Everything that a batch may write, with one row of `history` as given.
async fn write_all(tx: &mut Tx, revision: i64) -> Result<()> {
    roots::insert(tx, &[root("b")]).await?;
    roots::update(tx, &[root("a")]).await?;
    instances::insert(tx, &[instance("b", "b")]).await?;
    external_tasks::insert(tx, &[external_task("b", "b.t1")]).await?;
    steps::upsert(tx, &[step("b", "b.t1", 1), step("b", "b.t1", 2)]).await?;
    history::insert(tx, &[history_row("a", revision, "c1", 1)]).await?;
    mailbox::insert(tx, &[letter("b", "b.m1", "k")]).await?;
    timers::insert(tx, &[timer("b", "b.m2", 5)]).await?;
    timers::delete(tx, &[Key::new("b", "b.m2")]).await?;
    tasks::insert(tx, &[approval("b", "b.h1", 1)]).await?;
    incidents::insert(tx, &[incident("b", "b.n1", 5)]).await
}

async fn a_batch_writes_all_its_tables_or_none(test: &TestDb) {
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    history::insert(&mut tx, &[history_row("a", 1, "c0", 1)])
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let mut tx = begin(test).await;
    let written = write_all(&mut tx, 1).await;
    let error = refused(tx, written).await;
    assert!(matches!(error, Error::Conflict { .. }), "{error:?}");
    let mut conn = read(test).await;
    assert_eq!(roots::get(&mut conn, "b").await.unwrap(), None);
    assert_eq!(roots::get(&mut conn, "a").await.unwrap(), Some(root("a")));

    let mut tx = begin(test).await;
    write_all(&mut tx, 2).await.unwrap();
    // A transaction sees what it wrote.
    assert_eq!(
        instances::get(&mut tx, "b", "b").await.unwrap(),
        Some(instance("b", "b"))
    );
    tx.commit().await.unwrap();
    assert_eq!(
        roots::get(&mut conn, "a").await.unwrap().map(|row| row.version),
        Some(2)
    );
    assert_eq!(
        external_tasks::get(&mut conn, "b", "b.t1").await.unwrap(),
        Some(external_task("b", "b.t1"))
    );
    assert_eq!(
        steps::list(&mut conn, "b", "b.t1", None, (0, 0), 9)
            .await
            .unwrap()
            .len(),
        2
    );
    assert_eq!(history::list(&mut conn, "a", "a", 0, 9).await.unwrap().len(), 2);
    assert_eq!(
        mailbox::list(&mut conn, "b").await.unwrap(),
        [letter("b", "b.m1", "k")]
    );
    assert!(timers::list(&mut conn, "b", "b").await.unwrap().is_empty());
    assert_eq!(
        tasks::get(&mut conn, "b", "b.h1").await.unwrap(),
        Some(approval("b", "b.h1", 1))
    );
    assert_eq!(
        incidents::get(&mut conn, "b", "b.n1").await.unwrap(),
        Some(incident("b", "b.n1", 5))
    );
}

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
    let alice = PrincipalRow {
        project: "default".to_owned(),
        id: "u1".to_owned(),
        kind: "person".to_owned(),
        name: "alice".to_owned(),
        groups: "[]".to_owned(),
        roles: "[]".to_owned(),
        created_at: 5,
    };
    principals::insert(&mut tx, &alice).await.unwrap();
    assert!(principals::insert(&mut tx, &alice).await.is_err());
    let committed = tx.commit().await;
    assert!(matches!(committed, Err(Error::Database(_))), "{committed:?}");
    assert_eq!(roots::get(&mut *read(test).await, "a").await.unwrap(), None);
}

/// SQLite gives a transaction up by itself when the file is full; what comes after must not be written on its own.
async fn nothing_is_written_after_a_statement_that_failed(test: &TestDb) {
    let mut tx = begin(test).await;
    roots::insert(&mut tx, &[root("a")]).await.unwrap();
    tx.commit().await.unwrap();
    test.db.limit_pages(0).await.unwrap();
    let mut tx = begin(test).await;
    let large = mailbox::MailboxRow {
        body: "x".repeat(1_000_000),
        ..letter("b", "b.m1", "k")
    };
    let first = match test.db.dialect() {
        Dialect::Sqlite => mailbox::insert(&mut tx, &[large]).await,
        Dialect::Postgres => {
            let nul = incidents::IncidentRow {
                message: "\0".to_owned(),
                ..incident("b", "b.n1", 5)
            };
            incidents::insert(&mut tx, &[nul]).await.unwrap();
            roots::get(&mut tx, "a").await.map(drop)
        }
    };
    assert!(first.is_err());
    assert!(roots::lock(&mut tx, &["a".to_owned()]).await.is_err());
    // Alone it would fit in pages that are there.
    let mut next = root("a");
    next.budget = Some("{}".to_owned());
    let written = roots::update(&mut tx, &[next]).await;
    if test.db.dialect() == Dialect::Sqlite {
        assert!(written.is_err());
    }
    assert!(tx.commit().await.is_err());
    test.db.limit_pages(1_000_000).await.unwrap();
    assert_eq!(
        roots::get(&mut *read(test).await, "a").await.unwrap(),
        Some(root("a"))
    );
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
    let written = payloads::insert(&mut tx, &[payload("big", 4_000_000)]).await;
    let full = refused(tx, written).await;
    assert!(matches!(full, Error::Full(_)), "{full:?}");

    let mut tx = begin(test).await;
    assert_eq!(roots::get(&mut tx, "a").await.unwrap(), None);
    payloads::insert(&mut tx, &[payload("small", 100)]).await.unwrap();
    tx.commit().await.unwrap();
    // Also when the transaction is just dropped.
    let mut tx = begin(test).await;
    let full = payloads::insert(&mut tx, &[payload("big", 4_000_000)]).await;
    assert!(matches!(full, Err(Error::Full(_))), "{full:?}");
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
    // A read sends what was gathered, so that only the COMMIT is left.
    roots::get(&mut tx, "a").await.unwrap();
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

/// A start waits for what heals and ends at once for what does not.
#[tokio::test]
async fn a_database_that_is_not_reached_says_why_and_whether_waiting_helps() {
    let test = TestDb::new(Dialect::Postgres).await;
    test.db.reach().await.unwrap();
    let (server, name) = test.url.rsplit_once('/').unwrap();
    let missing = Db::open(&format!("{server}/no_{name}")).await.unwrap();
    let error = missing.reach().await.unwrap_err();
    assert!(
        !error.heals() && error.to_string().contains("does not exist"),
        "{error}"
    );
    let nobody = Db::open("postgres://nobody@127.0.0.1:1/nothing").await.unwrap();
    let error = nobody.reach().await.unwrap_err();
    assert!(error.heals() && error.to_string().contains("refused"), "{error}");
}

#[tokio::test]
async fn the_place_of_a_database_tells_no_secret() {
    for (url, place) in [
        ("postgres://u:p%40ss@db:5433/legation", "db:5433/legation"),
        ("postgres://u:p@db/legation?password=a@b", "db:5432/legation"),
    ] {
        assert_eq!(Db::open(url).await.unwrap().place(), place);
    }
    let test = TestDb::new(Dialect::Sqlite).await;
    assert_eq!(test.db.place(), test.url);
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
