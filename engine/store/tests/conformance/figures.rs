//! Counts and statistics: right, and bounded.

use legation_store::counts::{self, CountFilter, StatusCount};
use legation_store::external_tasks;
use legation_store::incidents::{self, IncidentRow};
use legation_store::instances::{self, InstanceRow};
use legation_store::statistics::{self, Version};
use legation_store::testing::TestDb;
use legation_store::{Key, for_each_db, history};

use super::support::*;

for_each_db!(
    instances_are_counted_by_status_process_and_time,
    counting_stops_and_says_so,
    the_newest_instances_of_a_version_are_found_with_what_they_did,
    active_instances_and_open_incidents_are_those_of_the_version,
    the_begin_of_a_lease_outlives_it,
);

async fn write(test: &TestDb, rows: &[InstanceRow]) {
    let mut tx = begin(test).await;
    instances::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

fn with(id: &str, status: &str, process: &str, started_at: i64) -> InstanceRow {
    InstanceRow {
        status: status.to_owned(),
        process: process.to_owned(),
        started_at,
        ..instance(id, id)
    }
}

async fn counted(test: &TestDb, filter: &CountFilter) -> Vec<(&'static str, i64, bool)> {
    let mut conn = read(test).await;
    let counts = counts::by_status(&mut conn, filter).await.unwrap();
    let plain = |count: StatusCount| (count.status, count.count, count.at_least);
    counts.into_iter().map(plain).collect()
}

fn all() -> CountFilter {
    CountFilter {
        project: "default".to_owned(),
        most: 100,
        ..CountFilter::default()
    }
}

async fn instances_are_counted_by_status_process_and_time(test: &TestDb) {
    let rows = [
        with("a", "RUNNING", "refund", 10),
        with("b", "COMPLETED", "refund", 20),
        with("c", "FAILED", "other", 30),
        with("d", "COMPLETED", "other", 40),
        with("e", "COMPLETED", "other", 50),
        InstanceRow {
            project: "foreign".to_owned(),
            ..instance("f", "f")
        },
    ];
    write(test, &rows).await;
    let every = [
        ("RUNNING", 1, false),
        ("FAILED", 1, false),
        ("COMPLETED", 3, false),
    ];
    assert_eq!(counted(test, &all()).await, every);
    let process = Some("other".to_owned());
    let of_other = counted(test, &CountFilter { process, ..all() }).await;
    assert_eq!(of_other, [("FAILED", 1, false), ("COMPLETED", 2, false)]);
    let between = CountFilter {
        started_from: Some(20),
        started_before: Some(50),
        ..all()
    };
    assert_eq!(
        counted(test, &between).await,
        [("FAILED", 1, false), ("COMPLETED", 2, false)]
    );
    let nowhere = CountFilter {
        project: "nowhere".to_owned(),
        ..all()
    };
    assert_eq!(counted(test, &nowhere).await, []);
}

async fn counting_stops_and_says_so(test: &TestDb) {
    let done = (0..5).map(|at| with(&format!("d{at}"), "COMPLETED", "refund", at));
    let failed = (0..4).map(|at| with(&format!("f{at}"), "FAILED", "refund", at));
    write(test, &done.chain(failed).collect::<Vec<_>>()).await;
    let most = |most| CountFilter { most, ..all() };
    assert_eq!(
        counted(test, &most(5)).await,
        [("FAILED", 4, false), ("COMPLETED", 5, true)]
    );
    // FAILED is cut, so COMPLETED is no difference any more.
    assert_eq!(
        counted(test, &most(3)).await,
        [("FAILED", 3, true), ("COMPLETED", 5, false)]
    );
    // Of another process every row that was read counts, not those that fit.
    let process = Some("other".to_owned());
    let other = CountFilter { process, ..most(3) };
    assert_eq!(counted(test, &other).await, [("FAILED", 0, true)]);
}

fn version() -> Version<'static> {
    Version {
        project: "default",
        process: "refund",
        version: 3,
    }
}

