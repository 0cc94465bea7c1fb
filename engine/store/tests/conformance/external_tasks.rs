use legation_store::external_tasks::{self, ExternalTaskFilter, ExternalTaskRow, LeaseUpdate};
use legation_store::testing::TestDb;
use legation_store::{Error, Key, for_each_db};

use super::support::*;

for_each_db!(
    a_task_comes_back_as_it_was_written,
    an_update_compares_the_revision_that_a_claim_moved_on,
    a_heartbeat_counts_for_its_own_lease_only,
    nothing_below_an_instance_that_is_ending_is_leased,
    what_lapses_is_found_when_it_is_due,
    open_work_is_counted_by_topic,
    operators_list_open_tasks_and_all_of_an_instance,
);

async fn write(test: &TestDb, rows: &[ExternalTaskRow]) {
    let mut tx = begin(test).await;
    external_tasks::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

async fn get(test: &TestDb, id: &str) -> ExternalTaskRow {
    external_tasks::get(&mut *read(test).await, "a", id)
        .await
        .unwrap()
        .unwrap()
}

async fn a_task_comes_back_as_it_was_written(test: &TestDb) {
    let full = ExternalTaskRow {
        agent: true,
        lease_no: 3,
        lease_random: Some("x".to_owned()),
        worker: Some("w".to_owned()),
        credential: Some("c".to_owned()),
        locked_until: Some(5),
        lock_ms: Some(6),
        claimable_at: None,
        lapse_at: Some(7),
        outcome: Some("COMPLETED".to_owned()),
        ended_at: Some(8),
        traceparent: Some("00-1".to_owned()),
        retired: true,
        ..external_task("a", "a.t2")
    };
    write(
        test,
        &[
            external_task("a", "a.t1"),
            full.clone(),
            external_task("b", "b.t1"),
        ],
    )
    .await;
    assert_eq!(get(test, "a.t1").await, external_task("a", "a.t1"));
    assert_eq!(get(test, "a.t2").await, full);
    let mut tx = begin(test).await;
    let keys = [
        Key::new("a", "a.t2"),
        Key::new("b", "b.t1"),
        Key::new("b", "a.t1"),
    ];
    let mut many = external_tasks::get_many(&mut tx, &keys).await.unwrap();
    many.sort_by(|x, y| x.id.cmp(&y.id));
    assert_eq!(many, [full, external_task("b", "b.t1")]);
    let mut looked = external_tasks::look_many(&mut tx, &keys).await.unwrap();
    looked.sort_by(|x, y| x.id.cmp(&y.id));
    assert_eq!(looked, many);
    assert_eq!(external_tasks::look_many(&mut tx, &[]).await.unwrap(), []);
    let open = external_tasks::list_open(&mut tx, "a").await.unwrap();
    assert_eq!(open, [external_task("a", "a.t1")]);
}

async fn an_update_compares_the_revision_that_a_claim_moved_on(test: &TestDb) {
    write(test, &[external_task("a", "a.t1")]).await;
    let loaded = get(test, "a.t1").await;
    let mut tx = begin(test).await;
    assert_eq!(
        external_tasks::claim(&mut tx, &claim("w", 1_000, 1))
            .await
            .unwrap()
            .len(),
        1
    );
    tx.commit().await.unwrap();

    let mut tx = begin(test).await;
    let stale = external_tasks::update(&mut tx, std::slice::from_ref(&loaded)).await;
    let stale = refused(tx, stale).await;
    assert!(matches!(stale, Error::Conflict { .. }), "{stale:?}");

    let done = ExternalTaskRow {
        retired: true,
        claimable_at: None,
        worker: None,
        outcome: Some("COMPLETED".to_owned()),
        ended_at: Some(3_000),
        body: "{}".to_owned(),
        ..get(test, "a.t1").await
    };
    let mut tx = begin(test).await;
    external_tasks::update(&mut tx, std::slice::from_ref(&done))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        get(test, "a.t1").await,
        ExternalTaskRow {
            revision: done.revision + 1,
            ..done
        }
    );

    let mut tx = begin(test).await;
    let unknown = external_tasks::update(&mut tx, &[external_task("a", "a.t9")]).await;
    let unknown = refused(tx, unknown).await;
    assert!(matches!(unknown, Error::Conflict { .. }), "{unknown:?}");
}

