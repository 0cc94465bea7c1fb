//! Two engines on one PostgreSQL: what one remembers, the other may have changed.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use legation_kernel::commands::Command;
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::instance::{Event, Instance, replay};
use legation_kernel::journal::{Record, StepInput, StepKind, StepState};
use legation_language::Value;
use legation_server::clock::Clock;
use legation_server::writer::{Claimed, Faults, Lost, Moment};
use legation_store::testing::TestDb;
use legation_store::{Dialect, definitions, history, incidents, instances};

use crate::support::{Engine, caller, text};
use crate::{CHILD, ORDER};

const BOTH: &str = "
metadata: { key: both, variables: {} }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [a, b] }
    - { id: a, type: engine-task, service: a, next: join }
    - { id: b, type: engine-task, service: b, next: join }
    - { id: join, type: parallel, join: all }
    - { id: done, type: end }
";

/// A task without `inputs` shows every variable as it is when the task is leased.
#[tokio::test]
async fn a_lease_shows_the_variables_that_another_engine_wrote() {
    let test = TestDb::new(Dialect::Postgres).await;
    let one = Engine::new(&test, &[("both.process.yaml", BOTH)]).await;
    let two = one.beside(0).await;
    one.start("both", &[]).await.unwrap();
    let a = two.fetch("a", 1, 0).await;
    two.complete(&a[0], &[("found", text("yes"))]).await.unwrap();
    let b = one.fetch("b", 1, 0).await;
    let known = b[0]
        .instance
        .as_ref()
        .is_none_or(|instance| instance.variables().contains_key("found"));
    assert!(known, "an old instance was shown");
}

/// I7: the journal of a fetch is the journal as it is, whoever wrote it.
#[tokio::test]
async fn a_lease_shows_the_steps_that_another_engine_recorded() {
    let test = TestDb::new(Dialect::Postgres).await;
    let one = Engine::new(&test, &[("order.process.yaml", ORDER)]).await;
    let two = one.beside(0).await;
    one.start("order", &[("title", text("book"))]).await.unwrap();
    let first = one.fetch("pay", 1, 0).await;
    let again = |claimed: &Claimed| Command::Release {
        task: TaskId(claimed.row.id.clone()),
        caller: caller(claimed, one.app.clock().now()),
        after_ms: None,
        reason: None,
    };
    one.app.run(&one.sender(), again(&first[0])).await.unwrap();
    let second = two.fetch("pay", 1, 0).await;
    let step = |state, result| StepInput {
        sequence: 1,
        kind: StepKind::Checkpoint,
        state,
        tool_ref: "step:charge".to_owned(),
        call: None,
        call_id: None,
        request: Value::Map(BTreeMap::new()),
        result,
        once: false,
    };
    let record = Record {
        caller: caller(&second[0], two.app.clock().now()),
        attempt: 1,
        single: false,
        steps: vec![
            step(StepState::Started, None),
            step(StepState::Completed, Some(text("charged"))),
        ],
    };
    let task = TaskId(second[0].row.id.clone());
    two.app
        .run(&two.sender(), Command::Steps { task, record })
        .await
        .unwrap();
    two.app.run(&two.sender(), again(&second[0])).await.unwrap();
    let third = one.fetch("pay", 1, 0).await;
    assert!(
        third[0].file.as_ref().is_none_or(|file| file.steps.len() == 1),
        "an old journal was shown"
    );
}

/// Core §2, "Time": the engines' clocks differ, an instance's times do not go back, and its history replays (I2).
#[tokio::test]
async fn an_instance_that_two_clocks_moved_replays_exactly() {
    let test = TestDb::new(Dialect::Postgres).await;
    let one = Engine::new(&test, &[("both.process.yaml", BOTH)]).await;
    let two = one.beside(-900).await;
    let id = one.start("both", &[]).await.unwrap();
    let a = one.fetch("a", 1, 0).await;
    two.complete(&a[0], &[]).await.unwrap();
    let b = one.fetch("b", 1, 0).await;
    two.complete(&b[0], &[]).await.unwrap();
    let mut read = one.app.db().read().await.unwrap();
    let row = instances::get(&mut read, &id, &id).await.unwrap().unwrap();
    let stored: Instance = serde_json::from_str(&row.snapshot).unwrap();
    let rows = history::list(&mut read, &id, &id, 0, 100).await.unwrap();
    assert!(rows.is_sorted_by_key(|row| row.at), "{rows:?}");
    let rows: Vec<(i64, Vec<Event>)> = rows
        .iter()
        .map(|row| (row.at, serde_json::from_str(&row.events).unwrap()))
        .collect();
    assert_eq!(
        replay(rows.iter().map(|(at, events)| (*at, events.as_slice()))).unwrap(),
        stored
    );
}

/// What is called by its latest version is found within a sweep, wherever it was deployed.
#[tokio::test]
async fn a_version_that_another_engine_deployed_is_the_latest() {
    let calls = "
metadata: { key: calls, variables: {} }
flow:
  nodes:
    - { id: call, type: call-process, process: child, version: latest }
    - { id: done, type: end }
";
    let test = TestDb::new(Dialect::Postgres).await;
    let engine = Engine::new(
        &test,
        &[("child.process.yaml", CHILD), ("calls.process.yaml", calls)],
    )
    .await;
    engine.start("calls", &[]).await.unwrap();
    let mut tx = test.db.begin_write().await.unwrap();
    let mut row = definitions::get(&mut tx, "p", "child", 1).await.unwrap().unwrap();
    (row.version, row.digest) = (2, "another".to_owned());
    definitions::insert(&mut tx, &[row]).await.unwrap();
    tx.commit().await.unwrap();
    for _ in 0..200 {
        engine.app.clock().advance(1_000);
        tokio::time::sleep(Duration::from_millis(10)).await;
        let id = engine.start("calls", &[]).await.unwrap();
        let tree = instances::list_tree(&mut test.db.read().await.unwrap(), &id)
            .await
            .unwrap();
        if tree.iter().any(|row| row.process == "child" && row.version == 2) {
            return;
        }
    }
    panic!("the engine never saw the new version");
}

