//! The event feed: `GET /v1/events` over SSE, resumed with `Last-Event-ID`.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{Json, Timestamp};

/// `GET /v1/events`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct EventQuery {
    /// Only events of this instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Only events of this tree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub root_id: Option<String>,
    /// Where to begin, for clients that cannot send `Last-Event-ID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// Answer what there is and close instead of following.
    #[serde(default)]
    pub once: bool,
}

/// The `data` of one SSE message; its `id` is the cursor, its `event` the type.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FeedEvent {
    /// What happened, in UPPER_SNAKE, such as `INSTANCE_STARTED` or `STEP_COMPLETED`.
    #[serde(rename = "type")]
    pub kind: String,
    /// When it was committed.
    pub at: Timestamp,
    /// The instance.
    pub instance_id: String,
    /// The top of its lineage.
    pub root_id: String,
    /// The instance's process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Number of the history row: the order within the instance; absent for steps.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revision: Option<u64>,
    /// The node.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_id: Option<String>,
    /// The external task, human task or approval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub task_id: Option<String>,
    /// The step's attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// The step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// The event's own data; never a sensitive value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub data: Option<Json>,
}
