//! Granted tool calls: run at the same time, with the arguments and the key of the grant, journaled as they end.

use std::sync::Arc;
use std::time::Duration;

use legation_protocol::agent::Idempotency;
use legation_protocol::steps::{StepAnswer, StepInput, StepsRequest};
use legation_protocol::{Json, StepKind, StepState};
use tokio::task::AbortHandle;

use super::{Ended, Go, Run, Shared, Stop, Uncertain};
use crate::models::raw_of;
use crate::tools::{CallError, LOST, ToolCall, ToolOutcome};
use crate::turns::answers::ToolResult;

/// A call that runs now.
pub(super) struct Running {
    abort: AbortHandle,
    is_write: bool,
}

/// A call that ended.
pub(super) struct Finished {
    sequence: u32,
    tool_ref: String,
    is_write: bool,
    keyed: bool,
    outcome: ToolOutcome,
}

impl Run {
    /// Journals calls and runs those that are granted.
    pub(super) async fn start(&mut self, steps: Vec<StepInput>) -> Go<()> {
        for step in &steps {
            tracing::info!(task = %self.lease, step = step.sequence, target = step.tool_ref, "calling");
        }
        let sent = self.send(steps).await;
        let granted = match sent {
            Ok(answers) => answers,
            Err(Stop::Engine(error)) => {
                let stale = [
                    "OPEN_STEP",
                    "SEQUENCE",
                    "DIVERGENT_STEP",
                    "STEP_FINISHED",
                    "APPROVAL_REQUIRED",
                ];
                match error.problem().cloned() {
                    Some(problem) if stale.contains(&problem.code.as_str()) => {
                        return self.reread(&problem).await;
                    }
                    _ => return Err(Stop::Engine(error)),
                }
            }
            Err(stop) => return Err(stop),
        };
        for answer in granted {
            self.spawn(answer);
        }
        Ok(())
    }

    fn spawn(&mut self, answer: StepAnswer) {
        if answer.kind != StepKind::Tool || answer.state != StepState::Started {
            let problem = answer
                .problem
                .as_ref()
                .map(|p| p.code.as_str())
                .unwrap_or_default();
            tracing::info!(task = %self.lease, step = answer.sequence, state = ?answer.state,
                child = answer.child_instance_id, problem, "recorded");
            return;
        }
        let sequence = answer.sequence;
        let is_write = self.is_write(sequence);
        let tool_ref = self
            .ledger
            .get(sequence)
            .map(|s| s.tool_ref.clone())
            .or(answer.tool_ref)
            .unwrap_or_default();
        let agent = Arc::clone(&self.agent);
        let shared = Arc::clone(&self.shared);
        let (arguments, key) = (answer.arguments, answer.idempotency_key);
        let name = tool_ref.clone();
        let abort = self.calls.spawn(async move {
            let binding = agent
                .tools
                .iter()
                .find(|t| format!("{}/{}", t.server, t.tool) == name);
            let keyed = binding.is_some_and(|b| b.idempotency == Idempotency::Key) && key.is_some();
            let outcome = match (binding, arguments) {
                (Some(binding), Some(arguments)) => {
                    let server = agent.servers.iter().find(|s| s.name == binding.server);
                    let idempotency_key = key.as_deref();
                    let call = ToolCall {
                        server,
                        binding,
                        arguments: &arguments,
                        idempotency_key,
                    };
                    run(&shared, &call, is_write, keyed).await
                }
                (None, _) => unsent(format!("tool {name} is not bound to this node")),
                (_, None) => unsent("the grant carries no arguments".to_owned()),
            };
            Finished {
                sequence,
                tool_ref: name,
                is_write,
                keyed,
                outcome,
            }
        });
        self.running.insert(sequence, Running { abort, is_write });
        self.local.running.insert(sequence);
    }

    /// Waits for a call to end and journals it, with all others that have ended by then.
    pub(super) async fn wait(&mut self) -> Go<()> {
        let first = tokio::select! {
            () = self.over.cancelled() => return Err(Stop::Ended(Ended::Lost)),
            first = self.calls.join_next() => first,
        };
        let mut ended = vec![first];
        while let Some(more) = self.calls.try_join_next() {
            ended.push(Some(more));
        }
        let mut results = Vec::new();
        for finished in ended.into_iter().flatten() {
            match finished {
                Ok(finished) => results.extend(self.finished(finished)),
                Err(error) if error.is_cancelled() => {}
                Err(error) => {
                    // Which call it was is not known: the lease ends, and the journal decides.
                    tracing::error!(task = %self.lease, %error, "a tool call broke");
                    return self
                        .release(None, "a tool call broke", Ended::Released)
                        .await
                        .map(|_| ());
                }
            }
        }
        if results.is_empty() {
            return Ok(());
        }
        let error = match self.send(results.clone()).await {
            Err(Stop::Engine(error)) if !error.lease_is_over() => error,
            sent => return sent.map(|_| ()),
        };
        let Some(problem) = error.problem().cloned() else {
            return Err(Stop::Engine(error));
        };
        // One refused result must not take the others with it.
        for result in if results.len() > 1 { results } else { Vec::new() } {
            match self.send(vec![result]).await {
                Err(Stop::Engine(error)) if error.problem().is_some() && !error.lease_is_over() => {}
                sent => drop(sent?),
            }
        }
        self.reread(&problem).await
    }

