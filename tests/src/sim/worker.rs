//! Simulated workers. One does one thing at a time: a call, or something in the outside world; it may die between any
//! two. What it knows of a task it has from its fetch and from the answers it heard.

use std::collections::BTreeMap;

use legation_kernel::commands::{Answer, BusinessError, Command, Completion};
use legation_kernel::ids::TaskId;
use legation_kernel::rejection::Rejection;
use legation_kernel::task::{Caller, Failure};
use legation_language::Value;
use legation_server::writer::{Claimed, FetchRequest};
use rand::Rng;
use rand::rngs::StdRng;

use super::agent::{self, Seen};
use super::calls::{Call, Outcome};
use super::engine::{Engine, PROJECT};
use super::ledger::Ledger;
use super::look;
use super::world::Start;

pub const LOCK_MS: i64 = 30_000;

const TOPICS: [&str; 7] = ["agent", "pay", "plain", "flaky", "doomed", "refusing", "stubborn"];

pub struct Worker {
    pub name: String,
    pub held: Option<Held>,
    /// A call whose answer it did not hear, to be sent again.
    pending: Option<Call>,
}

/// A task in a worker's hands.
pub struct Held {
    pub task: TaskId,
    pub lease: (u32, String),
    pub until: i64,
    pub topic: String,
    pub attempt: u32,
    pub start: Start,
    /// Who needs the money: business key, process, node and amount.
    purpose: String,
    node: String,
    key: String,
    /// The payment is made, the completion is not sent.
    paid: bool,
    pub journal: Vec<Seen>,
}

/// What a worker needs of the world.
pub struct Around<'a> {
    pub engine: &'a mut Engine,
    pub rng: &'a mut StdRng,
    pub ledger: &'a mut Ledger,
    pub starts: &'a [Start],
    /// Whether workers have whims too: beats, releases, failures that nobody asked for.
    pub rough: bool,
}

impl Worker {
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            held: None,
            pending: None,
        }
    }

    /// It forgets everything; what it held runs out by itself.
    pub fn die(&mut self) {
        self.held = None;
        self.pending = None;
    }

    /// The next call, or nothing when it did something outside.
    pub fn act(&mut self, around: &mut Around<'_>) -> Option<Call> {
        if let Some(call) = self.pending.take() {
            return Some(call);
        }
        let now = around.engine.clock.now();
        let Some(held) = &mut self.held else {
            return Some(Call::Fetch(FetchRequest {
                project: PROJECT.to_owned(),
                topics: TOPICS.iter().map(|topic| (*topic).to_owned()).collect(),
                worker: self.name.clone(),
                credential: "key".to_owned(),
                lock_ms: LOCK_MS,
                max: 1,
            }));
        };
        let caller = Caller {
            worker: self.name.clone(),
            credential: "key".to_owned(),
            lease: Some(held.lease.clone()),
            arrived_at: now,
        };
        if around.rough
            && let Some(command) = held.whim(around.rng, &caller)
        {
            return Some(self.run(command));
        }
        let command = if held.topic == "agent" {
            agent::act(held, around, &caller)
        } else {
            held.act(around, &caller)
        };
        command.map(|command| self.run(command))
    }

    fn run(&self, command: Command) -> Call {
        Call::Run {
            actor: self.name.clone(),
            command,
        }
    }

    /// Takes an answer in; an error is something that no worker of this world should ever be told.
    pub fn learn(&mut self, around: &mut Around<'_>, call: Call, outcome: Outcome) -> Result<(), String> {
        match outcome {
            Outcome::Lost => {
                // A fetch is simply made anew; other calls are repeated, or the worker gives up.
                if !matches!(call, Call::Fetch(_)) && around.rng.random_ratio(4, 5) {
                    self.pending = Some(call);
                } else {
                    self.die();
                }
                Ok(())
            }
            Outcome::Claimed(claimed) => {
                if let Some(claim) = claimed.into_iter().next() {
                    self.held = Some(take(around, claim));
                }
                Ok(())
            }
            Outcome::Refused(refusal) => self.refused(around, &call, &refusal),
            Outcome::Answer(answer) => self.answered(around, answer),
            Outcome::Before(_) => Err("a worker was answered by an idempotency key".to_owned()),
        }
    }

    fn refused(&mut self, around: &mut Around<'_>, call: &Call, refusal: &Rejection) -> Result<(), String> {
        let Some(held) = self.held.take() else {
            return Ok(());
        };
        let row = around
            .engine
            .read(async |db| look::task_row(&mut db.read().await.expect("a connection"), &held.task).await);
        let live = row
            .locked_until
            .is_some_and(|until| until > around.engine.clock.now())
            && row.lease_random.as_ref() == Some(&held.lease.1)
            && !row.retired;
        if live && refusal.code.starts_with("LEASE_") {
            return Err(format!(
                "I6: {} is fenced off its own lease: {refusal:?}, {row:?}, {call:?}",
                self.name
            ));
        }
        let lost = [
            "LEASE_EXPIRED",
            "LEASE_NOT_OWNED",
            "WORK_RETIRED",
            "STALE_ATTEMPT",
            "OUTCOME_UNKNOWN",
        ];
        if lost.contains(&refusal.code) {
            return Ok(());
        }
        Err(format!(
            "{} was refused unexpectedly: {refusal:?} for {call:?}",
            self.name
        ))
    }

    fn answered(&mut self, around: &mut Around<'_>, answer: Answer) -> Result<(), String> {
        let Some(held) = &mut self.held else { return Ok(()) };
        match answer {
            Answer::Closed { .. } => self.held = None,
            Answer::Lease { until } => held.until = until,
            Answer::Parked { news: false, .. } => self.held = None,
            Answer::Parked { news: true, .. } => {
                held.journal = read_journal(around, &held.task, held.attempt, &held.lease)
            }
            Answer::Steps { recorded, .. } => {
                let stopped =
                    recorded.parked || recorded.task_incident || !recorded.live || recorded.refusal.is_some();
                if stopped {
                    self.held = None;
                } else {
                    agent::learn(held, around, &recorded.steps);
                }
            }
            other => return Err(format!("{} was answered {other:?}", self.name)),
        }
        Ok(())
    }
}