/// An engine gets the root's lock in the end, however busy it is with other things (core §2: after three turns alone).
#[tokio::test]
async fn a_command_whose_root_is_held_is_done_when_it_is_free() {
    let test = TestDb::new(Dialect::Postgres).await;
    let engine = Engine::new(&test, &[("order.process.yaml", ORDER)]).await;
    let id = engine.start("order", &[("title", text("book"))]).await.unwrap();
    let mut tx = test.db.begin_write().await.unwrap();
    assert_eq!(
        legation_store::roots::lock(&mut tx, std::slice::from_ref(&id))
            .await
            .unwrap()
            .len(),
        1
    );
    let cancel = Command::Cancel {
        instance: InstanceId(id.clone()),
        reason: "enough".to_owned(),
    };
    let sender = engine.sender();
    let cancelled = engine.app.run(&sender, cancel);
    let busy = async {
        for _ in 0..20 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        tx.rollback().await.unwrap();
    };
    let (cancelled, ()) = futures::join!(cancelled, busy);
    cancelled.unwrap();
    assert_eq!(engine.status(&id).await, "CANCELLED");
}

/// Holds commits up.
#[derive(Default)]
struct Gate {
    closed: AtomicBool,
    waiting: AtomicBool,
    opened: tokio::sync::Notify,
}

impl Faults for Gate {
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>> {
        Box::pin(async move {
            let opened = self.opened.notified();
            if moment == Moment::BeforeCommit && self.closed.load(Ordering::SeqCst) {
                self.waiting.store(true, Ordering::SeqCst);
                opened.await;
            }
            Ok(())
        })
    }
}

/// Two writers: a poll that looks while the other writer is committing does not sleep through that commit. The clock
/// stands still, so no sweep helps.
#[tokio::test]
#[expect(
    clippy::disallowed_methods,
    reason = "the start's answer is awaited by the test"
)]
async fn a_poll_does_not_miss_what_the_other_writer_commits() {
    let test = TestDb::new(Dialect::Postgres).await;
    let gate = Arc::new(Gate::default());
    let engine = Arc::new(Engine::with_faults(&test, &[("order.process.yaml", ORDER)], gate.clone()).await);
    for _ in 0..6 {
        gate.waiting.store(false, Ordering::SeqCst);
        gate.closed.store(true, Ordering::SeqCst);
        let start = {
            let engine = engine.clone();
            tokio::spawn(async move { engine.start("order", &[("title", text("book"))]).await })
        };
        while !gate.waiting.load(Ordering::SeqCst) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let poll = engine.poll("pay", 60_000);
        tokio::time::sleep(Duration::from_millis(50)).await;
        gate.closed.store(false, Ordering::SeqCst);
        gate.opened.notify_waiters();
        start.await.unwrap().unwrap();
        let leased = tokio::time::timeout(Duration::from_secs(10), poll)
            .await
            .expect("the poll slept")
            .unwrap();
        assert_eq!(leased.len(), 1);
    }
}

/// Leases are taken without the root's lock: an alarm asks for the lease as it is, not as this writer remembers it.
#[tokio::test]
async fn a_task_that_another_engine_took_in_time_raises_no_alarm() {
    let hurried = "
metadata: { key: hurried, variables: {} }
flow:
  nodes:
    - { id: work, type: engine-task, service: work, start_within: 5s }
    - { id: done, type: end }
";
    let test = TestDb::new(Dialect::Postgres).await;
    let one = Engine::new(&test, &[("hurried.process.yaml", hurried)]).await;
    let two = one.beside(0).await;
    let (taken, left) = (
        one.start("hurried", &[]).await.unwrap(),
        one.start("hurried", &[]).await.unwrap(),
    );
    let leased = two.fetch("work", 1, 0).await;
    let (taken, left) = if leased[0].row.root == taken {
        (taken, left)
    } else {
        (left, taken)
    };
    one.app.clock().advance(5_000);
    one.until(&left, |row| !row.snapshot.contains("\"alarm\"")).await;
    one.until(&taken, |row| !row.snapshot.contains("\"alarm\"")).await;
    let mut read = one.app.db().read().await.unwrap();
    let notices = async |root: &str, read: &mut legation_store::Read| {
        incidents::list_open(read, root)
            .await
            .unwrap()
            .iter()
            .filter(|row| row.code == "NOT_STARTED")
            .count()
    };
    assert_eq!(notices(&left, &mut read).await, 1);
    assert_eq!(notices(&taken, &mut read).await, 0, "it was taken in time");
}

/// Core §2, "Time": an engine whose clock is wrong does nothing by it, not even the first thing.
#[tokio::test]
async fn a_wrong_clock_is_set_before_anything_is_done_by_it() {
    let test = TestDb::new(Dialect::Postgres).await;
    let clock = Clock::system();
    clock.calibrate(clock.now(), clock.now() + 10 * 60 * 1_000);
    let engine = Engine::with_clock(&test, &[("order.process.yaml", ORDER)], clock).await;
    let id = engine.start("order", &[("title", text("book"))]).await.unwrap();
    let now = test.db.now().await.unwrap();
    let started = engine.row(&id).await.started_at;
    assert!(
        (now - started).abs() < 60_000,
        "started {} ms from now",
        started - now
    );
}
