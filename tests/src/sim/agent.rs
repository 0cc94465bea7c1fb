//! The simulated agent: a scripted model, tools in the outside world, and the journal between (core §4). It is what
//! any agent worker does: replay what is settled, take up what was cut off, go on.

use legation_kernel::commands::{Command, Completion};
use legation_kernel::journal::{Call as Asked, Record, StepAnswer, StepInput, StepKind, StepState};
use legation_kernel::journal::{Standing, Step};
use legation_kernel::task::Caller;
use legation_language::Value;
use rand::Rng;
use rand::seq::IteratorRandom;

use super::look;
use super::worker::{Around, Held};
use super::world::{Wish, tool_result};

/// A step as its worker knows it.
#[derive(Clone, Debug)]
pub struct Seen {
    pub sequence: u32,
    pub kind: StepKind,
    pub state: StepState,
    pub tool_ref: String,
    pub call: Option<Asked>,
    pub request: Value,
    pub result: Option<Value>,
    /// Granted under the lease that the worker holds.
    mine: bool,
    key: Option<String>,
    unkeyed: bool,
    /// It ran; the result is not reported.
    ran: Option<Value>,
}

impl Seen {
    pub fn of(step: &Step, lease: &(u32, String)) -> Self {
        Self {
            sequence: step.sequence,
            kind: step.kind,
            state: step.state,
            tool_ref: step.tool_ref.clone(),
            call: step.call,
            request: Value::Null,
            result: None,
            mine: step.grant.as_ref() == Some(lease) && step.state == StepState::Started,
            key: step.key.clone(),
            unkeyed: step.unkeyed,
            ran: None,
        }
    }

    fn standing(&self) -> Standing {
        match self.state {
            StepState::Started if matches!(self.kind, StepKind::Delegation | StepKind::Wait) => {
                Standing::Waiting
            }
            StepState::Started | StepState::Approved => Standing::Granted,
            StepState::Proposed | StepState::OutcomeUnknown => Standing::Waiting,
            _ => Standing::Settled,
        }
    }

    fn input(&self, state: StepState, result: Option<Value>) -> StepInput {
        StepInput {
            sequence: self.sequence,
            kind: self.kind,
            state,
            tool_ref: self.tool_ref.clone(),
            call: self.call,
            call_id: None,
            request: self.request.clone(),
            result,
            once: false,
        }
    }
}

/// What may be done next.
enum Next {
    /// Run a granted step; the place in the journal.
    Run(usize),
    Report(usize),
    /// Ask to be granted what an earlier lease left, or what was approved.
    Again(usize),
    Ask(Vec<StepInput>),
}

/// The next call, or nothing when something happened outside.
pub fn act(held: &mut Held, around: &mut Around<'_>, caller: &Caller) -> Option<Command> {
    let mut choices: Vec<Next> = Vec::new();
    for (place, seen) in held.journal.iter().enumerate() {
        if seen.standing() != Standing::Granted {
            continue;
        }
        choices.push(match (seen.mine, &seen.ran) {
            (true, Some(_)) => Next::Report(place),
            (true, None) => Next::Run(place),
            (false, _) => Next::Again(place),
        });
    }
    let asks = open_calls(held, around);
    if !asks.is_empty() {
        choices.push(Next::Ask(asks));
    }
    let chosen = choices.into_iter().choose(around.rng);
    Some(match chosen {
        Some(Next::Run(place)) => return run(held, around, caller, place),
        Some(Next::Report(place)) => {
            let seen = &held.journal[place];
            steps(
                held,
                caller,
                vec![seen.input(StepState::Completed, seen.ran.clone())],
                true,
            )
        }
        Some(Next::Again(place)) => steps(
            held,
            caller,
            vec![held.journal[place].input(StepState::Started, None)],
            true,
        ),
        Some(Next::Ask(inputs)) => {
            let single = inputs.len() == 1;
            steps(held, caller, inputs, single)
        }
        None => turn_or_end(held, caller),
    })
}

/// Nothing is left of this turn: wait for others, ask the model, or end.
fn turn_or_end(held: &Held, caller: &Caller) -> Command {
    if held
        .journal
        .iter()
        .any(|seen| seen.standing() == Standing::Waiting)
    {
        return Command::Park {
            task: held.task.clone(),
            caller: caller.clone(),
        };
    }
    let turns = held.journal.iter().filter(|seen| is_turn(seen)).count();
    if turns > held.start.turns().len() {
        let said = held.journal.iter().filter(|seen| seen.call.is_some());
        let result = Value::list(said.map(|seen| seen.result.clone().unwrap_or_default()));
        let completion = Completion::Result {
            result: Value::from(result.to_json()),
            outcome: None,
        };
        return Command::Complete {
            task: held.task.clone(),
            caller: caller.clone(),
            completion,
        };
    }
    let text = Value::from(format!("turn {turns}"));
    let request = Value::map([(
        "added",
        Value::list([Value::map([("role", Value::from("user")), ("text", text)])]),
    )]);
    let input = StepInput {
        sequence: next_sequence(held),
        kind: StepKind::Model,
        state: StepState::Started,
        tool_ref: "model:scripted".to_owned(),
        call: None,
        call_id: None,
        request,
        result: None,
        once: false,
    };
    steps(held, caller, vec![input], true)
}

fn is_turn(seen: &Seen) -> bool {
    seen.kind == StepKind::Model && seen.state == StepState::Completed
}

fn next_sequence(held: &Held) -> u32 {
    held.journal.last().map_or(0, |seen| seen.sequence) + 1
}