    /// The step that reports a call, or none when nobody knows whether it happened.
    fn finished(&mut self, finished: Finished) -> Option<StepInput> {
        let Finished {
            sequence,
            tool_ref,
            is_write,
            keyed,
            outcome,
        } = finished;
        self.running.remove(&sequence);
        self.local.running.remove(&sequence);
        if let (true, ToolOutcome::Uncertain(error)) = (is_write, &outcome) {
            tracing::warn!(task = %self.lease, step = sequence, %error, keyed, "a write has no answer");
            let keyed = keyed && self.uncertain.as_ref().is_none_or(|u| u.keyed);
            self.uncertain = Some(Uncertain {
                message: error.to_string(),
                keyed,
            });
            // Keeps the step from being granted again under this lease.
            self.local.running.insert(sequence);
            return None;
        }
        let (state, result) = report(outcome);
        tracing::info!(task = %self.lease, step = sequence, tool = tool_ref, state = ?state, "tool call ended");
        Some(step(sequence, tool_ref, state, result))
    }

    /// After the lease: reads are dropped, and what a write answers is still delivered under the old lease,
    /// because a known outcome is never thrown away.
    pub(super) fn deliver_late(&mut self) {
        for running in self.running.values().filter(|r| !r.is_write) {
            running.abort.abort();
        }
        let writes = self.running.values().filter(|r| r.is_write).count();
        if writes == 0 {
            return;
        }
        tracing::warn!(task = %self.lease, writes, "writes still run after the lease; their results are delivered");
        let mut calls = std::mem::take(&mut self.calls);
        let (shared, lease, attempt) = (Arc::clone(&self.shared), self.lease.clone(), self.attempt);
        tokio::spawn(async move {
            while let Some(ended) = calls.join_next().await {
                let Ok(Finished {
                    sequence,
                    tool_ref,
                    outcome,
                    ..
                }) = ended
                else {
                    continue;
                };
                if matches!(outcome, ToolOutcome::Uncertain(_)) {
                    continue;
                }
                let (state, result) = report(outcome);
                let steps = vec![step(sequence, tool_ref, state, result)];
                let request = StepsRequest::batch(&shared.worker_id, attempt, steps);
                match shared.engine.steps(&lease, &request).await {
                    Ok(_) => tracing::info!(task = lease, step = sequence, "late result delivered"),
                    Err(error) => {
                        tracing::warn!(task = lease, step = sequence, %error, "late result refused")
                    }
                }
            }
        });
    }
}

/// Runs a call; one that was lost on the way is sent once more where that is harmless: a read, or a write
/// whose key the tool understands. A read that took too long would only take as long again.
async fn run(shared: &Shared, call: &ToolCall<'_>, is_write: bool, keyed: bool) -> ToolOutcome {
    let first = shared.tools.call(call).await;
    let ToolOutcome::Uncertain(error) = &first else {
        return first;
    };
    let again = if is_write { keyed } else { error.code == LOST };
    if !again {
        return first;
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    match shared.tools.call(call).await {
        // The first one may have happened, so "not sent" would be a lie.
        ToolOutcome::Unsent(error) if is_write => ToolOutcome::Uncertain(error),
        second => second,
    }
}

fn unsent(message: String) -> ToolOutcome {
    ToolOutcome::Unsent(CallError::new("TOOL_NOT_RUN", message))
}

fn report(outcome: ToolOutcome) -> (StepState, Json) {
    let (state, result) = match outcome {
        ToolOutcome::Done(text) => {
            let truncated_from = text.cut_from;
            (
                StepState::Completed,
                ToolResult {
                    text: Some(text.text),
                    truncated_from,
                    ..ToolResult::default()
                },
            )
        }
        ToolOutcome::Failed(error, text) => (
            StepState::Failed,
            ToolResult {
                text: Some(text.text),
                truncated_from: text.cut_from,
                error: Some(error),
                sent: Some(true),
            },
        ),
        ToolOutcome::Unsent(error) => (
            StepState::Failed,
            ToolResult {
                error: Some(error),
                sent: Some(false),
                ..ToolResult::default()
            },
        ),
        ToolOutcome::Uncertain(error) => (
            StepState::Failed,
            ToolResult {
                error: Some(error),
                sent: Some(true),
                ..ToolResult::default()
            },
        ),
    };
    (state, raw_of(&result))
}

fn step(sequence: u32, tool_ref: String, state: StepState, result: Json) -> StepInput {
    StepInput {
        sequence,
        kind: StepKind::Tool,
        state,
        tool_ref,
        call: None,
        request: None,
        result: Some(result),
    }
}
