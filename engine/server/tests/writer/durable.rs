//! Durable commands that fail, come in crowds, or are left by an engine that died.

use legation_kernel::commands::Command;
use legation_kernel::ids::InstanceId;
use legation_server::writer;
use legation_store::incidents::{self, IncidentFilter, IncidentRow};
use legation_store::testing::TestDb;
use legation_store::timers::{self, TimerRow};
use legation_store::{for_each_db, history, instances};

use crate::support::Engine;
use crate::{CHILD, PARENT};

pub const PAUSE: &str = "
metadata: { key: pause, variables: {} }
flow:
  nodes:
    - { id: pause, type: timer, after: 1h }
    - { id: done, type: end }
";

/// Core §2: tries of durable commands are counted, the fifth becomes an incident, and a retry runs it again.
async fn a_timer_that_cannot_fire_becomes_an_incident_that_a_retry_runs_again(test: &TestDb) {
    let engine = Engine::new(test, &[("pause.process.yaml", PAUSE)]).await;
    let root = engine.start("pause", &[]).await.unwrap();
    let lost = format!("{root}.i99");
    let timer = TimerRow {
        root: root.clone(),
        id: format!("{lost}.m1"),
        project: "p".to_owned(),
        instance: lost.clone(),
        node: Some("pause".to_owned()),
        kind: "FIRE".to_owned(),
        due_at: engine.app.clock().now(),
        held: false,
        body: "{}".to_owned(),
    };
    let mut tx = engine.app.db().begin_write().await.unwrap();
    timers::insert(&mut tx, &[timer]).await.unwrap();
    tx.commit().await.unwrap();
    let incident = failed(&engine).await;
    assert_eq!(
        (incident.code.as_str(), incident.instance.as_str()),
        (writer::FAILED, lost.as_str())
    );
    let held = timers::list(&mut engine.app.db().read().await.unwrap(), &root, &lost)
        .await
        .unwrap();
    assert!(held[0].held, "it is not tried any more");
    let over = writer::run_again(engine.app.shared(), incident.clone(), "operator")
        .await
        .unwrap();
    assert!(over, "the instance that it names is not there");
    assert!(
        writer::run_again(engine.app.shared(), incident.clone(), "operator")
            .await
            .is_err(),
        "it is over"
    );
    let again = failed(&engine).await;
    assert_ne!(again.id, incident.id, "the cause was not removed");
}

/// Core §2: a command that meets a row in its way each time is seen like any other that cannot be carried out.
async fn a_timer_that_always_meets_a_conflict_becomes_an_incident(test: &TestDb) {
    let twice = "
metadata: { key: twice, variables: {} }
flow:
  nodes:
    - { id: pause, type: timer, after: 1h }
    - { id: again, type: timer, after: 1h }
    - { id: done, type: end }
";
    let engine = Engine::new(test, &[("twice.process.yaml", twice)]).await;
    let root = engine.start("twice", &[]).await.unwrap();
    let mut read = engine.app.db().read().await.unwrap();
    let first = timers::list(&mut read, &root, &root).await.unwrap().remove(0);
    drop(read);
    // Every id that the second timer may get is taken.
    let taken = (1..20).map(|number| TimerRow {
        id: format!("{root}.m{number}"),
        due_at: first.due_at + 1_000_000_000,
        ..first.clone()
    });
    let taken: Vec<TimerRow> = taken.filter(|row| row.id != first.id).collect();
    let mut tx = engine.app.db().begin_write().await.unwrap();
    timers::insert(&mut tx, &taken).await.unwrap();
    tx.commit().await.unwrap();
    engine.app.clock().advance(60 * 60 * 1_000);
    let incident = failed(&engine).await;
    assert_eq!(
        (incident.code.as_str(), incident.instance.as_str()),
        (writer::FAILED, root.as_str())
    );
    assert_eq!(engine.row(&root).await.incidents, 1);
}

