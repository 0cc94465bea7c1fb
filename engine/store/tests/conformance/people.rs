use legation_store::incidents::{self, IncidentFilter, IncidentRow};
use legation_store::instances::{self, InstanceRow};
use legation_store::tasks::{self, TaskFilter, TaskRow};
use legation_store::testing::TestDb;
use legation_store::{Error, Key, for_each_db};

use super::support::*;

for_each_db!(
    a_task_comes_back_as_it_was_written,
    a_step_has_one_live_approval,
    a_task_is_decided_once,
    a_person_finds_what_they_may_act_on,
    every_filter_narrows_the_tasks,
    candidates_that_are_no_list_are_refused,
    an_incident_is_resolved_once,
    incidents_are_listed_by_state_kind_instance_and_process,
);

async fn write(test: &TestDb, rows: &[TaskRow]) {
    let mut tx = begin(test).await;
    tasks::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

async fn change(test: &TestDb, rows: &[TaskRow]) -> legation_store::Result<()> {
    let mut tx = begin(test).await;
    tasks::update(&mut tx, rows).await?;
    tx.commit().await
}

fn decided(row: TaskRow) -> TaskRow {
    TaskRow {
        state: "APPROVED".to_owned(),
        ended_at: Some(2_000),
        decided_by: Some("bob".to_owned()),
        outcome: Some("approved".to_owned()),
        comment: Some("fine".to_owned()),
        ..row
    }
}

fn all() -> TaskFilter {
    TaskFilter {
        project: "default".to_owned(),
        limit: 10,
        ..TaskFilter::default()
    }
}

async fn listed(test: &TestDb, filter: &TaskFilter) -> Vec<String> {
    let rows = tasks::list(&mut *read(test).await, filter).await.unwrap();
    rows.into_iter().map(|row| row.id).collect()
}

fn human(id: &str, created_at: i64, groups: &str, users: &str) -> TaskRow {
    TaskRow {
        kind: "human".to_owned(),
        external_task: None,
        attempt: None,
        sequence: None,
        created_at,
        groups: groups.to_owned(),
        users: users.to_owned(),
        ..approval("a", id, 0)
    }
}

async fn a_task_comes_back_as_it_was_written(test: &TestDb) {
    write(test, &[approval("a", "a.h1", 1), human("a.h2", 5, "[]", "[]")]).await;
    let mut conn = read(test).await;
    assert_eq!(
        tasks::get(&mut conn, "a", "a.h1").await.unwrap(),
        Some(approval("a", "a.h1", 1))
    );
    assert_eq!(tasks::get(&mut conn, "a", "unknown").await.unwrap(), None);
    let keys = [Key::new("a", "a.h2"), Key::new("a", "unknown")];
    assert_eq!(
        tasks::get_many(&mut conn, &keys).await.unwrap(),
        [human("a.h2", 5, "[]", "[]")]
    );
}

async fn a_step_has_one_live_approval(test: &TestDb) {
    write(test, &[approval("a", "a.h1", 1)]).await;
    let mut tx = begin(test).await;
    let second = tasks::insert(&mut tx, &[approval("a", "a.h2", 1)]).await;
    let second = refused(tx, second).await;
    assert!(matches!(second, Error::Conflict { .. }), "{second:?}");
    // Another after the first has ended, and one of another step.
    change(test, &[decided(approval("a", "a.h1", 1))]).await.unwrap();
    write(test, &[approval("a", "a.h2", 1), approval("a", "a.h3", 2)]).await;
}

async fn a_task_is_decided_once(test: &TestDb) {
    write(test, &[approval("a", "a.h1", 1)]).await;
    let row = decided(approval("a", "a.h1", 1));
    change(test, std::slice::from_ref(&row)).await.unwrap();
    assert_eq!(
        tasks::get(&mut *read(test).await, "a", "a.h1").await.unwrap(),
        Some(row.clone())
    );
    let again = change(
        test,
        &[TaskRow {
            outcome: Some("rejected".to_owned()),
            ..row
        }],
    )
    .await;
    assert!(matches!(again, Err(Error::Conflict { .. })), "{again:?}");
    let unknown = change(test, &[approval("a", "a.h9", 9)]).await;
    assert!(matches!(unknown, Err(Error::Conflict { .. })), "{unknown:?}");
}

async fn a_person_finds_what_they_may_act_on(test: &TestDb) {
    let rows = [
        human("a.h1", 1, r#"["finance"]"#, "[]"),
        human("a.h2", 2, r#"["finance","legal"]"#, r#"["alice"]"#),
        human("a.h3", 3, r#"["legal"]"#, "[]"),
        TaskRow {
            project: "foreign".to_owned(),
            ..human("a.h4", 4, r#"["finance"]"#, "[]")
        },
    ];
    write(test, &rows).await;
    let mine = |candidates: &[&str]| TaskFilter {
        candidates: Some(candidates.iter().map(|name| (*name).to_owned()).collect()),
        ..all()
    };
    assert_eq!(
        listed(test, &mine(&["user:alice", "group:finance"])).await,
        ["a.h2", "a.h1"]
    );
    assert_eq!(listed(test, &mine(&["group:legal"])).await, ["a.h3", "a.h2"]);
    assert!(listed(test, &mine(&["user:finance"])).await.is_empty());
    assert!(listed(test, &mine(&[])).await.is_empty());

    // Handed over to somebody else; and done.
    let handed = TaskRow {
        groups: r#"["board"]"#.to_owned(),
        ..rows[0].clone()
    };
    change(test, &[handed, decided(rows[1].clone())]).await.unwrap();
    assert!(
        listed(test, &mine(&["user:alice", "group:finance"]))
            .await
            .is_empty()
    );
    assert_eq!(listed(test, &mine(&["group:board"])).await, ["a.h1"]);
}

async fn every_filter_narrows_the_tasks(test: &TestDb) {
    write(test, &[approval("a", "a.h1", 1), human("a.h2", 5, "[]", "[]")]).await;
    let elsewhere = TaskRow {
        instance: "a.i1".to_owned(),
        ..human("a.i1.h1", 7, "[]", "[]")
    };
    write(test, std::slice::from_ref(&elsewhere)).await;
    change(test, &[decided(elsewhere)]).await.unwrap();
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(listed(test, &all()).await, ["a.h1", "a.i1.h1", "a.h2"]);
    assert_eq!(
        listed(
            test,
            &TaskFilter {
                kind: text("approval"),
                ..all()
            }
        )
        .await,
        ["a.h1"]
    );
    assert_eq!(
        listed(
            test,
            &TaskFilter {
                state: text("APPROVED"),
                ..all()
            }
        )
        .await,
        ["a.i1.h1"]
    );
    assert_eq!(
        listed(
            test,
            &TaskFilter {
                open_only: true,
                ..all()
            }
        )
        .await,
        ["a.h1", "a.h2"]
    );
    let instance = Some(Key::new("a", "a.i1"));
    assert_eq!(listed(test, &TaskFilter { instance, ..all() }).await, ["a.i1.h1"]);
    let after = tasks::list(&mut *read(test).await, &TaskFilter { limit: 1, ..all() })
        .await
        .unwrap();
    let after = Some(after[0].place());
    assert_eq!(
        listed(test, &TaskFilter { after, ..all() }).await,
        ["a.i1.h1", "a.h2"]
    );
}

async fn candidates_that_are_no_list_are_refused(test: &TestDb) {
    let mut tx = begin(test).await;
    let broken = tasks::insert(&mut tx, &[human("a.h1", 1, "finance", "[]")]).await;
    assert!(
        matches!(broken, Err(Error::Corrupt { table: "tasks", .. })),
        "{broken:?}"
    );
}

async fn an_incident_is_resolved_once(test: &TestDb) {
    let mut tx = begin(test).await;
    incidents::insert(&mut tx, &[incident("a", "a.n1", 5)])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let resolved = IncidentRow {
        state: "RESOLVED".to_owned(),
        resolved_at: Some(9),
        resolved_by: Some("alice".to_owned()),
        resolution: Some(r#"{"outcome":"performed"}"#.to_owned()),
        ..incident("a", "a.n1", 5)
    };
    let mut tx = begin(test).await;
    incidents::update(&mut tx, std::slice::from_ref(&resolved))
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(
        incidents::get(&mut conn, "a", "a.n1").await.unwrap(),
        Some(resolved.clone())
    );
    assert!(incidents::list_open(&mut conn, "a").await.unwrap().is_empty());
    let mut tx = begin(test).await;
    let again = incidents::update(&mut tx, &[resolved]).await;
    let again = refused(tx, again).await;
    assert!(matches!(again, Error::Conflict { .. }), "{again:?}");
}

async fn incidents_are_listed_by_state_kind_instance_and_process(test: &TestDb) {
    let notice = IncidentRow {
        kind: "notice".to_owned(),
        ..incident("a", "a.n2", 6)
    };
    let resolved = IncidentRow {
        state: "RESOLVED".to_owned(),
        ..incident("a", "a.n3", 7)
    };
    let elsewhere = IncidentRow {
        instance: "b".to_owned(),
        ..incident("b", "b.n1", 8)
    };
    let mut tx = begin(test).await;
    let other = InstanceRow {
        process: "pay".to_owned(),
        ..instance("b", "b")
    };
    instances::insert(&mut tx, &[instance("a", "a"), other])
        .await
        .unwrap();
    incidents::insert(&mut tx, &[incident("a", "a.n1", 5), notice, resolved, elsewhere])
        .await
        .unwrap();
    tx.commit().await.unwrap();
    let all = IncidentFilter {
        project: "default".to_owned(),
        limit: 10,
        ..IncidentFilter::default()
    };
    let list = async |filter: &IncidentFilter| -> Vec<String> {
        let rows = incidents::list(&mut *read(test).await, filter).await.unwrap();
        rows.into_iter().map(|row| row.id).collect()
    };
    let text = |value: &str| Some(value.to_owned());
    assert_eq!(list(&all).await, ["b.n1", "a.n3", "a.n2", "a.n1"]);
    assert_eq!(
        list(&IncidentFilter {
            state: text("OPEN"),
            ..all.clone()
        })
        .await,
        ["b.n1", "a.n2", "a.n1"]
    );
    assert_eq!(
        list(&IncidentFilter {
            state: text("RESOLVED"),
            ..all.clone()
        })
        .await,
        ["a.n3"]
    );
    assert_eq!(
        list(&IncidentFilter {
            kind: text("notice"),
            ..all.clone()
        })
        .await,
        ["a.n2"]
    );
    assert_eq!(
        list(&IncidentFilter {
            instance: Some(Key::new("b", "b")),
            ..all.clone()
        })
        .await,
        ["b.n1"]
    );
    assert_eq!(
        list(&IncidentFilter {
            process: text("refund"),
            state: text("OPEN"),
            ..all.clone()
        })
        .await,
        ["a.n2", "a.n1"]
    );
    assert_eq!(
        list(&IncidentFilter {
            process: text("pay"),
            ..all.clone()
        })
        .await,
        ["b.n1"]
    );
    let open = incidents::list_open(&mut *read(test).await, "a").await.unwrap();
    assert_eq!(
        open.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
        ["a.n1", "a.n2"]
    );
    let first = incidents::list(
        &mut *read(test).await,
        &IncidentFilter {
            limit: 1,
            ..all.clone()
        },
    )
    .await;
    let after = Some(first.unwrap()[0].place());
    assert_eq!(
        list(&IncidentFilter {
            after,
            limit: 1,
            ..all
        })
        .await,
        ["a.n3"]
    );
}
