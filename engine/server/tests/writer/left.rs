//! Durable commands that engines die of, and leases that cannot be declared lost: both end as an incident (core §2).

use std::time::Duration;

use legation_kernel::ids::TaskId;
use legation_server::writer;
use legation_store::mailbox::{self, MailboxRow};
use legation_store::testing::TestDb;
use legation_store::{Dialect, Key, external_tasks, for_each_db, roots, timers};

use crate::ORDER;
use crate::durable::{PAUSE, failed};
use crate::support::{Engine, text};

const HOUR_MS: i64 = 60 * 60 * 1_000;

/// Core §2: a timer that kills every engine that fires it is held by an incident after five starts; one that was only
/// in the same batch is done, and a retry fires the held one.
async fn a_timer_that_engines_die_of_becomes_an_incident_and_its_neighbour_is_done(test: &TestDb) {
    let mut engine = Engine::new(test, &[("pause.process.yaml", PAUSE)]).await;
    let healthy = engine.start("pause", &[]).await.unwrap();
    engine.app.clock().advance(10);
    let deadly = engine.start("pause", &[]).await.unwrap();
    engine.app.stop(Duration::from_secs(10)).await;
    engine.app.clock().advance(HOUR_MS);
    // First both are in one batch; then the healthy one goes first, and the other kills each time.
    for commits in [0, 1, 0, 0, 0] {
        engine.dies_after(commits).await;
    }
    engine.restart().await;
    let incident = failed(&engine).await;
    assert_eq!(
        (incident.code.as_str(), incident.instance.as_str()),
        (writer::FAILED, deadly.as_str())
    );
    assert_eq!(engine.status(&healthy).await, "COMPLETED");
    assert_eq!(engine.row(&deadly).await.incidents, 1);
    let mut read = engine.app.db().read().await.unwrap();
    let held = timers::list(&mut read, &deadly, &deadly).await.unwrap();
    assert!(held[0].held, "no engine tries it any more");
    drop(read);
    writer::run_again(engine.app.shared(), incident, "operator")
        .await
        .unwrap();
    engine.until(&deadly, |row| row.status == "COMPLETED").await;
}

