//! Refusals: RFC 9457 problem details with a stable code, and the problems of documents.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// The body of every answer that is not 2xx (`application/problem+json`).
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Where the code is documented; works without a network, served by the engine.
    #[serde(rename = "type", default)]
    pub kind: String,
    /// What went wrong, the same words for every occurrence of the code.
    #[serde(default)]
    pub title: String,
    /// The HTTP status.
    #[serde(default)]
    pub status: u16,
    /// What went wrong this time, naming the thing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<String>,
    /// Stable UPPER_SNAKE code, for programs.
    pub code: String,
    /// A finer word under the code, such as `missing-param` under `DELEGATION_INPUT_INVALID`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The argument, variable or field that the refusal is about.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub argument: Option<String>,
    /// What to do about it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The refusal is to be read by the model as the tool's error; the task goes on (D11).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_error: Option<bool>,
    /// The problems of the documents that were sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub problems: Vec<DocumentProblem>,
    /// Every place where a value does not fit its schema.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<SchemaError>,
}

impl Problem {
    /// True when the model should read this refusal as the answer to its call.
    #[must_use]
    pub fn is_tool_error(&self) -> bool {
        self.tool_error == Some(true)
    }
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let text = self.detail.as_deref().unwrap_or(&self.title);
        write!(f, "{}: {text}", self.code)
    }
}

/// One place where a value does not fit its schema.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct SchemaError {
    /// JSON pointer into the value that was sent.
    pub pointer: String,
    /// Why the value is refused there.
    pub message: String,
}

/// Whether a document problem stops the deployment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum Severity {
    /// The document is not deployed.
    Error,
    /// Shown, never blocking.
    Warning,
}

/// One problem of one document, with its place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct DocumentProblem {
    /// Stable UPPER_SNAKE code.
    pub code: String,
    /// Whether it blocks.
    pub severity: Severity,
    /// What is wrong, naming the thing.
    pub message: String,
    /// The file as it was named in the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line in the file, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
    /// Column in the line, from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub column: Option<u32>,
    /// JSON pointer into the document.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pointer: Option<String>,
    /// What to write instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}
