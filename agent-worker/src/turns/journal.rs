//! The journal as the loop reads it, and the form in which this worker writes conversations into it.
//!
//! A model request names what the model read by step, not by text: the answer to a call is in that
//! call's own step already, and a request that is sent again must stay the same to the last byte.

use std::collections::BTreeMap;

use legation_protocol::steps::{ModelRequest, StepAnswer, StepInput, StepView};
use legation_protocol::{Json, StepKind, StepState};
use serde::{Deserialize, Serialize};

use crate::models::{Arguments, Message, SaidCall, Turn, Usage, raw_of};

use super::answers;

/// The steps of one attempt by sequence.
#[derive(Debug, Clone, Default)]
pub struct Ledger {
    steps: BTreeMap<u32, StepView>,
}

/// One entry of `added`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "lowercase")]
pub enum Added {
    /// The task itself, or the worker's request to mend an answer.
    User {
        text: String,
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        repair: bool,
    },
    /// The model reads the answer that this step holds.
    Answer { step: u32 },
}

/// `result` of a COMPLETED model step: the wire's form, and what a provider wants back.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelSaid {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
    #[serde(default)]
    pub calls: Vec<ModelCall>,
    #[serde(default)]
    pub usage: legation_protocol::steps::Usage,
    #[serde(default)]
    pub model: String,
    /// The answer hit `max_tokens`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub truncated: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelCall {
    pub tool: String,
    pub arguments: Json,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// `result` of a FAILED model step.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ModelFailed {
    pub error: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// No other model was left: the task was deferred after this step (D34).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub deferred: bool,
}

impl Ledger {
    pub fn of(steps: impl IntoIterator<Item = StepView>) -> Self {
        Self {
            steps: steps.into_iter().map(|s| (s.sequence, s)).collect(),
        }
    }

    pub fn put(&mut self, step: StepView) {
        self.steps.insert(step.sequence, step);
    }

    /// Takes over what the engine answered to a step that was sent.
    pub fn record(&mut self, sent: &StepInput, answer: &StepAnswer) {
        let known = self.steps.get(&answer.sequence);
        let refused = answer.problem.as_ref().map(raw_of);
        let step = StepView {
            attempt: None,
            sequence: answer.sequence,
            kind: answer.kind,
            state: answer.state,
            tool_ref: answer.tool_ref.clone().unwrap_or_else(|| sent.tool_ref.clone()),
            call: sent.call.or_else(|| known.and_then(|k| k.call)),
            request: sent
                .request
                .clone()
                .or_else(|| known.and_then(|k| k.request.clone())),
            arguments: answer
                .arguments
                .clone()
                .or_else(|| known.and_then(|k| k.arguments.clone())),
            result: answer.result.clone().or_else(|| sent.result.clone()).or(refused),
            settled: answer.settled,
            policy: answer.policy.or_else(|| known.and_then(|k| k.policy)),
            idempotency_key: answer.idempotency_key.clone(),
            reused: answer.reused,
            child_instance_id: answer.child_instance_id.clone(),
            queued: answer.queued,
            approval_task_id: answer.approval_task_id.clone(),
            request_digest: known.map(|k| k.request_digest.clone()).unwrap_or_default(),
            effective_digest: known.and_then(|k| k.effective_digest.clone()),
            decided_by: known.and_then(|k| k.decided_by.clone()),
            comment: known.and_then(|k| k.comment.clone()),
            late_result: None,
            started_at: known.map(|k| k.started_at.clone()).unwrap_or_default(),
            ended_at: None,
        };
        self.put(step);
    }

    pub fn get(&self, sequence: u32) -> Option<&StepView> {
        self.steps.get(&sequence)
    }

    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &StepView> {
        self.steps.values()
    }

    /// The next free sequence.
    pub fn next_sequence(&self) -> u32 {
        self.steps.keys().next_back().map_or(1, |last| last + 1)
    }

    pub fn last_model(&self) -> Option<&StepView> {
        self.iter().rev().find(|s| s.kind == StepKind::Model)
    }

    /// The step that answers one call of one model step (D62).
    pub fn answer_of(&self, model_step: u32, index: usize) -> Option<&StepView> {
        let index = u32::try_from(index).ok()?;
        self.iter()
            .find(|s| s.call.is_some_and(|c| c.step == model_step && c.index == index))
    }

    /// Tokens of all model steps of the attempt, failed ones included.
    pub fn tokens(&self) -> u64 {
        let of = |s: &StepView| {
            let said: ModelSaid = serde_json::from_str(s.result.as_ref()?.get()).ok()?;
            Some(said.usage.input_tokens + said.usage.output_tokens)
        };
        self.iter()
            .filter(|s| s.kind == StepKind::Model)
            .filter_map(of)
            .sum()
    }

