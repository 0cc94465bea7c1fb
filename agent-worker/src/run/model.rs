//! One turn of a model: journaled before it is asked, with fallbacks and deferral when none is available (D34).

use std::time::Duration;

use legation_protocol::steps::{ModelRequest, StepInput, StepsRequest};
use legation_protocol::{StepKind, StepState};

use super::{Ended, Go, Run, Stop};
use crate::models::{Message, Model, ModelError, Turn, TurnRequest, raw_of};
use crate::secret::redact;
use crate::turns::journal::{ModelFailed, ModelSaid};
use crate::turns::system_message;

/// The first wait after every model was unavailable; it doubles up to `MAX_DEFERRAL`.
const FIRST_DEFERRAL: Duration = Duration::from_secs(5);
const MAX_DEFERRAL: Duration = Duration::from_secs(15 * 60);
/// Deferrals in a row; the next one counts as a failure.
const MAX_DEFERRALS: u32 = 12;

impl Run {
    /// Asks the node's model, then its fallbacks while they are unavailable.
    pub(super) async fn ask(
        &mut self,
        mut sequence: u32,
        request: ModelRequest,
        conversation: &[Message],
        open: Option<String>,
    ) -> Go<()> {
        let names = self.model_names();
        // A step that is open already keeps its target, or it would be another step.
        let open_name = open
            .as_deref()
            .and_then(|t| t.strip_prefix("model:"))
            .map(str::to_owned);
        let begin = open_name
            .as_ref()
            .map_or(0, |o| names.iter().position(|n| n == o).unwrap_or(names.len()));
        let mut queue: Vec<String> = names.get(begin..).map(<[String]>::to_vec).unwrap_or_default();
        if queue.is_empty() {
            queue.extend(open_name);
        }
        let mut waits: Vec<Duration> = Vec::new();
        while !queue.is_empty() {
            let name = queue.remove(0);
            if !self.begin_turn(sequence, &name, &request).await? {
                return Ok(());
            }
            let error = match self.turn(&name, conversation).await? {
                Ok(turn) => return self.said(sequence, &name, turn).await,
                Err(error) => error,
            };
            tracing::warn!(task = %self.lease, model = name, step = sequence, error = %redact(&error.to_string()), "no turn");
            let fatal = matches!(error, ModelError::Fatal { .. });
            let last = queue.is_empty();
            waits.extend(self.failed(sequence, &name, &error, last && !fatal).await?);
            if fatal {
                let ended = self.fail("MODEL_FAILED", error.to_string(), false, None).await?;
                return Err(Stop::Ended(ended));
            }
            sequence += 1;
        }
        self.defer(waits).await
    }

    fn model_names(&self) -> Vec<String> {
        let mut names = vec![self.shared.models.asked(self.agent.model.as_deref())];
        for fallback in self.agent.fallback_models.iter().take(3) {
            if !names.contains(fallback) {
                names.push(fallback.clone());
            }
        }
        names
    }

    /// In the single form: the engine's limits answer an error there and record nothing. False when the step
    /// has its answer already: a late result of the lease before this one (D40).
    async fn begin_turn(&mut self, sequence: u32, name: &str, request: &ModelRequest) -> Go<bool> {
        let step = StepInput {
            sequence,
            kind: StepKind::Model,
            state: StepState::Started,
            tool_ref: format!("model:{name}"),
            call: None,
            request: Some(raw_of(request)),
            result: None,
        };
        let body = StepsRequest {
            worker_id: self.shared.worker_id.clone(),
            attempt: self.attempt,
            sequence: Some(sequence),
            kind: Some(step.kind),
            state: Some(step.state),
            tool_ref: Some(step.tool_ref.clone()),
            request: step.request.clone(),
            ..StepsRequest::default()
        };
        let error = match self.shared.engine.steps(&self.lease, &body).await {
            Ok(answer) => {
                let answers = self.take(&[step], answer)?;
                return Ok(answers.iter().all(|a| a.state == StepState::Started));
            }
            Err(error) => error,
        };
        let Some(problem) = error.problem().cloned() else {
            return Err(error.into());
        };
        match problem.code.as_str() {
            "TURN_LIMIT" | "TOKEN_LIMIT" | "BUDGET" | "BUDGET_UNPRICED" => {
                let ended = self.fail(&problem.code, problem.to_string(), true, None).await?;
                Err(Stop::Ended(ended))
            }
            _ => Err(error.into()),
        }
    }

