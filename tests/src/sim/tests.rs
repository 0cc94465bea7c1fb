//! What the simulation found, one accident at a time, so that it stays mended whatever the seeds do.

use std::collections::BTreeMap;

use legation_kernel::commands::{Answer, Command, StartInstance};
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::journal::{Record, StepInput, StepKind, StepState};
use legation_kernel::task::Caller;
use legation_language::Value;
use legation_server::writer::{Claimed, FetchRequest};
use legation_store::{Dialect, instances};
use rand::SeedableRng;
use rand::rngs::StdRng;

use super::calls::{Call, Net, Outcome};
use super::engine::{Engine, PROJECT, Place};
use super::faults::Doom;
use super::look;
use super::worker::LOCK_MS;

/// An engine and a network on which nothing happens by itself.
struct Bench {
    engine: Engine,
    net: Net,
    rng: StdRng,
}

impl Bench {
    fn new() -> Self {
        let engine = Engine::new(Place::new(Dialect::Sqlite), 1, 1);
        Self {
            engine,
            net: Net::new(false),
            rng: StdRng::seed_from_u64(1),
        }
    }

    fn doom(&self, doom: Doom) {
        self.engine.fates.doom(doom);
    }

    fn send(&mut self, call: Call) -> Outcome {
        let outcome = self.net.send(&mut self.engine, &mut self.rng, &[call]).pop();
        self.engine.settle();
        outcome.expect("an outcome a call")
    }

    fn start(&mut self, process: &str, variables: &[(&str, Value)]) -> Outcome {
        let id = self.engine.app(0).chance().root_id(self.engine.clock.now());
        let start = StartInstance {
            id: InstanceId(id),
            project: PROJECT.to_owned(),
            process: process.to_owned(),
            version: 1,
            business_key: Some("K-0".to_owned()),
            labels: BTreeMap::new(),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        };
        self.send(Call::Start {
            key: "K-0".to_owned(),
            start: Box::new(start),
        })
    }

    fn complaint(&mut self) {
        let started = self.start(
            "complaint",
            &[("amount", Value::from(100)), ("plan", Value::from("r"))],
        );
        assert!(
            matches!(started, Outcome::Answer(Answer::Started { .. })),
            "{started:?}"
        );
    }

    fn fetch(&mut self, topic: &str) -> (TaskId, Caller) {
        let request = FetchRequest {
            project: PROJECT.to_owned(),
            topics: vec![topic.to_owned()],
            worker: "w".to_owned(),
            credential: "key".to_owned(),
            lock_ms: LOCK_MS,
            max: 1,
        };
        match self.send(Call::Fetch(request)) {
            Outcome::Claimed(claimed) => lease(claimed.into_iter().next().expect("a task")),
            other => panic!("a fetch was answered {other:?}"),
        }
    }

    fn step(&mut self, lease: &(TaskId, Caller), state: StepState, result: Option<Value>) -> Outcome {
        self.step_at(1, lease, state, result)
    }

    fn step_at(
        &mut self,
        sequence: u32,
        lease: &(TaskId, Caller),
        state: StepState,
        result: Option<Value>,
    ) -> Outcome {
        let input = StepInput {
            sequence,
            kind: StepKind::Model,
            state,
            tool_ref: "model:scripted".to_owned(),
            call: None,
            call_id: None,
            request: Value::map([("added", Value::list([Value::from("go")]))]),
            result,
            once: false,
        };
        let record = Record {
            caller: lease.1.clone(),
            attempt: 1,
            single: true,
            steps: vec![input],
        };
        self.send(Call::Run {
            actor: "w".to_owned(),
            command: Command::Steps {
                task: lease.0.clone(),
                record,
            },
        })
    }

    fn state(&mut self, task: &TaskId) -> StepState {
        self.engine.read(async |db| {
            let file = look::file(&mut db.read().await.expect("a connection"), task).await;
            file.step(1, 1).expect("a step").state
        })
    }
}

fn lease(claim: Claimed) -> (TaskId, Caller) {
    let number = u32::try_from(claim.row.lease_no).expect("a number");
    let random = claim.row.lease_random.expect("a lease has a random part");
    let caller = Caller {
        worker: "w".to_owned(),
        credential: "key".to_owned(),
        lease: Some((number, random)),
        arrived_at: 0,
    };
    (TaskId(claim.row.id), caller)
}

