//! The first aggregate: an instance, moved by tokens. Only [`apply()`] changes one (I2).

mod apply;
mod event;

use std::collections::{BTreeMap, BTreeSet};

use legation_language::model::Definition;
use serde::{Deserialize, Serialize};

pub(crate) use apply::apply_started;
pub use apply::{apply, replay};
pub use event::{Event, Guard, Started};

use crate::content::Content;
use crate::ids::{InstanceId, TaskId};

/// The format that this engine writes; readers upcast older ones and refuse newer ones (core §1).
pub const INSTANCE_FORMAT: u32 = 1;

/// An instance of a process: snapshot v1.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Instance {
    pub format: u32,
    pub id: InstanceId,
    pub project: String,
    pub process: String,
    pub version: u32,
    pub status: Status,
    #[serde(default)]
    pub suspended: bool,
    /// CANCELLING: what it ends as when nothing below it runs any more; None: CANCELLED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ending: Option<Box<Ending>>,
    /// Why it was cancelled or failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The code of the error end that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The principal that started the root.
    pub initiator: String,
    pub started_at: i64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<i64>,
    pub updated_at: i64,
    /// 0 for a root, counted along the lineage.
    pub depth: u32,
    /// Process keys from the root down to this instance.
    pub chain: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<Parent>,
    /// Something sensitive came in from a parent or a child: see [`holds_secrets`](Self::holds_secrets).
    #[serde(default, skip_serializing_if = "is_false")]
    pub sealed: bool,
    /// Scope 0 is the process; its variables are the instance's.
    pub scopes: BTreeMap<u32, Scope>,
    pub tokens: BTreeMap<u32, Token>,
    /// Children that run, by their local number.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub children: BTreeMap<u32, Child>,
    /// Open human tasks and approvals, by local number.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub humans: BTreeSet<u32>,
    /// Armed timers: local number to due time.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub timers: BTreeMap<u32, i64>,
    /// Open incidents that hold something; notices are not counted.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub incidents: BTreeSet<u32>,
    pub next_local: u32,
    /// The rendered `closing` of the end that was reached.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Content>,
    /// One per command that changed it.
    pub revision: u64,
}

impl Instance {
    /// The variable map of the instance itself.
    #[must_use]
    pub fn variables(&self) -> &BTreeMap<String, Variable> {
        &self.scopes[&0].variables
    }

    /// Whether any value of it is sensitive, or will be. Then whatever was computed from its values, or came back
    /// together with them, may be that too, and is kept as a payload.
    #[must_use]
    pub fn holds_secrets(&self, definition: &Definition) -> bool {
        let mut declared = definition.variables.iter().chain(&definition.outputs);
        self.sealed
            || declared.any(|declared| declared.sensitive)
            || self.variables().values().any(|variable| variable.sensitive)
    }

    /// Whether nothing may move it any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.status.is_over()
    }

    /// Whether it is ending, and waits only for what ends below it.
    #[must_use]
    pub fn is_ending(&self) -> bool {
        self.status == Status::Cancelling
    }

    /// The token that waits for this external task.
    #[must_use]
    pub fn token_of_task(&self, task: u32) -> Option<u32> {
        self.tokens.iter().find_map(|(id, token)| match token.state {
            TokenState::Waiting(Wait::Task { task: waited }) if waited == task => Some(*id),
            _ => None,
        })
    }
}

/// Where an instance stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum Status {
    Running,
    Cancelling,
    Compensating,
    Completed,
    Failed,
    Cancelled,
}

impl Status {
    #[must_use]
    pub fn is_over(self) -> bool {
        match self {
            Self::Running | Self::Cancelling | Self::Compensating => false,
            Self::Completed | Self::Failed | Self::Cancelled => true,
        }
    }

    /// As it is written everywhere.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Running => "RUNNING",
            Self::Cancelling => "CANCELLING",
            Self::Compensating => "COMPENSATING",
            Self::Completed => "COMPLETED",
            Self::Failed => "FAILED",
            Self::Cancelled => "CANCELLED",
        }
    }
}

/// How an instance ends that still waits for the end of what runs below it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ending {
    pub status: Status,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<Failure>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<Content>,
}

/// A code with its finer word.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failure {
    pub code: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Who started a child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Parent {
    pub instance: InstanceId,
    pub node: String,
    pub cause: Cause,
}

/// A call-process token, or a step of an agent's or worker's journal (`startedByAgent`, D12).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    Token(u32),
    Step {
        task: TaskId,
        attempt: u32,
        sequence: u32,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        model: Option<String>,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        prompt_version: Option<String>,
    },
}

/// A scope of variables. Only the root scope exists so far; the tree is in the format from the start.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scope {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub index: Option<u32>,
    #[serde(default)]
    pub variables: BTreeMap<String, Variable>,
}

/// A variable with its origin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Variable {
    pub content: Content,
    #[serde(default, skip_serializing_if = "is_false")]
    pub locked: bool,
    #[serde(default, skip_serializing_if = "is_false")]
    pub sensitive: bool,
    /// The instance's revision that wrote it.
    pub revision: u64,
    pub source: Source,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_false(value: &bool) -> bool {
    !*value
}

/// Which step or command wrote a value.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Source {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task: Option<TaskId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// A token: where the flow stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Token {
    pub scope: u32,
    pub node: String,
    /// New for every entering of a node.
    pub activity: u32,
    /// The forks it came through, outermost first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forks: Vec<u32>,
    /// The node it arrived from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    pub entered_at: i64,
    pub state: TokenState,
    /// The armed `on_timeout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<u32>,
    /// The armed `start_within` of the task it waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub alarm: Option<u32>,
}

/// What a token does now.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TokenState {
    /// The next `advance` runs its node.
    Ready,
    Waiting(Wait),
    /// Held by an incident of its own.
    Stuck(Stuck),
}

/// What a token waits for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Wait {
    Task { task: u32 },
    Human { human: u32 },
    Timer { timer: u32 },
    Child { child: u32 },
    Join,
}

/// A token that an incident holds, and where a retry takes it up again. Finished work is never run again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Stuck {
    pub incident: u32,
    pub resume: Resume,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Resume {
    /// Enter the node again.
    Enter,
    /// The work is done; only its result could not be taken over.
    Leave {
        result: Content,
        outcome: Option<String>,
        source: Source,
    },
}

/// A running child.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Child {
    pub process: String,
    /// The external task and step that started it; None for a call-process token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub step: Option<(u32, u32, u32)>,
}
