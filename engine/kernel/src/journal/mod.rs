//! The journal: one conversation or one handler run, as steps that are granted before they run (core §4).

mod accept;
mod approve;
mod check;
mod children;
mod context;
mod create;
mod grant;
mod record;
mod resolve;
mod reuse;
mod settle;
mod states;
mod turn;

use legation_language::Value;
use legation_language::model::Policy;
use serde::{Deserialize, Serialize};

use crate::content::PayloadRef;
use crate::ids::{InstanceId, TaskId};

pub use approve::{Decided, Decision, decide};
pub use children::{ChildEnd, ChildStart, settle_child, start_queued};
pub use context::{Bindings, JournalContext};
pub use record::{Record, Recorded, StepAnswer, record};
pub(crate) use resolve::declare_unknown;
pub use resolve::resolve_unknown;
pub(crate) use settle::finish;
pub use settle::{Settled, settle_wait};
pub(crate) use states::shift;
pub use states::{Mover, STATES, Verdict, judge};

/// The most bytes that one request or result may have (D36).
pub const MAX_PAYLOAD_BYTES: u64 = 1024 * 1024;

/// The most bytes of requests and results that a task's journal may have before new steps are refused.
pub const MAX_JOURNAL_BYTES: u64 = 16 * 1024 * 1024;

/// What kind of thing a step is. INPUT, SUBAGENT, COMPOSITE and PLAN are reserved.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepKind {
    Model,
    Tool,
    Delegation,
    Checkpoint,
    Wait,
}

/// D35, core §5.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepState {
    Started,
    Proposed,
    Approved,
    Rejected,
    Completed,
    Failed,
    Refused,
    OutcomeUnknown,
    Withdrawn,
}

/// A step of a task's journal: one row per (task, attempt, sequence).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Step {
    pub task: TaskId,
    pub attempt: u32,
    /// From 1, gap-free in an attempt.
    pub sequence: u32,
    pub kind: StepKind,
    pub state: StepState,
    /// A delegation over `max_concurrent`, STARTED but without a child yet.
    pub queued: bool,
    /// `server/tool`, `delegate:process`, `model:name`, `step:name`, `wait`.
    pub tool_ref: String,
    /// The model step and the place in its turn that asked for this.
    pub call: Option<Call>,
    /// For display only; in no digest.
    pub call_id: Option<String>,
    /// Identity: kind, target, arguments as sent.
    pub request_digest: String,
    /// What is approved and run: kind, target with pinned version, effective arguments.
    pub effective_digest: Option<String>,
    /// The request as sent (an object `{arguments}`, `{argumentsText}`, or a MODEL request).
    pub request: PayloadRef,
    /// Effective arguments when they differ from the request's.
    pub effective: Option<PayloadRef>,
    pub result: Option<PayloadRef>,
    /// A result that came too late: kept and shown, never used.
    pub late_result: Option<PayloadRef>,
    pub policy: Option<Policy>,
    /// A write without idempotency key, or a checkpoint with `once`.
    pub unkeyed: bool,
    /// `sha256(taskId:attempt:sequence)` for writes (D39).
    pub key: Option<String>,
    /// The lease that holds the grant.
    pub grant: Option<(u32, String)>,
    /// Leases that held the grant before: what they still deliver is kept as `late_result`.
    #[serde(default)]
    pub earlier_grants: Vec<(u32, String)>,
    /// Place in the task's order of completion.
    pub settled: Option<u32>,
    /// Answered by this step of an earlier attempt (D40).
    pub reused_from: Option<(u32, u32)>,
    pub child: Option<InstanceId>,
    /// Local number of the approval (a human task that is no node).
    pub approval: Option<u32>,
    pub decided_by: Option<String>,
    pub comment: Option<String>,
    /// Local number of the incident or notice about an unknown outcome.
    #[serde(default)]
    pub incident: Option<u32>,
    /// Who declared an unknown outcome, and how.
    pub resolved_by: Option<String>,
    /// Code of a refusal or failure.
    pub code: Option<String>,
    pub reason: Option<String>,
    /// MODEL: what the turn asked for, to match calls without loading the result.
    pub calls: Vec<TurnCall>,
    /// MODEL: tokens.
    pub usage: Option<Usage>,
    /// WAIT: due time (epoch ms) and the timer's local number.
    pub wait: Option<(i64, u32)>,
    pub started_at: i64,
    pub ended_at: Option<i64>,
}

/// Names a call of a model turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Call {
    pub step: u32,
    pub index: u32,
}

/// One call of a model turn: function name and the digest of its arguments.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct TurnCall {
    /// The function name as the model said it.
    pub tool: String,
    pub arguments_digest: String,
}

/// Tokens of one model turn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usage {
    pub input: u64,
    pub output: u64,
}

/// One step as a worker sends it.
#[derive(Clone, Debug, PartialEq)]
pub struct StepInput {
    pub sequence: u32,
    pub kind: StepKind,
    pub state: StepState,
    pub tool_ref: String,
    pub call: Option<Call>,
    pub call_id: Option<String>,
    /// The `request` object without `callId`.
    pub request: Value,
    pub result: Option<Value>,
    /// CHECKPOINT: outcome unknown after a crash instead of a repeat.
    pub once: bool,
}

/// What a step means to its task (core §3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// The worker must act.
    Granted,
    /// A person, a child, a timer or an operator must act.
    Waiting,
    Settled,
}

impl Step {
    #[must_use]
    pub fn standing(&self) -> Standing {
        match self.state {
            StepState::Started => match self.kind {
                StepKind::Model | StepKind::Tool | StepKind::Checkpoint => Standing::Granted,
                StepKind::Delegation | StepKind::Wait => Standing::Waiting,
            },
            StepState::Approved => Standing::Granted,
            StepState::Proposed | StepState::OutcomeUnknown => Standing::Waiting,
            StepState::Completed
            | StepState::Failed
            | StepState::Rejected
            | StepState::Refused
            | StepState::Withdrawn => Standing::Settled,
        }
    }

    #[must_use]
    pub fn is_settled(&self) -> bool {
        self.standing() == Standing::Settled
    }

    /// A tool call that changes the world, or a checkpoint that must not run twice.
    #[must_use]
    pub fn is_write(&self) -> bool {
        self.unkeyed
            || (self.kind == StepKind::Tool
                && matches!(self.policy, Some(Policy::Write | Policy::ApprovalRequired)))
    }

    /// Handed to a worker, not heard of since, and not safe to send again (D39).
    #[must_use]
    pub fn is_in_doubt(&self) -> bool {
        self.unkeyed && self.state == StepState::Started && self.grant.is_some()
    }
}

/// Takes the next free local number of the instance: `numbers` always holds the next one.
pub(crate) fn number(numbers: &mut u32) -> u32 {
    let taken = *numbers;
    *numbers += 1;
    taken
}
