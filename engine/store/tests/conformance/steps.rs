use legation_store::payloads::{self, PayloadKey, PayloadRow};
use legation_store::steps::{self, StepRow};
use legation_store::testing::TestDb;
use legation_store::{Key, for_each_db};

use super::support::*;

for_each_db!(
    a_step_is_written_once_and_then_changed,
    a_task_is_paged_by_attempt_and_sequence,
    the_steps_of_many_tasks_come_in_order,
    an_instance_is_paged_over_all_its_tasks,
    the_feed_reads_a_writers_steps_by_batch,
    a_payload_belongs_to_its_owner,
);

async fn write(test: &TestDb, rows: &[StepRow]) {
    let mut tx = begin(test).await;
    steps::upsert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

fn places(rows: &[StepRow]) -> Vec<(&str, i64, i64)> {
    rows.iter()
        .map(|row| (row.task.as_str(), row.attempt, row.sequence))
        .collect()
}

async fn a_step_is_written_once_and_then_changed(test: &TestDb) {
    write(test, &[step("a", "a.t1", 1), step("a", "a.t1", 2)]).await;
    let done = StepRow {
        state: "COMPLETED".to_owned(),
        settled: Some(1),
        effective_digest: None,
        grant_lease: None,
        reused_from: Some(4),
        child: Some("a.i1".to_owned()),
        late_result: Some("{}".to_owned()),
        resolved_by: Some("alice".to_owned()),
        writer: "w2".to_owned(),
        batch_no: 7,
        ended_at: Some(2_000),
        body: "{}".to_owned(),
        ..step("a", "a.t1", 1)
    };
    write(test, &[done.clone(), step("a", "a.t1", 3)]).await;
    let all = steps::list(&mut *read(test).await, "a", "a.t1", None, (0, 0), 10)
        .await
        .unwrap();
    assert_eq!(all, [done, step("a", "a.t1", 2), step("a", "a.t1", 3)]);
}

async fn a_task_is_paged_by_attempt_and_sequence(test: &TestDb) {
    let second = |sequence| StepRow {
        attempt: 2,
        ..step("a", "a.t1", sequence)
    };
    write(
        test,
        &[
            second(1),
            second(2),
            step("a", "a.t1", 1),
            step("a", "a.t1", 2),
            step("a", "a.t2", 1),
        ],
    )
    .await;
    let mut conn = read(test).await;
    let page = steps::list(&mut conn, "a", "a.t1", None, (1, 1), 2)
        .await
        .unwrap();
    assert_eq!(places(&page), [("a.t1", 1, 2), ("a.t1", 2, 1)]);
    let attempt = steps::list(&mut conn, "a", "a.t1", Some(2), (0, 0), 10)
        .await
        .unwrap();
    assert_eq!(places(&attempt), [("a.t1", 2, 1), ("a.t1", 2, 2)]);
    let attempt = steps::list(&mut conn, "a", "a.t1", Some(2), (2, 1), 10)
        .await
        .unwrap();
    assert_eq!(places(&attempt), [("a.t1", 2, 2)]);
    assert!(
        steps::list(&mut conn, "a", "unknown", None, (0, 0), 10)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn the_steps_of_many_tasks_come_in_order(test: &TestDb) {
    write(
        test,
        &[
            step("b", "b.t1", 1),
            step("a", "a.t2", 2),
            step("a", "a.t2", 1),
            step("a", "a.t1", 1),
        ],
    )
    .await;
    let keys = [
        Key::new("b", "b.t1"),
        Key::new("a", "a.t2"),
        Key::new("a", "unknown"),
    ];
    let found = steps::list_for_tasks(&mut *read(test).await, &keys)
        .await
        .unwrap();
    assert_eq!(places(&found), [("a.t2", 1, 1), ("a.t2", 1, 2), ("b.t1", 1, 1)]);
}

async fn an_instance_is_paged_over_all_its_tasks(test: &TestDb) {
    let elsewhere = StepRow {
        instance: "a.i1".to_owned(),
        ..step("a", "a.i1.t1", 1)
    };
    write(
        test,
        &[
            step("a", "a.t2", 1),
            step("a", "a.t1", 1),
            step("a", "a.t1", 2),
            elsewhere,
        ],
    )
    .await;
    let mut conn = read(test).await;
    let instance = Key::new("a", "a");
    let page = steps::list_for_instance(&mut conn, &instance, ("", 0, 0), 2)
        .await
        .unwrap();
    assert_eq!(places(&page), [("a.t1", 1, 1), ("a.t1", 1, 2)]);
    let page = steps::list_for_instance(&mut conn, &instance, ("a.t1", 1, 2), 2)
        .await
        .unwrap();
    assert_eq!(places(&page), [("a.t2", 1, 1)]);
}

async fn the_feed_reads_a_writers_steps_by_batch(test: &TestDb) {
    let at = |sequence, writer: &str, batch_no| StepRow {
        writer: writer.to_owned(),
        batch_no,
        ..step("a", "a.t1", sequence)
    };
    write(
        test,
        &[at(1, "w1", 3), at(2, "w1", 1), at(3, "w2", 2), at(4, "w1", 2)],
    )
    .await;
    let mut conn = read(test).await;
    let feed = steps::after(&mut conn, "w1", 1, 10).await.unwrap();
    assert_eq!(
        feed.iter()
            .map(|row| (row.batch_no, row.sequence))
            .collect::<Vec<_>>(),
        [(2, 4), (3, 1)]
    );
    assert_eq!(steps::after(&mut conn, "w1", 0, 1).await.unwrap().len(), 1);
    assert!(steps::after(&mut conn, "w1", 3, 10).await.unwrap().is_empty());
    let writers = steps::writers(&mut conn).await.unwrap();
    let writers: Vec<_> = writers
        .iter()
        .map(|row| (row.writer.as_str(), row.batch_no))
        .collect();
    assert_eq!(writers, [("w1", 3), ("w2", 2)]);
}

async fn a_payload_belongs_to_its_owner(test: &TestDb) {
    let payload = |owner: &str, digest: &str, body: &[u8]| PayloadRow {
        root: "a".to_owned(),
        owner: owner.to_owned(),
        digest: digest.to_owned(),
        size: body.len() as i64,
        key_id: None,
        nonce: Some(vec![0, 1, 2]),
        body: body.to_vec(),
    };
    let key = |owner: &str, digest: &str| PayloadKey {
        root: "a".to_owned(),
        owner: owner.to_owned(),
        digest: digest.to_owned(),
    };
    let first = payload("a.t1", "d1", &[0, 255, 128]);
    let plain = PayloadRow {
        nonce: None,
        key_id: Some("k".to_owned()),
        ..payload("a.t2", "d1", b"other")
    };
    let mut tx = begin(test).await;
    payloads::insert(
        &mut tx,
        &[first.clone(), plain.clone(), payload("a.t2", "d2", b"")],
    )
    .await
    .unwrap();
    // The same digest again changes nothing.
    payloads::insert(&mut tx, &[payload("a.t1", "d1", b"changed")])
        .await
        .unwrap();
    tx.commit().await.unwrap();

    let keys = [key("a.t1", "d1"), key("a.t2", "d1"), key("a.t1", "d2")];
    let mut found = payloads::get_many(&mut *read(test).await, &keys).await.unwrap();
    found.sort_by(|x, y| x.owner.cmp(&y.owner));
    assert_eq!(found, [first.clone(), plain.clone()]);
    let digests = ["d1".to_owned(), "d3".to_owned()];
    let mut found = payloads::find_many(&mut *read(test).await, "a", &digests)
        .await
        .unwrap();
    found.sort_by(|x, y| x.owner.cmp(&y.owner));
    assert_eq!(found, [first.clone(), plain], "whoever owns them");

    let mut tx = begin(test).await;
    assert_eq!(
        payloads::delete_by_owner(&mut tx, &[Key::new("a", "a.t2")])
            .await
            .unwrap(),
        2
    );
    tx.commit().await.unwrap();
    assert_eq!(
        payloads::get_many(&mut *read(test).await, &keys).await.unwrap(),
        [first]
    );
}
