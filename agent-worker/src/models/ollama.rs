//! Ollama's own chat API (not its OpenAI imitation, which cannot set the context size).

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::transport;
use super::{Arguments, Call, Function, Message, Model, ModelError, Turn, TurnRequest, Usage};
use crate::http::Outgoing;

pub const DEFAULT_BASE_URL: &str = "http://127.0.0.1:11434";

/// Ollama cuts a conversation silently at its own default of 4,096 tokens, which tools alone can fill.
pub const DEFAULT_CONTEXT: u32 = 16_384;

/// One model of an Ollama server.
#[derive(Debug)]
pub struct Ollama {
    pub outgoing: Outgoing,
    pub base_url: String,
    pub key: Option<crate::secret::Secret>,
    pub model: String,
    /// Tokens of context.
    pub context: u32,
}

#[async_trait]
impl Model for Ollama {
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
        transport::within(request.timeout, self.ask(&request)).await
    }
}

impl Ollama {
    async fn ask(&self, request: &TurnRequest<'_>) -> Result<Turn, ModelError> {
        let url = self
            .outgoing
            .check(&format!("{}/api/chat", self.base_url.trim_end_matches('/')))?;
        let mut post = self.outgoing.client().post(url);
        if let Some(key) = &self.key {
            post = post.bearer_auth(key.expose());
        }
        let body = Body {
            model: &self.model,
            messages: messages(request),
            tools: request.functions.iter().map(tool).collect(),
            stream: request.on_text.is_some(),
            options: Options {
                num_predict: request.max_tokens,
                num_ctx: self.context,
                temperature: request.temperature,
            },
        };
        let body = serde_json::to_vec(&body)
            .map_err(|e| ModelError::fatal(format!("the request cannot be written: {e}")))?;
        let mut lines = transport::send(post, body).await?;
        let mut turn = Turn {
            text: None,
            calls: Vec::new(),
            usage: Usage::default(),
            model: self.model.clone(),
            truncated: false,
        };
        let mut text = String::new();
        while let Some(line) = lines.next().await? {
            if line.trim().is_empty() {
                continue;
            }
            if absorb(&mut turn, &mut text, transport::read(&line)?, request)? {
                turn.text = Some(text).filter(|t| !t.is_empty());
                return Ok(turn);
            }
        }
        Err(transport::cut_off())
    }
}

/// True when this was the last piece.
fn absorb(
    turn: &mut Turn,
    text: &mut String,
    chunk: Chunk,
    request: &TurnRequest<'_>,
) -> Result<bool, ModelError> {
    if let Some(error) = chunk.error {
        return Err(ModelError::unavailable(error));
    }
    if let Some(model) = chunk.model {
        turn.model = model;
    }
    if let Some(said) = chunk.message {
        if let Some(piece) = said.content.filter(|c| !c.is_empty()) {
            if let Some(on_text) = request.on_text {
                on_text(&piece);
            }
            text.push_str(&piece);
        }
        turn.calls
            .extend(said.tool_calls.unwrap_or_default().into_iter().map(|call| Call {
                id: call.id,
                function: call.function.name,
                arguments: Arguments::from_json(call.function.arguments),
                signature: None,
            }));
    }
    if !chunk.done {
        return Ok(false);
    }
    turn.truncated = chunk.done_reason.as_deref() == Some("length");
    turn.usage = Usage {
        input_tokens: chunk.prompt_eval_count,
        output_tokens: chunk.eval_count,
    };
    Ok(true)
}

fn messages<'a>(request: &'a TurnRequest<'_>) -> Vec<WireMessage<'a>> {
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(WireMessage::text("system", request.system));
    }
    for message in request.messages {
        match message {
            Message::User(text) => out.push(WireMessage::text("user", text)),
            Message::Assistant { text, calls } => {
                let mut message = WireMessage::text("assistant", text.as_deref().unwrap_or_default());
                message.tool_calls = calls
                    .iter()
                    .map(|c| WireCall {
                        function: WireFunction {
                            name: &c.function,
                            arguments: c.arguments.as_object(),
                        },
                    })
                    .collect();
                out.push(message);
            }
            Message::Answers(answers) => out.extend(answers.iter().map(|a| {
                let mut message = WireMessage::text("tool", &a.text);
                message.tool_name = Some(&a.function);
                message
            })),
        }
    }
    out
}

fn tool(function: &Function) -> WireTool<'_> {
    WireTool {
        kind: "function",
        function: WireDeclaration {
            name: &function.name,
            description: &function.description,
            parameters: &function.parameters,
        },
    }
}

#[derive(Serialize)]
struct Body<'a> {
    model: &'a str,
    messages: Vec<WireMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<WireTool<'a>>,
    stream: bool,
    options: Options,
}

#[derive(Serialize)]
struct Options {
    num_predict: u32,
    num_ctx: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'a str,
    content: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

impl<'a> WireMessage<'a> {
    fn text(role: &'a str, content: &'a str) -> Self {
        Self {
            role,
            content,
            tool_name: None,
            tool_calls: Vec::new(),
        }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: Box<RawValue>,
}

#[derive(Serialize)]
struct WireTool<'a> {
    #[serde(rename = "type")]
    kind: &'a str,
    function: WireDeclaration<'a>,
}

#[derive(Serialize)]
struct WireDeclaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a RawValue,
}

#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    message: Option<Said>,
    #[serde(default)]
    done: bool,
    done_reason: Option<String>,
    #[serde(default)]
    prompt_eval_count: u64,
    #[serde(default)]
    eval_count: u64,
    error: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    tool_calls: Option<Vec<SaidCall>>,
}

#[derive(Deserialize)]
struct SaidCall {
    id: Option<String>,
    function: SaidFunction,
}

#[derive(Deserialize)]
struct SaidFunction {
    name: String,
    arguments: Option<Box<RawValue>>,
}