    /// How often in a row the task was deferred because no model was available (D34).
    pub fn deferrals(&self) -> u32 {
        let mut count = 0;
        for step in self.iter().rev() {
            if step.kind != StepKind::Model || step.state != StepState::Failed {
                break;
            }
            let failed: Option<ModelFailed> = step
                .result
                .as_ref()
                .and_then(|r| serde_json::from_str(r.get()).ok());
            if failed.is_some_and(|f| f.deferred) {
                count += 1;
            }
        }
        count
    }
}

/// What a completed model step said.
pub fn said(step: &StepView) -> Result<ModelSaid, String> {
    let result = step
        .result
        .as_ref()
        .ok_or_else(|| format!("model step {} has no result", step.sequence))?;
    serde_json::from_str(result.get())
        .map_err(|e| format!("the result of model step {} cannot be read: {e}", step.sequence))
}

/// What a model step asked.
pub fn request(step: &StepView) -> Result<ModelRequest, String> {
    let request = step
        .request
        .as_ref()
        .ok_or_else(|| format!("model step {} has no request", step.sequence))?;
    serde_json::from_str(request.get())
        .map_err(|e| format!("the request of model step {} cannot be read: {e}", step.sequence))
}

/// The whole conversation that a request stands for.
pub fn conversation(ledger: &Ledger, asked: &ModelRequest) -> Result<Vec<Message>, String> {
    let mut messages = match asked.base {
        None => Vec::new(),
        Some(base) => {
            let step = ledger
                .get(base)
                .ok_or_else(|| format!("model step {base} is not in the journal"))?;
            // Each base lies before its step, so this ends.
            if step.sequence >= ledger.next_sequence() || request(step)?.base.is_some_and(|b| b >= base) {
                return Err(format!("model step {base} begins with a later one"));
            }
            let mut messages = conversation(ledger, &request(step)?)?;
            messages.push(assistant(base, &said(step)?));
            messages
        }
    };
    let dropped = asked
        .dropped
        .and_then(|d| usize::try_from(d).ok())
        .unwrap_or(0)
        .min(messages.len());
    messages.drain(..dropped);
    for added in &asked.added {
        let added: Added = serde_json::from_str(added.get())
            .map_err(|e| format!("a message of the journal cannot be read: {e}"))?;
        match added {
            Added::User { text, .. } => messages.push(Message::User(text)),
            Added::Answer { step } => {
                let step = ledger
                    .get(step)
                    .ok_or_else(|| format!("step {step} is not in the journal"))?;
                let answer = answers::render(ledger, step);
                match messages.last_mut() {
                    Some(Message::Answers(answers)) => answers.push(answer),
                    _ => messages.push(Message::Answers(vec![answer])),
                }
            }
        }
    }
    Ok(messages)
}

fn assistant(sequence: u32, said: &ModelSaid) -> Message {
    let calls = said.calls.iter().enumerate().map(|(index, call)| SaidCall {
        id: call_id(sequence, index),
        function: safe_name(&call.tool),
        arguments: arguments_of(&call.arguments),
        signature: call.signature.clone(),
    });
    Message::Assistant {
        text: said.text.clone(),
        calls: calls.collect(),
    }
}

/// Our own id of a call: those that models choose repeat or are missing (D62).
pub fn call_id(model_step: u32, index: usize) -> String {
    format!("call_{model_step}_{index}")
}

/// A string in place of an object is what a model wrote instead of JSON.
pub fn arguments_of(raw: &Json) -> Arguments {
    match serde_json::from_str::<String>(raw.get()) {
        Ok(text) => Arguments::Text(text),
        Err(_) => Arguments::from_json(Some(raw.clone())),
    }
}

/// A function name as providers accept it, whatever a model wrote.
pub fn safe_name(name: &str) -> String {
    let safe: String = name
        .chars()
        .take(64)
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '_'
            }
        })
        .collect();
    if safe.is_empty() {
        "unnamed".to_owned()
    } else {
        safe
    }
}

impl From<Turn> for ModelSaid {
    fn from(turn: Turn) -> Self {
        let Usage {
            input_tokens,
            output_tokens,
        } = turn.usage;
        let calls = turn.calls.into_iter().map(|call| ModelCall {
            tool: call.function,
            arguments: call.arguments.as_json(),
            call_id: call.id,
            signature: call.signature,
        });
        Self {
            text: turn.text,
            calls: calls.collect(),
            usage: legation_protocol::steps::Usage {
                input_tokens,
                output_tokens,
            },
            model: turn.model,
            truncated: turn.truncated,
        }
    }
}
