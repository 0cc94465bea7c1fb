//! How one call ended, and what of it the model reads.

use rmcp::model::{CallToolResult, ContentBlock};
use serde::{Deserialize, Serialize};

/// A stable code and a sentence.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[error("{code}: {message}")]
pub struct CallError {
    pub code: String,
    pub message: String,
}

impl CallError {
    pub fn new(code: &str, message: impl Into<String>) -> Self {
        Self {
            code: code.to_owned(),
            message: message.into(),
        }
    }
}

/// Code of a call whose server went away before it answered.
pub const LOST: &str = "TOOL_SERVER_LOST";

/// The four ways in which a call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ToolOutcome {
    /// The server answered.
    Done(Text),
    /// The server answered that it did not work.
    Failed(CallError, Text),
    /// Nothing left this process.
    Unsent(CallError),
    /// It left, and there is no answer: it may have happened.
    Uncertain(CallError),
}

/// A result as text, cut at the worker's limit.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Text {
    pub text: String,
    /// The full length in bytes, when it was cut.
    pub cut_from: Option<usize>,
}

impl Text {
    /// Cuts at a character border and says so in the text itself, because the model reads only that.
    pub fn capped(mut text: String, limit: usize) -> Self {
        let full = text.len();
        if full <= limit {
            return Self { text, cut_from: None };
        }
        let mut end = limit;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
        text.push_str(&format!("\n[truncated: {full} bytes, the first {end} are shown]"));
        Self {
            text,
            cut_from: Some(full),
        }
    }
}

/// Reads a server's answer.
pub(super) fn of_result(result: CallToolResult, limit: usize) -> ToolOutcome {
    let mut parts: Vec<String> = Vec::new();
    for block in &result.content {
        match block {
            ContentBlock::Text(text) => parts.push(text.text.clone()),
            other => parts.push(describe(other)),
        }
    }
    // Structured content repeats the text by convention; alone it is the answer.
    if parts.iter().all(String::is_empty)
        && let Some(value) = &result.structured_content
    {
        parts = vec![value.to_string()];
    }
    let text = Text::capped(parts.join("\n"), limit);
    if result.is_error == Some(true) {
        return ToolOutcome::Failed(CallError::new("TOOL_ERROR", first_line(&text.text)), text);
    }
    ToolOutcome::Done(text)
}

fn describe(block: &ContentBlock) -> String {
    let value = serde_json::to_value(block).unwrap_or_default();
    let field = |name: &str| {
        value
            .get(name)
            .and_then(|v| v.as_str())
            .unwrap_or_default()
            .to_owned()
    };
    if let Some(text) = value.pointer("/resource/text").and_then(|t| t.as_str()) {
        return text.to_owned();
    }
    format!(
        "[{} {}{} left out]",
        field("type"),
        field("mimeType"),
        field("uri")
    )
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or("the tool reported an error");
    line.chars().take(200).collect()
}
