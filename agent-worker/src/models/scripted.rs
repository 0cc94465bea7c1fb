//! A model that is a file: the first rule that fits the conversation answers. For demos, tests and docs.
//!
//! It looks at the conversation only, never at how often it was asked, so a replayed conversation gets
//! the same answers. It never pretends: its model name is `scripted` and it logs that it is a script.
//!
//! ```yaml
//! - match: { prompt: 'order (?<order>[\w-]+)', turn: 1 }   # all conditions of a rule must hold
//!   calls:
//!     - { tool: crm/get_customer, arguments: { order: "${prompt.order}" } }
//! - match: { tool: crm/get_customer }                      # the last turn answers this tool
//!   calls:
//!     - { tool: "delegate:refund_payout", arguments: { amount: "${result/order/amount}" } }
//! - match: { tool: "delegate:refund_payout", error: false }
//!   text: "Refunded as ${result/payout_id}."
//! ```
//!
//! The whole format is in the README of this crate and in the types below.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;
use serde::Deserialize;

use super::{Answer, Arguments, Call, Message, Model, ModelError, Turn, TurnRequest, Usage};
use reference::Found;

mod reference;

/// Names this model in the journal.
pub const NAME: &str = "scripted";

/// A script, read and checked.
#[derive(Debug)]
pub struct Scripted {
    path: PathBuf,
    rules: Vec<Rule>,
}

/// Why a script cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ScriptError {
    #[error("script {0:?} cannot be read: {1}")]
    Unreadable(PathBuf, std::io::Error),
    #[error("script {0:?} is not valid: {1}")]
    Invalid(PathBuf, String),
}

/// One rule as written.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct Rule {
    #[serde(default, rename = "match")]
    condition: Condition,
    /// What it says, a template; may stand beside calls.
    text: Option<String>,
    /// What it says as JSON, for output schemas; strings in it are templates.
    json: Option<serde_yaml::Value>,
    #[serde(default)]
    calls: Vec<RuleCall>,
    /// Plays a model that is busy: 429 with this Retry-After, in ms.
    unavailable_ms: Option<u64>,
    /// Plays a slow model, in ms.
    delay_ms: Option<u64>,
}

/// When a rule answers: every condition given must hold. No condition fits everything.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Condition {
    /// Regular expression on what was said last: the user's message, or the answer of `tool` (without
    /// `tool`: all answers of the turn). Its groups are `${match.1}` and `${match.name}`.
    text: Option<Pattern>,
    /// Regular expression on the first user message. Its groups are `${prompt.1}` and `${prompt.name}`.
    prompt: Option<Pattern>,
    /// Regular expression on the instructions.
    system: Option<Pattern>,
    /// The last turn answers a call of this tool: `server/tool`, `delegate:process` or the function name.
    tool: Option<String>,
    /// With `tool`: whether that answer is an error.
    error: Option<bool>,
    /// The number of this turn, from 1.
    turn: Option<usize>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct RuleCall {
    /// `server/tool`, `delegate:process` or any function name.
    tool: String,
    /// Strings in it are templates; one that is a single reference keeps the value's type.
    #[serde(default)]
    arguments: Option<serde_yaml::Value>,
    /// Plays a model that writes no JSON.
    arguments_text: Option<String>,
    /// Plays a model that chooses its own ids, also repeated ones.
    call_id: Option<String>,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(try_from = "String")]
struct Pattern(regex::Regex);

impl TryFrom<String> for Pattern {
    type Error = regex::Error;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        regex::RegexBuilder::new(&text)
            .dot_matches_new_line(true)
            .build()
            .map(Self)
    }
}

/// The function name of `server/tool`, `delegate:process` or a function name.
pub fn function_name(tool: &str) -> String {
    let joined = match tool.split_once('/').or_else(|| tool.split_once(':')) {
        Some((server, name)) => format!("{server}__{name}"),
        None => tool.to_owned(),
    };
    joined
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

impl Scripted {
    /// Reads and checks a script file.
    pub fn load(path: &Path) -> Result<Self, ScriptError> {
        let text = std::fs::read_to_string(path).map_err(|e| ScriptError::Unreadable(path.to_owned(), e))?;
        Self::parse(path, &text)
    }

    /// Checks the text of a script; `path` only names it.
    pub fn parse(path: &Path, text: &str) -> Result<Self, ScriptError> {
        let invalid = |e: serde_yaml::Error| ScriptError::Invalid(path.to_owned(), e.to_string());
        let rules: Vec<Rule> = serde_yaml::from_str(text).map_err(invalid)?;
        for (at, rule) in rules.iter().enumerate() {
            let says = rule.text.is_some() || rule.json.is_some() || !rule.calls.is_empty();
            if says == rule.unavailable_ms.is_some() || (rule.text.is_some() && rule.json.is_some()) {
                let message = format!(
                    "rule {} needs text, json or calls (not text and json), or unavailable_ms",
                    at + 1
                );
                return Err(ScriptError::Invalid(path.to_owned(), message));
            }
        }
        tracing::warn!(script = %path.display(), rules = rules.len(),
            "answers of model `scripted` come from a script; no model is asked");
        Ok(Self {
            path: path.to_owned(),
            rules,
        })
    }

    fn find<'a>(&'a self, request: &'a TurnRequest<'_>) -> Option<(&'a Rule, Found<'a>)> {
        self.rules
            .iter()
            .find_map(|rule| Some((rule, rule.condition.fits(request)?)))
    }
}

