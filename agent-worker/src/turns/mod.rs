//! The turn loop as a pure function: what is in the journal decides what happens next.
//!
//! Nothing is remembered between two actions but the journal and what runs right now, so a worker that
//! takes the task over goes on exactly where the last one stopped.

pub mod answers;
pub mod journal;
pub mod output;

use std::collections::BTreeSet;

use legation_protocol::agent::AgentNode;
use legation_protocol::steps::{CallRef, ModelRequest, StepInput, StepView, ToolRequest};
use legation_protocol::{Json, StepKind, StepState};

use crate::models::{Arguments, Message, raw_of};
use journal::{Added, Ledger, ModelSaid, arguments_of, conversation, request, safe_name, said};

/// Requests to mend an empty answer in one attempt; then the attempt has failed.
const MAX_EMPTY: usize = 2;

/// What to do next.
#[derive(Debug)]
pub enum Action {
    /// Journal a MODEL step STARTED under this sequence, ask, journal the answer.
    AskModel {
        sequence: u32,
        request: ModelRequest,
        conversation: Vec<Message>,
        /// The step is in the journal already: it keeps its target.
        open: Option<String>,
    },
    /// Journal these as STARTED in one batch; run what is granted.
    Start(Vec<StepInput>),
    /// In the journal already, approved or cut off: send STARTED again and run what the grant says.
    Grant(Vec<StepInput>),
    /// Something of ours still runs.
    Wait,
    /// Nothing is left to do until others act.
    Park,
    /// The model is done.
    Complete { result: Json, outcome: Option<String> },
    /// The work cannot go on.
    Fail { code: &'static str, message: String },
}

/// What this worker knows beside the journal.
#[derive(Debug, Default)]
pub struct Local {
    /// Steps granted to this lease whose call runs now.
    pub running: BTreeSet<u32>,
    /// Why the engine refused the last answer: the model reads it next.
    pub repair: Option<String>,
}

/// The next action of an attempt. `prior` are the effects of earlier attempts (D33).
pub fn next(agent: &AgentNode, prior: &[StepView], ledger: &Ledger, local: &Local) -> Action {
    match decide(agent, prior, ledger, local) {
        Ok(action) => action,
        Err(message) => Action::Fail {
            code: "JOURNAL_UNREADABLE",
            message,
        },
    }
}

fn decide(agent: &AgentNode, prior: &[StepView], ledger: &Ledger, local: &Local) -> Result<Action, String> {
    let Some(last) = ledger.last_model() else {
        let added = vec![Added::User {
            text: first_message(agent, prior),
            repair: false,
        }];
        return ask(ledger, None, &added);
    };
    match last.state {
        StepState::Completed => after_turn(agent, ledger, local, last),
        StepState::Started => ask_again(ledger, last, last.sequence, Some(last.tool_ref.clone())),
        StepState::Failed | StepState::Refused | StepState::Withdrawn | StepState::Rejected => {
            ask_again(ledger, last, ledger.next_sequence(), None)
        }
        StepState::Proposed | StepState::Approved | StepState::OutcomeUnknown => Ok(Action::Park),
    }
}

fn after_turn(agent: &AgentNode, ledger: &Ledger, local: &Local, model: &StepView) -> Result<Action, String> {
    let turn = said(model)?;
    if turn.calls.is_empty() {
        return last_words(agent, ledger, local, model, &turn);
    }
    let missing: Vec<usize> = (0..turn.calls.len())
        .filter(|index| ledger.answer_of(model.sequence, *index).is_none())
        .collect();
    if !missing.is_empty() {
        return Ok(Action::Start(start(
            agent,
            ledger,
            model.sequence,
            &turn,
            &missing,
        )));
    }
    let steps: Vec<&StepView> = (0..turn.calls.len())
        .filter_map(|index| ledger.answer_of(model.sequence, index))
        .collect();
    let grantable: Vec<StepInput> = steps
        .iter()
        .filter(|s| may_run(s) && !local.running.contains(&s.sequence))
        .map(|s| again(s))
        .collect();
    if !grantable.is_empty() {
        return Ok(Action::Grant(grantable));
    }
    if !local.running.is_empty() {
        return Ok(Action::Wait);
    }
    if steps.iter().any(|s| !s.state.is_settled()) {
        return Ok(Action::Park);
    }
    let added: Vec<Added> = steps.iter().map(|s| Added::Answer { step: s.sequence }).collect();
    ask(ledger, Some(model.sequence), &added)
}

/// A step that a worker has to run: approved, or granted to a lease that is gone.
fn may_run(step: &StepView) -> bool {
    match step.state {
        StepState::Approved => step.kind == StepKind::Tool,
        StepState::Started => step.kind == StepKind::Tool,
        StepState::Proposed
        | StepState::Rejected
        | StepState::Completed
        | StepState::Failed
        | StepState::Refused
        | StepState::OutcomeUnknown
        | StepState::Withdrawn => false,
    }
}

fn again(step: &StepView) -> StepInput {
    StepInput {
        sequence: step.sequence,
        kind: step.kind,
        state: StepState::Started,
        tool_ref: step.tool_ref.clone(),
        call: step.call,
        request: step.request.clone(),
        result: None,
    }
}

fn start(
    agent: &AgentNode,
    ledger: &Ledger,
    model_step: u32,
    turn: &ModelSaid,
    missing: &[usize],
) -> Vec<StepInput> {
    let steps = missing
        .iter()
        .zip(ledger.next_sequence()..)
        .filter_map(|(index, sequence)| {
            let call = turn.calls.get(*index)?;
            let (kind, tool_ref) = target(agent, &call.tool);
            let call_id = call.call_id.clone();
            let request = match arguments_of(&call.arguments) {
                Arguments::Object(raw) => ToolRequest {
                    call_id,
                    arguments: Some(raw),
                    arguments_text: None,
                },
                Arguments::Text(text) => ToolRequest {
                    call_id,
                    arguments: None,
                    arguments_text: Some(text),
                },
            };
            Some(StepInput {
                sequence,
                kind,
                state: StepState::Started,
                tool_ref,
                call: Some(CallRef {
                    step: model_step,
                    index: u32::try_from(*index).ok()?,
                }),
                request: Some(raw_of(&request)),
                result: None,
            })
        });
    steps.collect()
}

/// What a function name means on this node. An unknown one keeps its name, and the engine refuses it (D61).
fn target(agent: &AgentNode, function: &str) -> (StepKind, String) {
    if let Some(tool) = agent.tools.iter().find(|t| t.function == function) {
        return (StepKind::Tool, format!("{}/{}", tool.server, tool.tool));
    }
    if let Some(delegate) = agent.delegates.iter().find(|d| d.function == function) {
        return (StepKind::Delegation, format!("delegate:{}", delegate.process));
    }
    let name = safe_name(function);
    match name.split_once("__") {
        Some(("delegate", process)) if !process.is_empty() => {
            (StepKind::Delegation, format!("delegate:{process}"))
        }
        Some((server, tool)) if !server.is_empty() && !tool.is_empty() => {
            (StepKind::Tool, format!("{server}/{tool}"))
        }
        _ => (StepKind::Tool, format!("unknown/{name}")),
    }
}

fn last_words(
    agent: &AgentNode,
    ledger: &Ledger,
    local: &Local,
    model: &StepView,
    turn: &ModelSaid,
) -> Result<Action, String> {
    if let Some(text) = &local.repair {
        return ask(
            ledger,
            Some(model.sequence),
            &[Added::User {
                text: text.clone(),
                repair: true,
            }],
        );
    }
    let text = turn.text.as_deref().unwrap_or_default();
    if !text.trim().is_empty() {
        let (result, outcome) = output::result_of(agent, text);
        return Ok(Action::Complete { result, outcome });
    }
    if empty_answers(ledger) > MAX_EMPTY {
        let message = "the model answered nothing, again and again".to_owned();
        return Ok(Action::Fail {
            code: "EMPTY_ANSWER",
            message,
        });
    }
    let text = "Your answer was empty. Call a function, or say your answer.".to_owned();
    ask(
        ledger,
        Some(model.sequence),
        &[Added::User { text, repair: true }],
    )
}

fn empty_answers(ledger: &Ledger) -> usize {
    let empty = |s: &&StepView| {
        s.kind == StepKind::Model
            && s.state == StepState::Completed
            && said(s).is_ok_and(|t| t.calls.is_empty() && t.text.unwrap_or_default().trim().is_empty())
    };
    ledger.iter().filter(empty).count()
}

fn ask(ledger: &Ledger, base: Option<u32>, added: &[Added]) -> Result<Action, String> {
    let added: Vec<Json> = added.iter().map(raw_of).collect();
    let request = ModelRequest {
        base,
        dropped: None,
        added,
    };
    let conversation = conversation(ledger, &request)?;
    Ok(Action::AskModel {
        sequence: ledger.next_sequence(),
        request,
        conversation,
        open: None,
    })
}

/// The same question once more, under the open step or a new one.
fn ask_again(
    ledger: &Ledger,
    step: &StepView,
    sequence: u32,
    open: Option<String>,
) -> Result<Action, String> {
    let request = request(step)?;
    let conversation = conversation(ledger, &request)?;
    Ok(Action::AskModel {
        sequence,
        request,
        conversation,
        open,
    })
}

/// The system message: the frozen instructions and the output contract, never data (D43).
pub fn system_message(agent: &AgentNode) -> String {
    let instructions = agent.instructions.clone().unwrap_or_default();
    let parts = [instructions, output::contract(agent)];
    parts
        .iter()
        .filter(|p| !p.is_empty())
        .cloned()
        .collect::<Vec<_>>()
        .join("\n\n")
}

fn first_message(agent: &AgentNode, prior: &[StepView]) -> String {
    if prior.is_empty() {
        return agent.user_message.clone();
    }
    let effects: Vec<String> = prior.iter().map(answers::describe).collect();
    format!(
        "{}\n\nEarlier attempts at this work have already done the following. It stands; do not do it again:\n{}",
        agent.user_message,
        effects.join("\n")
    )
}

#[cfg(test)]
pub(crate) mod tests;
