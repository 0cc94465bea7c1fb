//! Everything that may be asked of a tree: one file per command, one `match`. A command is all or nothing (I3).

mod cancel;
mod child_done;
mod complete;
mod durable;
mod error;
mod failure;
mod human;
mod incident;
mod journal;
mod lapse;
mod lease;
mod start;
mod timer;

use std::collections::BTreeMap;

use legation_language::Value;

use crate::effect::Held;
use crate::ending::stop_below;
use crate::ids::{InstanceId, TaskId, owner_of};
use crate::instance::Status;
use crate::journal::{Record, Recorded};
use crate::rejection::Stop;
use crate::task::{self, Caller, TaskState, Waiting};
use crate::work::Work;

pub use durable::DURABLE_COMMAND_FAILED;
pub use human::Person;

/// A command to one tree.
#[derive(Clone, Debug, PartialEq)]
pub enum Command {
    Start(Box<StartInstance>),
    Complete {
        task: TaskId,
        caller: Caller,
        completion: Completion,
    },
    Failure {
        task: TaskId,
        caller: Caller,
        failure: task::Failure,
    },
    Error {
        task: TaskId,
        caller: Caller,
        error: BusinessError,
    },
    Release {
        task: TaskId,
        caller: Caller,
        after_ms: Option<i64>,
        reason: Option<String>,
    },
    Park {
        task: TaskId,
        caller: Caller,
    },
    Heartbeat {
        task: TaskId,
        caller: Caller,
        duration_ms: i64,
    },
    Unlock {
        task: TaskId,
    },
    Steps {
        task: TaskId,
        record: Record,
    },
    Decide {
        human: String,
        task: TaskId,
        person: Person,
        approved: bool,
        comment: Option<String>,
        digest: Option<String>,
    },
    CompleteHuman {
        human: String,
        person: Person,
        outcome: Option<String>,
        variables: BTreeMap<String, Value>,
        comment: Option<String>,
    },
    FireTimer {
        timer: String,
    },
    ChildDone {
        child: InstanceId,
    },
    Continue {
        instance: InstanceId,
    },
    /// A durable command for this instance failed too often: an incident holds its row.
    GiveUp {
        instance: InstanceId,
        held: Held,
        message: String,
    },
    /// A durable command for this instance that nobody can read.
    Unreadable {
        instance: InstanceId,
    },
    Lapse {
        task: TaskId,
    },
    Cancel {
        instance: InstanceId,
        reason: String,
    },
    RetryIncident {
        target: IncidentTarget,
    },
    ResolveIncident {
        target: IncidentTarget,
        performed: bool,
        result: Option<Value>,
        comment: String,
    },
}

/// A start by a person, a service or a schedule: always a new root.
#[derive(Clone, Debug, PartialEq)]
pub struct StartInstance {
    pub id: InstanceId,
    pub project: String,
    pub process: String,
    pub version: u32,
    pub business_key: Option<String>,
    pub labels: BTreeMap<String, String>,
    pub variables: BTreeMap<String, Value>,
}

/// What a worker completes with.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    Variables(BTreeMap<String, Value>),
    /// Agents: text, or the object of the output schema, and the outcome.
    Result {
        result: Value,
        outcome: Option<String>,
    },
}

/// A business error by code.
#[derive(Clone, Debug, PartialEq)]
pub struct BusinessError {
    pub code: String,
    pub message: Option<String>,
    pub variables: BTreeMap<String, Value>,
}

/// An incident as its row names it; the row's facts never change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IncidentTarget {
    pub id: String,
    pub instance: InstanceId,
    pub task: Option<TaskId>,
    pub attempt: Option<u32>,
    pub sequence: Option<u32>,
    pub notice: bool,
}

/// What a command answers.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Started {
        id: InstanceId,
        status: Status,
    },
    /// A closing call took effect.
    Closed {
        state: TaskState,
        attempt: u32,
        available_at: Option<i64>,
        incident: Option<u32>,
    },
    /// 422 `INVALID_OUTPUT`: counted, so it commits although it refuses.
    InvalidOutput {
        errors: Vec<String>,
    },
    Parked {
        state: TaskState,
        waiting: Vec<Waiting>,
        news: bool,
    },
    Lease {
        until: i64,
    },
    Steps {
        recorded: Box<Recorded>,
        state: TaskState,
        waiting: Vec<Waiting>,
    },
    Decided {
        child: Option<InstanceId>,
    },
    Ended {
        status: Status,
    },
    Done,
    /// Nothing was there to do: a durable command whose cause is gone.
    Nothing,
}

