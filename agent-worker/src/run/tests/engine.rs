//! A journal in memory, with the rules of the engine that the loop depends on.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use legation_protocol::external_tasks::{
    ClosedAnswer, CompleteRequest, FailureRequest, HeartbeatRequest, LockedTask, ParkAnswer, ParkRequest,
    ReleaseRequest, TaskState, TaskStatus,
};
use legation_protocol::problem::Problem;
use legation_protocol::steps::{StepAnswer, StepInput, StepList, StepView, StepsAnswer, StepsRequest};
use legation_protocol::{Json, StepKind, StepState};
use legation_worker::Error;
use serde_json::{Value, json};

use crate::engine::Engine;
use crate::models::raw_of;
use crate::turns::tests::read;

#[derive(Default)]
pub(super) struct State {
    pub steps: BTreeMap<u32, StepView>,
    granted_to: BTreeMap<u32, String>,
    leases: u32,
    pub live: Option<String>,
    pub retired: bool,
    pub max_turns: usize,
    /// Refusals of the next completions, then they are accepted.
    pub refusals: VecDeque<Problem>,
    pub completed: Vec<CompleteRequest>,
    pub failures: Vec<FailureRequest>,
    pub releases: Vec<ReleaseRequest>,
    /// Results that came under a lease that was over.
    pub late: Vec<u32>,
    /// Pages of the journal have this many steps.
    pub page: usize,
}

#[derive(Clone)]
pub(super) struct Memory(pub Arc<Mutex<State>>);

impl Memory {
    pub(super) fn new() -> Self {
        Self(Arc::new(Mutex::new(State {
            max_turns: 8,
            page: 100,
            ..State::default()
        })))
    }

    pub(super) fn with<T>(&self, work: impl FnOnce(&mut State) -> T) -> T {
        work(&mut self.0.lock().unwrap())
    }

    /// A new lease, whatever the last one did.
    pub(super) fn lease(&self, agent: &legation_protocol::agent::AgentNode) -> LockedTask {
        self.with(|state| {
            state.leases += 1;
            let id = format!("R.t1~{}-x", state.leases);
            state.live = Some(id.clone());
            let steps: Vec<StepView> = state.steps.values().take(state.page).cloned().collect();
            let after = (state.steps.len() > state.page).then(|| steps.last().map_or(0, |s| s.sequence));
            let mut task: LockedTask = read(
                json!({ "id": id, "topic": "agent", "instanceId": "R", "nodeId": "handle",
                "attempt": 1, "idempotencyKey": "k", "lockedUntil": "2026-01-01T00:00:00.000Z" }),
            );
            task.agent = Some(agent.clone());
            task.journal = Some(legation_protocol::steps::Journal { steps, after });
            task
        })
    }

    /// Others settle a step: a child ends, a person decides.
    pub(super) fn settle(&self, sequence: u32, state: StepState, change: impl FnOnce(&mut StepView)) {
        self.with(|all| {
            let step = all.steps.get_mut(&sequence).unwrap();
            step.state = state;
            change(step);
        });
    }

    pub(super) fn states(&self) -> Vec<(String, StepState)> {
        self.with(|s| {
            s.steps
                .values()
                .map(|step| (step.tool_ref.clone(), step.state))
                .collect()
        })
    }
}

fn refused(status: u16, code: &str) -> Error {
    let tool_error = (status == 403).then_some(true);
    Error::Rejected(Box::new(Problem {
        status,
        code: code.to_owned(),
        tool_error,
        ..Problem::default()
    }))
}

impl State {
    fn check(&self, lease: &str) -> Result<(), Error> {
        if self.retired {
            return Err(refused(410, "WORK_RETIRED"));
        }
        if self.live.as_deref() == Some(lease) {
            Ok(())
        } else {
            Err(refused(409, "LEASE_EXPIRED"))
        }
    }

