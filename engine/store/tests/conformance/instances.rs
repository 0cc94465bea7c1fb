use legation_store::instances::{self, InstanceFilter, InstanceRow, InstanceUpdate};
use legation_store::testing::TestDb;
use legation_store::{Error, Key, for_each_db};

use super::support::*;

for_each_db!(
    an_instance_comes_back_as_it_was_written,
    an_update_compares_the_revision,
    a_step_starts_one_child_only,
    a_page_is_newest_first_and_goes_on_where_the_last_ended,
    every_filter_narrows_the_list,
    instances_are_counted_by_status,
);

async fn write(test: &TestDb, rows: &[InstanceRow]) {
    let mut tx = begin(test).await;
    instances::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

fn filter() -> InstanceFilter {
    InstanceFilter {
        project: "default".to_owned(),
        limit: 100,
        ..InstanceFilter::default()
    }
}

async fn listed(test: &TestDb, filter: &InstanceFilter) -> Vec<String> {
    let rows = instances::list(&mut *read(test).await, filter).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

async fn an_instance_comes_back_as_it_was_written(test: &TestDb) {
    write(
        test,
        &[instance("a", "a"), child("a", "a.i1"), instance("b", "b")],
    )
    .await;
    let mut conn = read(test).await;
    assert_eq!(
        instances::get(&mut conn, "a", "a").await.unwrap(),
        Some(instance("a", "a"))
    );
    assert_eq!(instances::get(&mut conn, "a", "b").await.unwrap(), None);
    let keys = [
        Key::new("a", "a.i1"),
        Key::new("b", "b"),
        Key::new("b", "unknown"),
    ];
    let mut many = instances::get_many(&mut conn, &keys).await.unwrap();
    many.sort_by(|x, y| x.id.cmp(&y.id));
    assert_eq!(many, [child("a", "a.i1"), instance("b", "b")]);
    let tree = instances::list_tree(&mut conn, "a").await.unwrap();
    let tree: Vec<_> = tree
        .iter()
        .map(|row| (row.id.as_str(), row.snapshot.as_str()))
        .collect();
    assert_eq!(tree, [("a", ""), ("a.i1", "")]);
}

async fn an_update_compares_the_revision(test: &TestDb) {
    write(test, &[instance("a", "a"), instance("b", "b")]).await;
    let row = InstanceRow {
        status: "COMPLETED".to_owned(),
        ended_at: Some(2_000),
        revision: 4,
        snapshot: "{}".to_owned(),
        ..instance("a", "a")
    };
    let mut tx = begin(test).await;
    instances::update(
        &mut tx,
        &[InstanceUpdate {
            row: row.clone(),
            loaded: 1,
        }],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    assert_eq!(
        instances::get(&mut *read(test).await, "a", "a").await.unwrap(),
        Some(row.clone())
    );

    let mut tx = begin(test).await;
    let fresh = InstanceUpdate {
        row: InstanceRow {
            revision: 2,
            ..instance("b", "b")
        },
        loaded: 1,
    };
    let stale = InstanceUpdate {
        row: InstanceRow { revision: 9, ..row },
        loaded: 1,
    };
    let result = instances::update(&mut tx, &[fresh, stale]).await;
    let result = refused(tx, result).await;
    assert!(matches!(result, Error::Conflict { .. }), "{result:?}");
}

/// I8: the database itself refuses a second child of a step.
async fn a_step_starts_one_child_only(test: &TestDb) {
    write(test, &[instance("a", "a"), child("a", "a.i1")]).await;
    let mut tx = begin(test).await;
    let second = instances::insert(&mut tx, &[child("a", "a.i2")]).await;
    let second = refused(tx, second).await;
    assert!(matches!(second, Error::Conflict { .. }), "{second:?}");
    write(
        test,
        &[InstanceRow {
            parent_sequence: Some(5),
            ..child("a", "a.i2")
        }],
    )
    .await;
    write(
        test,
        &[InstanceRow {
            parent_attempt: Some(2),
            ..child("a", "a.i3")
        }],
    )
    .await;
}

async fn a_page_is_newest_first_and_goes_on_where_the_last_ended(test: &TestDb) {
    // Two of the same time: the id decides.
    let at = |id: &str, started_at| InstanceRow {
        started_at,
        ..instance(id, id)
    };
    write(
        test,
        &[at("a", 1), at("b", 3), at("c", 2), at("d", 3), at("e", 1)],
    )
    .await;
    let mut filter = InstanceFilter { limit: 2, ..filter() };
    let mut seen = Vec::new();
    for _ in 0..4 {
        let page = instances::list(&mut *read(test).await, &filter).await.unwrap();
        let Some(last) = page.last() else { break };
        filter.after = Some(last.place());
        assert!(page.iter().all(|row| row.snapshot.is_empty()));
        seen.extend(page.into_iter().map(|row| row.id));
    }
    assert_eq!(seen, ["d", "b", "c", "e", "a"]);
}

async fn every_filter_narrows_the_list(test: &TestDb) {
    let done = InstanceRow {
        status: "COMPLETED".to_owned(),
        started_at: 10,
        ..instance("b", "b")
    };
    let keyed = InstanceRow {
        business_key: Some("ORD-7".to_owned()),
        started_at: 20,
        ..instance("c", "c")
    };
    let other = InstanceRow {
        process: "other".to_owned(),
        incidents: 1,
        started_at: 30,
        ..instance("d", "d")
    };
    let foreign = InstanceRow {
        project: "foreign".to_owned(),
        ..instance("e", "e")
    };
    let below = InstanceRow {
        started_at: 5,
        ..child("a", "a.i1")
    };
    write(test, &[instance("a", "a"), below, done, keyed, other, foreign]).await;

    assert_eq!(listed(test, &filter()).await, ["a", "d", "c", "b", "a.i1"]);
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(
        listed(
            test,
            &InstanceFilter {
                process: text("other"),
                ..filter()
            }
        )
        .await,
        ["d"]
    );
    assert_eq!(
        listed(
            test,
            &InstanceFilter {
                status: text("COMPLETED"),
                ..filter()
            }
        )
        .await,
        ["b"]
    );
    assert_eq!(
        listed(
            test,
            &InstanceFilter {
                status: text("RUNNING"),
                ..filter()
            }
        )
        .await
        .len(),
        4
    );
    assert_eq!(
        listed(
            test,
            &InstanceFilter {
                business_key: text("ORD-7"),
                ..filter()
            }
        )
        .await,
        ["c"]
    );
    let parent = Some(Key::new("a", "a"));
    assert_eq!(
        listed(test, &InstanceFilter { parent, ..filter() }).await,
        ["a.i1"]
    );
    assert_eq!(
        listed(
            test,
            &InstanceFilter {
                roots_only: true,
                ..filter()
            }
        )
        .await,
        ["a", "d", "c", "b"]
    );
    let (from, before) = (Some(10), Some(30));
    let between = InstanceFilter {
        started_from: from,
        started_before: before,
        ..filter()
    };
    assert_eq!(listed(test, &between).await, ["c", "b"]);
    assert_eq!(
        listed(
            test,
            &InstanceFilter {
                project: "foreign".to_owned(),
                ..filter()
            }
        )
        .await,
        ["e"]
    );
}

async fn instances_are_counted_by_status(test: &TestDb) {
    let status = |id: &str, status: &str| InstanceRow {
        status: status.to_owned(),
        ..instance(id, id)
    };
    let rows = [
        status("a", "RUNNING"),
        status("b", "COMPLETED"),
        status("c", "FAILED"),
        status("d", "COMPLETED"),
    ];
    write(test, &rows).await;
    write(
        test,
        &[InstanceRow {
            project: "foreign".to_owned(),
            ..instance("e", "e")
        }],
    )
    .await;
    let mut conn = read(test).await;
    let counts = instances::count_by_status(&mut conn, "default").await.unwrap();
    let counts: Vec<_> = counts
        .iter()
        .map(|(status, count)| (status.as_str(), *count))
        .collect();
    assert_eq!(counts, [("FAILED", 1), ("RUNNING", 1), ("COMPLETED", 2)]);
    assert!(
        instances::count_by_status(&mut conn, "nowhere")
            .await
            .unwrap()
            .is_empty()
    );
}
