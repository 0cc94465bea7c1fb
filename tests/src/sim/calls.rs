//! Calls to the engine and the network between: a call is lost on the way, its answer is lost, it arrives twice, or
//! long after its lease has ended.

use futures::future::join_all;
use legation_kernel::commands::{Answer, Command, StartInstance};
use legation_kernel::rejection::Rejection;
use legation_server::app::{App, Sender};
use legation_server::writer::{Claimed, Failure, FetchRequest, Idempotency};
use rand::Rng;
use rand::rngs::StdRng;

use super::engine::{Engine, PROJECT};

/// A call as its sender makes it. Sending it again sends the same.
#[derive(Clone, Debug)]
pub enum Call {
    Fetch(FetchRequest),
    Run {
        actor: String,
        command: Command,
    },
    /// A start under an idempotency key.
    Start {
        key: String,
        start: Box<StartInstance>,
    },
}

/// What its sender gets to know.
#[derive(Debug)]
pub enum Outcome {
    Claimed(Vec<Claimed>),
    Answer(Answer),
    Refused(Box<Rejection>),
    /// The same start was answered before: the instance's id.
    Before(String),
    /// No answer: nobody knows whether it arrived.
    Lost,
}

/// The network of one run.
pub struct Net {
    pub rough: bool,
    /// Calls that are still on their way.
    pub late: Vec<Call>,
    pub sent: u32,
}

enum Fate {
    Fine,
    LostOnTheWay,
    AnswerLost,
    Twice,
    Late,
}

impl Net {
    pub fn new(rough: bool) -> Self {
        Self {
            rough,
            late: Vec::new(),
            sent: 0,
        }
    }

    fn fate(&self, rng: &mut StdRng) -> Fate {
        if !self.rough {
            return Fate::Fine;
        }
        match rng.random_range(0..100) {
            0..4 => Fate::LostOnTheWay,
            4..8 => Fate::AnswerLost,
            8..13 => Fate::Twice,
            13..17 => Fate::Late,
            _ => Fate::Fine,
        }
    }

    /// Sends calls at the same moment, so that they may meet in one batch.
    pub fn send(&mut self, engine: &mut Engine, rng: &mut StdRng, calls: &[Call]) -> Vec<Outcome> {
        let mut on_the_way = Vec::new();
        let mut heard = Vec::new();
        for call in calls {
            self.sent += 1;
            let (times, answered) = match self.fate(rng) {
                Fate::Fine => (1, true),
                Fate::LostOnTheWay => (0, false),
                Fate::AnswerLost => (1, false),
                Fate::Twice => (2, true),
                Fate::Late => {
                    self.late.push(call.clone());
                    (0, false)
                }
            };
            heard.push(answered.then_some(on_the_way.len()));
            for _ in 0..times {
                on_the_way.push((engine.app(rng.random_range(0..2)), call.clone()));
            }
        }
        let mut answers: Vec<Option<Outcome>> = arrive(engine, on_the_way).into_iter().map(Some).collect();
        let hear = |place: Option<usize>| place.and_then(|place| answers.get_mut(place)?.take());
        heard
            .into_iter()
            .map(hear)
            .map(|outcome| outcome.unwrap_or(Outcome::Lost))
            .collect()
    }

    /// A call that was on its way for long arrives; nobody hears the answer.
    pub fn deliver(&mut self, engine: &mut Engine, rng: &mut StdRng) -> Option<(Call, Outcome)> {
        if self.late.is_empty() {
            return None;
        }
        let call = self.late.remove(rng.random_range(0..self.late.len()));
        let app = engine.app(rng.random_range(0..2));
        let outcome = arrive(engine, vec![(app, call.clone())]).pop();
        Some((call, outcome.unwrap_or(Outcome::Lost)))
    }
}

fn arrive(engine: &mut Engine, calls: Vec<(App, Call)>) -> Vec<Outcome> {
    if calls.is_empty() {
        return Vec::new();
    }
    let all = async || {
        join_all(
            calls
                .into_iter()
                .map(|(app, call)| async move { one(&app, call).await }),
        )
        .await
    };
    // An engine that died answers nobody.
    engine.run(all).unwrap_or_default()
}

async fn one(app: &App, call: Call) -> Outcome {
    let sender = |actor: &str| Sender {
        project: PROJECT.to_owned(),
        actor: actor.to_owned(),
        traceparent: None,
    };
    let answer = match call {
        Call::Fetch(request) => match app.fetch(request, 0).await {
            Ok(claimed) => return Outcome::Claimed(claimed),
            Err(failure) => Err(failure),
        },
        Call::Run { actor, mut command } => {
            stamp(&mut command, app.clock().now());
            app.run(&sender(&actor), command).await
        }
        Call::Start { key, start } => {
            let once = Idempotency {
                principal: "client".to_owned(),
                operation: "start".to_owned(),
                body_hash: key.clone(),
                key,
                render: |answer| match answer {
                    Answer::Started { id, .. } => (201, id.0.clone()),
                    other => (200, format!("{other:?}")),
                },
            };
            app.run_once(&sender("client"), Command::Start(start), Some(once))
                .await
        }
    };
    match answer {
        Ok(answer) => Outcome::Answer(answer),
        Err(Failure::Rejected(refusal)) => Outcome::Refused(refusal),
        Err(Failure::Answered { body, .. }) => Outcome::Before(body),
        Err(Failure::Unavailable(_) | Failure::Full) => Outcome::Lost,
        Err(failure @ (Failure::Internal | Failure::Busy | Failure::IdempotencyConflict)) => {
            panic!("the engine answered: {failure}")
        }
    }
}

/// The time at which the server takes the call in.
fn stamp(command: &mut Command, now: i64) {
    match command {
        Command::Complete { caller, .. }
        | Command::Failure { caller, .. }
        | Command::Error { caller, .. }
        | Command::Release { caller, .. }
        | Command::Park { caller, .. }
        | Command::Heartbeat { caller, .. } => caller.arrived_at = now,
        Command::Steps { record, .. } => record.caller.arrived_at = now,
        _ => {}
    }
}