/// Core §1: a command makes at most 500 moves; the rest follows as commands of its own.
async fn a_long_way_is_gone_in_commands_of_500_moves(test: &TestDb) {
    let nodes: String = (0..900)
        .map(|n| {
            format!(
                "    - {{ id: n{n}, type: exclusive, rules: [{{ else: n{} }}] }}\n",
                n + 1
            )
        })
        .collect();
    let long = format!(
        "metadata: {{ key: long, variables: {{}} }}\nflow:\n  nodes:\n{nodes}    - {{ id: n900, type: end }}\n"
    );
    let engine = Engine::new(test, &[("long.process.yaml", long.as_str())]).await;
    let root = engine.start("long", &[]).await.unwrap();
    engine.until(&root, |row| row.status == "COMPLETED").await;
    let mut read = engine.app.db().read().await.unwrap();
    let rows = history::list(&mut read, &root, &root, 0, 10).await.unwrap();
    assert_eq!(rows.len(), 2, "901 moves");
}

/// Moves the clock on until the incident of a durable command is open.
pub async fn failed(engine: &Engine) -> IncidentRow {
    let filter = IncidentFilter {
        project: "p".to_owned(),
        state: Some("OPEN".to_owned()),
        limit: 10,
        ..Default::default()
    };
    for _ in 0..400 {
        let open = incidents::list(&mut engine.app.db().read().await.unwrap(), &filter)
            .await
            .unwrap();
        if let Some(incident) = open.into_iter().next() {
            return incident;
        }
        engine.app.clock().advance(1_000);
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    panic!("no incident");
}

/// D68: a sweep sends only so many rows, and the rest follows at once.
async fn a_crowd_of_timers_fires_when_it_is_due(test: &TestDb) {
    let engine = Engine::new(test, &[("pause.process.yaml", PAUSE)]).await;
    let starts = (0..1_200).map(|_| engine.start("pause", &[]));
    let ids: Vec<String> = futures::future::join_all(starts)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    engine.app.clock().advance(60 * 60 * 1_000);
    for id in &ids {
        engine.until(id, |row| row.status == "COMPLETED").await;
    }
}

/// D19 from a cold cache: a cancel goes through the whole tree, which is loaded at once.
async fn a_cancel_reaches_every_child_after_a_restart(test: &TestDb) {
    let branches: Vec<String> = (0..40).map(|n| format!("call{n}")).collect();
    let calls: String = branches
        .iter()
        .map(|id| format!("    - {{ id: {id}, type: call-process, process: child, next: join }}\n"))
        .collect();
    let wide = format!(
        "metadata: {{ key: wide, variables: {{}} }}\nflow:\n  nodes:\n    - {{ id: fork, type: parallel, branches: [{}] }}\n{calls}    - {{ id: join, type: parallel, join: all }}\n    - {{ id: done, type: end }}\n",
        branches.join(", ")
    );
    let files = [
        ("child.process.yaml", CHILD),
        ("wide.process.yaml", wide.as_str()),
        ("parent.process.yaml", PARENT),
    ];
    let mut engine = Engine::new(test, &files).await;
    let id = engine.start("wide", &[]).await.unwrap();
    let leased = engine.fetch("pay", 5, 0).await;
    engine.restart().await;
    let cancel = Command::Cancel {
        instance: InstanceId(id.clone()),
        reason: "enough".to_owned(),
    };
    engine.app.run(&engine.sender(), cancel).await.unwrap();
    let tree = instances::list_tree(&mut engine.app.db().read().await.unwrap(), &id)
        .await
        .unwrap();
    assert_eq!(tree.len(), 41);
    assert!(tree.iter().all(|row| row.status == "CANCELLED"));
    for claimed in &leased {
        let late = engine.complete(claimed, &[]).await;
        assert!(matches!(late, Err(writer::Failure::Rejected(refusal)) if refusal.code == "WORK_RETIRED"));
    }
    assert!(engine.fetch("pay", 50, 0).await.is_empty());
}

for_each_db!(
    a_timer_that_cannot_fire_becomes_an_incident_that_a_retry_runs_again,
    a_timer_that_always_meets_a_conflict_becomes_an_incident,
    a_long_way_is_gone_in_commands_of_500_moves,
    a_crowd_of_timers_fires_when_it_is_due,
    a_cancel_reaches_every_child_after_a_restart,
);
