//! A counted failure (D32, D33): the next try after a back-off; without one left `on_error` or an incident.

use legation_language::Value;

use super::{Answer, lease};
use crate::effect::{Effect, Incident};
use crate::ids::TaskId;
use crate::instance::Event;
use crate::moves::Moves;
use crate::nodes;
use crate::rejection::Stop;
use crate::task::{self, Caller, FailureOutcome, Opened, TaskOutcome};
use crate::work::Work;

pub(super) fn run(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    failure: &task::Failure,
) -> Result<Answer, Stop> {
    let body = Value::map([
        ("message", Value::from(failure.message.as_str())),
        ("code", failure.code.as_deref().map_or(Value::Null, Value::from)),
        ("retryable", Value::from(failure.retryable)),
        (
            "retryAfterMs",
            failure.retry_after_ms.map_or(Value::Null, Value::from),
        ),
    ]);
    let file = work.task(id)?;
    if let Opened::Repeat(state) = task::open_closing(file, caller, "failure", &body)? {
        return Ok(lease::repeated(file, state));
    }
    count(work, id, caller, "failure", &body, failure)
}

/// Counts the failure under the node's retry rule and closes the lease.
pub(super) fn count(
    work: &mut Work<'_>,
    id: &TaskId,
    caller: &Caller,
    operation: &str,
    body: &Value,
    failure: &task::Failure,
) -> Result<Answer, Stop> {
    let now = work.env.now;
    let jitter = work.env.jitter;
    let instance = id.instance();
    let definition = work.definition(work.instance(&instance)?)?;
    let retry = definition
        .node(&work.task(id)?.task.node)
        .map(|node| node.retry.clone())
        .unwrap_or_default();
    let file = work.task_mut(id)?;
    let outcome = task::failure(file, &retry, failure, jitter, now);
    match outcome {
        FailureOutcome::Retry {
            available_at,
            new_attempt: _,
        } => {
            let answer = lease::close(file, caller, operation, body, now);
            let (attempt, tries) = (file.task.attempt, file.task.tries);
            let event = Event::AttemptEnded {
                task: id.local(),
                attempt,
                tries,
                code: failure.code.clone().unwrap_or_else(|| "FAILURE".to_owned()),
                message: failure.message.clone(),
                available_at: Some(available_at),
            };
            work.with(&instance, |m| {
                m.emit(event);
                Ok(())
            })?;
            Ok(answer)
        }
        FailureOutcome::Exhausted => {
            lease::close(file, caller, operation, body, now);
            give_up(
                work,
                id,
                "WORK_FAILED",
                Some(&failure.message),
                &std::collections::BTreeMap::new(),
            )?;
            finish_closing(work, id)
        }
    }
}

/// A task that can go no further by itself: `on_error` takes the token and retires it, or an incident holds it.
pub(super) fn give_up(
    work: &mut Work<'_>,
    id: &TaskId,
    code: &str,
    message: Option<&str>,
    variables: &std::collections::BTreeMap<String, Value>,
) -> Result<(), Stop> {
    let instance = id.instance();
    work.with(&instance, |m| {
        let Some(token) = m.instance().token_of_task(id.local()) else {
            return Ok(());
        };
        let definition = m.definition.clone();
        let Some(node) = m.token(token).and_then(|token| definition.node(&token.node)) else {
            return Ok(());
        };
        let catches = node
            .on_error
            .iter()
            .any(|c| c.code.is_none() || c.code.as_deref() == Some(code));
        if catches {
            m.retire_task(id.local(), TaskOutcome::Failed, &format!("error {code}"))?;
            for (name, value) in variables {
                if !m
                    .instance()
                    .variables()
                    .get(name)
                    .is_some_and(|known| known.locked)
                {
                    m.set(
                        name,
                        value.clone(),
                        false,
                        &crate::instance::Source::node(&node.id),
                    );
                }
            }
            m.catch(token, node, code, message.map(str::to_owned))?;
            return nodes::advance(m);
        }
        m.catch(token, node, code, message.map(str::to_owned))?;
        hold(m, id, code, message)
    })
}

/// Opens an incident on the task; its token stays.
fn hold(m: &mut Moves<'_, '_>, id: &TaskId, code: &str, message: Option<&str>) -> Result<(), Stop> {
    let number = m.number();
    let file = m.work.task_mut(id)?;
    file.task.incidents.insert(number);
    let (node, attempt) = (file.task.node.clone(), file.task.attempt);
    let shown = if code == "WORK_FAILED" {
        code
    } else {
        "UNHANDLED_ERROR"
    };
    let text = if code == "WORK_FAILED" {
        format!("node {node}: no try is left{}", crate::errors::tail(message))
    } else {
        format!(
            "node {node}: error {code} is not caught{}",
            crate::errors::tail(message)
        )
    };
    let incident = Incident {
        id: m.instance().id.incident(number),
        instance: m.id(),
        node,
        task: Some(id.clone()),
        attempt: Some(attempt),
        sequence: None,
        notice: false,
        code: shown.to_owned(),
        message: text,
        created_at: m.now(),
        held: None,
    };
    m.effect(Effect::OpenIncident(Box::new(incident)));
    Ok(())
}

/// The answer of a closing call whose task may have been retired or held meanwhile.
pub(super) fn finish_closing(work: &mut Work<'_>, id: &TaskId) -> Result<Answer, Stop> {
    let now = work.env.now;
    Ok(lease::answered(work.task_mut(id)?, now))
}