async fn the_newest_instances_of_a_version_are_found_with_what_they_did(test: &TestDb) {
    let older = InstanceRow {
        version: 2,
        ..with("b", "COMPLETED", "refund", 20)
    };
    let rows = [
        with("a", "COMPLETED", "refund", 10),
        older,
        with("c", "RUNNING", "refund", 30),
        with("d", "RUNNING", "other", 40),
    ];
    write(test, &rows).await;
    let mut tx = begin(test).await;
    let events = [
        history("a", 1, "a1", 1),
        history("a", 2, "a2", 2),
        history("c", 1, "c1", 3),
        history("c", 201, "c201", 4),
    ];
    history::insert(&mut tx, &events).await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    let newest = statistics::newest(&mut conn, &version(), 10).await.unwrap();
    let ids: Vec<_> = newest
        .iter()
        .map(|row| (row.id.as_str(), row.started_at))
        .collect();
    assert_eq!(ids, [("c", 30), ("a", 10)]);
    let one = statistics::newest(&mut conn, &version(), 1).await.unwrap();
    assert_eq!(one.len(), 1);
    let keys: Vec<Key> = newest.iter().map(|row| Key::new(&row.root, &row.id)).collect();
    let happened = statistics::happened(&mut conn, &keys).await.unwrap();
    let mut instances: Vec<_> = happened.iter().map(|row| row.instance.as_str()).collect();
    instances.sort_unstable();
    assert_eq!(
        instances,
        ["a", "a", "c"],
        "the commands of one instance are bounded"
    );
}

async fn active_instances_and_open_incidents_are_those_of_the_version(test: &TestDb) {
    let rows = [
        with("a", "RUNNING", "refund", 10),
        with("b", "COMPLETED", "refund", 20),
        with("c", "RUNNING", "other", 30),
        with("d", "CANCELLING", "refund", 40),
    ];
    write(test, &rows).await;
    let mut tx = begin(test).await;
    let closed = IncidentRow {
        state: "RESOLVED".to_owned(),
        ..incident("a", "a.n2", 2)
    };
    let notice = IncidentRow {
        kind: "notice".to_owned(),
        ..incident("a", "a.n3", 3)
    };
    let open = [incident("a", "a.n1", 1), closed, notice, incident("c", "c.n1", 4)];
    incidents::insert(&mut tx, &open).await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    let (active, more) = statistics::active(&mut conn, &version(), 10).await.unwrap();
    let mut ids: Vec<_> = active.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!((ids, more), (vec!["a", "d"], false));
    assert!(active.iter().all(|row| !row.snapshot.is_empty()));
    let (one, more) = statistics::active(&mut conn, &version(), 1).await.unwrap();
    assert_eq!((one.len(), more), (1, true));
    let stuck = statistics::incidents(&mut conn, &version()).await.unwrap();
    assert_eq!(stuck, [("pay".to_owned(), 1)]);
}

async fn the_begin_of_a_lease_outlives_it(test: &TestDb) {
    let mut tx = begin(test).await;
    let rows = [external_task("a", "a.t1"), external_task("a", "a.t2")];
    external_tasks::insert(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    let locked = async || {
        let mut conn = read(test).await;
        external_tasks::locked_at(&mut conn, "a", "a").await.unwrap()
    };
    assert_eq!(locked().await, []);
    let mut tx = begin(test).await;
    let mut claimed = external_tasks::claim(&mut tx, &claim("w", 5_000, 1))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(locked().await, [(claimed[0].id.clone(), 5_000)]);
    let row = &mut claimed[0];
    (row.worker, row.locked_until, row.lock_ms) = (None, None, None);
    (row.retired, row.claimable_at, row.ended_at) = (true, None, Some(9_000));
    let mut tx = begin(test).await;
    external_tasks::update(&mut tx, &claimed).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(locked().await, [(claimed[0].id.clone(), 5_000)]);
    // Several topics at once are claimed by another statement.
    let mut tx = begin(test).await;
    let mut many = claim("w", 7_000, 2);
    many.topics.push("other".to_owned());
    external_tasks::claim(&mut tx, &many).await.unwrap();
    tx.commit().await.unwrap();
    let mut both = locked().await;
    both.sort();
    assert_eq!(both.iter().map(|one| one.1).collect::<Vec<_>>().len(), 2);
    assert!(both.iter().any(|one| one.1 == 7_000));
}
