use legation_store::idempotency::{self, IdempotencyRow};
use legation_store::testing::TestDb;
use legation_store::{Error, for_each_db};

use super::support::*;

for_each_db!(
    a_key_is_reserved_once_and_keeps_its_answer,
    a_reservation_that_is_rolled_back_leaves_nothing,
    two_at_once_with_one_key_do_the_work_once,
    old_keys_are_forgotten,
);

fn key(key: &str) -> IdempotencyRow {
    IdempotencyRow {
        project: "default".to_owned(),
        principal: "alice".to_owned(),
        operation: "POST /v1/instances".to_owned(),
        key: key.to_owned(),
        body_hash: "h1".to_owned(),
        status: None,
        answer: None,
        created_at: 1_000,
    }
}

async fn get(test: &TestDb, key: &str) -> Option<IdempotencyRow> {
    let mut conn = read(test).await;
    idempotency::get(&mut conn, "default", "alice", "POST /v1/instances", key)
        .await
        .unwrap()
}

async fn a_key_is_reserved_once_and_keeps_its_answer(test: &TestDb) {
    let done = IdempotencyRow {
        status: Some(201),
        answer: Some(ODD.to_owned()),
        ..key("k1")
    };
    let mut tx = begin(test).await;
    assert!(
        idempotency::reserve(&mut tx, &[key("k2"), key("k1")])
            .await
            .unwrap()
            .is_empty()
    );
    idempotency::finish(&mut tx, std::slice::from_ref(&done))
        .await
        .unwrap();
    assert_eq!(
        idempotency::release(&mut tx, &[key("k2"), key("k1")])
            .await
            .unwrap(),
        1
    );
    tx.commit().await.unwrap();
    assert_eq!(get(test, "k1").await, Some(done.clone()));
    assert_eq!(get(test, "k2").await, None);

    let mut tx = begin(test).await;
    let other_body = IdempotencyRow {
        body_hash: "h2".to_owned(),
        ..key("k1")
    };
    let known = idempotency::reserve(&mut tx, &[key("k3"), other_body])
        .await
        .unwrap();
    assert_eq!(known, std::slice::from_ref(&done));
    let again = idempotency::finish(&mut tx, &[done]).await;
    let again = refused(tx, again).await;
    assert!(matches!(again, Error::Conflict { .. }), "{again:?}");
}

async fn a_reservation_that_is_rolled_back_leaves_nothing(test: &TestDb) {
    let mut tx = begin(test).await;
    idempotency::reserve(&mut tx, &[key("k1")]).await.unwrap();
    tx.rollback().await.unwrap();
    assert_eq!(get(test, "k1").await, None);
}

/// B12.
async fn two_at_once_with_one_key_do_the_work_once(test: &TestDb) {
    let work = (0..4).map(|_| {
        let db = test.db.clone();
        tokio::spawn(async move {
            let mut tx = db.begin_write().await.unwrap();
            let known = idempotency::reserve(&mut tx, &[key("k1"), key("k2")])
                .await
                .unwrap();
            if known.is_empty() {
                let done = ["k1", "k2"].map(|name| IdempotencyRow {
                    status: Some(201),
                    ..key(name)
                });
                idempotency::finish(&mut tx, &done).await.unwrap();
            }
            tx.commit().await.unwrap();
            assert!(
                known.iter().all(|row| row.status == Some(201)),
                "an unfinished key was seen"
            );
            known.len()
        })
    });
    let mut known: Vec<_> = futures::future::join_all(work)
        .await
        .into_iter()
        .map(|known| known.unwrap())
        .collect();
    known.sort_unstable();
    assert_eq!(known, [0, 2, 2, 2]);
}

async fn old_keys_are_forgotten(test: &TestDb) {
    let at = |name: &str, created_at| IdempotencyRow {
        created_at,
        ..key(name)
    };
    let mut tx = begin(test).await;
    idempotency::reserve(&mut tx, &[at("k1", 1), at("k2", 2), at("k3", 3), at("k4", 4)])
        .await
        .unwrap();
    assert_eq!(idempotency::delete_older_than(&mut tx, 4, 2).await.unwrap(), 2);
    assert_eq!(idempotency::delete_older_than(&mut tx, 4, 2).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(get(test, "k3").await, None);
    assert_eq!(get(test, "k4").await, Some(at("k4", 4)));
}