    fn status(&mut self) -> TaskStatus {
        let open: Vec<&StepView> = self.steps.values().filter(|s| !s.state.is_settled()).collect();
        let granted = open.iter().any(|s| match s.kind {
            StepKind::Model => true,
            _ => s.kind == StepKind::Tool && matches!(s.state, StepState::Started | StepState::Approved),
        });
        if granted || open.is_empty() {
            return TaskStatus {
                state: TaskState::Locked,
                waiting_for: vec![],
            };
        }
        let proposed = open.iter().any(|s| s.state == StepState::Proposed);
        self.live = None;
        let state = if proposed {
            TaskState::AwaitingApproval
        } else {
            TaskState::AwaitingChild
        };
        TaskStatus {
            state,
            waiting_for: vec![],
        }
    }

    fn begin(&mut self, lease: &str, sent: &StepInput) -> Result<StepAnswer, Error> {
        self.check(lease)?;
        if let Some(known) = self.steps.get(&sent.sequence) {
            assert_eq!(known.tool_ref, sent.tool_ref, "DIVERGENT_STEP");
            let (was, now) = (
                known.request.as_ref().map(|r| r.get()),
                sent.request.as_ref().map(|r| r.get()),
            );
            assert_eq!(was, now, "DIVERGENT_STEP");
            if known.state == StepState::Approved {
                self.steps.get_mut(&sent.sequence).unwrap().state = StepState::Started;
            }
            self.granted_to.insert(sent.sequence, lease.to_owned());
            return Ok(self.answer(sent.sequence));
        }
        let next = self.steps.keys().next_back().map_or(1, |s| s + 1);
        if sent.sequence != next {
            return Err(refused(409, "SEQUENCE"));
        }
        let mut view: Value = json!({ "sequence": sent.sequence, "kind": sent.kind, "state": "STARTED",
            "toolRef": sent.tool_ref, "call": sent.call, "requestDigest": "d", "startedAt": "t" });
        let request: Value = sent.request.as_ref().map(|r| read(json!(r))).unwrap_or_default();
        match sent.kind {
            StepKind::Model => {
                if self.steps.values().any(|s| !s.state.is_settled()) {
                    return Err(refused(409, "OPEN_STEP"));
                }
                let turns = self
                    .steps
                    .values()
                    .filter(|s| s.kind == StepKind::Model && s.state == StepState::Completed);
                if turns.count() >= self.max_turns {
                    return Err(refused(409, "TURN_LIMIT"));
                }
            }
            StepKind::Tool => {
                let policy = match sent.tool_ref.as_str() {
                    "crm/get_customer" => "read",
                    "crm/note" | "crm/pay" => "write",
                    "crm/close" => "approval_required",
                    _ => "",
                };
                if policy.is_empty() || request.get("argumentsText").is_some() {
                    let code = if policy.is_empty() {
                        "TOOL_NOT_BOUND"
                    } else {
                        "ARGUMENTS_INVALID"
                    };
                    view["state"] = json!("REFUSED");
                    view["result"] = json!({ "code": code, "detail": "no" });
                } else {
                    view["policy"] = json!(policy);
                    view["arguments"] = request["arguments"].clone();
                    view["idempotencyKey"] = json!(format!("key-{}", sent.sequence));
                    if policy == "approval_required" {
                        view["state"] = json!("PROPOSED");
                    }
                }
            }
            StepKind::Delegation => view["childInstanceId"] = json!(format!("R.i{}", sent.sequence)),
            StepKind::Checkpoint | StepKind::Wait => return Err(refused(422, "INVALID_REQUEST")),
        }
        let mut view: StepView = read(view);
        view.request = sent.request.clone();
        self.granted_to.insert(sent.sequence, lease.to_owned());
        self.steps.insert(sent.sequence, view);
        Ok(self.answer(sent.sequence))
    }

