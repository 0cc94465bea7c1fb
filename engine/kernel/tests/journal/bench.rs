//! One task with its journal, the node it belongs to, and workers that hold leases.

use std::collections::BTreeMap;

use legation_kernel::content::Payloads;
use legation_kernel::effect::{Effect, HumanTask, Incident};
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::instance::Status;
use legation_kernel::journal::{
    self, Bindings, Call, ChildEnd, Decided, Decision, JournalContext, Record, Recorded, Settled, Step,
    StepInput, StepKind, StepState,
};
use legation_kernel::rejection::{Rejection, Stop};
use legation_kernel::task::{self, Caller, TASK_FORMAT, Task, TaskFile, TaskState};
use legation_language::Value;
use legation_language::model::{
    Agent, Approval, Declaration, Delegate, EngineTask, OnParentEnd, Policy, ToolBinding, Type,
};
use legation_language::template::Template;
use legation_language::types::NoSchemas;

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

pub fn refusal(stop: Stop) -> Rejection {
    match stop {
        Stop::Rejected(refusal) => *refusal,
        other => panic!("{other:?}"),
    }
}

pub fn decision(by: &str, approved: bool, comment: Option<&str>, digest: &str) -> Decision {
    Decision {
        approved,
        by: by.to_owned(),
        comment: comment.map(str::to_owned),
        digest: digest.to_owned(),
    }
}

pub fn object(json: &str) -> Value {
    Value::parse(json).unwrap()
}