/// Calls of the last turn that have no step yet: the first, or all at once.
fn open_calls(held: &Held, around: &mut Around<'_>) -> Vec<StepInput> {
    let turns: Vec<&Seen> = held.journal.iter().filter(|seen| is_turn(seen)).collect();
    let Some(turn) = turns.last() else {
        return Vec::new();
    };
    let plan = held.start.turns();
    let Some(wishes) = plan.get(turns.len() - 1) else {
        return Vec::new();
    };
    let asked = |index: u32| {
        held.journal.iter().any(|seen| {
            seen.call
                == Some(Asked {
                    step: turn.sequence,
                    index,
                })
        })
    };
    let mut inputs = Vec::new();
    for (index, wish) in (0..).zip(wishes).filter(|(index, _)| !asked(*index)) {
        let sequence = next_sequence(held) + u32::try_from(inputs.len()).unwrap_or_default();
        let call = Asked {
            step: turn.sequence,
            index,
        };
        inputs.push(ask(wish, sequence, call));
    }
    if around.rng.random_bool(0.5) {
        inputs.truncate(1);
    }
    inputs
}

fn ask(wish: &Wish, sequence: u32, call: Asked) -> StepInput {
    let kind = if wish.tool_ref.starts_with("delegate:") {
        StepKind::Delegation
    } else {
        StepKind::Tool
    };
    StepInput {
        sequence,
        kind,
        state: StepState::Started,
        tool_ref: wish.tool_ref.to_owned(),
        call: Some(call),
        call_id: Some(format!("call-{sequence}")),
        request: Value::map([("arguments", wish.arguments.clone())]),
        result: None,
        once: false,
    }
}

/// Does what was granted, in the outside world.
fn run(held: &mut Held, around: &mut Around<'_>, caller: &Caller, place: usize) -> Option<Command> {
    let seen = &held.journal[place];
    if seen.kind == StepKind::Model {
        let turns = held.journal.iter().filter(|seen| is_turn(seen)).count();
        let result = said(held.start.turns().get(turns));
        held.journal[place].ran = Some(result);
        return None;
    }
    let arguments = seen.request.get("arguments").cloned().unwrap_or_default();
    let purpose = held.purpose_of(&seen.tool_ref, &arguments);
    let result = tool_result(&seen.tool_ref, &arguments);
    if seen.unkeyed {
        // Nobody would notice a second transfer: a worker that is not sure of its lease lets it be.
        let expired = around.engine.clock.now() >= held.until;
        if expired || (around.rough && around.rng.random_ratio(1, 12)) {
            return Some(steps(
                held,
                caller,
                vec![seen.input(StepState::OutcomeUnknown, None)],
                true,
            ));
        }
        let call = (held.task.0.clone(), held.attempt, seen.sequence);
        around.ledger.transfer(purpose, call, result.clone());
    } else if let Some(key) = &seen.key {
        around.ledger.pay(purpose, key);
    }
    held.journal[place].ran = Some(result);
    None
}

/// What the model answers in a turn.
fn said(wishes: Option<&Vec<Wish>>) -> Value {
    let calls = wishes.into_iter().flatten().map(|wish| {
        Value::map([
            ("tool", Value::from(wish.function)),
            ("arguments", wish.arguments.clone()),
        ])
    });
    let usage = Value::map([("inputTokens", 10_u32), ("outputTokens", 5)]);
    Value::map([
        ("calls", Value::list(calls)),
        ("usage", usage),
        ("model", Value::from("scripted")),
    ])
}

fn steps(held: &Held, caller: &Caller, steps: Vec<StepInput>, single: bool) -> Command {
    let record = Record {
        caller: caller.clone(),
        attempt: held.attempt,
        single,
        steps,
    };
    Command::Steps {
        task: held.task.clone(),
        record,
    }
}

/// Takes the answers in.
pub fn learn(held: &mut Held, around: &mut Around<'_>, answers: &[StepAnswer]) {
    let app = around.engine.app(0);
    for answer in answers {
        let (task, attempt, sequence) = (held.task.clone(), held.attempt, answer.sequence);
        let known = held.journal.iter().position(|seen| seen.sequence == sequence);
        let (step, request, result) = around.engine.read(async |db| {
            let mut conn = db.read().await.expect("a connection");
            let file = look::file(&mut conn, &task).await;
            let step = file
                .step(attempt, sequence)
                .expect("what is answered is committed (I3)")
                .clone();
            let request = look::payload(&app, &mut conn, task.as_str(), &step.request).await;
            let result = match &answer.result {
                Some(reference) => Some(look::payload(&app, &mut conn, task.as_str(), reference).await),
                None => None,
            };
            (step, request, result)
        });
        let mut seen = match known {
            Some(place) => held.journal[place].clone(),
            None => Seen {
                request,
                ..Seen::of(&step, &held.lease)
            },
        };
        seen.state = answer.state;
        // Only a grant carries arguments. STARTED without them answers who reported too late: nothing to run.
        let granted = answer.kind == StepKind::Model || answer.arguments.is_some();
        seen.mine = answer.state == StepState::Started && granted;
        seen.key = answer.idempotency_key.clone().or(seen.key);
        if seen.standing() == Standing::Settled {
            seen.ran = None;
            seen.result = result.or(seen.result);
        }
        match known {
            Some(place) => held.journal[place] = seen,
            None => held.journal.push(seen),
        }
    }
    held.journal.sort_by_key(|seen| seen.sequence);
}
