//! Anthropic's messages.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::transport::{self, Lines};
use super::{Arguments, Call, Message, Model, ModelError, Turn, TurnRequest, Usage};
use crate::http::Outgoing;

pub const DEFAULT_BASE_URL: &str = "https://api.anthropic.com";

/// One of Anthropic's models.
#[derive(Debug)]
pub struct Anthropic {
    pub outgoing: Outgoing,
    /// With or without `/v1`.
    pub base_url: String,
    pub key: Option<crate::secret::Secret>,
    pub model: String,
}

#[async_trait]
impl Model for Anthropic {
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
        transport::within(request.timeout, self.ask(&request)).await
    }
}

impl Anthropic {
    async fn ask(&self, request: &TurnRequest<'_>) -> Result<Turn, ModelError> {
        let base = self.base_url.trim_end_matches('/').trim_end_matches("/v1");
        let url = self.outgoing.check(&format!("{base}/v1/messages"))?;
        let mut post = self
            .outgoing
            .client()
            .post(url)
            .header("anthropic-version", "2023-06-01");
        if let Some(key) = &self.key {
            post = post.header("x-api-key", key.expose());
        }
        let body = Body {
            model: &self.model,
            max_tokens: request.max_tokens,
            system: request.system,
            messages: messages(request.messages),
            tools: request.functions.iter().map(Tool::from).collect(),
            temperature: request.temperature,
            stream: request.on_text.is_some(),
        };
        let body = serde_json::to_vec(&body)
            .map_err(|e| ModelError::fatal(format!("the request cannot be written: {e}")))?;
        let lines = transport::send(post, body).await?;
        if lines.is_event_stream() {
            return read_stream(lines, request, &self.model).await;
        }
        let whole: Whole = transport::read(&lines.whole().await?)?;
        Ok(whole.into_turn())
    }
}

fn messages(conversation: &[Message]) -> Vec<WireMessage<'_>> {
    let said = conversation.iter().map(|message| match message {
        Message::User(text) => WireMessage {
            role: "user",
            content: vec![Block::text(text)],
        },
        Message::Assistant { text, calls } => {
            // Anthropic refuses empty texts and empty messages.
            let text = text.as_deref().filter(|t| !t.trim().is_empty());
            let mut content: Vec<Block<'_>> = text.map(Block::text).into_iter().collect();
            content.extend(calls.iter().map(|c| Block::ToolUse {
                id: &c.id,
                name: &c.function,
                input: c.arguments.as_object(),
            }));
            if content.is_empty() {
                content.push(Block::text("(no answer)"));
            }
            WireMessage {
                role: "assistant",
                content,
            }
        }
        Message::Answers(answers) => WireMessage {
            role: "user",
            content: answers
                .iter()
                .map(|a| Block::ToolResult {
                    tool_use_id: &a.id,
                    content: &a.text,
                    is_error: a.is_error,
                })
                .collect(),
        },
    });
    said.collect()
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    max_tokens: u32,
    #[serde(skip_serializing_if = "str::is_empty")]
    system: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tool<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'a str,
    content: Vec<Block<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "snake_case")]
enum BlockKind {
    Text,
    ToolUse,
    ToolResult,
}

/// Written by hand below: raw JSON cannot pass through a tagged enum of serde.
enum Block<'a> {
    Text(&'a str),
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: Box<RawValue>,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        is_error: bool,
    },
}

impl<'a> Block<'a> {
    fn text(text: &'a str) -> Self {
        Self::Text(text)
    }
}

impl Serialize for Block<'_> {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        use serde::ser::SerializeMap;
        let mut map = serializer.serialize_map(None)?;
        match self {
            Self::Text(text) => {
                map.serialize_entry("type", &BlockKind::Text)?;
                map.serialize_entry("text", text)?;
            }
            Self::ToolUse { id, name, input } => {
                map.serialize_entry("type", &BlockKind::ToolUse)?;
                map.serialize_entry("id", id)?;
                map.serialize_entry("name", name)?;
                map.serialize_entry("input", input)?;
            }
            Self::ToolResult {
                tool_use_id,
                content,
                is_error,
            } => {
                map.serialize_entry("type", &BlockKind::ToolResult)?;
                map.serialize_entry("tool_use_id", tool_use_id)?;
                map.serialize_entry("content", content)?;
                map.serialize_entry("is_error", is_error)?;
            }
        }
        map.end()
    }
}

#[derive(Serialize)]
struct Tool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a RawValue,
}

impl<'a> From<&'a super::Function> for Tool<'a> {
    fn from(f: &'a super::Function) -> Self {
        Self {
            name: &f.name,
            description: &f.description,
            input_schema: &f.parameters,
        }
    }
}

