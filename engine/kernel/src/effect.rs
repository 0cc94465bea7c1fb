//! What leaves the kernel beside the changed aggregates: rows that others wait on. The shell writes all of it in
//! the commit of the command.

use legation_language::Value;
use serde::{Deserialize, Serialize};

use crate::content::{NewPayload, PayloadRef};
use crate::ids::{InstanceId, TaskId};

/// One row to write or to end.
#[derive(Clone, Debug, PartialEq)]
pub enum Effect {
    Payload(NewPayload),
    OpenHuman(Box<HumanTask>),
    CloseHuman(HumanEnd),
    ArmTimer(Timer),
    DisarmTimer {
        id: String,
    },
    OpenIncident(Box<Incident>),
    CloseIncident {
        id: String,
        by: String,
        resolution: String,
    },
    Mail(Mail),
}

/// A human task of a node, or an approval of a step (D45).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HumanTask {
    pub id: String,
    pub instance: InstanceId,
    pub node: String,
    pub kind: HumanKind,
    pub groups: Vec<String>,
    pub users: Vec<String>,
    /// Approvals: the step that asks.
    pub task: Option<TaskId>,
    pub attempt: Option<u32>,
    pub sequence: Option<u32>,
    /// Approvals: the effective digest that a decision must name.
    pub digest: Option<String>,
    /// Approvals: `server/tool` or `delegate:process`.
    pub target: Option<String>,
    /// Approvals: the exact arguments; human tasks: what the node shows. A payload of the task or the instance.
    pub inputs: Option<PayloadRef>,
    pub policy: Option<String>,
    /// JSON Schema of the form.
    pub form: Option<Value>,
    /// Names with their comment rule and label.
    pub outcomes: Vec<Outcome>,
    pub priority: i32,
    pub due_at: Option<i64>,
    pub created_at: i64,
}

/// A choice of a human task.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    pub name: String,
    pub label: Option<String>,
    /// `none`, `optional` or `required`.
    pub comment: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HumanKind {
    Human,
    Approval,
}

/// The end of a human task: decided by somebody, or withdrawn with its cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HumanEnd {
    pub id: String,
    /// `COMPLETED` or `CANCELLED`.
    pub state: &'static str,
    pub by: Option<String>,
    pub outcome: Option<String>,
    pub comment: Option<String>,
    pub at: i64,
}

/// A timer: fires once, when due.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timer {
    pub id: String,
    pub instance: InstanceId,
    pub node: String,
    pub due_at: i64,
}

/// An incident holds a token or a task until somebody acts; a notice holds nothing.
#[derive(Clone, Debug, PartialEq)]
pub struct Incident {
    pub id: String,
    pub instance: InstanceId,
    pub node: String,
    pub task: Option<TaskId>,
    pub attempt: Option<u32>,
    pub sequence: Option<u32>,
    pub notice: bool,
    pub code: String,
    pub message: String,
    pub created_at: i64,
    /// The durable command that it holds.
    pub held: Option<Held>,
}

/// The row of a durable command that could not be carried out: it is held until somebody retries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    Mailbox(String),
    Timer(String),
    /// The task whose lease is to be declared lost.
    Lease(String),
}

/// A durable command to another aggregate of the tree, run right after the commit and after a crash.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Mail {
    /// A child ended: one per child (D15).
    ChildDone { child: InstanceId },
    /// READY tokens are left when the budget of a command is used up.
    Continue { instance: InstanceId },
}
