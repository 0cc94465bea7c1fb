//! OpenAI's chat completions, which most hosted and local model servers speak as well.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::transport::{self, Lines};
use super::{Arguments, Call, Function, Message, Model, ModelError, Turn, TurnRequest, Usage};
use crate::http::Outgoing;

pub const DEFAULT_BASE_URL: &str = "https://api.openai.com/v1";

/// One model behind an OpenAI-compatible address.
#[derive(Debug)]
pub struct OpenAi {
    pub outgoing: Outgoing,
    /// Up to and including `/v1`.
    pub base_url: String,
    /// None for servers that ask for no key.
    pub key: Option<crate::secret::Secret>,
    pub model: String,
}

#[async_trait]
impl Model for OpenAi {
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
        transport::within(request.timeout, self.ask(&request)).await
    }
}

impl OpenAi {
    async fn ask(&self, request: &TurnRequest<'_>) -> Result<Turn, ModelError> {
        let url = self.outgoing.check(&format!(
            "{}/chat/completions",
            self.base_url.trim_end_matches('/')
        ))?;
        let mut post = self.outgoing.client().post(url);
        if let Some(key) = &self.key {
            post = post.bearer_auth(key.expose());
        }
        let mut lines = transport::send(post, self.body(request)?).await?;
        let mut answer = Partial::default();
        if lines.is_event_stream() {
            read_stream(&mut lines, &mut answer, request).await?;
        } else {
            answer.absorb(transport::read(&lines.whole().await?)?, request)?;
        }
        answer.finish(&self.model)
    }

    fn body(&self, request: &TurnRequest<'_>) -> Result<Vec<u8>, ModelError> {
        let stream = request.on_text.is_some();
        // OpenAI's newer models refuse the old name, other servers do not know the new one.
        let is_openai = self.base_url.starts_with("https://api.openai.com");
        let body = Body {
            model: &self.model,
            messages: messages(request),
            tools: request.functions.iter().map(tool).collect(),
            max_tokens: (!is_openai).then_some(request.max_tokens),
            max_completion_tokens: is_openai.then_some(request.max_tokens),
            temperature: request.temperature,
            stream,
            stream_options: stream.then_some(StreamOptions { include_usage: true }),
        };
        serde_json::to_vec(&body)
            .map_err(|e| ModelError::fatal(format!("the request cannot be written: {e}")))
    }
}

async fn read_stream(
    lines: &mut Lines,
    answer: &mut Partial,
    request: &TurnRequest<'_>,
) -> Result<(), ModelError> {
    while let Some(data) = lines.next_event().await? {
        if data.trim() == "[DONE]" {
            answer.ended = true;
            break;
        }
        answer.absorb(transport::read(&data)?, request)?;
    }
    if answer.ended {
        Ok(())
    } else {
        Err(transport::cut_off())
    }
}