#[derive(Deserialize)]
struct Whole {
    model: String,
    content: Vec<WholeBlock>,
    stop_reason: Option<String>,
    usage: WireUsage,
}

#[derive(Deserialize)]
struct WholeBlock {
    #[serde(rename = "type")]
    kind: String,
    text: Option<String>,
    id: Option<String>,
    name: Option<String>,
    input: Option<Box<RawValue>>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct WireUsage {
    input_tokens: u64,
    cache_creation_input_tokens: Option<u64>,
    cache_read_input_tokens: Option<u64>,
    output_tokens: u64,
}

impl WireUsage {
    fn input(&self) -> u64 {
        self.input_tokens
            + self.cache_creation_input_tokens.unwrap_or(0)
            + self.cache_read_input_tokens.unwrap_or(0)
    }
}

impl Whole {
    fn into_turn(self) -> Turn {
        let usage = Usage {
            input_tokens: self.usage.input(),
            output_tokens: self.usage.output_tokens,
        };
        let mut text = String::new();
        let mut calls = Vec::new();
        for block in self.content {
            match block.kind.as_str() {
                "text" => text.push_str(block.text.as_deref().unwrap_or_default()),
                "tool_use" => calls.push(Call {
                    id: block.id,
                    function: block.name.unwrap_or_default(),
                    arguments: Arguments::from_json(block.input),
                    signature: None,
                }),
                _ => {}
            }
        }
        Turn {
            text: Some(text).filter(|t| !t.is_empty()),
            calls,
            usage,
            model: self.model,
            truncated: self.stop_reason.as_deref() == Some("max_tokens"),
        }
    }
}

#[derive(Deserialize)]
struct Event {
    #[serde(rename = "type")]
    kind: String,
    index: Option<usize>,
    message: Option<Started>,
    content_block: Option<WholeBlock>,
    delta: Option<Delta>,
    usage: Option<WireUsage>,
    error: Option<WireError>,
}

#[derive(Deserialize)]
struct Started {
    model: Option<String>,
    usage: Option<WireUsage>,
}

#[derive(Deserialize)]
struct Delta {
    text: Option<String>,
    partial_json: Option<String>,
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct WireError {
    #[serde(rename = "type")]
    kind: String,
    message: String,
}

async fn read_stream(mut lines: Lines, request: &TurnRequest<'_>, asked: &str) -> Result<Turn, ModelError> {
    let mut turn = Turn {
        text: None,
        calls: Vec::new(),
        usage: Usage::default(),
        model: asked.to_owned(),
        truncated: false,
    };
    let mut text = String::new();
    // (block index, what is known at its start, its arguments so far)
    let mut calls: Vec<(usize, WholeBlock, String)> = Vec::new();
    let mut ended = false;
    while let Some(data) = lines.next_event().await? {
        let event: Event = transport::read(&data)?;
        if let Some(error) = event.error {
            return Err(stream_error(error));
        }
        if let Some(started) = event.message {
            turn.model = started.model.unwrap_or(turn.model);
            turn.usage.input_tokens = started.usage.map_or(0, |u| u.input());
        }
        if let Some(usage) = event.usage {
            turn.usage.output_tokens = usage.output_tokens;
        }
        let at = event.index.unwrap_or_default();
        if let Some(block) = event.content_block.filter(|b| b.kind == "tool_use") {
            calls.push((at, block, String::new()));
        }
        if let Some(delta) = event.delta {
            if let Some(piece) = delta.text {
                if let Some(on_text) = request.on_text {
                    on_text(&piece);
                }
                text.push_str(&piece);
            }
            if let Some(piece) = delta.partial_json
                && let Some(call) = calls.iter_mut().find(|c| c.0 == at)
            {
                call.2.push_str(&piece);
            }
            if delta.stop_reason.as_deref() == Some("max_tokens") {
                turn.truncated = true;
            }
        }
        if event.kind == "message_stop" {
            ended = true;
            break;
        }
    }
    if !ended {
        return Err(transport::cut_off());
    }
    turn.text = Some(text).filter(|t| !t.is_empty());
    turn.calls = calls
        .into_iter()
        .map(|(_, block, written)| Call {
            id: block.id,
            function: block.name.unwrap_or_default(),
            arguments: if written.is_empty() {
                Arguments::from_json(block.input)
            } else {
                Arguments::parse(written)
            },
            signature: None,
        })
        .collect();
    Ok(turn)
}

fn stream_error(error: WireError) -> ModelError {
    let message = format!("{}: {}", error.kind, error.message);
    match error.kind.as_str() {
        "overloaded_error" | "api_error" | "rate_limit_error" | "timeout_error" => {
            ModelError::unavailable(message)
        }
        _ => ModelError::fatal(message),
    }
}