/// Core §2: as of timers, so of mail, and an engine that finds it in the middle of its life does not count it.
async fn mail_that_engines_die_of_becomes_an_incident(test: &TestDb) {
    let mut engine = Engine::new(test, &[("pause.process.yaml", PAUSE)]).await;
    let root = engine.start("pause", &[]).await.unwrap();
    engine.app.stop(Duration::from_secs(10)).await;
    let mail = MailboxRow {
        root: root.clone(),
        id: format!("CONTINUE:{root}"),
        project: "p".to_owned(),
        kind: "CONTINUE".to_owned(),
        key: root.clone(),
        due_at: Some(engine.app.clock().now()),
        tries: 0,
        body: format!("{{\"Continue\":{{\"instance\":\"{root}\"}}}}"),
    };
    let mut tx = test.db.begin_write().await.unwrap();
    mailbox::insert(&mut tx, std::slice::from_ref(&mail))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    for starts in 1..=5 {
        engine.dies_after(0).await;
        let row = mailbox::get(&mut test.db.read().await.unwrap(), &root, &mail.id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!((row.tries, row.due_at), (starts, mail.due_at));
    }
    engine.restart().await;
    let incident = failed(&engine).await;
    assert_eq!(
        (incident.code.as_str(), incident.instance.as_str()),
        (writer::FAILED, root.as_str())
    );
    let mut read = engine.app.db().read().await.unwrap();
    let row = mailbox::get(&mut read, &root, &mail.id).await.unwrap().unwrap();
    assert_eq!(row.due_at, None, "no engine tries it any more");
}

/// Core §2: what one healthy start finds is done, and makes no incident however often engines were started before it
/// was due.
async fn a_healthy_row_that_a_start_finds_is_done(test: &TestDb) {
    let mut engine = Engine::new(test, &[("pause.process.yaml", PAUSE)]).await;
    let root = engine.start("pause", &[]).await.unwrap();
    for _ in 0..6 {
        engine.restart().await;
    }
    engine.app.stop(Duration::from_secs(10)).await;
    engine.app.clock().advance(HOUR_MS);
    engine.restart().await;
    engine.until(&root, |row| row.status == "COMPLETED").await;
    assert_eq!(engine.row(&root).await.incidents, 0);
}

/// Core §2: declaring a lease lost is tried five times, like any other durable command, and then held.
async fn a_lease_that_cannot_be_declared_lost_becomes_an_incident(test: &TestDb) {
    let mut engine = Engine::new(test, &[("order.process.yaml", ORDER)]).await;
    let root = engine.start("order", &[("title", text("book"))]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await.remove(0);
    // Its task cannot be read any more.
    engine.app.stop(Duration::from_secs(10)).await;
    let mut tx = test.db.begin_write().await.unwrap();
    let key = Key::new(&root, &leased.row.id);
    let mut row = external_tasks::get_many(&mut tx, std::slice::from_ref(&key))
        .await
        .unwrap()
        .remove(0);
    row.body = "{}".to_owned();
    row.lapse_at = Some(engine.app.clock().now());
    external_tasks::update(&mut tx, &[row]).await.unwrap();
    tx.commit().await.unwrap();
    engine.restart().await;
    let incident = failed(&engine).await;
    let instance = TaskId(leased.row.id.clone()).instance();
    assert_eq!(
        (incident.code.as_str(), incident.instance.as_str()),
        (writer::FAILED, instance.as_str())
    );
    assert!(incident.message.contains("in 5 tries"), "{}", incident.message);
    assert_eq!(lapse_at(&engine, &key).await, Some(external_tasks::HELD_LAPSE));
    let mut read = engine.app.db().read().await.unwrap();
    let next = external_tasks::next_lapse(&mut read).await.unwrap();
    assert_eq!(next, None, "nobody waits for it");
    drop(read);
    writer::run_again(engine.app.shared(), incident, "operator")
        .await
        .unwrap();
    let mut committed = engine.app.shared().wake.committed.subscribe();
    let again = tokio::time::timeout(Duration::from_secs(20), async {
        while engine.row(&root).await.incidents < 2 {
            let _ = tokio::time::timeout(Duration::from_millis(50), committed.changed()).await;
        }
    });
    again.await.expect("the cause was not removed");
    assert_eq!(lapse_at(&engine, &key).await, Some(external_tasks::HELD_LAPSE));
}

/// Core §2: a row that another engine is at work on is not counted by one that starts beside it.
#[tokio::test]
async fn a_row_that_another_engine_takes_meanwhile_counts_no_try() {
    let test = TestDb::new(Dialect::Postgres).await;
    let mut engine = Engine::new(&test, &[("pause.process.yaml", PAUSE)]).await;
    let taken = engine.start("pause", &[]).await.unwrap();
    let left = engine.start("pause", &[]).await.unwrap();
    engine.app.stop(Duration::from_secs(10)).await;
    engine.app.clock().advance(HOUR_MS);
    let mut other = test.db.begin_write().await.unwrap();
    roots::lock(&mut other, std::slice::from_ref(&taken))
        .await
        .unwrap();
    engine.restart().await;
    engine.until(&left, |row| row.status == "COMPLETED").await;
    let mut read = engine.app.db().read().await.unwrap();
    let row = timers::list(&mut read, &taken, &taken).await.unwrap().remove(0);
    assert_eq!(row.body, "{}", "no try was counted");
    drop(read);
    other.rollback().await.unwrap();
    engine.app.clock().advance(1_000);
    engine.until(&taken, |row| row.status == "COMPLETED").await;
}

async fn lapse_at(engine: &Engine, key: &Key) -> Option<i64> {
    let mut read = engine.app.db().read().await.unwrap();
    let row = external_tasks::get(&mut read, &key.root, &key.id).await.unwrap();
    row.unwrap().lapse_at
}

for_each_db!(
    a_timer_that_engines_die_of_becomes_an_incident_and_its_neighbour_is_done,
    mail_that_engines_die_of_becomes_an_incident,
    a_healthy_row_that_a_start_finds_is_done,
    a_lease_that_cannot_be_declared_lost_becomes_an_incident,
);
