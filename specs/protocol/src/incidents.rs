//! Incidents: what stopped and waits for a person, and notices that hold nothing.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::external_tasks::TaskState;
use crate::instances::InstanceStatus;
use crate::{Json, Timestamp};

/// Whether it holds the instance.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IncidentKind {
    /// A token or task stops until it is retried or resolved.
    Incident,
    /// Worth a look; holds nothing.
    Notice,
}

/// Where an incident stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum IncidentState {
    /// Nobody has dealt with it.
    Open,
    /// Retried, resolved, or ended with its instance.
    Resolved,
}

/// One incident or notice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentView {
    /// The id.
    pub id: String,
    /// Whether it holds the instance.
    pub kind: IncidentKind,
    /// Where it stands.
    pub state: IncidentState,
    /// Stable UPPER_SNAKE code.
    pub code: String,
    /// What happened, never with a variable's value.
    pub message: String,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The instance.
    pub instance_id: String,
    /// The instance's process.
    pub process: String,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The external task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The task's attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// When it was opened.
    pub created_at: Timestamp,
    /// When it was closed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_at: Option<Timestamp>,
    /// Who closed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resolved_by: Option<String>,
}

/// `GET /v1/incidents`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct IncidentQuery {
    /// Only those of this instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Only those of instances of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Default OPEN.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<IncidentState>,
    /// Only incidents, or only notices.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<IncidentKind>,
    /// At most so many, 1 to 200, default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// A page of incidents.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentList {
    /// The incidents, newest first.
    pub incidents: Vec<IncidentView>,
    /// Send it as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// What happened to a write whose outcome was unknown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ResolveOutcome {
    /// It happened: the step is COMPLETED with the given result.
    Performed,
    /// It did not happen: the step may be granted again.
    NotPerformed,
}

/// `POST /v1/incidents/{id}/resolve`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ResolveRequest {
    /// What the person found out.
    pub outcome: ResolveOutcome,
    /// The result of the write, with `performed`.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::present"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
    /// How it is known.
    pub comment: String,
}

/// The answer to `retry` and `resolve`: what it led to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct IncidentAnswer {
    /// The incident as it is now.
    pub incident: IncidentView,
    /// The instance's status afterwards.
    pub status: InstanceStatus,
    /// The task's state afterwards, where the incident is a task's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_state: Option<TaskState>,
    /// The incidents that the retry led to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub new_incidents: Vec<IncidentView>,
}
