//! Health: is the engine up, and can it work.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// Whether the engine can work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum HealthStatus {
    /// It works.
    Up,
    /// It answers but cannot work; the status is 503.
    Down,
}

/// `GET /health`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Health {
    /// Whether the engine can work.
    pub status: HealthStatus,
    /// The engine's version.
    pub version: String,
    /// `sqlite` or `postgres`.
    pub database: String,
    /// Why it is down, or since when writes fail.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
}
