//! Google's Gemini API. It correlates answers by name and order, and its thinking models want the
//! signature of a call back with the call.

use async_trait::async_trait;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use super::transport;
use super::{Arguments, Call, Message, Model, ModelError, SaidCall, Turn, TurnRequest, Usage, raw_of};
use crate::http::Outgoing;

pub const DEFAULT_BASE_URL: &str = "https://generativelanguage.googleapis.com";

/// What Google documents for calls whose signature is not known (they came from another model).
const NO_SIGNATURE: &str = "skip_thought_signature_validator";

/// One of Google's models.
#[derive(Debug)]
pub struct Gemini {
    pub outgoing: Outgoing,
    pub base_url: String,
    pub key: Option<crate::secret::Secret>,
    pub model: String,
}

#[async_trait]
impl Model for Gemini {
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
        transport::within(request.timeout, self.ask(&request)).await
    }
}

impl Gemini {
    async fn ask(&self, request: &TurnRequest<'_>) -> Result<Turn, ModelError> {
        let base = self.base_url.trim_end_matches('/').trim_end_matches("/v1beta");
        let method = if request.on_text.is_some() {
            "streamGenerateContent?alt=sse"
        } else {
            "generateContent"
        };
        let url = self
            .outgoing
            .check(&format!("{base}/v1beta/models/{}:{method}", self.model))?;
        let mut post = self.outgoing.client().post(url);
        if let Some(key) = &self.key {
            post = post.header("x-goog-api-key", key.expose());
        }
        let declarations: Vec<Declaration<'_>> = request.functions.iter().map(Declaration::from).collect();
        let body = Body {
            system_instruction: (!request.system.is_empty()).then(|| Content {
                role: None,
                parts: vec![Part::text(request.system)],
            }),
            contents: self.contents(request.messages),
            tools: if declarations.is_empty() {
                Vec::new()
            } else {
                vec![Tools { declarations }]
            },
            generation_config: GenerationConfig {
                max_output_tokens: request.max_tokens,
                temperature: request.temperature,
            },
        };
        let body = serde_json::to_vec(&body)
            .map_err(|e| ModelError::fatal(format!("the request cannot be written: {e}")))?;
        let mut lines = transport::send(post, body).await?;
        let mut answer = Partial::default();
        if lines.is_event_stream() {
            while let Some(data) = lines.next_event().await? {
                answer.absorb(transport::read(&data)?, request)?;
            }
        } else {
            answer.absorb(transport::read(&lines.whole().await?)?, request)?;
        }
        answer.finish(&self.model)
    }

    fn contents<'a>(&self, conversation: &'a [Message]) -> Vec<Content<'a>> {
        let contents = conversation.iter().map(|message| match message {
            Message::User(text) => Content {
                role: Some("user"),
                parts: vec![Part::text(text)],
            },
            Message::Assistant { text, calls } => {
                let text = text.as_deref().filter(|t| !t.is_empty());
                let mut parts: Vec<Part<'a>> = text.map(Part::text).into_iter().collect();
                let unsigned = calls.iter().all(|c| c.signature.is_none());
                let stand_in = (unsigned && self.model.starts_with("gemini-3")).then_some(NO_SIGNATURE);
                for (at, call) in calls.iter().enumerate() {
                    let stand_in = stand_in.filter(|_| at == 0);
                    parts.push(Part::call(call, call.signature.as_deref().or(stand_in)));
                }
                if parts.is_empty() {
                    parts.push(Part::text("(no answer)"));
                }
                Content {
                    role: Some("model"),
                    parts,
                }
            }
            Message::Answers(answers) => Content {
                role: Some("user"),
                parts: answers
                    .iter()
                    .map(|a| {
                        let field = if a.is_error { "error" } else { "result" };
                        Part::answer(&a.function, raw_of(&serde_json::json!({ field: a.text })))
                    })
                    .collect(),
            },
        });
        contents.collect()
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Body<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    system_instruction: Option<Content<'a>>,
    contents: Vec<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<Tools<'a>>,
    generation_config: GenerationConfig,
}

#[derive(Serialize)]
struct Content<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    role: Option<&'a str>,
    parts: Vec<Part<'a>>,
}

#[derive(Serialize, Default)]
#[serde(rename_all = "camelCase")]
struct Part<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_call: Option<FunctionCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    function_response: Option<FunctionResponse<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    thought_signature: Option<&'a str>,
}

#[derive(Serialize)]
struct FunctionCall<'a> {
    name: &'a str,
    args: Box<RawValue>,
}

