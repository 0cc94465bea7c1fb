//! History: the events of one instance in the order of its revisions.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{Json, Timestamp};

/// One event of an instance.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HistoryEntry {
    /// Number of the history row; events of one command share it.
    pub revision: u64,
    /// Place among the events of the row.
    pub index: u32,
    /// When it was committed.
    pub at: Timestamp,
    /// What happened, in UPPER_SNAKE, such as `TASK_CREATED`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The node that it happened at.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The command that caused it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command_id: Option<String>,
    /// Who sent it; absent for the engine's own duties.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub actor: Option<String>,
    /// The event's own data.
    #[schema(value_type = Object)]
    pub data: Json,
}

/// `GET /v1/instances/{id}/history`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct HistoryQuery {
    /// Only revisions greater than this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
    /// At most so many revisions, 1 to 5,000, default 1,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Events of an instance.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// The events, oldest first.
    pub entries: Vec<HistoryEntry>,
    /// There is more after this revision.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u64>,
}
