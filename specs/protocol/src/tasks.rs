//! What people do: human tasks and approvals (D18, D45, D46, D67).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::steps::{StepKind, ToolPolicy};
use crate::{Json, Timestamp, Variables};

/// A task for a person, or the approval of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum HumanTaskKind {
    /// A `human` node's task.
    Human,
    /// The approval of a step; no process node, deciding it moves no token.
    Approval,
}

/// Where a person's task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum HumanTaskState {
    /// Waits for a person.
    Open,
    /// Decided or completed.
    Completed,
    /// Ended from outside: a decision on it answers 410.
    Cancelled,
    /// Nobody decided in time.
    Expired,
}

/// Who may take a task.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Candidates {
    /// Any member of these groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// These people.
    #[serde(default)]
    pub users: Vec<String>,
}

/// One outcome that a person may choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskOutcome {
    /// The name to send.
    pub name: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub label: Option<String>,
    /// Whether a comment is needed.
    #[serde(default)]
    pub comment: CommentRule,
}

/// Whether an outcome takes a comment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum CommentRule {
    /// Not shown.
    None,
    /// May be given.
    #[default]
    Optional,
    /// Must be given.
    Required,
}

/// The step that an approval is about: who asks, for what exactly.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ApprovalSubject {
    /// The node whose worker asks.
    pub node_id: String,
    /// Its external task.
    pub task_id: String,
    /// The attempt.
    pub attempt: u32,
    /// The step.
    pub sequence: u32,
    /// What the step does.
    pub kind: StepKind,
    /// The target.
    pub tool_ref: String,
    /// The pinned version of a delegated process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
    /// The exact inputs that will run.
    #[schema(value_type = Value)]
    pub arguments: Json,
    /// What the tool may do; absent for a delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
    /// Covers kind, target with version, and arguments; a decision sends it back.
    pub digest: String,
    /// The model that the node names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The model that answered, which may be a fallback or what the worker's operator put in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used_model: Option<String>,
    /// The frozen prompt's version.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub prompt_version: Option<String>,
}

/// A human task or an approval.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HumanTaskView {
    /// The id.
    pub id: String,
    /// Human task or approval.
    pub kind: HumanTaskKind,
    /// Where it stands.
    pub state: HumanTaskState,
    /// One line for the inbox.
    pub title: String,
    /// More of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The instance.
    pub instance_id: String,
    /// The key of the instance shown to people.
    pub instance_key: String,
    /// The instance's process.
    pub process: String,
    /// The node: the human node, or the one whose worker asks.
    pub node_id: String,
    /// Who may take it.
    #[serde(default)]
    pub candidates: Candidates,
    /// The one person that it is meant for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assignee: Option<String>,
    /// The outcomes to choose from; `approved` and `rejected` for approvals.
    #[serde(default)]
    pub outcomes: Vec<TaskOutcome>,
    /// JSON Schema of the form, for human tasks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub form: Option<Json>,
    /// The inputs that the person sees, for human tasks.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schema(value_type = Object)]
    pub variables: Variables,
    /// What is to be approved.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<ApprovalSubject>,
    /// When it should be done.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub due_at: Option<Timestamp>,
    /// When it expires.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// What was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// Who chose.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// What that person wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// `GET /v1/tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HumanTaskQuery {
    /// `me`: only what the caller may do.
    #[serde(rename = "for", default, skip_serializing_if = "Option::is_none")]
    pub audience: Option<String>,
    /// Only human tasks, or only approvals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<HumanTaskKind>,
    /// Default OPEN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<HumanTaskState>,
    /// Only those of this instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// At most so many, 1 to 200, default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A page of human tasks and approvals.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HumanTaskList {
    /// The tasks, oldest first.
    pub tasks: Vec<HumanTaskView>,
    /// Send it as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// `POST /v1/tasks/{id}/decision`. For approvals `outcome` is `approved` or `rejected`, `digest` is needed, and a
/// rejection needs a comment; another digest than the current one answers 409 `APPROVAL_CHANGED` (D46).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DecisionRequest {
    /// What is chosen.
    pub outcome: String,
    /// Why; the model reads it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// The digest that the decider saw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<String>,
}

/// `POST /v1/tasks/{id}/complete`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteTaskRequest {
    /// What is chosen, where the node has outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The form's fields.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub variables: Variables,
    /// What the person writes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
}

/// The answer to `decision` and `complete`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DecisionAnswer {
    /// The task.
    pub id: String,
    /// Where it stands now.
    pub state: HumanTaskState,
    /// What was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
    /// The child that an approved delegation started in the same transaction (D18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_instance_id: Option<String>,
}
