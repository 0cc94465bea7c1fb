use std::collections::HashSet;

use legation_store::external_tasks::{self, ClaimRequest, ExternalTaskRow};
use legation_store::testing::TestDb;
use legation_store::{Dialect, Key, for_each_db};

use super::support::*;

for_each_db!(
    a_claim_leases_by_priority_then_place,
    a_claim_takes_only_what_is_claimable_now,
    a_claim_serves_several_topics_in_one_order,
    an_expired_lease_is_claimed_again_and_counted,
    the_fifth_expiry_closes_the_task_and_sets_when_it_lapses,
    a_lease_that_was_given_back_does_not_count_as_expired,
    what_a_lost_claim_took_is_found_by_its_randoms,
    two_claimers_never_get_one_task,
);

async fn write(test: &TestDb, rows: &[ExternalTaskRow]) {
    let mut tx = begin(test).await;
    external_tasks::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

async fn lease(test: &TestDb, request: &ClaimRequest) -> Vec<ExternalTaskRow> {
    let mut tx = begin(test).await;
    let leased = external_tasks::claim(&mut tx, request).await.unwrap();
    tx.commit().await.unwrap();
    leased
}

fn ids(rows: &[ExternalTaskRow]) -> Vec<&str> {
    rows.iter().map(|row| row.id.as_str()).collect()
}

async fn a_claim_leases_by_priority_then_place(test: &TestDb) {
    let task = |id: &str, priority, position| ExternalTaskRow {
        priority,
        position,
        ..external_task("a", id)
    };
    write(
        test,
        &[
            task("a.t1", 0, 5),
            task("a.t2", 0, 3),
            task("a.t3", 9, 8),
            task("a.t4", 0, 4),
        ],
    )
    .await;
    let leased = lease(test, &claim("w", 2_000, 3)).await;
    assert_eq!(ids(&leased), ["a.t3", "a.t2", "a.t4"]);
    let expected = ExternalTaskRow {
        lease_no: 1,
        lease_random: Some("w2000r0".to_owned()),
        worker: Some("w".to_owned()),
        credential: Some("key".to_owned()),
        locked_until: Some(12_000),
        lock_ms: Some(10_000),
        claimable_at: Some(12_000),
        revision: 2,
        ..task("a.t3", 9, 8)
    };
    assert_eq!(leased[0], expected);
    let randoms: HashSet<_> = leased.iter().map(|row| row.lease_random.clone()).collect();
    assert_eq!(randoms.len(), 3);
    assert_eq!(ids(&lease(test, &claim("v", 2_000, 3)).await), ["a.t1"]);
    assert!(lease(test, &claim("v", 2_000, 3)).await.is_empty());
    let stored = external_tasks::get(&mut *read(test).await, "a", "a.t3")
        .await
        .unwrap();
    assert_eq!(stored, Some(expected));
}

async fn a_claim_takes_only_what_is_claimable_now(test: &TestDb) {
    let task = |id: &str| external_task("a", id);
    let rows = [
        ExternalTaskRow {
            claimable_at: None,
            ..task("a.t1")
        },
        ExternalTaskRow {
            claimable_at: Some(2_001),
            ..task("a.t2")
        },
        ExternalTaskRow {
            expiries: 5,
            ..task("a.t3")
        },
        ExternalTaskRow {
            topic: "mail".to_owned(),
            ..task("a.t4")
        },
        ExternalTaskRow {
            project: "foreign".to_owned(),
            ..task("a.t5")
        },
        ExternalTaskRow {
            claimable_at: Some(2_000),
            ..task("a.t6")
        },
    ];
    write(test, &rows).await;
    assert_eq!(ids(&lease(test, &claim("w", 2_000, 10)).await), ["a.t6"]);
    let none = ClaimRequest {
        topics: Vec::new(),
        ..claim("w", 2_000, 10)
    };
    assert!(lease(test, &none).await.is_empty());
    assert!(lease(test, &claim("w", 2_001, 0)).await.is_empty());
    // No more leases than random parts.
    let none = ClaimRequest {
        randoms: Vec::new(),
        ..claim("w", 2_001, 10)
    };
    assert!(lease(test, &none).await.is_empty());
    assert_eq!(ids(&lease(test, &claim("w", 2_001, 10)).await), ["a.t2"]);
}

async fn a_claim_serves_several_topics_in_one_order(test: &TestDb) {
    let task = |id: &str, topic: &str, priority, position| ExternalTaskRow {
        topic: topic.to_owned(),
        priority,
        position,
        ..external_task("a", id)
    };
    let rows = [
        task("a.t1", "payments", 0, 1),
        task("a.t2", "mail", 0, 2),
        task("a.t3", "payments", 0, 3),
        task("a.t4", "mail", 5, 9),
        task("a.t5", "other", 9, 0),
    ];
    write(test, &rows).await;
    let topics = vec!["mail".to_owned(), "payments".to_owned()];
    let both = ClaimRequest {
        topics: topics.clone(),
        ..claim("w", 2_000, 3)
    };
    assert_eq!(ids(&lease(test, &both).await), ["a.t4", "a.t1", "a.t2"]);
    let both = ClaimRequest {
        topics,
        ..claim("w", 2_000, 3)
    };
    assert_eq!(ids(&lease(test, &both).await), ["a.t3"]);
}

async fn an_expired_lease_is_claimed_again_and_counted(test: &TestDb) {
    write(test, &[external_task("a", "a.t1")]).await;
    let first = lease(test, &claim("w", 2_000, 1)).await;
    assert_eq!((first[0].lease_no, first[0].expiries), (1, 0));
    assert!(lease(test, &claim("v", 11_999, 1)).await.is_empty());
    let second = lease(test, &claim("v", 12_000, 1)).await;
    assert_eq!(
        (second[0].lease_no, second[0].expiries, second[0].lapse_at),
        (2, 1, None)
    );
    assert_eq!(second[0].worker.as_deref(), Some("v"));
}

async fn the_fifth_expiry_closes_the_task_and_sets_when_it_lapses(test: &TestDb) {
    write(test, &[external_task("a", "a.t1")]).await;
    let mut now = 2_000;
    for expiries in 0..5 {
        let leased = lease(test, &claim("w", now, 1)).await;
        assert_eq!(
            (leased[0].expiries, leased[0].claimable_at),
            (expiries, Some(now + 10_000))
        );
        now += 10_000;
    }
    let last = lease(test, &claim("w", now, 1)).await;
    assert_eq!((last[0].expiries, last[0].claimable_at), (5, None));
    assert_eq!(last[0].lapse_at, Some(now + 20_000));
    assert!(lease(test, &claim("w", now + 100_000, 1)).await.is_empty());
}

async fn a_lease_that_was_given_back_does_not_count_as_expired(test: &TestDb) {
    write(test, &[external_task("a", "a.t1")]).await;
    let leased = lease(test, &claim("w", 2_000, 1)).await.remove(0);
    let released = ExternalTaskRow {
        worker: None,
        claimable_at: Some(3_000),
        ..leased
    };
    let mut tx = begin(test).await;
    external_tasks::update(&mut tx, &[released]).await.unwrap();
    tx.commit().await.unwrap();
    let again = lease(test, &claim("w", 3_000, 1)).await;
    assert_eq!((again[0].lease_no, again[0].expiries), (2, 0));
}

async fn what_a_lost_claim_took_is_found_by_its_randoms(test: &TestDb) {
    write(
        test,
        &[
            external_task("a", "a.t1"),
            external_task("a", "a.t2"),
            external_task("a", "a.t3"),
        ],
    )
    .await;
    let request = claim("w", 2_000, 2);
    let leased = lease(test, &request).await;
    lease(test, &claim("v", 2_000, 2)).await;
    let mut tx = begin(test).await;
    assert_eq!(
        external_tasks::find_claimed(&mut tx, &request).await.unwrap(),
        leased
    );
    let other = claim("w", 9_999, 2);
    assert!(
        external_tasks::find_claimed(&mut tx, &other)
            .await
            .unwrap()
            .is_empty()
    );
}

async fn two_claimers_never_get_one_task(test: &TestDb) {
    const TASKS: usize = 300;
    let rows: Vec<_> = (0..TASKS)
        .map(|number| external_task("a", &format!("a.t{number}")))
        .collect();
    write(test, &rows).await;
    let claimers = (0..4).map(|number| {
        let db = test.db.clone();
        tokio::spawn(async move {
            let mut got = Vec::new();
            loop {
                let request = claim(&format!("w{number}"), 2_000, 7);
                let mut tx = db.begin_write().await.unwrap();
                let leased = external_tasks::claim(&mut tx, &request).await.unwrap();
                tx.commit().await.unwrap();
                if leased.is_empty() {
                    return got;
                }
                got.extend(leased.into_iter().map(|row| row.id));
            }
        })
    });
    let mut all = Vec::new();
    for got in futures::future::join_all(claimers).await {
        all.extend(got.unwrap());
    }
    let different: HashSet<_> = all.iter().collect();
    assert_eq!(different.len(), all.len(), "a task was leased twice");
    // A claimer that met only rows held by others stops early; nobody may be left with work all the same.
    let rest = lease(test, &claim("last", 2_000, TASKS as i64)).await;
    assert_eq!(all.len() + rest.len(), TASKS);
    assert!(rest.iter().all(|row| row.lease_no == 1));
}

/// A fetch waits for nothing. (SQLite has one writer at a time, so nobody else can hold anything.)
#[tokio::test]
async fn a_claim_on_postgres_skips_a_task_that_a_writer_holds() {
    let test = &TestDb::new(Dialect::Postgres).await;
    write(test, &[external_task("a", "a.t1"), external_task("a", "a.t2")]).await;
    let mut writer = begin(test).await;
    let held = external_tasks::get_many(&mut writer, &[Key::new("a", "a.t1")])
        .await
        .unwrap();
    assert_eq!(ids(&lease(test, &claim("w", 2_000, 5)).await), ["a.t2"]);
    external_tasks::update(&mut writer, &held).await.unwrap();
    writer.commit().await.unwrap();
    assert_eq!(ids(&lease(test, &claim("w", 2_000, 5)).await), ["a.t1"]);
}
