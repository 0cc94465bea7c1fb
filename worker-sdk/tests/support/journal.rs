//! A journal that behaves as the engine does for one handler, in memory.

use std::sync::Mutex;

use legation_protocol::external_tasks::{ParkAnswer, TaskState, TaskStatus};
use legation_protocol::steps::{StepAnswer, StepInput, StepView, StepsAnswer};
use legation_protocol::{Problem, StepKind, StepState, to_json};
use legation_worker::Error;
use legation_worker::durable::Journal;
use serde_json::json;

/// What happens around a call of the worker.
pub type Event = Box<dyn FnMut(&mut Kept) + Send>;

#[derive(Default)]
pub struct FakeJournal {
    kept: Mutex<Kept>,
    before_record: Mutex<Option<Event>>,
    /// Loses the answer of the n-th record from now, after it was committed.
    lose: Mutex<Option<u32>>,
}

#[derive(Default)]
pub struct Kept {
    pub steps: Vec<StepView>,
    pub settled: u32,
    pub records: u32,
}

impl Kept {
    /// The engine settles a child or a wait.
    pub fn settle(&mut self, sequence: u32, state: StepState, result: serde_json::Value) {
        self.settled += 1;
        let place = self.settled;
        let step = self
            .steps
            .iter_mut()
            .find(|step| step.sequence == sequence)
            .expect("the step is recorded");
        assert!(!step.state.is_settled(), "step {sequence} settles twice");
        step.state = state;
        step.result = Some(to_json(&result).expect("JSON"));
        step.settled = Some(place);
    }

    pub fn waiting(&self) -> Vec<u32> {
        let waits = |step: &&StepView| !step.state.is_settled() && step.kind != StepKind::Checkpoint;
        self.steps
            .iter()
            .filter(waits)
            .map(|step| step.sequence)
            .collect()
    }

    fn status(&self) -> TaskStatus {
        let granted = self
            .steps
            .iter()
            .any(|s| s.kind == StepKind::Checkpoint && s.state == StepState::Started);
        let parks = !granted && !self.waiting().is_empty();
        let state = if parks {
            TaskState::AwaitingChild
        } else {
            TaskState::Locked
        };
        TaskStatus {
            state,
            waiting_for: Vec::new(),
        }
    }

    fn record_one(&mut self, input: &StepInput) -> Result<StepAnswer, Error> {
        let known = self.steps.iter().position(|step| step.sequence == input.sequence);
        let index = match known {
            Some(index) => {
                let step = &self.steps[index];
                let other_request = match (&input.request, &step.request) {
                    (Some(one), Some(other)) => one.get() != other.get(),
                    _ => false,
                };
                if step.kind != input.kind || step.tool_ref != input.tool_ref || other_request {
                    return Err(refused("DIVERGENT_STEP"));
                }
                index
            }
            None => {
                if input.sequence as usize != self.steps.len() + 1 {
                    return Err(refused("SEQUENCE"));
                }
                self.steps.push(started(input));
                self.steps.len() - 1
            }
        };
        if input.state != StepState::Started {
            self.settled += 1;
            let place = self.settled;
            let step = &mut self.steps[index];
            if step.state.is_settled() {
                return Err(refused("STEP_FINISHED"));
            }
            step.state = input.state;
            step.result = input.result.clone();
            step.settled = Some(place);
        }
        let step = &self.steps[index];
        let answer = json!({
            "sequence": step.sequence, "kind": step.kind, "state": step.state, "settled": step.settled, "result": step.result,
        });
        Ok(serde_json::from_value(answer).expect("an answer"))
    }
}

pub fn started(input: &StepInput) -> StepView {
    let mut view: StepView = serde_json::from_value(json!({
        "sequence": input.sequence, "kind": input.kind, "state": "STARTED", "toolRef": input.tool_ref,
        "requestDigest": "", "startedAt": "2026-11-03T09:15:00.000Z",
    }))
    .expect("a step");
    view.request.clone_from(&input.request);
    view
}

fn refused(code: &str) -> Error {
    Error::Rejected(Box::new(Problem {
        status: 409,
        code: code.to_owned(),
        ..Problem::default()
    }))
}

impl FakeJournal {
    pub fn with<T>(&self, f: impl FnOnce(&mut Kept) -> T) -> T {
        f(&mut self.kept.lock().expect("no panic before"))
    }

    pub fn steps(&self) -> Vec<StepView> {
        self.with(|kept| kept.steps.clone())
    }

    pub fn before_record(&self, event: impl FnMut(&mut Kept) + Send + 'static) {
        *self.before_record.lock().expect("no panic before") = Some(Box::new(event));
    }

    pub fn lose_answer_of_record(&self, number: u32) {
        *self.lose.lock().expect("no panic before") = Some(number);
    }
}

impl Journal for FakeJournal {
    async fn record(&self, steps: Vec<StepInput>) -> Result<StepsAnswer, Error> {
        let mut kept = self.kept.lock().expect("no panic before");
        if let Some(event) = self.before_record.lock().expect("no panic before").as_mut() {
            event(&mut kept);
        }
        kept.records += 1;
        let mut answers = Vec::new();
        for step in &steps {
            answers.push(kept.record_one(step)?);
        }
        let mut lose = self.lose.lock().expect("no panic before");
        if let Some(left) = *lose {
            *lose = left.checked_sub(1);
            if left == 0 {
                return Err(Error::Unavailable {
                    message: "the answer is lost".to_owned(),
                    retry_after: None,
                });
            }
        }
        Ok(StepsAnswer {
            steps: answers,
            task: kept.status(),
        })
    }

    async fn list(&self) -> Result<Vec<StepView>, Error> {
        Ok(self.steps())
    }

    async fn park(&self) -> Result<ParkAnswer, Error> {
        Ok(ParkAnswer {
            task: self.with(|kept| kept.status()),
            steps: Vec::new(),
        })
    }
}