impl Command {
    /// The root whose lock this command needs.
    #[must_use]
    pub fn root(&self) -> &str {
        match self {
            Self::Start(start) => start.id.root(),
            Self::Complete { task, .. }
            | Self::Failure { task, .. }
            | Self::Error { task, .. }
            | Self::Release { task, .. }
            | Self::Park { task, .. }
            | Self::Heartbeat { task, .. }
            | Self::Unlock { task }
            | Self::Steps { task, .. }
            | Self::Lapse { task } => task.root(),
            Self::Decide { human, .. } | Self::CompleteHuman { human, .. } => crate::ids::root_of(human),
            Self::FireTimer { timer } => crate::ids::root_of(timer),
            Self::ChildDone { child } => child.root(),
            Self::Continue { instance }
            | Self::GiveUp { instance, .. }
            | Self::Unreadable { instance }
            | Self::Cancel { instance, .. } => instance.root(),
            Self::RetryIncident { target } | Self::ResolveIncident { target, .. } => target.instance.root(),
        }
    }

    /// The task whose row this command reads and writes, to be locked and refreshed first.
    #[must_use]
    pub fn task(&self) -> Option<&TaskId> {
        match self {
            Self::Complete { task, .. }
            | Self::Failure { task, .. }
            | Self::Error { task, .. }
            | Self::Release { task, .. }
            | Self::Park { task, .. }
            | Self::Heartbeat { task, .. }
            | Self::Unlock { task }
            | Self::Steps { task, .. }
            | Self::Decide { task, .. }
            | Self::Lapse { task } => Some(task),
            Self::RetryIncident { target } | Self::ResolveIncident { target, .. } => target.task.as_ref(),
            Self::Start(_)
            | Self::CompleteHuman { .. }
            | Self::FireTimer { .. }
            | Self::ChildDone { .. }
            | Self::Continue { .. }
            | Self::GiveUp { .. }
            | Self::Unreadable { .. }
            | Self::Cancel { .. } => None,
        }
    }

    /// The instance that this command reads first, to be loaded with the batch.
    #[must_use]
    pub fn instance(&self) -> Option<InstanceId> {
        match self {
            Self::Start(_) => None,
            Self::ChildDone { child } => Some(child.clone()),
            Self::Continue { instance }
            | Self::GiveUp { instance, .. }
            | Self::Unreadable { instance }
            | Self::Cancel { instance, .. } => Some(instance.clone()),
            Self::RetryIncident { target } | Self::ResolveIncident { target, .. } => {
                Some(target.instance.clone())
            }
            Self::CompleteHuman { human, .. } => crate::ids::owner_of(human),
            Self::FireTimer { timer } => crate::ids::owner_of(timer),
            Self::Complete { .. }
            | Self::Failure { .. }
            | Self::Error { .. }
            | Self::Release { .. }
            | Self::Park { .. }
            | Self::Heartbeat { .. }
            | Self::Unlock { .. }
            | Self::Steps { .. }
            | Self::Decide { .. }
            | Self::Lapse { .. } => self.task().map(TaskId::instance),
        }
    }
}

/// Decides one command on the loaded tree. Pure: the same tree, command and environment give the same changes.
///
/// # Errors
/// A refusal, or what has to be loaded first.
pub fn execute(work: &mut Work<'_>, command: &Command) -> Result<Answer, Stop> {
    let moved = match command {
        Command::ChildDone { child } => owner_of(child.as_str()),
        other => other.instance(),
    };
    if let Some(instance) = moved {
        stop_below(work, &instance)?;
    }
    match command {
        Command::Start(start) => start::run(work, start),
        Command::Complete {
            task,
            caller,
            completion,
        } => complete::run(work, task, caller, completion),
        Command::Failure {
            task,
            caller,
            failure,
        } => failure::run(work, task, caller, failure),
        Command::Error { task, caller, error } => error::run(work, task, caller, error),
        Command::Release {
            task,
            caller,
            after_ms,
            reason,
        } => lease::release(work, task, caller, *after_ms, reason.as_deref()),
        Command::Park { task, caller } => lease::park(work, task, caller),
        Command::Heartbeat {
            task,
            caller,
            duration_ms,
        } => lease::heartbeat(work, task, caller, *duration_ms),
        Command::Unlock { task } => lease::unlock(work, task),
        Command::Steps { task, record } => journal::run(work, task, record),
        Command::Decide {
            human,
            task,
            person,
            approved,
            comment,
            digest,
        } => human::decide(
            work,
            human,
            task,
            person,
            *approved,
            comment.as_deref(),
            digest.as_deref(),
        ),
        Command::CompleteHuman {
            human,
            person,
            outcome,
            variables,
            comment,
        } => human::complete(
            work,
            human,
            person,
            outcome.as_deref(),
            variables,
            comment.as_deref(),
        ),
        Command::FireTimer { timer } => timer::run(work, timer),
        Command::ChildDone { child } => child_done::run(work, child),
        Command::Continue { instance } => timer::go_on(work, instance),
        Command::GiveUp {
            instance,
            held,
            message,
        } => durable::give_up(work, instance, held, message),
        Command::Unreadable { instance } => Err(durable::unreadable(instance)),
        Command::Lapse { task } => lapse::run(work, task),
        Command::Cancel { instance, reason } => cancel::run(work, instance, reason),
        Command::RetryIncident { target } => incident::retry(work, target),
        Command::ResolveIncident {
            target,
            performed,
            result,
            comment,
        } => incident::resolve(work, target, *performed, result.as_ref(), comment),
    }
}
