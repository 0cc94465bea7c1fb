//! What the handler asked for and what the journal knows, shared between the context and its driver.
//!
//! The one rule: a result reaches the handler only through [`State::deliver_next`], one at a time, in the order of
//! `settled`. Everything that the handler can see depends on that order and on nothing else.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::task::Waker;

use legation_protocol::steps::{StepAnswer, StepInput, StepView};
use legation_protocol::{Json, StepKind, StepState};

/// How a step ended.
#[derive(Debug, Clone)]
pub(super) struct Settlement {
    pub(super) state: StepState,
    pub(super) result: Option<Json>,
}

/// What a call may do next.
pub(super) enum Progress {
    Pending,
    Granted,
    Settled(Settlement),
}

pub(super) struct State {
    inner: Mutex<Inner>,
}

#[derive(Default)]
struct Inner {
    /// Sequence of the last call that the code made.
    asked: u32,
    /// Place of the last result that the handler was given.
    delivered: u32,
    /// Every place up to here is known, from a reading of the whole journal.
    known_to: u32,
    calls: BTreeMap<u32, CallState>,
    recorded: BTreeMap<u32, Recorded>,
    /// Sequences by their place in the order of completion.
    order: BTreeMap<u32, u32>,
    /// Settled steps without a place; no answer of a working engine has one.
    unnumbered: BTreeSet<u32>,
    outbox: Vec<StepInput>,
    divergence: Option<String>,
    /// The handler is being dropped from outside: its calls are not given up, they go on in the next run.
    closed: bool,
}

struct CallState {
    phase: Phase,
    waker: Option<Waker>,
    /// The handler holds the call no longer.
    abandoned: bool,
    kind: StepKind,
    tool_ref: String,
}

enum Phase {
    /// Asked for, or waiting for someone else.
    Open,
    /// The work may run, and nothing was reported yet.
    Granted,
    /// The result is on its way to the journal.
    Reported,
    Settled(Settlement),
}

struct Recorded {
    kind: StepKind,
    tool_ref: String,
    request: Option<Json>,
    state: StepState,
    result: Option<Json>,
    settled: Option<u32>,
}