async fn a_heartbeat_counts_for_its_own_lease_only(test: &TestDb) {
    write(test, &[external_task("a", "a.t1"), external_task("a", "a.t2")]).await;
    let mut tx = begin(test).await;
    let leased = external_tasks::claim(&mut tx, &claim("w", 1_000, 2))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let heartbeat = |task: &ExternalTaskRow, lease_no| LeaseUpdate {
        key: task.key(),
        lease_no,
        locked_until: 50_000,
        lock_ms: 49_000,
        claimable_at: Some(50_000),
        lapse_at: Some(99_000),
    };
    let mut tx = begin(test).await;
    let rows = [
        heartbeat(&leased[0], 1),
        heartbeat(&leased[1], 2),
        heartbeat(&external_task("a", "a.t9"), 1),
    ];
    let changed = external_tasks::update_leases(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(changed, [leased[0].key()]);
    let expected = ExternalTaskRow {
        locked_until: Some(50_000),
        lock_ms: Some(49_000),
        claimable_at: Some(50_000),
        lapse_at: Some(99_000),
        revision: leased[0].revision + 1,
        ..leased[0].clone()
    };
    assert_eq!(get(test, &leased[0].id).await, expected);
    assert_eq!(get(test, &leased[1].id).await, leased[1]);
}

async fn what_lapses_is_found_when_it_is_due(test: &TestDb) {
    let due = |id: &str, at| ExternalTaskRow {
        lapse_at: Some(at),
        ..external_task("a", id)
    };
    assert_eq!(
        external_tasks::next_lapse(&mut *read(test).await).await.unwrap(),
        None
    );
    write(
        test,
        &[
            due("a.t1", 300),
            due("a.t2", 100),
            due("a.t3", 200),
            external_task("a", "a.t4"),
        ],
    )
    .await;
    let mut conn = read(test).await;
    assert_eq!(external_tasks::next_lapse(&mut conn).await.unwrap(), Some(100));
    let lapsed = external_tasks::lapsed(&mut conn, 200, 10).await.unwrap();
    assert_eq!(
        lapsed.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
        ["a.t2", "a.t3"]
    );
    assert_eq!(external_tasks::lapsed(&mut conn, 300, 1).await.unwrap().len(), 1);
    assert!(
        external_tasks::lapsed(&mut conn, 99, 10)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn open_work_is_counted_by_topic(test: &TestDb) {
    let parked = ExternalTaskRow {
        claimable_at: None,
        created_at: 1,
        ..external_task("a", "a.t2")
    };
    let later = ExternalTaskRow {
        claimable_at: Some(9_000),
        ..external_task("a", "a.t3")
    };
    let done = ExternalTaskRow {
        retired: true,
        claimable_at: None,
        ..external_task("a", "a.t4")
    };
    let other = ExternalTaskRow {
        topic: "mail".to_owned(),
        created_at: 7,
        ..external_task("a", "a.t5")
    };
    write(test, &[external_task("a", "a.t1"), parked, later, done, other]).await;
    let topics = external_tasks::open_topics(&mut *read(test).await, 1_000)
        .await
        .unwrap();
    let topics: Vec<_> = topics
        .iter()
        .map(|row| (row.topic.as_str(), row.open, row.waiting, row.oldest))
        .collect();
    assert_eq!(topics, [("mail", 1, 1, Some(7)), ("payments", 3, 1, Some(1_000))]);
}

async fn operators_list_open_tasks_and_all_of_an_instance(test: &TestDb) {
    let done = ExternalTaskRow {
        retired: true,
        claimable_at: None,
        created_at: 1,
        ..external_task("a", "a.t1")
    };
    let open = ExternalTaskRow {
        created_at: 2,
        worker: Some("w".to_owned()),
        ..external_task("a", "a.t2")
    };
    let mail = ExternalTaskRow {
        created_at: 3,
        topic: "mail".to_owned(),
        ..external_task("b", "b.t1")
    };
    let foreign = ExternalTaskRow {
        project: "foreign".to_owned(),
        ..external_task("c", "c.t1")
    };
    write(test, &[done, open, mail, foreign]).await;
    let all = ExternalTaskFilter {
        project: "default".to_owned(),
        limit: 10,
        ..ExternalTaskFilter::default()
    };
    let list = async |filter: &ExternalTaskFilter| -> Vec<String> {
        let rows = external_tasks::list(&mut *read(test).await, filter)
            .await
            .unwrap();
        assert!(rows.iter().all(|row| row.body.is_empty()));
        rows.into_iter().map(|row| row.id).collect()
    };
    assert_eq!(list(&all).await, ["b.t1", "a.t2"]);
    let instance = Some(Key::new("a", "a"));
    assert_eq!(
        list(&ExternalTaskFilter {
            instance,
            ..all.clone()
        })
        .await,
        ["a.t2", "a.t1"]
    );
    assert_eq!(
        list(&ExternalTaskFilter {
            topic: Some("mail".to_owned()),
            ..all.clone()
        })
        .await,
        ["b.t1"]
    );
    assert_eq!(
        list(&ExternalTaskFilter {
            worker: Some("w".to_owned()),
            ..all.clone()
        })
        .await,
        ["a.t2"]
    );
    let one = ExternalTaskFilter {
        limit: 1,
        ..all.clone()
    };
    let first = external_tasks::list(&mut *read(test).await, &one).await.unwrap();
    let after = Some(first[0].place());
    assert_eq!(list(&ExternalTaskFilter { after, ..all }).await, ["a.t2"]);
}

/// Core §1, "Cancel": from its commit no lease below it.
async fn nothing_below_an_instance_that_is_ending_is_leased(test: &TestDb) {
    let of = |instance: &str, id: &str| ExternalTaskRow {
        instance: instance.to_owned(),
        ..external_task("a", id)
    };
    let tasks = [
        of("a", "a.t1"),
        of("a.i2", "a.i2.t1"),
        of("a.i2.i3", "a.i2.i3.t1"),
        of("a.i2.i3.i4", "a.i2.i3.i4.t1"),
        of("a.i20", "a.i20.t1"),
    ];
    write(test, &tasks).await;
    let mut tx = begin(test).await;
    assert_eq!(
        external_tasks::close_below(&mut tx, "a", "a.i2").await.unwrap(),
        2
    );
    assert_eq!(
        external_tasks::close_below(&mut tx, "a", "a.i2").await.unwrap(),
        0
    );
    let leased = external_tasks::claim(&mut tx, &claim("w", 1_000, 10))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut ids: Vec<&str> = leased.iter().map(|row| row.id.as_str()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["a.i2.t1", "a.i20.t1", "a.t1"]);
    let closed = get(test, "a.i2.i3.t1").await;
    assert_eq!((closed.claimable_at, closed.revision), (None, tasks[2].revision));
}
