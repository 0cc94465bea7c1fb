//! Processes and deployments (D1–D6).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::{DocumentProblem, Json, Timestamp};

/// `POST /v1/deployments` and `POST /v1/validate`: a set of documents, validated and deployed together.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DeployRequest {
    /// Text of each document by its path in the project, such as `processes/refund.process.yaml`.
    pub files: BTreeMap<String, String>,
}

/// `?dryRun=true`: check and answer, change nothing.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct DeployQuery {
    /// Check and answer, change nothing.
    #[serde(default)]
    pub dry_run: bool,
}

/// What a deployment did; 422 with the same problems when one of them is an error.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployAnswer {
    /// Every process of the set.
    pub processes: Vec<DeployedProcess>,
    /// Every tool server of the set.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub servers: Vec<DeployedServer>,
    /// Warnings.
    pub problems: Vec<DocumentProblem>,
}

/// One process of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedProcess {
    /// The process key.
    pub key: String,
    /// Its newest version.
    pub version: u32,
    /// False when the digest was deployed already.
    pub changed: bool,
}

/// One tool server of a deployment.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeployedServer {
    /// The server's name.
    pub name: String,
    /// False when the digest was deployed already.
    pub changed: bool,
}

/// The answer to `POST /v1/validate`: every problem of every document.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ValidateAnswer {
    /// No problem is an error.
    pub valid: bool,
    /// Every problem.
    pub problems: Vec<DocumentProblem>,
}

/// A deployed process.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessView {
    /// The key.
    pub key: String,
    /// The name for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// What it is for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// The version shown.
    pub version: u32,
    /// Digest of the document and what it pins.
    pub digest: String,
    /// When this version was deployed.
    pub deployed_at: Timestamp,
    /// JSON Schema of the inputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub inputs: Option<Json>,
    /// JSON Schema of the outputs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub outputs: Option<Json>,
    /// The document as it was deployed; only when one process is asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
}

/// The processes of a project in their newest versions, or all versions of one.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ProcessList {
    /// The processes by key; versions newest first.
    pub processes: Vec<ProcessView>,
}

/// `GET /v1/processes/{key}`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ProcessQuery {
    /// Another version than the newest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u32>,
}