    fn end(&mut self, lease: &str, sent: &StepInput) -> Result<StepAnswer, Error> {
        if self.granted_to.get(&sent.sequence).is_none_or(|l| l != lease) {
            return Err(refused(409, "WRITE_AHEAD_REQUIRED"));
        }
        let step = self.steps.get_mut(&sent.sequence).unwrap();
        if step.state != StepState::Started {
            return Err(refused(409, "STEP_FINISHED"));
        }
        step.state = sent.state;
        step.result = sent.result.clone();
        if self.live.as_deref() != Some(lease) {
            self.late.push(sent.sequence);
        }
        Ok(self.answer(sent.sequence))
    }

    fn answer(&self, sequence: u32) -> StepAnswer {
        let step = &self.steps[&sequence];
        let mut answer: StepAnswer = read(
            json!({ "sequence": sequence, "kind": step.kind, "state": step.state, "policy": step.policy,
                "toolRef": step.tool_ref, "idempotencyKey": step.idempotency_key,
                "childInstanceId": step.child_instance_id }),
        );
        answer.arguments = step.arguments.clone();
        answer.result = step.result.clone();
        answer
    }
}

#[async_trait]
impl Engine for Memory {
    async fn steps(&self, lease: &str, request: &StepsRequest) -> Result<StepsAnswer, Error> {
        let (_, sent) = request.clone().into_steps().unwrap();
        self.with(|state| {
            let mut steps = Vec::new();
            for step in &sent {
                let answer = if step.state == StepState::Started {
                    state.begin(lease, step)
                } else {
                    state.end(lease, step)
                };
                steps.push(answer?);
            }
            Ok(StepsAnswer {
                steps,
                task: state.status(),
            })
        })
    }

    async fn list_steps(&self, _lease: &str, after: u32) -> Result<StepList, Error> {
        self.with(|state| {
            let rest: Vec<StepView> = state.steps.range(after + 1..).map(|(_, s)| s.clone()).collect();
            let steps: Vec<StepView> = rest.iter().take(state.page).cloned().collect();
            let after = (rest.len() > state.page).then(|| steps.last().map_or(0, |s| s.sequence));
            Ok(StepList {
                attempt: 1,
                steps,
                after,
            })
        })
    }

    async fn heartbeat(&self, lease: &str, _request: &HeartbeatRequest) -> Result<(), Error> {
        self.with(|state| state.check(lease))
    }

    async fn park(&self, lease: &str, _request: &ParkRequest) -> Result<ParkAnswer, Error> {
        self.with(|state| {
            state.check(lease)?;
            let task = state.status();
            Ok(ParkAnswer {
                task,
                steps: state.steps.values().cloned().collect(),
            })
        })
    }

    async fn complete(&self, lease: &str, request: &CompleteRequest) -> Result<ClosedAnswer, Error> {
        self.with(|state| {
            state.check(lease)?;
            if let Some(problem) = state.refusals.pop_front() {
                return Err(Error::Rejected(Box::new(problem)));
            }
            state.completed.push(request.clone());
            state.retired = true;
            Ok(closed(TaskState::Completed))
        })
    }

    async fn failure(&self, lease: &str, request: &FailureRequest) -> Result<ClosedAnswer, Error> {
        self.with(|state| {
            state.check(lease)?;
            state.failures.push(request.clone());
            state.live = None;
            Ok(closed(TaskState::Open))
        })
    }

    async fn release(&self, lease: &str, request: &ReleaseRequest) -> Result<ClosedAnswer, Error> {
        self.with(|state| {
            state.check(lease)?;
            state.releases.push(request.clone());
            state.live = None;
            Ok(closed(TaskState::Open))
        })
    }
}

fn closed(state: TaskState) -> ClosedAnswer {
    ClosedAnswer {
        state,
        attempt: None,
        available_at: None,
        incident_id: None,
    }
}

/// What a child returned.
pub(super) fn outputs(value: &Value) -> Option<Json> {
    Some(raw_of(value))
}
