//! Tool servers and projects, as the engine knows them.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// One tool that a server offers to agents; every other tool of it is denied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerToolView {
    /// Its name.
    pub name: String,
    /// `read`, `write` or `approval_required`.
    pub policy: String,
    /// A repeated call carries the same key, so an unknown outcome may be called again.
    pub idempotent: bool,
    /// The groups and users who approve a call, where the server names them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub approvers: Vec<String>,
    /// What it does, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The input schema that is pinned, as SHA-256.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema_sha256: Option<String>,
    /// A call may take so long, ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// A deployed tool server.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerView {
    /// Its name, as in `server/tool`.
    pub name: String,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// How the agent worker reaches it: `stdio` or `streamable-http`.
    pub transport: String,
    /// Where, over HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The environment variable of the agent worker that holds the secret. The engine does not know its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_env: Option<String>,
    /// The newest version.
    pub version: u32,
    /// Digest of the document.
    pub digest: String,
    /// When this version was deployed.
    pub deployed_at: Timestamp,
    /// The tools by name.
    pub tools: Vec<ServerToolView>,
}

/// `GET /v1/servers`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerList {
    /// The servers by name, newest versions.
    pub servers: Vec<ServerView>,
}

/// A project: its processes, keys and people are apart from others'.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectView {
    /// The id.
    pub id: String,
    /// The name for people.
    pub name: String,
    /// When it was made.
    pub created_at: Timestamp,
    /// Deployed processes.
    pub processes: u32,
    /// Deployed tool servers.
    pub servers: u32,
}

/// `GET /v1/projects`: those that the caller's key belongs to, which today is one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProjectList {
    /// The projects by id.
    pub projects: Vec<ProjectView>,
}