impl State {
    pub(super) fn new(steps: Vec<StepView>) -> State {
        let state = State {
            inner: Mutex::new(Inner::default()),
        };
        state.learn(steps);
        state
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The code makes its next call. A call that the journal knows must be the same one.
    pub(super) fn ask(&self, kind: StepKind, tool_ref: String, request: Json) -> u32 {
        let mut inner = self.lock();
        inner.asked += 1;
        let sequence = inner.asked;
        let phase = Phase::Open;
        inner.calls.insert(
            sequence,
            CallState {
                phase,
                waker: None,
                abandoned: false,
                kind,
                tool_ref: tool_ref.clone(),
            },
        );
        if let Some(recorded) = inner.recorded.get(&sequence) {
            let same_request = recorded
                .request
                .as_deref()
                .is_none_or(|known| same_json(known.get(), request.get()));
            if recorded.kind != kind || recorded.tool_ref != tool_ref || !same_request {
                let divergence = format!(
                    "step {sequence} is recorded as {:?} `{}`, and the code asks for {kind:?} `{tool_ref}`{}",
                    recorded.kind,
                    recorded.tool_ref,
                    if same_request { "" } else { " with another request" },
                );
                inner.divergence.get_or_insert(divergence);
                return sequence;
            }
            if recorded.state.is_settled() {
                return sequence;
            }
        }
        let state = StepState::Started;
        inner.outbox.push(StepInput {
            sequence,
            kind,
            state,
            tool_ref,
            call: None,
            request: Some(request),
            result: None,
        });
        sequence
    }

    pub(super) fn poll_call(&self, sequence: u32, waker: &Waker) -> Progress {
        let mut inner = self.lock();
        let Some(call) = inner.calls.get_mut(&sequence) else {
            return Progress::Pending;
        };
        match &call.phase {
            Phase::Granted => Progress::Granted,
            Phase::Settled(settlement) => Progress::Settled(settlement.clone()),
            Phase::Open | Phase::Reported => {
                call.waker = Some(waker.clone());
                Progress::Pending
            }
        }
    }

    /// The work of a granted call has ended; the handler gets the result when the journal has it.
    pub(super) fn report(&self, sequence: u32, state: StepState, result: Json) {
        self.lock().report(sequence, state, result);
    }

    /// The handler dropped a call.
    pub(super) fn abandon(&self, sequence: u32, reason: impl FnOnce() -> Json) {
        let mut inner = self.lock();
        if inner.closed {
            return;
        }
        let Some(call) = inner.calls.get_mut(&sequence) else {
            return;
        };
        call.abandoned = true;
        if matches!(call.phase, Phase::Granted) {
            inner.report(sequence, StepState::Failed, reason());
        }
    }

    /// From here on dropping the handler gives up nothing.
    pub(super) fn close(&self) {
        self.lock().closed = true;
    }

    pub(super) fn divergence(&self) -> Option<String> {
        self.lock().divergence.clone()
    }

    pub(super) fn take_outbox(&self) -> Vec<StepInput> {
        std::mem::take(&mut self.lock().outbox)
    }

    /// Takes in the whole journal of the attempt as it is now.
    pub(super) fn learn(&self, steps: Vec<StepView>) {
        let mut inner = self.lock();
        for step in steps {
            inner.known_to = inner.known_to.max(step.settled.unwrap_or(0));
            let recorded = Recorded {
                kind: step.kind,
                tool_ref: step.tool_ref,
                request: step.request,
                state: step.state,
                result: step.result,
                settled: step.settled,
            };
            inner.keep(step.sequence, recorded);
        }
    }

    /// Takes in the answer to steps that were sent. `true`: a step settled that this worker has not heard of, so the
    /// journal must be read before the next result is delivered.
    pub(super) fn absorb(
        &self,
        sent: &[StepInput],
        answers: Vec<StepAnswer>,
        abandoned: impl Fn() -> Json,
    ) -> bool {
        let mut inner = self.lock();
        for (input, answer) in sent.iter().zip(answers) {
            inner.absorb(input, answer, &abandoned);
        }
        inner.has_gap()
    }

    /// Gives the handler its next result, if the next in the order of `settled` is known.
    ///
    /// # Errors
    /// When that step was never asked for by the code, or its turn is over.
    pub(super) fn deliver_next(&self) -> Result<bool, String> {
        let mut inner = self.lock();
        if let Some(divergence) = inner.divergence.clone() {
            return Err(divergence);
        }
        let Some((settled, sequence)) = inner.next() else {
            return Ok(false);
        };
        let Some(step) = inner.recorded.get(&sequence) else {
            return Ok(false);
        };
        let settlement = Settlement {
            state: step.state,
            result: step.result.clone(),
        };
        let name = format!("{:?} `{}`", step.kind, step.tool_ref);
        let Some(call) = inner.calls.get_mut(&sequence) else {
            return Err(format!(
                "step {sequence} is recorded as {name}, and the code does not ask for it"
            ));
        };
        call.phase = Phase::Settled(settlement);
        if let Some(waker) = call.waker.take() {
            waker.wake();
        }
        inner.delivered = settled;
        Ok(true)
    }

    /// A settled step without its place in the order.
    pub(super) fn has_unnumbered(&self) -> bool {
        !self.lock().unnumbered.is_empty()
    }

    /// A result is there that the handler was not given yet.
    pub(super) fn has_next(&self) -> bool {
        self.lock().next().is_some()
    }

    /// A granted piece of work runs in the handler.
    pub(super) fn is_working(&self) -> bool {
        self.lock()
            .calls
            .values()
            .any(|call| matches!(call.phase, Phase::Granted))
    }

    /// A call waits for the engine or a person.
    pub(super) fn is_waiting(&self) -> bool {
        self.lock()
            .calls
            .values()
            .any(|call| matches!(call.phase, Phase::Open))
    }
}

impl Inner {
    fn report(&mut self, sequence: u32, state: StepState, result: Json) {
        let Some(call) = self.calls.get_mut(&sequence) else {
            return;
        };
        call.phase = Phase::Reported;
        self.outbox.push(StepInput {
            sequence,
            kind: call.kind,
            state,
            tool_ref: call.tool_ref.clone(),
            call: None,
            request: None,
            result: Some(result),
        });
    }

