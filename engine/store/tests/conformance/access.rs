use legation_store::api_keys::{self, ApiKeyRow};
use legation_store::principals::{self, PrincipalRow};
use legation_store::projects::{self, ProjectRow};
use legation_store::testing::TestDb;
use legation_store::workers::{self, WorkerRow};
use legation_store::{Error, for_each_db, settings};

use super::support::*;

for_each_db!(
    a_project_is_made_once,
    a_principal_is_found_by_id_and_name,
    an_api_key_is_found_by_its_hash_and_revoked_once,
    a_worker_is_noted_again_and_again,
    the_first_setting_wins,
);

async fn a_project_is_made_once(test: &TestDb) {
    let project = ProjectRow {
        id: "p".to_owned(),
        name: "P".to_owned(),
        created_at: 5,
    };
    let mut tx = begin(test).await;
    assert!(projects::insert(&mut tx, &project).await.unwrap());
    assert!(
        !projects::insert(
            &mut tx,
            &ProjectRow {
                name: "Q".to_owned(),
                ..project.clone()
            }
        )
        .await
        .unwrap()
    );
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(
        projects::get(&mut conn, "p").await.unwrap(),
        Some(project.clone())
    );
    assert_eq!(projects::get(&mut conn, "unknown").await.unwrap(), None);
    assert_eq!(projects::list(&mut conn).await.unwrap(), [project]);
}

async fn a_principal_is_found_by_id_and_name(test: &TestDb) {
    let alice = PrincipalRow {
        project: "default".to_owned(),
        id: "u1".to_owned(),
        kind: "person".to_owned(),
        name: "alice".to_owned(),
        groups: r#"["finance"]"#.to_owned(),
        roles: "[]".to_owned(),
        created_at: 5,
    };
    let worker = PrincipalRow {
        id: "u2".to_owned(),
        kind: "worker".to_owned(),
        ..alice.clone()
    };
    let mut tx = begin(test).await;
    principals::insert(&mut tx, &alice).await.unwrap();
    principals::insert(&mut tx, &worker).await.unwrap();
    let alice = PrincipalRow {
        roles: r#"["operator"]"#.to_owned(),
        ..alice
    };
    principals::update(&mut tx, &alice).await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(
        principals::get(&mut conn, "default", "u1").await.unwrap(),
        Some(alice.clone())
    );
    assert_eq!(principals::get(&mut conn, "foreign", "u1").await.unwrap(), None);
    let found = principals::find(&mut conn, "default", "worker", "alice")
        .await
        .unwrap();
    assert_eq!(found, Some(worker.clone()));
    assert_eq!(
        principals::list(&mut conn, "default").await.unwrap(),
        [alice.clone(), worker]
    );

    let mut tx = begin(test).await;
    let unknown = principals::update(
        &mut tx,
        &PrincipalRow {
            id: "u9".to_owned(),
            ..alice.clone()
        },
    )
    .await;
    assert!(matches!(unknown, Err(Error::Conflict { .. })), "{unknown:?}");
    let taken = principals::insert(
        &mut tx,
        &PrincipalRow {
            id: "u9".to_owned(),
            ..alice
        },
    )
    .await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
}

async fn an_api_key_is_found_by_its_hash_and_revoked_once(test: &TestDb) {
    let key = ApiKeyRow {
        id: "k1".to_owned(),
        project: "default".to_owned(),
        principal: "u1".to_owned(),
        hash: "h1".to_owned(),
        prefix: "lg_ab".to_owned(),
        label: None,
        topics: Some(r#"["payments"]"#.to_owned()),
        created_at: 5,
        expires_at: Some(99),
        revoked_at: None,
        last_used_at: None,
    };
    let newer = ApiKeyRow {
        id: "k2".to_owned(),
        hash: "h2".to_owned(),
        created_at: 6,
        ..key.clone()
    };
    let mut tx = begin(test).await;
    api_keys::insert(&mut tx, &key).await.unwrap();
    api_keys::insert(&mut tx, &newer).await.unwrap();
    let uses = [("k1".to_owned(), 50), ("unknown".to_owned(), 50)];
    assert_eq!(api_keys::touch(&mut tx, &uses).await.unwrap(), 1);
    api_keys::revoke(&mut tx, "default", "k1", 60).await.unwrap();
    tx.commit().await.unwrap();
    let key = ApiKeyRow {
        last_used_at: Some(50),
        revoked_at: Some(60),
        ..key
    };
    let mut conn = read(test).await;
    assert_eq!(api_keys::find(&mut conn, "h1").await.unwrap(), Some(key.clone()));
    assert_eq!(api_keys::find(&mut conn, "unknown").await.unwrap(), None);
    assert_eq!(
        api_keys::get(&mut conn, "default", "k2").await.unwrap(),
        Some(newer.clone())
    );
    assert_eq!(api_keys::get(&mut conn, "foreign", "k2").await.unwrap(), None);
    assert_eq!(
        api_keys::list(&mut conn, "default").await.unwrap(),
        [newer.clone(), key]
    );

    let mut tx = begin(test).await;
    for (project, id) in [("default", "k1"), ("foreign", "k2"), ("default", "unknown")] {
        let refused = api_keys::revoke(&mut tx, project, id, 70).await;
        assert!(
            matches!(refused, Err(Error::Conflict { .. })),
            "{project} {id}: {refused:?}"
        );
    }
    let taken = api_keys::insert(
        &mut tx,
        &ApiKeyRow {
            id: "k3".to_owned(),
            ..newer
        },
    )
    .await;
    assert!(matches!(taken, Err(Error::Conflict { .. })), "{taken:?}");
}

async fn a_worker_is_noted_again_and_again(test: &TestDb) {
    let worker = |name: &str, seen| WorkerRow {
        project: "default".to_owned(),
        worker_id: name.to_owned(),
        topics: r#"["payments"]"#.to_owned(),
        principal: Some("u1".to_owned()),
        leases: Some(2),
        started_at: seen,
        last_seen: seen,
    };
    let mut tx = begin(test).await;
    workers::upsert(&mut tx, &[worker("w2", 10), worker("w1", 10)])
        .await
        .unwrap();
    workers::upsert(
        &mut tx,
        &[WorkerRow {
            leases: None,
            ..worker("w1", 20)
        }],
    )
    .await
    .unwrap();
    tx.commit().await.unwrap();
    let again = WorkerRow {
        leases: None,
        started_at: 10,
        ..worker("w1", 20)
    };
    let listed = workers::list(&mut *read(test).await, "default").await.unwrap();
    assert_eq!(listed, [again.clone(), worker("w2", 10)]);
    let mut tx = begin(test).await;
    assert_eq!(workers::delete_older_than(&mut tx, 20).await.unwrap(), 1);
    tx.commit().await.unwrap();
    assert_eq!(
        workers::list(&mut *read(test).await, "default").await.unwrap(),
        [again]
    );
}

async fn the_first_setting_wins(test: &TestDb) {
    let mut tx = begin(test).await;
    assert_eq!(
        settings::get_or_set(&mut tx, "check", "one").await.unwrap(),
        "one"
    );
    assert_eq!(
        settings::get_or_set(&mut tx, "check", "two").await.unwrap(),
        "one"
    );
    settings::set(&mut tx, "other", "x").await.unwrap();
    settings::set(&mut tx, "other", "y").await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(
        settings::get(&mut conn, "check").await.unwrap().as_deref(),
        Some("one")
    );
    assert_eq!(
        settings::get(&mut conn, "other").await.unwrap().as_deref(),
        Some("y")
    );
    assert_eq!(settings::get(&mut conn, "unknown").await.unwrap(), None);
}
