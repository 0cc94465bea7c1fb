//! Lineage: which instance started which, and by what (D47).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;
use crate::instances::{InstanceStatus, StartedByAgent};

/// One instance in a lineage.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LineageNode {
    /// The instance.
    pub id: String,
    /// The key shown to people.
    pub key: String,
    /// Its process.
    pub process: String,
    /// The version that it runs.
    pub version: u32,
    /// Where it stands.
    pub status: InstanceStatus,
    /// 0 for a top-level instance.
    pub depth: u32,
    /// The node of the parent that it was started from, where that was no agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_node_id: Option<String>,
    /// The agent step that started it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_by_agent: Option<StartedByAgent>,
    /// When it started.
    pub started_at: Timestamp,
    /// When it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
    /// The instances that it started, in order; empty for ancestors.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schema(no_recursion)]
    pub children: Vec<LineageNode>,
}

/// `GET /v1/instances/{id}/lineage`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Lineage {
    /// From the top-level instance down to the parent.
    pub ancestors: Vec<LineageNode>,
    /// The instance asked for, with the tree below it.
    pub instance: LineageNode,
}
