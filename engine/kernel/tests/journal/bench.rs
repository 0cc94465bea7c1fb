//! One task with its journal, the node it belongs to, and workers that hold leases.

use std::collections::BTreeMap;

use legation_kernel::content::Payloads;
use legation_kernel::effect::{Effect, HumanTask, Incident};
use legation_kernel::ids::InstanceId;
use legation_kernel::journal::{
    self, Bindings, ChildEnd, Decided, Decision, JournalContext, Record, Recorded, Settled, Step, StepInput,
    StepState,
};
use legation_kernel::rejection::{Rejection, Stop};
use legation_kernel::task::{self, Caller, TaskFile, TaskState};
use legation_language::Value;
use legation_language::model::{Agent, EngineTask};
use legation_language::types::NoSchemas;

use crate::fixtures::{agent, task};
pub use crate::messages::*;

pub const LOCK_MS: i64 = 10_000;

pub struct Bench {
    pub file: TaskFile,
    pub agent: Agent,
    /// Set: the node is an engine-task, and the journal a handler's.
    pub handler: Option<EngineTask>,
    pub instance: InstanceId,
    pub chain: Vec<String>,
    pub depth: u32,
    pub payloads: Payloads,
    pub numbers: u32,
    pub now: i64,
    /// Everything that was effected, in order.
    pub effects: Vec<Effect>,
}

impl Bench {
    pub fn new() -> Self {
        let instance = InstanceId("0123456789abcdef0123456789abcdef".to_owned());
        Self {
            file: TaskFile {
                task: task(instance.task(3)),
                steps: Vec::new(),
            },
            agent: agent(),
            handler: None,
            instance,
            chain: vec!["complaint".to_owned()],
            depth: 0,
            payloads: Payloads::default(),
            numbers: 4,
            now: 1_000_000,
            effects: Vec::new(),
        }
    }

    pub fn handler() -> Self {
        let mut bench = Self::new();
        bench.handler = Some(EngineTask {
            service: "triage".to_owned(),
            priority: 0,
            start_within_ms: None,
            headers: BTreeMap::new(),
            delegates: agent().delegates,
            max_steps: 10_000,
            max_concurrent: 4,
        });
        bench
    }

    /// A worker leases the task, whatever its claim time says.
    pub fn lease(&mut self, worker: &str) -> Caller {
        let number = self.file.task.lease_no + 1;
        let random = format!("r{number}");
        task::take(&mut self.file.task, worker, "key-1", &random, LOCK_MS, self.now);
        Caller {
            worker: worker.to_owned(),
            credential: "key-1".to_owned(),
            lease: Some((number, random)),
            arrived_at: self.now,
        }
    }

    /// The same worker, later.
    pub fn later(&mut self, caller: &Caller, ms: i64) -> Caller {
        self.now += ms;
        Caller {
            arrived_at: self.now,
            ..caller.clone()
        }
    }

    pub fn decide<R>(
        &mut self,
        act: impl FnOnce(&JournalContext<'_>, &mut TaskFile, &mut u32, &mut Vec<Effect>) -> R,
    ) -> R {
        let cx = JournalContext {
            node: match &self.handler {
                Some(handler) => Bindings::EngineTask(handler),
                None => Bindings::Agent(&self.agent),
            },
            instance_id: &self.instance,
            depth: self.depth,
            max_depth: 4,
            chain: &self.chain,
            schemas: &NoSchemas,
            payloads: &self.payloads,
            now: self.now,
        };
        let mut out = Vec::new();
        let answer = act(&cx, &mut self.file, &mut self.numbers, &mut out);
        self.keep(out);
        answer
    }

    pub fn keep(&mut self, out: Vec<Effect>) {
        for effect in &out {
            if let Effect::Payload(new) = effect {
                self.payloads.insert(new.digest.clone(), new.value.clone());
            }
        }
        self.effects.extend(out);
    }

    pub fn record(&mut self, caller: &Caller, single: bool, steps: Vec<StepInput>) -> Result<Recorded, Stop> {
        let record = Record {
            caller: caller.clone(),
            attempt: self.file.task.attempt,
            single,
            steps,
        };
        self.decide(|cx, file, numbers, out| journal::record(cx, file, &record, numbers, out))
    }

    /// Sends one step in the single form.
    pub fn send(&mut self, caller: &Caller, step: StepInput) -> Result<Recorded, Rejection> {
        self.record(caller, true, vec![step]).map_err(refusal)
    }

    /// Sends a batch.
    pub fn batch(&mut self, caller: &Caller, steps: Vec<StepInput>) -> Result<Recorded, Rejection> {
        self.record(caller, false, steps).map_err(refusal)
    }

    pub fn code(&mut self, caller: &Caller, step: StepInput) -> &'static str {
        let before = (self.file.clone(), self.numbers, self.effects.len());
        let code = self.send(caller, step).unwrap_err().code;
        assert_eq!(
            before,
            (self.file.clone(), self.numbers, self.effects.len()),
            "{code} left a trace"
        );
        code
    }