impl Held {
    /// What workers do for reasons of their own: beat, give back, fail.
    fn whim(&self, rng: &mut StdRng, caller: &Caller) -> Option<Command> {
        let (task, caller) = (self.task.clone(), caller.clone());
        match rng.random_range(0..100) {
            0..6 => Some(Command::Heartbeat {
                task,
                caller,
                duration_ms: LOCK_MS,
            }),
            6..8 => Some(Command::Release {
                task,
                caller,
                after_ms: None,
                reason: None,
            }),
            8..10 => Some(Command::Release {
                task,
                caller,
                after_ms: Some(2_000),
                reason: Some("later".to_owned()),
            }),
            // Only where no `on_error` would take another way.
            10..14 if ["agent", "pay", "plain"].contains(&self.topic.as_str()) => Some(self.fail(&caller)),
            _ => None,
        }
    }

    fn fail(&self, caller: &Caller) -> Command {
        let failure = Failure {
            message: "it broke".to_owned(),
            code: None,
            retryable: true,
            retry_after_ms: None,
        };
        Command::Failure {
            task: self.task.clone(),
            caller: caller.clone(),
            failure,
        }
    }

    fn complete(&self, caller: &Caller, name: &str, value: Value) -> Command {
        let variables = BTreeMap::from([(name.to_owned(), value)]);
        Command::Complete {
            task: self.task.clone(),
            caller: caller.clone(),
            completion: Completion::Variables(variables),
        }
    }

    /// An ordinary service.
    fn act(&mut self, around: &mut Around<'_>, caller: &Caller) -> Option<Command> {
        Some(match self.topic.as_str() {
            "pay" if !self.paid => {
                around.ledger.pay(self.purpose.clone(), &self.key);
                self.paid = true;
                return None;
            }
            "pay" => self.complete(caller, "payout_id", Value::from(format!("P {}", self.purpose))),
            "flaky" if self.attempt > 1 => {
                self.complete(caller, "pack_note", Value::from("packed ".repeat(250)))
            }
            "stubborn" if self.attempt > 2 => self.complete(caller, "stubborn_ok", Value::from(true)),
            "flaky" | "stubborn" | "doomed" => self.fail(caller),
            "refusing" => Command::Error {
                task: self.task.clone(),
                caller: caller.clone(),
                error: BusinessError {
                    code: "NO_STOCK".to_owned(),
                    message: None,
                    variables: BTreeMap::new(),
                },
            },
            _ => self.complete(caller, &format!("{}_ok", self.node), Value::from(true)),
        })
    }

    /// Who the money of a call is for.
    pub fn purpose_of(&self, tool: &str, arguments: &Value) -> String {
        format!("{} {tool} {}", self.start.key, arguments.to_json())
    }
}

/// What the answer of a fetch tells.
fn take(around: &mut Around<'_>, claim: Claimed) -> Held {
    let row = claim.row;
    let task = TaskId(row.id.clone());
    let app = around.engine.app(0);
    let (instance, root, amount, file) = around.engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let instance = look::instance(&mut conn, &task.instance()).await;
        let root = look::row(&mut conn, task.root()).await;
        let amount = look::variable(&app, &mut conn, &instance, "amount").await;
        let file = look::file(&mut conn, &task).await;
        (instance, root, amount, file)
    });
    let bk = root.business_key.unwrap_or_default();
    let start = around
        .starts
        .iter()
        .find(|start| start.key == bk)
        .expect("somebody started it")
        .clone();
    let lease = (
        u32::try_from(row.lease_no).unwrap_or_default(),
        row.lease_random.unwrap_or_default(),
    );
    let attempt = file.task.attempt;
    let journal = read_journal(around, &task, attempt, &lease);
    let amount = amount.unwrap_or_default().to_json();
    Held {
        purpose: format!("{bk} {}/{} {amount}", instance.process, row.node),
        until: row.locked_until.unwrap_or_default(),
        key: file.task.idempotency_key.clone(),
        node: row.node,
        topic: row.topic,
        paid: false,
        attempt,
        journal,
        start,
        lease,
        task,
    }
}

/// The journal of the running attempt, as a fetch or a look tells it.
fn read_journal(around: &mut Around<'_>, task: &TaskId, attempt: u32, lease: &(u32, String)) -> Vec<Seen> {
    let app = around.engine.app(0);
    around.engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let file = look::file(&mut conn, task).await;
        let mut seen = Vec::new();
        for step in file.steps.iter().filter(|step| step.attempt == attempt) {
            let mut one = Seen::of(step, lease);
            if let Some(reference) = &step.result {
                one.result = Some(look::payload(&app, &mut conn, task.as_str(), reference).await);
            }
            one.request = look::payload(&app, &mut conn, task.as_str(), &step.request).await;
            seen.push(one);
        }
        seen
    })
}
