//! Complete an external task: the output contract is enforced, the token moves on (D17, D32).

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::{Agent, Node, NodeKind};

use super::{Answer, Completion, failure, lease};
use crate::ids::TaskId;
use crate::instance::Source;
use crate::moves::{Done, Trouble};
use crate::nodes::{self, Signal};
use crate::outputs::for_the_model;
use crate::rejection::{Rejection, Stop};
use crate::task::{self, Caller, Opened, TaskOutcome};
use crate::work::Work;

pub(super) fn run(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    completion: &Completion,
) -> Result<Answer, Stop> {
    let body = body(completion);
    let file = work.task(id)?;
    if let Opened::Repeat(state) = task::open_closing(file, caller, "complete", &body)? {
        return Ok(lease::repeated(file, state));
    }
    let definition = work.definition(work.instance(&id.instance())?)?;
    let node = definition
        .node(&file.task.node)
        .ok_or_else(|| no_node(&file.task.node))?;
    let agent = match &node.kind {
        NodeKind::Agent(agent) => Some(agent.as_ref()),
        _ => None,
    };
    let (result, outcome) = match (agent, completion) {
        (Some(_), Completion::Result { result, outcome }) => (result.clone(), outcome.as_deref()),
        (Some(_), Completion::Variables(_)) => {
            let refusal = Rejection::invalid(
                "RESULT_EXPECTED",
                "an agent completes with `result`, not with variables",
            );
            return Err(refusal.hint("send {workerId, result, outcome?}").into());
        }
        (None, Completion::Variables(variables)) => (Value::Map(variables.clone()), None),
        (None, Completion::Result { .. }) => {
            let refusal = Rejection::invalid(
                "VARIABLES_EXPECTED",
                "this task completes with `variables`, not with a result",
            );
            return Err(refusal.hint("send {workerId, variables}").into());
        }
    };
    let schemas = work.env.schemas;
    let checked = task::check_complete(work.task_mut(id)?, agent, &result, outcome, schemas)?;
    let checked = match (checked, agent) {
        (task::Completion::Accept { result, outcome }, Some(agent)) => {
            vetoed(work, id, (node, agent), result, outcome)?
        }
        (checked, _) => checked,
    };
    let checked = match (checked, agent) {
        (task::Completion::Accept { result, outcome }, Some(_)) => unmapped(work, id, node, result, outcome)?,
        (checked, _) => checked,
    };
    match checked {
        task::Completion::Accept { result, outcome } => {
            accept(work, id, caller, &body, node, result, outcome)
        }
        task::Completion::Invalid { errors } => Ok(Answer::InvalidOutput { errors }),
        task::Completion::InvalidFinal { errors } => {
            match agent.and_then(|agent| agent.on_invalid_output.clone()) {
                Some(target) => route(work, id, caller, &body, node, "invalid_output", None, &target),
                None => {
                    let failed = task::Failure {
                        message: format!("the output broke its contract: {}", errors.join("; ")),
                        code: Some("INVALID_OUTPUT".to_owned()),
                        retryable: true,
                        retry_after_ms: None,
                    };
                    failure::count(work, id, caller, "complete", &body, &failed)
                }
            }
        }
        task::Completion::LowConfidence { result } => {
            match agent.and_then(|agent| agent.on_low_confidence.clone()) {
                Some(target) => route(
                    work,
                    id,
                    caller,
                    &body,
                    node,
                    "low_confidence",
                    Some(result),
                    &target,
                ),
                None => {
                    close_as_completed(work, id, caller, &body)?;
                    let message = "the confidence is below the node's threshold";
                    failure::give_up(work, id, "LOW_CONFIDENCE", Some(message), &BTreeMap::new())?;
                    failure::finish_closing(work, id)
                }
            }
        }
    }
}

fn accept(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    body: &Value,
    node: &Node,
    result: Value,
    outcome: Option<String>,
) -> Result<Answer, Stop> {
    let instance = id.instance();
    let attempt = work.task(id)?.task.attempt;
    let source = Source {
        node: Some(node.id.clone()),
        task: Some(id.clone()),
        attempt: Some(attempt),
        actor: None,
    };
    let done = Done {
        result,
        outcome,
        source,
    };
    if let NodeKind::Agent(agent) = &node.kind {
        check_size(work, id, agent, &done.result)?;
    } else if let Some(variables) = done.result.as_map() {
        work.with(&instance, |m| m.check_result(node, variables))?;
        check_outputs(work, id, node, &done)?;
    }
    close_as_completed(work, id, caller, body)?;
    work.with(&instance, |m| {
        let Some(token) = m.instance().token_of_task(id.local()) else {
            return Ok(());
        };
        m.retire_task(id.local(), TaskOutcome::Completed, "completed")?;
        nodes::resume(m, token, Signal::Done(done))
    })?;
    failure::finish_closing(work, id)
}