    /// A completed model turn that asked for these calls.
    pub fn turn(&mut self, caller: &Caller, sequence: u32, calls: &[(&str, Value)]) {
        self.send(caller, model(sequence)).unwrap();
        self.send(caller, done(model(sequence), said(calls, 10))).unwrap();
    }

    pub fn step(&self, sequence: u32) -> &Step {
        self.file.step(self.file.task.attempt, sequence).unwrap()
    }

    pub fn state(&self, sequence: u32) -> StepState {
        self.step(sequence).state
    }

    pub fn status(&self) -> TaskState {
        task::status(&self.file, self.now)
    }

    pub fn result(&self, sequence: u32) -> Value {
        self.payloads
            .get(&self.step(sequence).result.as_ref().unwrap().digest)
            .unwrap()
            .clone()
    }

    pub fn child_ends(&mut self, child: &InstanceId, end: &ChildEnd) -> (Settled, Vec<InstanceId>) {
        let now = self.now;
        self.decide(|cx, file, numbers, out| {
            let settled = journal::settle_child(file, child, end, now, out).unwrap();
            let started = journal::start_queued(cx, file, numbers, out).unwrap();
            (settled, started.into_iter().map(|start| start.child).collect())
        })
    }

    pub fn approvals(&self) -> Vec<&HumanTask> {
        let opened = self.effects.iter();
        opened
            .filter_map(|effect| {
                if let Effect::OpenHuman(human) = effect {
                    Some(&**human)
                } else {
                    None
                }
            })
            .collect()
    }

    pub fn incidents(&self) -> Vec<&Incident> {
        let opened = self.effects.iter();
        opened
            .filter_map(|effect| {
                if let Effect::OpenIncident(one) = effect {
                    Some(&**one)
                } else {
                    None
                }
            })
            .collect()
    }

    /// `alice` decides the approval of a step.
    pub fn decide_step(
        &mut self,
        sequence: u32,
        approved: bool,
        comment: Option<&str>,
    ) -> Result<Decided, Rejection> {
        let digest = self.step(sequence).effective_digest.clone().unwrap();
        self.decide_as(sequence, &decision("alice", approved, comment, &digest))
    }

    pub fn decide_as(&mut self, sequence: u32, decision: &Decision) -> Result<Decided, Rejection> {
        let (approval, now) = (self.step(sequence).approval.unwrap(), self.now);
        self.decide(|cx, file, numbers, out| journal::decide(cx, file, approval, decision, now, numbers, out))
            .map_err(refusal)
    }

    pub fn resolve(
        &mut self,
        sequence: u32,
        performed: bool,
        result: Option<Value>,
    ) -> Result<(), Rejection> {
        let (attempt, now) = (self.file.task.attempt, self.now);
        self.decide(|_, file, _, out| {
            journal::resolve_unknown(
                file,
                attempt,
                sequence,
                performed,
                result,
                "seen in the bank",
                "olga",
                now,
                out,
            )
        })
    }

    pub fn lapse(&mut self) -> task::LapseOutcome {
        let now = self.now;
        self.decide(|_, file, numbers, out| task::lapse(file, now, numbers, out))
    }
}