#[async_trait]
impl Model for Scripted {
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
        let Some((rule, found)) = self.find(&request) else {
            let said = show(request.messages);
            let turn = turn_number(request.messages);
            return Err(ModelError::fatal(format!(
                "no rule of script '{}' fits turn {turn} of this conversation; add one, or let a real model answer\n{said}",
                self.path.display()
            )));
        };
        if let Some(ms) = rule.delay_ms {
            tokio::time::sleep(Duration::from_millis(ms).min(request.timeout)).await;
        }
        if let Some(ms) = rule.unavailable_ms {
            let retry_after = Some(Duration::from_millis(ms));
            return Err(ModelError::Unavailable {
                message: "the script says busy".to_owned(),
                retry_after,
            });
        }
        let turn = rule.answer(&found, &request).map_err(|message| {
            ModelError::fatal(format!(
                "script '{}': {message}\n{}",
                self.path.display(),
                show(request.messages)
            ))
        })?;
        if let (Some(on_text), Some(text)) = (request.on_text, &turn.text) {
            on_text(text);
        }
        Ok(turn)
    }

    fn is_script(&self) -> bool {
        true
    }
}

/// From 1.
fn turn_number(messages: &[Message]) -> usize {
    let is_answer = |message: &&Message| matches!(message, Message::Assistant { .. });
    messages.iter().filter(is_answer).count() + 1
}

impl Condition {
    /// What the rule can refer to when it fits, else none.
    fn fits<'a>(&self, request: &'a TurnRequest<'_>) -> Option<Found<'a>> {
        let messages = request.messages;
        if self.turn.is_some_and(|turn| turn != turn_number(messages)) {
            return None;
        }
        if self
            .system
            .as_ref()
            .is_some_and(|p| !p.0.is_match(request.system))
        {
            return None;
        }
        let mut found = Found {
            messages,
            ..Found::default()
        };
        let last = messages.last();
        let answered: &[Answer] = match last {
            Some(Message::Answers(answers)) => answers,
            _ => &[],
        };
        if let Some(tool) = &self.tool {
            let name = function_name(tool);
            let fits = |a: &&Answer| a.function == name && self.error.is_none_or(|e| e == a.is_error);
            found.result = Some(answered.iter().find(fits)?);
        } else {
            found.result = answered.last();
        }
        if let Some(pattern) = &self.text {
            let text = match (last, found.result.filter(|_| self.tool.is_some())) {
                (_, Some(answer)) => answer.text.clone(),
                (Some(Message::User(text)), None) => text.clone(),
                (Some(Message::Answers(answers)), None) => answers
                    .iter()
                    .map(|a| a.text.as_str())
                    .collect::<Vec<_>>()
                    .join("\n"),
                (Some(Message::Assistant { .. }) | None, None) => return None,
            };
            found
                .groups
                .push(("match", reference::groups(&pattern.0, &text)?));
        }
        if let Some(pattern) = &self.prompt {
            let first = messages.iter().find_map(|m| match m {
                Message::User(text) => Some(text.as_str()),
                Message::Assistant { .. } | Message::Answers(_) => None,
            });
            found
                .groups
                .push(("prompt", reference::groups(&pattern.0, first?)?));
        }
        Some(found)
    }
}

impl Rule {
    fn answer(&self, found: &Found<'_>, request: &TurnRequest<'_>) -> Result<Turn, String> {
        let text = match (&self.text, &self.json) {
            (Some(template), _) => Some(found.text(template)?),
            (None, Some(json)) => Some(found.json(json)?),
            (None, None) => None,
        };
        let mut calls = Vec::new();
        for call in &self.calls {
            let arguments = match (&call.arguments_text, &call.arguments) {
                (Some(text), _) => Arguments::Text(text.clone()),
                (None, Some(value)) => Arguments::parse(found.json(value)?),
                (None, None) => Arguments::parse(String::new()),
            };
            let id = call.call_id.clone();
            calls.push(Call {
                id,
                function: function_name(&call.tool),
                arguments,
                signature: None,
            });
        }
        let written = text.as_ref().map_or(0, String::len)
            + calls
                .iter()
                .map(|c| c.function.len() + c.arguments.text().len())
                .sum::<usize>();
        let read = request.system.len() + request.messages.iter().map(length).sum::<usize>();
        let usage = Usage {
            input_tokens: tokens(read),
            output_tokens: tokens(written),
        };
        Ok(Turn {
            text,
            calls,
            usage,
            model: NAME.to_owned(),
            truncated: false,
        })
    }
}

/// The usual estimate: four characters are a token.
fn tokens(length: usize) -> u64 {
    u64::try_from(length.div_ceil(4)).unwrap_or(u64::MAX)
}

fn length(message: &Message) -> usize {
    match message {
        Message::User(text) => text.len(),
        Message::Assistant { text, calls } => {
            text.as_ref().map_or(0, String::len)
                + calls
                    .iter()
                    .map(|c| c.function.len() + c.arguments.text().len())
                    .sum::<usize>()
        }
        Message::Answers(answers) => answers.iter().map(|a| a.text.len()).sum(),
    }
}

/// The conversation for people, each message cut at 600 characters.
pub fn show(messages: &[Message]) -> String {
    let mut lines = Vec::new();
    for message in messages {
        match message {
            Message::User(text) => lines.push(format!("  user: {}", cut(text))),
            Message::Assistant { text, calls } => {
                lines.extend(text.iter().map(|t| format!("  model: {}", cut(t))));
                lines.extend(
                    calls
                        .iter()
                        .map(|c| format!("  model calls {}({})", c.function, cut(c.arguments.text()))),
                );
            }
            Message::Answers(answers) => lines.extend(answers.iter().map(|a| {
                let kind = if a.is_error { "error" } else { "answer" };
                format!("  {kind} of {}: {}", a.function, cut(&a.text))
            })),
        }
    }
    lines.join("\n")
}

fn cut(text: &str) -> &str {
    &text[..text.char_indices().nth(600).map_or(text.len(), |(at, _)| at)]
}

#[cfg(test)]
mod tests;