#[derive(Serialize)]
struct FunctionResponse<'a> {
    name: &'a str,
    response: Box<RawValue>,
}

impl<'a> Part<'a> {
    fn text(text: &'a str) -> Self {
        Self {
            text: Some(text),
            ..Self::default()
        }
    }

    fn call(call: &'a SaidCall, signature: Option<&'a str>) -> Self {
        let function_call = Some(FunctionCall {
            name: &call.function,
            args: call.arguments.as_object(),
        });
        Self {
            function_call,
            thought_signature: signature,
            ..Self::default()
        }
    }

    fn answer(name: &'a str, response: Box<RawValue>) -> Self {
        Self {
            function_response: Some(FunctionResponse { name, response }),
            ..Self::default()
        }
    }
}

#[derive(Serialize)]
struct Tools<'a> {
    #[serde(rename = "functionDeclarations")]
    declarations: Vec<Declaration<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Declaration<'a> {
    name: &'a str,
    description: &'a str,
    parameters_json_schema: &'a RawValue,
}

impl<'a> From<&'a super::Function> for Declaration<'a> {
    fn from(f: &'a super::Function) -> Self {
        Self {
            name: &f.name,
            description: &f.description,
            parameters_json_schema: &f.parameters,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct GenerationConfig {
    max_output_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f64>,
}

/// A whole answer or a piece of one; they have the same shape.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Chunk {
    #[serde(default)]
    candidates: Vec<Candidate>,
    usage_metadata: Option<WireUsage>,
    model_version: Option<String>,
    prompt_feedback: Option<PromptFeedback>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Candidate {
    content: Option<CandidateContent>,
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct CandidateContent {
    #[serde(default)]
    parts: Vec<CandidatePart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct CandidatePart {
    text: Option<String>,
    thought: Option<bool>,
    function_call: Option<CandidateCall>,
    thought_signature: Option<String>,
}

#[derive(Deserialize)]
struct CandidateCall {
    id: Option<String>,
    name: String,
    args: Option<Box<RawValue>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PromptFeedback {
    block_reason: Option<String>,
}

#[derive(Deserialize, Default)]
#[serde(rename_all = "camelCase", default)]
struct WireUsage {
    prompt_token_count: u64,
    candidates_token_count: u64,
    thoughts_token_count: u64,
}

#[derive(Default)]
struct Partial {
    text: String,
    calls: Vec<Call>,
    usage: Usage,
    model: Option<String>,
    finished: Option<String>,
}

impl Partial {
    fn absorb(&mut self, chunk: Chunk, request: &TurnRequest<'_>) -> Result<(), ModelError> {
        if let Some(reason) = chunk.prompt_feedback.and_then(|f| f.block_reason) {
            return Err(ModelError::fatal(format!(
                "the provider blocked the request: {reason}"
            )));
        }
        self.model = chunk.model_version.or(self.model.take());
        if let Some(usage) = chunk.usage_metadata {
            self.usage = Usage {
                input_tokens: usage.prompt_token_count,
                output_tokens: usage.candidates_token_count + usage.thoughts_token_count,
            };
        }
        let Some(candidate) = chunk.candidates.into_iter().next() else {
            return Ok(());
        };
        self.finished = candidate.finish_reason.or(self.finished.take());
        for part in candidate.content.map(|c| c.parts).unwrap_or_default() {
            if let Some(call) = part.function_call {
                self.calls.push(Call {
                    id: call.id,
                    function: call.name,
                    arguments: Arguments::from_json(call.args),
                    signature: part.thought_signature,
                });
            } else if let Some(text) = part.text.filter(|_| part.thought != Some(true)) {
                if let Some(on_text) = request.on_text {
                    on_text(&text);
                }
                self.text.push_str(&text);
            }
        }
        Ok(())
    }

    fn finish(self, asked: &str) -> Result<Turn, ModelError> {
        let Some(reason) = self.finished else {
            return Err(transport::cut_off());
        };
        let empty = self.text.is_empty() && self.calls.is_empty();
        if empty
            && matches!(
                reason.as_str(),
                "SAFETY" | "RECITATION" | "BLOCKLIST" | "PROHIBITED_CONTENT"
            )
        {
            return Err(ModelError::fatal(format!(
                "the provider blocked the answer: {reason}"
            )));
        }
        Ok(Turn {
            text: Some(self.text).filter(|t| !t.is_empty()),
            calls: self.calls,
            usage: self.usage,
            model: self.model.unwrap_or_else(|| asked.to_owned()),
            truncated: reason == "MAX_TOKENS",
        })
    }
}
