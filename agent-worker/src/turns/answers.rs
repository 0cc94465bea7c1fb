//! What the model reads as the answer to a call, from the step that holds it.

use legation_protocol::steps::{StepView, ToolRequest};
use legation_protocol::{Json, StepKind, StepState};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::journal::{Ledger, call_id, safe_name, said};
use crate::models::Answer;
use crate::tools::CallError;

/// `result` of a TOOL step that this worker ran.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ToolResult {
    /// What the server said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    /// The length of the server's answer in bytes, when it was cut.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub truncated_from: Option<usize>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<CallError>,
    /// False: nothing left the worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sent: Option<bool>,
}

/// The answer that a settled step holds.
pub fn render(ledger: &Ledger, step: &StepView) -> Answer {
    let call = step.call;
    let function = call
        .and_then(|c| {
            let turn = said(ledger.get(c.step)?).ok()?;
            Some(safe_name(&turn.calls.get(usize::try_from(c.index).ok()?)?.tool))
        })
        .unwrap_or_else(|| safe_name(&step.tool_ref));
    let id = call.map_or_else(
        || format!("call_{}", step.sequence),
        |c| call_id(c.step, usize::try_from(c.index).unwrap_or_default()),
    );
    let edit = edited(step).map(|e| format!("{e}\n")).unwrap_or_default();
    let text = format!("{edit}{}", text(step));
    Answer {
        id,
        function,
        text,
        is_error: step.state != StepState::Completed,
    }
}

/// One line about a step of an earlier attempt.
pub fn describe(step: &StepView) -> String {
    let arguments = step.arguments.as_ref().map_or("{}", |a| a.get());
    format!("- {} with {arguments}: {}", step.tool_ref, text(step))
}

fn text(step: &StepView) -> String {
    let result = step.result.as_ref();
    match step.state {
        StepState::Completed => completed(step.kind, result),
        StepState::Failed => failed(step.kind, result),
        StepState::Refused => format!("The call was refused: {}", sentence(result)),
        StepState::Rejected => {
            let comment = step.comment.clone().or_else(|| comment(result));
            let comment = comment
                .map(|c| format!(" The reviewer wrote: {c}"))
                .unwrap_or_default();
            format!("A person rejected this call; it was not carried out.{comment}")
        }
        StepState::Withdrawn => "The call was withdrawn; it was not carried out.".to_owned(),
        StepState::OutcomeUnknown => "It is not known whether this call was carried out.".to_owned(),
        StepState::Proposed => "The call waits for a person's approval.".to_owned(),
        StepState::Approved | StepState::Started => "The call has not ended.".to_owned(),
    }
}

fn completed(kind: StepKind, result: Option<&Json>) -> String {
    let Some(result) = result else {
        return "Done; there is no result.".to_owned();
    };
    if kind == StepKind::Tool
        && let Some(text) = tool_result(result).and_then(|r| r.text)
    {
        return if text.is_empty() {
            "(the tool returned nothing)".to_owned()
        } else {
            text
        };
    }
    // A delegation's outputs are one flat object; a person's result of an unknown outcome may be any text.
    serde_json::from_str::<String>(result.get()).unwrap_or_else(|_| result.get().to_owned())
}

fn failed(kind: StepKind, result: Option<&Json>) -> String {
    let Some(raw) = result else {
        return "The call failed.".to_owned();
    };
    if kind != StepKind::Tool {
        return sentence(result);
    }
    let Some(ToolResult {
        text, error, sent, ..
    }) = tool_result(raw)
    else {
        return sentence(result);
    };
    let said = text.filter(|t| !t.is_empty());
    match (said, error) {
        (Some(text), _) => text,
        (None, Some(error)) if sent == Some(false) => format!("The call was not sent. {error}"),
        (None, Some(error)) => error.to_string(),
        (None, None) => sentence(result),
    }
}

fn tool_result(result: &Json) -> Option<ToolResult> {
    let read: ToolResult = serde_json::from_str(result.get()).ok()?;
    (read.text.is_some() || read.error.is_some()).then_some(read)
}

fn comment(result: Option<&Json>) -> Option<String> {
    let value: Value = serde_json::from_str(result?.get()).ok()?;
    let of = |name: &str| value.get(name).and_then(Value::as_str).map(str::to_owned);
    value
        .as_str()
        .map(str::to_owned)
        .or_else(|| of("comment"))
        .or_else(|| of("message"))
}

/// A refusal or a child's end as a sentence: the engine's words, its code and what to do about it.
fn sentence(result: Option<&Json>) -> String {
    let Some(raw) = result else {
        return "no reason was given.".to_owned();
    };
    let Ok(value) = serde_json::from_str::<Value>(raw.get()) else {
        return raw.get().to_owned();
    };
    let field = |name: &str| {
        let found = value
            .get(name)
            .or_else(|| value.pointer(&format!("/problem/{name}")));
        found
            .and_then(Value::as_str)
            .filter(|s| !s.is_empty())
            .map(str::to_owned)
    };
    let words = field("message")
        .or_else(|| field("detail"))
        .or_else(|| field("error"))
        .or_else(|| field("title"));
    let mut parts: Vec<String> = value.as_str().map(str::to_owned).or(words).into_iter().collect();
    if let Some(code) = field("code").filter(|code| !parts.iter().any(|p| p.contains(code))) {
        let reason = field("reason").map(|r| format!(", {r}")).unwrap_or_default();
        let argument = field("argument").map(|a| format!(": {a}")).unwrap_or_default();
        parts.push(format!("({code}{reason}{argument})"));
    }
    parts.extend(field("hint").map(|hint| format!("Hint: {hint}.")));
    let errors = value
        .get("errors")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    parts.extend(errors.map(|e| {
        let of = |name: &str| e.get(name).and_then(Value::as_str).unwrap_or_default();
        e.as_str()
            .map_or_else(|| format!("{} {}", of("pointer"), of("message")), str::to_owned)
    }));
    if parts.is_empty() {
        raw.get().to_owned()
    } else {
        parts.join(" ")
    }
}

/// What a reviewer changed before approving; the model has to know that its own numbers did not count.
fn edited(step: &StepView) -> Option<String> {
    step.decided_by.as_ref()?;
    let request: ToolRequest = serde_json::from_str(step.request.as_ref()?.get()).ok()?;
    let asked: Value = serde_json::from_str(request.arguments?.get()).ok()?;
    let effective = step.arguments.as_ref()?;
    let run: Value = serde_json::from_str(effective.get()).ok()?;
    if asked == run {
        return None;
    }
    let comment = step
        .comment
        .as_ref()
        .map(|c| format!(" The reviewer wrote: {c}"))
        .unwrap_or_default();
    Some(format!(
        "A reviewer changed the arguments before approving; these were used: {}.{comment}",
        effective.get()
    ))
}
