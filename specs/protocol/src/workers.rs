//! Workers that the engine has seen, and topics that nobody serves.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// One worker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkerView {
    /// The `workerId` that it uses.
    pub worker_id: String,
    /// The principal of its credential.
    pub principal: String,
    /// The topics that it asked for last.
    pub topics: Vec<String>,
    /// Its last call.
    pub last_seen_at: Timestamp,
    /// Seen lately enough to count on.
    pub live: bool,
    /// Leases that it holds now.
    pub leases: u32,
    /// Tasks that it completed in the last hour; see `completedSince`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub completed_last_hour: u64,
}

/// One topic with work or workers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TopicView {
    /// The topic.
    pub topic: String,
    /// Tasks that may be fetched.
    pub open: u64,
    /// Tasks that are leased.
    pub locked: u64,
    /// Tasks that are parked.
    pub parked: u64,
    /// Since when the oldest open task waits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest_open_at: Option<Timestamp>,
    /// Live workers that ask for it.
    pub workers: u32,
    /// Tasks of it completed in the last five minutes; see `completedSince`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub completed_last_5_min: u64,
    /// Tasks of it completed in the last hour; see `completedSince`.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub completed_last_hour: u64,
}

#[expect(
    clippy::trivially_copy_pass_by_ref,
    reason = "the signature that serde asks for"
)]
fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// `GET /v1/workers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkersAnswer {
    /// The workers, last seen first.
    pub workers: Vec<WorkerView>,
    /// The topics by name.
    pub topics: Vec<TopicView>,
    /// Topics with open work and no live worker.
    pub unserved_topics: Vec<String>,
    /// Completed tasks are counted in memory, by the engine that answers, from then on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_since: Option<Timestamp>,
}