fn said() -> Option<Value> {
    Some(Value::map([("text", "done")]))
}

/// Core §2, unknown commit: the answer of the first start is given, and nothing is started twice.
#[test]
fn a_start_whose_commit_was_in_doubt_is_answered_once_and_for_all() {
    let mut bench = Bench::new();
    bench.doom(Doom::LostAfter);
    let started = bench.start("late", &[("amount", Value::from(100))]);
    let Outcome::Answer(Answer::Started { id, .. }) = started else {
        panic!("{started:?}")
    };
    let again = bench.start("late", &[("amount", Value::from(100))]);
    assert!(
        matches!(&again, Outcome::Before(known) if *known == id.0),
        "{again:?}"
    );
    let count = bench.engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        instances::count_by_status(&mut conn, PROJECT)
            .await
            .expect("a query")
            .iter()
            .map(|(_, n)| n)
            .sum::<i64>()
    });
    assert_eq!(count, 1);
}

/// Core §2, payloads: what is written after a start whose commit was in doubt can be read by the next engine.
#[test]
fn a_start_whose_commit_was_in_doubt_keeps_the_key_of_its_payloads() {
    let mut bench = Bench::new();
    bench.doom(Doom::LostAfter);
    bench.complaint();
    let lease = bench.fetch("agent");
    bench.step(&lease, StepState::Started, None);
    bench.engine.kill_and_restart();
    let app = bench.engine.app(0);
    let read = bench.engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let file = look::file(&mut conn, &lease.0).await;
        let request = &file.step(1, 1).expect("a step").request;
        look::payload(&app, &mut conn, lease.0.as_str(), request).await
    });
    assert_eq!(read, Value::map([("added", Value::list([Value::from("go")]))]));
}

/// I6: a lease whose commit failed was never given; the one that was given counts.
#[test]
fn a_lease_of_a_lost_commit_does_not_fence_off_the_one_that_was_given() {
    let mut bench = Bench::new();
    bench.complaint();
    bench.doom(Doom::LostBefore);
    let lease = bench.fetch("agent");
    let answer = bench.step(&lease, StepState::Started, None);
    assert!(
        matches!(&answer, Outcome::Answer(Answer::Steps { recorded, .. }) if recorded.live),
        "{answer:?}"
    );
}

/// A fetch leases a task whose tree is in memory without it: its journal must not look empty after that.
#[test]
fn the_journal_is_whole_after_a_restart_and_a_fetch() {
    let mut bench = Bench::new();
    bench.complaint();
    let first = bench.fetch("agent");
    bench.step(&first, StepState::Started, None);
    bench.step(&first, StepState::Completed, said());
    bench.engine.kill_and_restart();
    // An unknown task of the same tree brings the tree into memory, and nothing of the task.
    let other = InstanceId(first.0.root().to_owned()).task(99);
    let unlock = bench.send(Call::Run {
        actor: "olga".to_owned(),
        command: Command::Unlock { task: other },
    });
    assert!(matches!(unlock, Outcome::Refused(_)), "{unlock:?}");
    bench.engine.pass(LOCK_MS + 1);
    let second = bench.fetch("agent");
    assert_eq!(second.0, first.0);
    let next = bench.step_at(2, &second, StepState::Started, None);
    assert!(matches!(&next, Outcome::Answer(Answer::Steps { .. })), "{next:?}");
}

/// Core §3: a result that came too late is kept, and the same words of the lease that runs the step now count.
#[test]
fn a_late_result_does_not_swallow_the_same_result_of_the_live_lease() {
    let mut bench = Bench::new();
    bench.complaint();
    let first = bench.fetch("agent");
    bench.step(&first, StepState::Started, None);
    bench.engine.pass(LOCK_MS + 1);
    let second = bench.fetch("agent");
    bench.step(&second, StepState::Started, None);
    bench.step(&first, StepState::Completed, said());
    assert_eq!(bench.state(&second.0), StepState::Started, "kept aside");
    bench.step(&second, StepState::Completed, said());
    assert_eq!(bench.state(&second.0), StepState::Completed);
}
