//! What a journal decision may know beside the task: the frozen node, the instance's place in its tree, payloads.

use legation_language::model::{Agent, Delegate, EngineTask, ToolBinding};
use legation_language::types::SchemaCheck;

use crate::content::Payloads;
use crate::ids::InstanceId;

/// The frozen node, which says what its steps may do (D38).
#[derive(Clone, Copy, Debug)]
pub enum Bindings<'a> {
    Agent(&'a Agent),
    EngineTask(&'a EngineTask),
}

impl<'a> Bindings<'a> {
    /// Only agents have tools; a handler calls what it likes and journals it as a checkpoint.
    #[must_use]
    pub fn tools(&self) -> &'a [ToolBinding] {
        match self {
            Self::Agent(agent) => &agent.tools,
            Self::EngineTask(_) => &[],
        }
    }

    #[must_use]
    pub fn delegates(&self) -> &'a [Delegate] {
        match self {
            Self::Agent(agent) => &agent.delegates,
            Self::EngineTask(task) => &task.delegates,
        }
    }

    /// Steps per attempt.
    #[must_use]
    pub fn max_steps(&self) -> u32 {
        match self {
            Self::Agent(agent) => agent.max_steps,
            Self::EngineTask(task) => task.max_steps,
        }
    }

    /// Running children of one task.
    #[must_use]
    pub fn max_concurrent(&self) -> u32 {
        match self {
            Self::Agent(agent) => agent.max_concurrent,
            Self::EngineTask(task) => task.max_concurrent,
        }
    }
}

/// Everything that a journal decision reads beside the task itself.
#[derive(Clone, Copy)]
pub struct JournalContext<'a> {
    pub node: Bindings<'a>,
    pub instance_id: &'a InstanceId,
    /// Of the instance that holds the task; a root is at 0.
    pub depth: u32,
    /// The deepest that a child may be (architecture §7.3).
    pub max_depth: u32,
    /// Process keys of the instance and its ancestors.
    pub chain: &'a [String],
    pub schemas: &'a dyn SchemaCheck,
    pub payloads: &'a Payloads,
    /// Epoch ms.
    pub now: i64,
}
