//! The writer on both databases: real store, real kernel, no HTTP. What is answered is committed.
#![expect(clippy::unwrap_used, reason = "tests")]

mod durable;
mod ending;
mod engines;
mod feed;
mod left;
mod support;

use std::sync::Arc;

use legation_kernel::commands::{Answer, Command};
use legation_server::writer::{Failure, Faults, Lost, Moment, Why};
use legation_store::testing::TestDb;
use legation_store::{Dialect, external_tasks, for_each_db, history, instances};
use support::{Engine, text};

const ORDER: &str = "
metadata: { key: order, variables: { title: { type: string } } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay }
    - { id: done, type: end }
";

const CHILD: &str = "
metadata: { key: child, variables: {}, outputs: { receipt: { type: string } } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay }
    - { id: done, type: end }
";

const PARENT: &str = "
metadata: { key: parent, variables: {} }
flow:
  nodes:
    - { id: call, type: call-process, process: child }
    - { id: pause, type: timer, after: 1h }
    - { id: done, type: end }
";

async fn started_task_is_leased_completed_and_done(test: &TestDb) {
    let engine = Engine::new(test, &[("order.process.yaml", ORDER)]).await;
    let id = engine.start("order", &[("title", text("book"))]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await;
    assert_eq!(leased.len(), 1);
    assert!(engine.fetch("pay", 1, 0).await.is_empty(), "leased once");
    let answer = engine
        .complete(&leased[0], &[("receipt", text("r-1"))])
        .await
        .unwrap();
    assert!(matches!(answer, Answer::Closed { .. }), "{answer:?}");
    assert_eq!(engine.status(&id).await, "COMPLETED");
    let mut read = engine.app.db().read().await.unwrap();
    let rows = history::list(&mut read, &id, &id, 0, 10).await.unwrap();
    assert_eq!(rows.len(), 2, "one row a command");
}

async fn a_waiting_poll_gets_the_task_with_the_commit_that_creates_it(test: &TestDb) {
    let engine = Engine::new(test, &[("order.process.yaml", ORDER)]).await;
    let poll = engine.poll("pay", 60_000);
    while engine.app.shared().wake.polls() == 0 {
        tokio::task::yield_now().await;
    }
    engine.start("order", &[("title", text("book"))]).await.unwrap();
    let leased = poll.await.unwrap();
    assert_eq!(leased.len(), 1);
}

/// A worker that hangs up when its answer is there, and before it is read, holds no lease.
async fn an_answer_that_nobody_takes_gives_its_leases_back(test: &TestDb) {
    let engine = Engine::new(test, &[("order.process.yaml", ORDER)]).await;
    let id = engine.start("order", &[("title", text("book"))]).await.unwrap();
    let mut poll = Box::pin(engine.app.fetch(support::request("pay", 1), 0));
    assert!(futures::poll!(&mut poll).is_pending());
    let worker = async || {
        let mut read = engine.app.db().read().await.unwrap();
        let tasks = external_tasks::list(&mut read, &of_project()).await.unwrap();
        tasks[0].worker.clone()
    };
    let leased = async {
        while worker().await.is_none() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(std::time::Duration::from_secs(10), leased)
        .await
        .expect("the task is leased");
    drop(poll);
    let again = tokio::time::timeout(std::time::Duration::from_secs(10), async {
        loop {
            if let Some(leased) = engine.fetch("pay", 1, 0).await.pop() {
                return leased;
            }
        }
    });
    assert_eq!(again.await.unwrap().row.root, id, "it need not run out first");
}

fn of_project() -> external_tasks::ExternalTaskFilter {
    external_tasks::ExternalTaskFilter {
        project: "p".to_owned(),
        limit: 10,
        ..Default::default()
    }
}

/// An engine whose writer is gone does not go on as if it had one.
async fn an_engine_stops_with_its_writer(test: &TestDb) {
    struct Broken;
    impl Faults for Broken {
        fn at(&self, _: Moment) -> futures::future::BoxFuture<'_, Result<(), Lost>> {
            panic!("a writer's panic, on purpose");
        }
    }
    let engine = Engine::with_faults(test, &[("order.process.yaml", ORDER)], Arc::new(Broken)).await;
    let started = engine.start("order", &[("title", text("book"))]).await;
    assert!(matches!(started, Err(Failure::Unavailable(_))), "{started:?}");
    let stopped = engine.app.stopping().cancelled();
    let stopped = tokio::time::timeout(std::time::Duration::from_secs(10), stopped).await;
    assert!(stopped.is_ok(), "it goes on without a writer");
}

/// Core §2: a poisoned member costs only itself; the others of its batch succeed (B23).
async fn a_poisoned_command_fails_alone(test: &TestDb) {
    let engine = Engine::new(test, &[("order.process.yaml", ORDER)]).await;
    let book = [("title", text("book"))];
    let good = (0..8).map(|_| engine.start("order", &book));
    let bad = engine.start_with_key("order", "a\0key", &book);
    let (good, bad) = futures::join!(futures::future::join_all(good), bad);
    assert!(good.iter().all(Result::is_ok), "{good:?}");
    match test.db.dialect() {
        Dialect::Postgres => assert!(
            matches!(bad, Err(Failure::Internal)),
            "PostgreSQL takes no NUL: {bad:?}"
        ),
        Dialect::Sqlite => assert!(bad.is_ok()),
    }
}

/// I8: CHILD_DONE runs right after the commit of the child's end, once.
async fn a_child_end_moves_its_parent_on(test: &TestDb) {
    let engine = Engine::new(
        test,
        &[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)],
    )
    .await;
    let id = engine.start("parent", &[]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await;
    engine
        .complete(&leased[0], &[("receipt", text("r-1"))])
        .await
        .unwrap();
    engine.until(&id, |row| row.snapshot.contains("\"pause\"")).await;
    engine.app.clock().advance(60 * 60 * 1_000);
    engine.until(&id, |row| row.status == "COMPLETED").await;
}

/// D68: what a crash left is found by the next engine: mail and timers.
async fn another_engine_finds_what_was_left(test: &TestDb) {
    let mut engine = Engine::new(
        test,
        &[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)],
    )
    .await;
    let id = engine.start("parent", &[]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await;
    engine
        .complete(&leased[0], &[("receipt", text("r-1"))])
        .await
        .unwrap();
    engine.restart().await;
    engine.until(&id, |row| row.snapshot.contains("\"pause\"")).await;
    engine.restart().await;
    engine.app.clock().advance(60 * 60 * 1_000);
    engine.until(&id, |row| row.status == "COMPLETED").await;
}

async fn a_cancel_reaches_the_child_and_its_task(test: &TestDb) {
    let engine = Engine::new(
        test,
        &[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)],
    )
    .await;
    let id = engine.start("parent", &[]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await;
    let cancel = Command::Cancel {
        instance: legation_kernel::ids::InstanceId(id.clone()),
        reason: "enough".into(),
    };
    engine.app.run(&engine.sender(), cancel).await.unwrap();
    assert_eq!(engine.status(&id).await, "CANCELLED");
    let mut read = engine.app.db().read().await.unwrap();
    let tree = instances::list_tree(&mut read, &id).await.unwrap();
    assert_eq!(tree.iter().filter(|row| row.status == "CANCELLED").count(), 2);
    let late = engine.complete(&leased[0], &[]).await;
    assert!(matches!(late, Err(Failure::Rejected(refusal)) if refusal.code == "WORK_RETIRED"));
}

async fn many_instances_at_once_all_end(test: &TestDb) {
    let engine = Engine::new(test, &[("order.process.yaml", ORDER)]).await;
    let book = [("title", text("book"))];
    let starts = (0..200).map(|_| engine.start("order", &book));
    let ids: Vec<String> = futures::future::join_all(starts)
        .await
        .into_iter()
        .map(Result::unwrap)
        .collect();
    let mut done = 0;
    while done < ids.len() {
        let leased = engine.fetch("pay", 50, 0).await;
        assert!(!leased.is_empty());
        let completes = leased.iter().map(|claimed| engine.complete(claimed, &[]));
        let answers = futures::future::join_all(completes).await;
        assert!(answers.iter().all(Result::is_ok), "{answers:?}");
        done += leased.len();
    }
    for id in &ids {
        assert_eq!(engine.status(id).await, "COMPLETED");
    }
}

const SECRET: &str = "
metadata: { key: secret, variables: { iban: { type: string, sensitive: true } } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay, inputs: { account: iban } }
    - { id: show, type: human, candidates: { groups: [staff] }, inputs: { account: iban } }
    - { id: done, type: end }
";

/// D48 (payloads), core §2: what is sensitive stands nowhere in the database as it is, and is there after a restart.
#[tokio::test]
async fn sensitive_values_are_encrypted_at_rest_and_read_back() {
    let test = TestDb::new(Dialect::Sqlite).await;
    let mut engine = Engine::new(&test, &[("secret.process.yaml", SECRET)]).await;
    let secret = "DE00-tell-nobody-0815";
    engine.start("secret", &[("iban", text(secret))]).await.unwrap();
    engine.restart().await;
    let leased = engine.fetch("pay", 1, 0).await;
    engine
        .complete(&leased[0], &[("receipt", text("r"))])
        .await
        .unwrap();
    let keys: Vec<_> = [&leased[0].row.id, &leased[0].row.instance]
        .into_iter()
        .filter_map(|owner| {
            let task =
                legation_kernel::task::Task::clone(&serde_json::from_str(&leased[0].row.body).unwrap());
            let Some(legation_kernel::content::Content::Payload(reference)) = task.inputs else {
                return None;
            };
            Some(legation_store::payloads::PayloadKey {
                root: leased[0].row.root.clone(),
                owner: owner.clone(),
                digest: reference.digest,
            })
        })
        .collect();
    let mut read = engine.app.db().read().await.unwrap();
    let values = legation_server::writer::read_payloads(engine.app.shared(), &mut read, &keys)
        .await
        .unwrap();
    assert_eq!(
        values.values().next().and_then(|value| value.get("account")),
        Some(&text(secret))
    );
    drop(read);
    engine.app.stop(std::time::Duration::from_secs(10)).await;
    let folder = test.db.path().unwrap().parent().unwrap().to_owned();
    for file in std::fs::read_dir(folder).unwrap() {
        let path = file.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        let found = bytes
            .windows(secret.len())
            .any(|window| window == secret.as_bytes());
        assert!(!found, "{} holds the secret as it is", path.display());
    }
}

/// B17: a full database refuses, loses nothing, and goes on when there is room again.
#[tokio::test]
async fn a_full_disk_refuses_and_loses_nothing() {
    let test = TestDb::new(Dialect::Sqlite).await;
    let engine = Engine::new(&test, &[("order.process.yaml", ORDER)]).await;
    let id = engine.start("order", &[("title", text("book"))]).await.unwrap();
    engine.app.db().limit_pages(0).await.unwrap();
    let mut refused = None;
    for _ in 0..200 {
        if let Err(failure) = engine.start("order", &[("title", text(&"x".repeat(900)))]).await {
            refused = Some(failure);
            break;
        }
    }
    assert!(matches!(refused, Some(Failure::Full)), "{refused:?}");
    let failing = engine.app.shared().writes.failing();
    assert_eq!(failing.map(|failing| failing.why), Some(Why::Full));
    engine.app.db().limit_pages(10_000).await.unwrap();
    engine.start("order", &[("title", text("book"))]).await.unwrap();
    assert_eq!(engine.app.shared().writes.failing(), None);
    assert_eq!(engine.status(&id).await, "RUNNING");
}

for_each_db!(
    started_task_is_leased_completed_and_done,
    a_waiting_poll_gets_the_task_with_the_commit_that_creates_it,
    an_answer_that_nobody_takes_gives_its_leases_back,
    an_engine_stops_with_its_writer,
    a_poisoned_command_fails_alone,
    a_child_end_moves_its_parent_on,
    another_engine_finds_what_was_left,
    a_cancel_reaches_the_child_and_its_task,
    many_instances_at_once_all_end,
);