    /// One answer; it is not waited for when the lease is over.
    async fn turn(&mut self, name: &str, conversation: &[Message]) -> Go<Result<Turn, ModelError>> {
        let model = match self.shared.models.get(name) {
            Ok(model) => model,
            Err(error) => return Ok(Err(error)),
        };
        let functions = self.functions().await;
        let system = system_message(&self.agent);
        let limits = &self.shared.limits;
        let (instance, node) = (self.task.instance_id.clone(), self.task.node_id.clone());
        let on_text = move |piece: &str| tracing::trace!(instance, node, text = %redact(piece), "streamed");
        let request = TurnRequest {
            system: &system,
            messages: conversation,
            functions: &functions,
            max_tokens: self.max_tokens(),
            temperature: self.agent.temperature,
            timeout: Duration::from_millis(self.agent.model_timeout_ms.unwrap_or(limits.model_timeout_ms)),
            on_text: Some(&on_text),
        };
        tracing::info!(task = %self.lease, model = name, script = model.is_script(),
            messages = conversation.len(), "asking the model");
        tokio::select! {
            () = self.over.cancelled() => Err(Stop::Ended(Ended::Lost)),
            turn = ask_one(&*model, request) => Ok(turn),
        }
    }

    /// What one answer may measure: the node's bound, within what is left of its total.
    fn max_tokens(&self) -> u32 {
        let bound = self.agent.max_tokens.unwrap_or(self.shared.limits.max_tokens);
        let Some(total) = self.agent.max_tokens_total else {
            return bound;
        };
        let left = total.saturating_sub(self.ledger.tokens()).max(1);
        bound.min(u32::try_from(left).unwrap_or(u32::MAX))
    }

    async fn said(&mut self, sequence: u32, name: &str, turn: Turn) -> Go<()> {
        tracing::info!(task = %self.lease, step = sequence, model = turn.model, calls = turn.calls.len(),
            input_tokens = turn.usage.input_tokens, output_tokens = turn.usage.output_tokens,
            truncated = turn.truncated, "the model answered");
        self.local.repair = None;
        let result = raw_of(&ModelSaid::from(turn));
        self.settle(sequence, name, StepState::Completed, result).await
    }

    /// Journals a turn that did not come; answers how long the provider asked to wait.
    async fn failed(
        &mut self,
        sequence: u32,
        name: &str,
        error: &ModelError,
        deferred: bool,
    ) -> Go<Option<Duration>> {
        let retry_after = match error {
            ModelError::Unavailable { retry_after, .. } => *retry_after,
            ModelError::Fatal { .. } => None,
        };
        let result = ModelFailed {
            error: redact(&error.to_string()),
            retry_after_ms: retry_after.map(millis),
            deferred,
        };
        self.settle(sequence, name, StepState::Failed, raw_of(&result))
            .await?;
        Ok(retry_after)
    }

    async fn settle(
        &mut self,
        sequence: u32,
        name: &str,
        state: StepState,
        result: legation_protocol::Json,
    ) -> Go<()> {
        let step = StepInput {
            sequence,
            kind: StepKind::Model,
            state,
            tool_ref: format!("model:{name}"),
            call: None,
            request: None,
            result: Some(result),
        };
        self.send(vec![step]).await.map(|_| ())
    }

    /// Gives the lease back until a model may be there again; after too many in a row it is a failure.
    async fn defer(&mut self, waits: Vec<Duration>) -> Go<()> {
        let deferrals = self.ledger.deferrals();
        let backoff = FIRST_DEFERRAL.saturating_mul(1 << deferrals.saturating_sub(1).min(10));
        // The first model to come back is enough, so the shortest wait that a provider asked for counts.
        let asked = waits.into_iter().min().unwrap_or_default();
        let after = millis(backoff.max(asked).min(MAX_DEFERRAL));
        let ended = if deferrals > MAX_DEFERRALS {
            let message = format!("no model was available {MAX_DEFERRALS} times in a row");
            self.fail("MODEL_UNAVAILABLE", message, true, Some(after)).await?
        } else {
            self.release(Some(after), "every model is unavailable", Ended::Deferred)
                .await?
        };
        Err(Stop::Ended(ended))
    }
}

async fn ask_one(model: &dyn Model, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
    model.turn(request).await
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
