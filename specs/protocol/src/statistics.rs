//! Figures for people who operate: how many instances stand where, and how the nodes of a process did lately.
//!
//! Every figure is read over a bounded part of what is stored, and says so when the bound was reached.

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::Timestamp;
use crate::instances::InstanceStatus;

/// `GET /v1/instances/counts`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct CountsQuery {
    /// Only instances of this process.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Only instances that started at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_after: Option<Timestamp>,
    /// Only instances that started before this time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_before: Option<Timestamp>,
}

/// How many instances have a status.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StatusCount {
    /// The status.
    pub status: InstanceStatus,
    /// So many.
    pub count: u64,
    /// The engine stopped counting there: there are at least so many.
    #[serde(default)]
    pub at_least: bool,
}

/// Instances by status. Statuses that no instance has are left out.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct InstanceCounts {
    /// In the order of a life: running first.
    pub counts: Vec<StatusCount>,
}

/// How one node of a process version does.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct NodeStatistics {
    /// The node.
    pub node_id: String,
    /// Tokens that stand there now.
    pub active: u64,
    /// Open incidents there now.
    pub incidents: u64,
    /// Visits among the instances that were looked at.
    pub visits: u64,
    /// Visits of these that met an error or an incident.
    pub failed: u64,
    /// Half of the finished visits took no longer, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p50_ms: Option<u64>,
    /// 95 of 100 finished visits took no longer, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p95_ms: Option<u64>,
}

/// `GET /v1/processes/{key}/versions/{version}/statistics`: what stands where now, and how the newest instances went.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessStatistics {
    /// The process.
    pub process: String,
    /// The version.
    pub version: u32,
    /// So many instances were looked at for visits and durations: the newest of this version.
    pub instances: u32,
    /// The start of the oldest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<Timestamp>,
    /// There are more active instances than were looked at: `active` is a part of them.
    #[serde(default)]
    pub more_active: bool,
    /// The nodes that anything is known of, by id.
    pub nodes: Vec<NodeStatistics>,
}
