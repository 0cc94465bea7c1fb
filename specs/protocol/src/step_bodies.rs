//! What `request` and `result` of a step hold, by kind: the typed view of the free-form JSON in the journal.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Json;

/// `request` of a MODEL step: what changed since an earlier turn, so that N turns cost N.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ModelRequest {
    /// Sequence of the MODEL step whose messages this one begins with; absent on the first turn.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<u32>,
    /// How many of the base's messages, counted from the first, are left out (compaction).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub dropped: Option<u32>,
    /// The messages added, in the worker's own form.
    #[serde(default)]
    #[schema(value_type = Vec<Value>)]
    pub added: Vec<Json>,
}

/// `result` of a COMPLETED MODEL step.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelResult {
    /// What the model said beside its calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The calls that it asked for, in order; [`CallRef::index`](crate::steps::CallRef::index) is the place in this list.
    #[serde(default)]
    pub calls: Vec<ModelCall>,
    /// Tokens used, also for turns that failed or were repeated.
    #[serde(default)]
    pub usage: Usage,
    /// The model that answered, which may be a fallback of the one asked.
    pub model: String,
}

/// One call that a model asked for.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    /// The function name that the model used, such as `crm__get_customer`.
    pub tool: String,
    /// The arguments as the model wrote them; a JSON string when they are no JSON object.
    #[schema(value_type = Value)]
    pub arguments: Json,
    /// The model's own id of the call: for display, in no digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
}

/// Tokens of one model turn.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Usage {
    /// Tokens read.
    #[serde(default)]
    pub input_tokens: u64,
    /// Tokens written.
    #[serde(default)]
    pub output_tokens: u64,
}

/// `request` of a TOOL or DELEGATION step; exactly one of `arguments` and `argumentsText`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ToolRequest {
    /// The model's own id of the call: for display, in no digest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    /// The arguments, a JSON object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub arguments: Option<Json>,
    /// Arguments that are no JSON object, as the model wrote them; refused `ARGUMENTS_INVALID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arguments_text: Option<String>,
}

/// `request` of a CHECKPOINT step.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CheckpointRequest {
    /// Never run the code a second time: cut off half-way it becomes OUTCOME_UNKNOWN.
    #[serde(default)]
    pub once: bool,
}

/// `request` of a WAIT step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct WaitRequest {
    /// How long, counted from the commit that records the step.
    pub duration_ms: u64,
}