    fn absorb(&mut self, input: &StepInput, answer: StepAnswer, abandoned: &impl Fn() -> Json) {
        let known = self.recorded.remove(&answer.sequence);
        let request = input.request.clone().or(known.and_then(|known| known.request));
        let refused = answer
            .problem
            .as_ref()
            .and_then(|problem| legation_protocol::to_json(problem).ok());
        let step = Recorded {
            kind: input.kind,
            tool_ref: input.tool_ref.clone(),
            request,
            state: answer.state,
            result: answer.result.or(refused).or_else(|| input.result.clone()),
            settled: answer.settled,
        };
        self.keep(answer.sequence, step);
        let Some(call) = self.calls.get_mut(&answer.sequence) else {
            return;
        };
        let granted = answer.state == StepState::Started && input.kind == StepKind::Checkpoint;
        if !granted || !matches!(call.phase, Phase::Open) {
            return;
        }
        call.phase = Phase::Granted;
        if let Some(waker) = call.waker.take() {
            waker.wake();
        }
        if call.abandoned {
            self.report(answer.sequence, StepState::Failed, abandoned());
        }
    }

    /// The engine settles children and waits by itself. Such a step may come before one of ours in the order, and ours
    /// must not overtake it: a replay would see them the other way round.
    fn has_gap(&self) -> bool {
        let known = self.delivered.max(self.known_to);
        let places = self.order.range(known + 1..).map(|(place, _)| *place);
        !self.unnumbered.is_empty() || places.zip(known + 1..).any(|(place, expected)| place != expected)
    }

    fn next(&self) -> Option<(u32, u32)> {
        self.order
            .range(self.delivered + 1..)
            .next()
            .map(|(place, sequence)| (*place, *sequence))
    }

    fn keep(&mut self, sequence: u32, step: Recorded) {
        self.unnumbered.remove(&sequence);
        match step.settled {
            Some(place) => {
                let new = self.order.insert(place, sequence).is_none();
                if new && place <= self.delivered {
                    let why =
                        format!("step {sequence} settled before results that the code was given already");
                    self.divergence.get_or_insert(why);
                }
            }
            None if step.state.is_settled() => {
                self.unnumbered.insert(sequence);
            }
            None => {}
        }
        self.recorded.insert(sequence, step);
    }
}

/// The same JSON, whatever the order of keys and the writing of numbers.
fn same_json(one: &str, other: &str) -> bool {
    let parse = |text: &str| serde_json::from_str::<serde_json::Value>(text).ok();
    one == other || matches!((parse(one), parse(other)), (Some(one), Some(other)) if same_value(&one, &other))
}

fn same_value(one: &serde_json::Value, other: &serde_json::Value) -> bool {
    use serde_json::Value::{Array, Number, Object};
    match (one, other) {
        (Number(one), Number(other)) => one == other || one.as_f64() == other.as_f64(),
        (Array(one), Array(other)) => {
            one.len() == other.len() && one.iter().zip(other).all(|(one, other)| same_value(one, other))
        }
        (Object(one), Object(other)) => {
            one.len() == other.len()
                && one
                    .iter()
                    .all(|(key, one)| other.get(key).is_some_and(|other| same_value(one, other)))
        }
        (one, other) => one == other,
    }
}
