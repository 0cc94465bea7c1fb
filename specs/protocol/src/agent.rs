//! The frozen agent node as its worker gets it with the fetch (D2, D7, D38, D42, D43).

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::steps::ToolPolicy;
use crate::{Json, Variables};

/// Everything that the worker needs to run one agent node; bindings and contracts are frozen with the version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct AgentNode {
    /// The model to ask; absent: the project's default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Tried in order when the model is unavailable, at most 3 (D34).
    #[serde(default)]
    pub fallback_models: Vec<String>,
    /// The system message: static text in which placeholders are references, never data (D43).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<String>,
    /// The node's prompt with references in place of its placeholders.
    pub prompt: String,
    /// The first user message: the prompt and the values that it refers to.
    pub user_message: String,
    /// The node's inputs by name, the only data that the agent gets.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub inputs: Variables,
    /// First 12 hex digits of the digest of instructions, tools and output schema.
    pub prompt_version: String,
    /// Tool servers that `tools` name.
    #[serde(default)]
    pub servers: Vec<ServerBinding>,
    /// Tools that the model may be offered; any other is denied.
    #[serde(default)]
    pub tools: Vec<ToolBinding>,
    /// Processes that the model may be offered as tools.
    #[serde(default)]
    pub delegates: Vec<DelegateBinding>,
    /// JSON Schema that the result must fit; absent: the result is text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub output_schema: Option<Json>,
    /// The least `_confidence`, 0 to 1, that the result must carry to be taken (D42).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub confidence_threshold: Option<f64>,
    /// The variable that the engine stores the result in.
    pub result_variable: String,
    /// The outcomes that the agent chooses one of, where the node has them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub outcomes: Vec<OutcomeChoice>,
    /// Sampling temperature.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub temperature: Option<f64>,
    /// Most tokens of one answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens: Option<u32>,
    /// Longest wait for one answer of the model, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub model_timeout_ms: Option<u64>,
    /// Most completed model turns per attempt.
    pub max_turns: u32,
    /// Most journal steps per attempt.
    pub max_steps: u32,
    /// Most tokens of the attempt, in and out.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_tokens_total: Option<u64>,
    /// Most children that run at the same time.
    pub max_concurrent: u32,
    /// What a delegation that did not complete means.
    #[serde(default)]
    pub on_delegation_failure: OnDelegationFailure,
}

/// What a delegation that did not complete means for the agent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnDelegationFailure {
    /// The model reads how the child ended and goes on.
    #[default]
    Report,
}

/// How a tool server is reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// A child process of the worker; its command stands in the worker's own configuration.
    Stdio,
    /// MCP over streamable HTTP.
    StreamableHttp,
}

/// A tool server as frozen with the definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ServerBinding {
    /// The server's name.
    pub name: String,
    /// How it is reached.
    pub transport: Transport,
    /// Where, for streamable HTTP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// `env:NAME`: the worker reads its own environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential: Option<String>,
}

/// Whether a tool understands an idempotency key (D38, D39).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum Idempotency {
    /// A cut-off call is sent again with the same key.
    Key,
    /// A cut-off write becomes OUTCOME_UNKNOWN.
    #[default]
    None,
}

/// One tool as frozen with the definition.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ToolBinding {
    /// The tool server.
    pub server: String,
    /// The tool on it.
    pub tool: String,
    /// The name that the model sees, `server__tool`.
    pub function: String,
    /// What it may do.
    pub policy: ToolPolicy,
    /// A person approves each call first (or may have to, when the approval has a condition).
    pub approval: bool,
    /// Replaces the server's own description.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether it understands an idempotency key.
    #[serde(default)]
    pub idempotency: Idempotency,
    /// Pins the server's input schema: the worker refuses another one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema_sha256: Option<String>,
    /// Longest wait for one call, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<u64>,
}

/// One process that the agent may delegate to, with its pinned version.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DelegateBinding {
    /// The process.
    pub process: String,
    /// The pinned version.
    pub version: u32,
    /// The name that the model sees, `delegate__<process>`.
    pub function: String,
    /// The author's words, ending with the sentence of D7.
    pub description: String,
    /// JSON Schema of the child's inputs.
    #[schema(value_type = Object)]
    pub parameters: Json,
    /// The only child variables that come back.
    pub outputs: Vec<String>,
    /// A person approves each start first (or may have to).
    pub approval: bool,
}

/// One outcome that the agent may choose.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct OutcomeChoice {
    /// The name to send as `outcome`.
    pub name: String,
    /// When to choose it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
}