fn messages<'a>(request: &'a TurnRequest<'_>) -> Vec<WireMessage<'a>> {
    let mut out = Vec::new();
    if !request.system.is_empty() {
        out.push(WireMessage::text("system", request.system));
    }
    for message in request.messages {
        match message {
            Message::User(text) => out.push(WireMessage::text("user", text)),
            Message::Assistant { text, calls } => out.push(WireMessage {
                role: "assistant",
                content: text.as_deref(),
                tool_call_id: None,
                tool_calls: calls
                    .iter()
                    .map(|c| WireCall {
                        id: &c.id,
                        kind: "function",
                        function: WireFunction {
                            name: &c.function,
                            arguments: c.arguments.text(),
                        },
                    })
                    .collect(),
            }),
            Message::Answers(answers) => out.extend(answers.iter().map(|a| WireMessage {
                role: "tool",
                content: Some(&a.text),
                tool_call_id: Some(&a.id),
                tool_calls: Vec::new(),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct WireMessage<'a> {
    role: &'a str,
    content: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<WireCall<'a>>,
}

impl<'a> WireMessage<'a> {
    fn text(role: &'a str, content: &'a str) -> Self {
        Self {
            role,
            content: Some(content),
            tool_call_id: None,
            tool_calls: Vec::new(),
        }
    }
}

#[derive(Serialize)]
struct WireCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'a str,
    function: WireFunction<'a>,
}

#[derive(Serialize)]
struct WireFunction<'a> {
    name: &'a str,
    arguments: &'a str,
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

/// A whole answer or a piece of one: `message` and `delta` have the same shape.
#[derive(Deserialize)]
struct Chunk {
    model: Option<String>,
    #[serde(default)]
    choices: Vec<Choice>,
    usage: Option<WireUsage>,
    error: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct Choice {
    delta: Option<Said>,
    message: Option<Said>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct Said {
    content: Option<String>,
    tool_calls: Option<Vec<CallPiece>>,
}

#[derive(Deserialize)]
struct CallPiece {
    index: Option<usize>,
    id: Option<String>,
    function: Option<FunctionPiece>,
}

#[derive(Deserialize)]
struct FunctionPiece {
    name: Option<String>,
    /// A string by the contract; some servers send the object itself.
    arguments: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
struct WireUsage {
    #[serde(default)]
    prompt_tokens: u64,
    #[serde(default)]
    completion_tokens: u64,
}

#[derive(Default)]
struct Partial {
    text: String,
    calls: Vec<PartialCall>,
    usage: Usage,
    model: Option<String>,
    truncated: bool,
    ended: bool,
}

#[derive(Default)]
struct PartialCall {
    index: Option<usize>,
    id: Option<String>,
    name: String,
    arguments: String,
}

impl Partial {
    fn absorb(&mut self, chunk: Chunk, request: &TurnRequest<'_>) -> Result<(), ModelError> {
        if let Some(error) = chunk.error.filter(|e| e.get() != "null") {
            return Err(stream_error(error.get()));
        }
        self.model = chunk.model.or(self.model.take());
        if let Some(usage) = chunk.usage {
            self.usage = Usage {
                input_tokens: usage.prompt_tokens,
                output_tokens: usage.completion_tokens,
            };
        }
        let Some(choice) = chunk.choices.into_iter().next() else {
            return Ok(());
        };
        if let Some(reason) = choice.finish_reason {
            self.ended = true;
            self.truncated = reason == "length";
        }
        let Some(said) = choice.delta.or(choice.message) else {
            return Ok(());
        };
        if let Some(text) = said.content.filter(|t| !t.is_empty()) {
            if let Some(on_text) = request.on_text {
                on_text(&text);
            }
            self.text.push_str(&text);
        }
        for piece in said.tool_calls.unwrap_or_default() {
            self.absorb_call(piece);
        }
        Ok(())
    }

    /// Pieces belong together by index; without one, or when a server repeats it with another id, a
    /// piece that names a function begins a new call.
    fn absorb_call(&mut self, piece: CallPiece) {
        let names = piece
            .function
            .as_ref()
            .and_then(|f| f.name.as_deref())
            .is_some_and(|n| !n.is_empty());
        let known = self.calls.iter().rposition(|c| match piece.index {
            Some(_) => {
                c.index == piece.index && (piece.id.is_none() || c.id.is_none() || c.id == piece.id || !names)
            }
            None => !names,
        });
        let at = known.unwrap_or_else(|| {
            self.calls.push(PartialCall {
                index: piece.index,
                ..PartialCall::default()
            });
            self.calls.len() - 1
        });
        let Some(call) = self.calls.get_mut(at) else {
            return;
        };
        call.id = call.id.take().or(piece.id.filter(|id| !id.is_empty()));
        let Some(function) = piece.function else { return };
        if let Some(name) = function.name
            && call.name.is_empty()
        {
            call.name = name;
        }
        if let Some(raw) = function.arguments {
            let text = serde_json::from_str::<String>(raw.get()).unwrap_or_else(|_| raw.get().to_owned());
            call.arguments.push_str(&text);
        }
    }

    fn finish(self, asked: &str) -> Result<Turn, ModelError> {
        let calls = self.calls.into_iter().map(|c| Call {
            id: c.id,
            function: c.name,
            arguments: Arguments::parse(c.arguments),
            signature: None,
        });
        Ok(Turn {
            text: Some(self.text).filter(|t| !t.is_empty()),
            calls: calls.collect(),
            usage: self.usage,
            model: self.model.unwrap_or_else(|| asked.to_owned()),
            truncated: self.truncated,
        })
    }
}

fn stream_error(error: &str) -> ModelError {
    let busy = [
        "rate_limit",
        "overloaded",
        "server_error",
        "insufficient_quota",
        "timeout",
        "unavailable",
    ];
    let message = format!("the answer broke off: {error}");
    let lower = message.to_ascii_lowercase();
    if busy.iter().any(|word| lower.contains(word)) {
        return ModelError::unavailable(message);
    }
    ModelError::fatal(message)
}