pub fn refund() -> Value {
    object(r#"{"orderId":"5531","amount":89,"currency":"EUR"}"#)
}

fn input(sequence: u32, kind: StepKind, tool_ref: &str, request: Value) -> StepInput {
    StepInput {
        sequence,
        kind,
        state: StepState::Started,
        tool_ref: tool_ref.to_owned(),
        call: None,
        call_id: None,
        request,
        result: None,
        once: false,
    }
}

pub fn model(sequence: u32) -> StepInput {
    let request = Value::map([("added", Value::list([Value::from(sequence)]))]);
    input(sequence, StepKind::Model, "model:gemini-3.6-flash", request)
}

pub fn tool(sequence: u32, tool_ref: &str, arguments: Value) -> StepInput {
    input(
        sequence,
        StepKind::Tool,
        tool_ref,
        Value::map([("arguments", arguments)]),
    )
}

pub fn delegation(sequence: u32, process: &str, arguments: Value) -> StepInput {
    input(
        sequence,
        StepKind::Delegation,
        &format!("delegate:{process}"),
        Value::map([("arguments", arguments)]),
    )
}

pub fn checkpoint(sequence: u32, once: bool) -> StepInput {
    let request = Value::map([("once", Value::from(once))]);
    StepInput {
        once,
        ..input(sequence, StepKind::Checkpoint, "step:fetch", request)
    }
}

pub fn wait(sequence: u32, ms: i64) -> StepInput {
    input(
        sequence,
        StepKind::Wait,
        "wait",
        Value::map([("durationMs", Value::from(ms))]),
    )
}

pub fn with(step: StepInput, state: StepState, result: Option<Value>) -> StepInput {
    StepInput {
        state,
        result,
        ..step
    }
}

pub fn done(step: StepInput, result: Value) -> StepInput {
    with(step, StepState::Completed, Some(result))
}

pub fn at(step: StepInput, turn: u32, index: u32) -> StepInput {
    StepInput {
        call: Some(Call { step: turn, index }),
        ..step
    }
}

pub fn said(calls: &[(&str, Value)], tokens: u64) -> Value {
    let calls = calls.iter().map(|(tool, arguments)| {
        Value::map([
            ("tool", Value::from(*tool)),
            ("arguments", arguments.clone()),
            ("callId", Value::from("call_0")),
        ])
    });
    let usage = Value::map([
        ("inputTokens", Value::from(tokens)),
        ("outputTokens", Value::from(0u64)),
    ]);
    Value::map([
        ("calls", Value::list(calls)),
        ("usage", usage),
        ("model", Value::from("gemini-3.6-flash")),
    ])
}

pub fn completed(outputs: &[(&str, Value)]) -> ChildEnd {
    ChildEnd {
        status: Status::Completed,
        outputs: outputs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        unset: Vec::new(),
        message: None,
        error: None,
    }
}

pub fn ended(status: Status, error: Option<&str>) -> ChildEnd {
    ChildEnd {
        status,
        outputs: BTreeMap::new(),
        unset: Vec::new(),
        message: None,
        error: error.map(str::to_owned),
    }
}

fn task(id: TaskId) -> Task {
    Task {
        format: TASK_FORMAT,
        id,
        token: 1,
        node: "triage".to_owned(),
        topic: "agent".to_owned(),
        agent: true,
        priority: 0,
        created_at: 999_000,
        attempt: 1,
        tries: 0,
        lease_no: 0,
        lease: None,
        available_at: None,
        parked: false,
        expiries: 0,
        deferrals: 0,
        invalid_outputs: 0,
        retired: None,
        incident: None,
        closing: None,
        idempotency_key: String::new(),
        inputs: None,
        traceparent: None,
        next_settled: 1,
        journal_bytes: 0,
        tokens_used: 0,
        news: false,
    }
}

fn agent() -> Agent {
    Agent {
        topic: "agent".to_owned(),
        model: Some("gemini-3.6-flash".to_owned()),
        fallback_models: Vec::new(),
        prompt: Template::parse("Handle the complaint.").unwrap(),
        instructions: None,
        prompt_version: "0123456789ab".to_owned(),
        tools: vec![
            binding("crm", "get_customer", Policy::Read, true),
            binding("crm", "create_ticket", Policy::Write, false),
            binding("pay", "refund", Policy::Write, true),
            ToolBinding {
                approval: Some(finance()),
                ..binding("pay", "transfer", Policy::ApprovalRequired, true)
            },
        ],
        delegates: vec![
            delegate("refund_payout", None),
            delegate("large_payout", Some(finance())),
            Delegate {
                max_depth: Some(1),
                ..delegate("shallow", None)
            },
        ],
        result_variable: "triage_result".to_owned(),
        output_schema: None,
        confidence_threshold: None,
        on_low_confidence: None,
        on_invalid_output: None,
        outcomes: Vec::new(),
        temperature: None,
        max_tokens: 1024,
        model_timeout_ms: None,
        max_turns: 8,
        max_steps: 256,
        max_tokens_total: Some(50_000),
        max_concurrent: 4,
    }
}

fn finance() -> Approval {
    Approval {
        groups: vec!["finance".to_owned()],
        users: Vec::new(),
    }
}

fn binding(server: &str, tool: &str, policy: Policy, idempotent: bool) -> ToolBinding {
    ToolBinding {
        server: server.to_owned(),
        tool: tool.to_owned(),
        function: format!("{server}__{tool}"),
        policy,
        idempotent,
        approval: None,
        description: None,
        input_schema_sha256: None,
        timeout_ms: None,
    }
}

fn delegate(process: &str, approval: Option<Approval>) -> Delegate {
    let declare = |name: &str, kind: Type, required: bool, default: Option<Value>| Declaration {
        name: name.to_owned(),
        kind,
        input: true,
        required,
        nullable: false,
        locked: true,
        sensitive: false,
        default,
        choices: None,
        schema: None,
        description: None,
    };
    Delegate {
        process: process.to_owned(),
        version: 7,
        function: format!("delegate__{process}"),
        description: String::new(),
        inputs: vec![
            declare("orderId", Type::String, true, None),
            declare("amount", Type::Number, true, None),
            declare("currency", Type::String, false, Some(Value::from("EUR"))),
        ],
        parameters: Value::Null,
        outputs: vec!["payout_id".to_owned()],
        approval,
        max_depth: None,
        on_parent_end: OnParentEnd::Cancel,
        closing_agent: false,
    }
}