/// An agent's result is a variable like any other (core §1).
fn check_size(work: &mut Work<'_>, id: &TaskId, agent: &Agent, result: &Value) -> Result<(), Stop> {
    let written = BTreeMap::from([(agent.result_variable.clone(), result.clone())]);
    work.with(&id.instance(), |m| Ok(m.check_sizes(&written)?))
}

/// `on_invalid_output` and `on_low_confidence`: the task is done, the token takes the named way.
#[expect(
    clippy::too_many_arguments,
    reason = "the facts of one completion, and where it goes"
)]
fn route(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    body: &Value,
    node: &Node,
    outcome: &str,
    result: Option<Value>,
    target: &str,
) -> Result<Answer, Stop> {
    if let (Some(result), NodeKind::Agent(agent)) = (&result, &node.kind) {
        check_size(work, id, agent, result)?;
    }
    close_as_completed(work, id, caller, body)?;
    work.with(&id.instance(), |m| {
        let Some(token) = m.instance().token_of_task(id.local()) else {
            return Ok(());
        };
        m.retire_task(id.local(), TaskOutcome::Completed, outcome)?;
        if let (Some(result), NodeKind::Agent(agent)) = (result, &node.kind) {
            m.set(&agent.result_variable, result, true, &Source::node(&node.id));
        }
        m.set_engine_name(&node.id, "outcome", Value::from(outcome));
        m.goto(token, target, None);
        nodes::advance(m)
    })?;
    failure::finish_closing(work, id)
}

fn close_as_completed(work: &mut Work<'_>, id: &TaskId, caller: &Caller, body: &Value) -> Result<(), Stop> {
    let now = work.env.now;
    lease::close(work.task_mut(id)?, caller, "complete", body, now);
    Ok(())
}

/// An outcome whose `when` is false is refused like any other broken contract.
fn vetoed(
    work: &mut Work<'_>,
    id: &TaskId,
    (node, agent): (&Node, &Agent),
    result: Value,
    outcome: Option<String>,
) -> Result<task::Completion, Stop> {
    let rule = outcome
        .as_ref()
        .and_then(|name| agent.outcomes.iter().find(|o| o.name == *name))
        .and_then(|o| o.when.clone());
    let Some(rule) = rule else {
        return Ok(task::Completion::Accept { result, outcome });
    };
    let name = outcome.clone().unwrap_or_default();
    let verdict = work.with(&id.instance(), |m| {
        let Some(token) = m.instance().token_of_task(id.local()) else {
            return Ok(Ok(true));
        };
        match m.evaluate(token, &rule, Some(&result)) {
            Ok(Value::Bool(answer)) => Ok(Ok(answer)),
            Ok(other) => Ok(Err(format!("the rule of outcome {name} gave {}", other.kind()))),
            Err(Trouble::Incident { message, .. }) => Ok(Err(message)),
            Err(Trouble::Stop(stop)) => Err(m.with_reads(node, stop)),
        }
    })?;
    Ok(match verdict {
        Ok(true) => task::Completion::Accept { result, outcome },
        Ok(false) => task::invalid_output(
            work.task_mut(id)?,
            vec![format!("outcome {name} is not allowed now")],
        ),
        Err(message) => task::invalid_output(work.task_mut(id)?, vec![message]),
    })
}

/// What the node's `outputs` make of a result, before it is accepted.
fn check_outputs(work: &mut Work<'_>, id: &TaskId, node: &Node, done: &Done) -> Result<(), Stop> {
    work.with(&id.instance(), |m| match m.instance().token_of_task(id.local()) {
        Some(token) => m.check_outputs(token, node, done),
        None => Ok(()),
    })
}

/// A result of which an agent's `outputs` cannot be made is refused like any other broken contract.
fn unmapped(
    work: &mut Work<'_>,
    id: &TaskId,
    node: &Node,
    result: Value,
    outcome: Option<String>,
) -> Result<task::Completion, Stop> {
    let done = Done {
        result,
        outcome,
        source: Source::default(),
    };
    match check_outputs(work, id, node, &done).map_err(for_the_model) {
        Ok(()) => Ok(task::Completion::Accept {
            result: done.result,
            outcome: done.outcome,
        }),
        Err(Ok(problem)) => Ok(task::invalid_output(work.task_mut(id)?, vec![problem])),
        Err(Err(stop)) => Err(stop),
    }
}

fn body(completion: &Completion) -> Value {
    match completion {
        Completion::Variables(variables) => Value::map([("variables", Value::Map(variables.clone()))]),
        Completion::Result { result, outcome } => Value::map([
            ("result", result.clone()),
            ("outcome", outcome.as_deref().map_or(Value::Null, Value::from)),
        ]),
    }
}

fn no_node(node: &str) -> Rejection {
    Rejection::new(
        crate::rejection::RejectionKind::Internal,
        "NODE_UNKNOWN",
        format!("node {node} is not in the definition"),
    )
}
