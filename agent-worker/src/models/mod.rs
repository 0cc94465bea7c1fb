//! One small trait over every model provider, so that the turn loop knows turns and nothing else.
//!
//! Rules that hold for all of them: the caller bounds the answer (`max_tokens` is always sent), what a
//! turn asks for is decided by its calls and never by a stop reason, and nothing is retried in here:
//! the journal has to see each try.

pub mod anthropic;
pub mod configured;
pub mod gemini;
pub mod ollama;
pub mod openai;
pub mod scripted;
mod transport;

use std::time::Duration;

use async_trait::async_trait;
use serde_json::value::RawValue;

/// Called with each piece of text as the provider streams it.
pub type OnText<'a> = &'a (dyn Fn(&str) + Send + Sync);

/// One model, ready to be asked.
#[async_trait]
pub trait Model: Send + Sync {
    /// Asks for one turn. Every call of the answer is in `Turn::calls`, in the model's order.
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError>;

    /// True when the answers come from a file and no model is involved.
    fn is_script(&self) -> bool {
        false
    }
}

/// Everything that a provider needs for one turn.
pub struct TurnRequest<'a> {
    /// The frozen instructions; never process data (D43).
    pub system: &'a str,
    pub messages: &'a [Message],
    pub functions: &'a [Function],
    /// The upper bound of the answer, in tokens.
    pub max_tokens: u32,
    pub temperature: Option<f64>,
    /// The longest time the whole turn may take.
    pub timeout: Duration,
    /// Receives streamed text, best effort; the turn holds all of it again.
    pub on_text: Option<OnText<'a>>,
}

/// A function that the model may call.
#[derive(Clone, Debug)]
pub struct Function {
    /// `server__tool` or `delegate__process`.
    pub name: String,
    pub description: String,
    /// JSON Schema of the arguments.
    pub parameters: Box<RawValue>,
}

/// One message of the conversation, in the order it was read or said.
#[derive(Clone, Debug)]
pub enum Message {
    User(String),
    Assistant {
        text: Option<String>,
        calls: Vec<SaidCall>,
    },
    /// The answers to all calls of the assistant message before it.
    Answers(Vec<Answer>),
}

/// A call that the model made in an earlier turn.
#[derive(Clone, Debug)]
pub struct SaidCall {
    /// Unique in the conversation, made by the worker: ids that a model chose may repeat (D62).
    pub id: String,
    pub function: String,
    pub arguments: Arguments,
    /// What the provider wants back unchanged with this call.
    pub signature: Option<String>,
}

/// What the model reads as the result of one call.
#[derive(Clone, Debug)]
pub struct Answer {
    pub id: String,
    pub function: String,
    pub text: String,
    pub is_error: bool,
}

/// Arguments exactly as the model wrote them; digits are not touched.
#[derive(Clone, Debug)]
pub enum Arguments {
    Object(Box<RawValue>),
    /// Not a JSON object.
    Text(String),
}

/// A model's answer.
#[derive(Clone, Debug)]
pub struct Turn {
    pub text: Option<String>,
    pub calls: Vec<Call>,
    pub usage: Usage,
    /// The model that answered, as the provider names it.
    pub model: String,
    /// The answer hit `max_tokens`.
    pub truncated: bool,
}

/// A call that the model makes in this turn.
#[derive(Clone, Debug)]
pub struct Call {
    /// As the model wrote it; for display only.
    pub id: Option<String>,
    /// The function's name as the model wrote it, known or not.
    pub function: String,
    pub arguments: Arguments,
    /// What the provider wants back unchanged with this call.
    pub signature: Option<String>,
}

/// Tokens of one turn, as the provider counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    pub input_tokens: u64,
    pub output_tokens: u64,
}

/// Why there is no turn.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ModelError {
    /// Overloaded, out of quota, too slow or out of reach: another model or a later try may do (D34).
    #[error("model unavailable: {message}")]
    Unavailable {
        message: String,
        retry_after: Option<Duration>,
    },
    /// Will be the same next time: a bad key, a bad request, an unknown model.
    #[error("model refused: {message}")]
    Fatal { message: String },
}

impl ModelError {
    pub(crate) fn fatal(message: impl Into<String>) -> Self {
        Self::Fatal {
            message: message.into(),
        }
    }

    pub(crate) fn unavailable(message: impl Into<String>) -> Self {
        Self::Unavailable {
            message: message.into(),
            retry_after: None,
        }
    }
}

impl Arguments {
    /// Reads what a provider delivered as text; an empty text is a call without arguments.
    pub fn parse(text: String) -> Self {
        let trimmed = text.trim();
        if trimmed.is_empty() {
            return Self::Object(empty_object());
        }
        let is_object = trimmed.starts_with('{');
        match serde_json::from_str::<Box<RawValue>>(trimmed) {
            Ok(raw) if is_object => Self::Object(raw),
            Ok(_) | Err(_) => Self::Text(text),
        }
    }

    /// Takes JSON that a provider delivered as JSON; null is a call without arguments.
    pub fn from_json(raw: Option<Box<RawValue>>) -> Self {
        match raw {
            None => Self::Object(empty_object()),
            Some(raw) if raw.get() == "null" => Self::Object(empty_object()),
            Some(raw) if raw.get().starts_with('{') => Self::Object(raw),
            Some(raw) => Self::Text(raw.get().to_owned()),
        }
    }

    /// The arguments as JSON text; what is no object is shown as a string.
    pub fn as_json(&self) -> Box<RawValue> {
        match self {
            Self::Object(raw) => raw.clone(),
            Self::Text(text) => raw_of(text),
        }
    }

    /// An object in every case, for providers that accept nothing else.
    pub fn as_object(&self) -> Box<RawValue> {
        match self {
            Self::Object(raw) => raw.clone(),
            Self::Text(text) => raw_of(&serde_json::json!({ "argumentsText": text })),
        }
    }

    /// The text as the model wrote it.
    pub fn text(&self) -> &str {
        match self {
            Self::Object(raw) => raw.get(),
            Self::Text(text) => text,
        }
    }
}

/// `{}`.
pub fn empty_object() -> Box<RawValue> {
    RawValue::from_string("{}".to_owned()).unwrap_or_default()
}

/// Any serialisable value as raw JSON.
pub fn raw_of<T: serde::Serialize + ?Sized>(value: &T) -> Box<RawValue> {
    serde_json::value::to_raw_value(value).unwrap_or_default()
}
