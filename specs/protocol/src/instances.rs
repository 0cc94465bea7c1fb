//! Instances: start, read, cancel, explain (D47, D69).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::external_tasks::ExternalTaskView;
use crate::incidents::IncidentView;
use crate::steps::StepView;
use crate::{Json, Timestamp, Variables};

/// Where an instance stands; `suspended` and incidents are shown beside it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum InstanceStatus {
    /// It has tokens.
    Running,
    /// A cancel is being carried out.
    Cancelling,
    /// Finished work is being undone.
    Compensating,
    /// Reached its end.
    Completed,
    /// Ended by an error.
    Failed,
    /// Ended from outside.
    Cancelled,
}

impl InstanceStatus {
    /// True when the instance will not change any more.
    #[must_use]
    pub fn is_ended(self) -> bool {
        match self {
            InstanceStatus::Completed | InstanceStatus::Failed | InstanceStatus::Cancelled => true,
            InstanceStatus::Running | InstanceStatus::Cancelling | InstanceStatus::Compensating => false,
        }
    }
}

/// `POST /v1/instances`; repeat safely with an `Idempotency-Key` header.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StartInstanceRequest {
    /// The process to start.
    pub process: String,
    /// Another version than the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The caller's own name for it, such as an order number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Labels to find it by.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The process's inputs.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub variables: Variables,
}

/// The 201 answer to a start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceStarted {
    /// The instance.
    pub id: String,
    /// The key shown to people.
    pub key: String,
    /// Its process.
    pub process: String,
    /// The version that it runs.
    pub version: u32,
    /// Where it stands after its first moves.
    pub status: InstanceStatus,
}

/// `GET /v1/instances`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct InstanceQuery {
    /// Only instances of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Only instances with this status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<InstanceStatus>,
    /// Only instances with this business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Only instances with this label, `name=value`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Only instances that started at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_after: Option<Timestamp>,
    /// Only instances that started before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_before: Option<Timestamp>,
    /// Only direct children of this instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// Only instances of this tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_id: Option<String>,
    /// At most so many, 1 to 200, default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Which agent step started an instance (D12, D47).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StartedByAgent {
    /// The agent node.
    pub node_id: String,
    /// The model that the node names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that answered, which may be a fallback or what the worker's operator put in its place; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_model: Option<String>,
    /// The frozen prompt's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
    /// The agent's external task.
    pub task_id: String,
    /// Its attempt.
    pub attempt: u32,
    /// The step in the journal.
    pub sequence: u32,
}

/// Why an instance FAILED or was CANCELLED.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceError {
    /// The error end's code, or the engine's.
    pub code: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The node where it happened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
}

/// An instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceView {
    /// The id.
    pub id: String,
    /// The key shown to people.
    pub key: String,
    /// Its process.
    pub process: String,
    /// The version that it runs.
    pub version: u32,
    /// Where it stands.
    pub status: InstanceStatus,
    /// Tokens do not move until it is resumed.
    #[serde(default)]
    pub suspended: bool,
    /// The caller's own name for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// Its labels.
    #[serde(default)]
    pub labels: BTreeMap<String, String>,
    /// The instance that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_id: Option<String>,
    /// The top of its lineage; itself for a top-level instance.
    pub root_id: String,
    /// 0 for a top-level instance.
    pub depth: u32,
    /// The agent step that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by_agent: Option<StartedByAgent>,
    /// Who started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub initiator: Option<String>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What it guarantees, once COMPLETED; not in lists.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub outputs: Option<Variables>,
    /// Why it FAILED or was CANCELLED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<InstanceError>,
    /// Open incidents and notices; not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub incidents: Vec<IncidentView>,
    /// Number of open incidents.
    #[serde(default)]
    pub incident_count: u32,
    /// Nodes where a token stands; not in lists.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub active_nodes: Vec<String>,
    /// Number of its last history row.
    pub revision: u64,
}

/// A page of instances.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceList {
    /// The instances, newest first.
    pub instances: Vec<InstanceView>,
    /// Send it as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /v1/instances/{id}/cancel`: cancels the instance and everything below it (D19, D69).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CancelRequest {
    /// Why; recorded at each level.
    pub reason: String,
}

/// The answer to a cancel; repeatable.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CancelAnswer {
    /// The instance.
    pub id: String,
    /// CANCELLED, CANCELLING while a large tree ends, or how it had ended before.
    pub status: InstanceStatus,
}

/// Where a variable's value came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableSource {
    /// The activity that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The task that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The task's attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The command that wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// Who sent that command.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
}

/// `GET /v1/instances/{id}/variables`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct VariablesQuery {
    /// Every value that each variable had, with who wrote it.
    #[serde(default)]
    pub history: bool,
}

/// One value that a variable was given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableWrite {
    /// The value; absent for a sensitive one that the caller may not read, and for one that was erased.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::present"
    )]
    #[schema(value_type = Option<Value>)]
    pub value: Option<Json>,
    /// The instance's revision that wrote it.
    pub revision: u64,
    /// When it was written.
    pub at: Timestamp,
    /// Who or what wrote it; `command` is the id of the command, as in the history.
    pub source: VariableSource,
}

/// One variable of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariableView {
    /// The value; absent for a sensitive one that the caller may not read.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::present"
    )]
    #[schema(value_type = Option<Value>)]
    pub value: Option<Json>,
    /// May not be written by activities.
    #[serde(default)]
    pub locked: bool,
    /// Encrypted at rest and shown only to those allowed.
    #[serde(default)]
    pub sensitive: bool,
    /// The instance's revision that wrote it.
    pub revision: u64,
    /// Who or what wrote it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<VariableSource>,
    /// Every value that it was given, oldest first; only with `history=true`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub history: Vec<VariableWrite>,
}

/// `GET /v1/instances/{id}/variables`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct VariablesAnswer {
    /// The variables by name.
    pub variables: BTreeMap<String, VariableView>,
    /// The instance has more history than was read: the newest writes are missing in `history`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub history_cut: bool,
}

/// One external task with its journal.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskJournal {
    /// The task.
    pub task: ExternalTaskView,
    /// Steps of every attempt, by attempt and sequence; `attempt` is set on each.
    pub steps: Vec<StepView>,
}

/// `GET /v1/instances/{id}/journal`: what every worker of the instance did, step by step.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceJournal {
    /// The tasks in the order of creation.
    pub tasks: Vec<TaskJournal>,
}

/// One thing that an instance waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExplainWait {
    /// The node where the token stands.
    pub node_id: String,
    /// What is awaited, such as `WORKER`, `CHILD`, `APPROVAL`, `INPUT`, `HUMAN`, `TIMER`, `JOIN`, `INCIDENT`; `MOVING` for nothing.
    pub kind: String,
    /// One sentence: why it waits and what would move it.
    pub text: String,
    /// Since when.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// When the wait ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
    /// The task, child, approval, timer or incident that ends the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

/// `GET /v1/instances/{id}/explain`: why it waits, since when, what would move it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Explanation {
    /// All of it as text for people.
    pub text: String,
    /// The waits one by one.
    pub waits: Vec<ExplainWait>,
}
