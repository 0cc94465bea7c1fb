//! A child has ended: idempotent, the same for delegations and call-process (D15, I8). Only the declared outputs
//! cross.

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::NodeKind;

use super::{Answer, journal};
use crate::content::at_hand;
use crate::ids::{self, InstanceId};
use crate::instance::{Cause, Event, Instance, Status, TokenState, Wait};
use crate::moves::Moves;
use crate::nodes::{self, ChildEnd, Signal};
use crate::rejection::Stop;
use crate::work::Work;

pub(super) fn run(work: &mut Work<'_>, child_id: &InstanceId) -> Result<Answer, Stop> {
    let child = work.instance(child_id)?.clone();
    let Some(parent) = child.parent.clone() else {
        return Ok(Answer::Nothing);
    };
    if !child.is_over() {
        return Ok(Answer::Nothing);
    }
    let local = ids::local_of(child_id.as_str()).unwrap_or_default();
    let (known, running, ending) = {
        let instance = work.instance(&parent.instance)?;
        (
            instance.children.contains_key(&local),
            !instance.is_over(),
            instance.is_ending(),
        )
    };
    if !known {
        return Ok(Answer::Nothing);
    }
    if !running || ending {
        return work.with(&parent.instance, |m| {
            ignore(m, local, child.status);
            if running && ending {
                m.go_on_ending()?;
            }
            Ok(Answer::Done)
        });
    }
    if child.status == Status::Completed && child.holds_secrets(&*work.definition(&child)?) {
        work.with(&parent.instance, |m| {
            m.seal();
            Ok(())
        })?;
    }
    match &parent.cause {
        Cause::Token(token) => {
            let outputs = declared_outputs(work, &child)?;
            let end = ChildEnd {
                status: child.status,
                outputs: Value::Map(outputs),
                error: child.error.as_ref().map(|error| error.code.clone()),
            };
            work.with(&parent.instance, |m| {
                let waits = m
                    .token(*token)
                    .is_some_and(|token| token.state == TokenState::Waiting(Wait::Child { child: local }));
                if !waits {
                    ignore(m, local, child.status);
                    nodes::advance(m)?;
                    return Ok(Answer::Done);
                }
                m.emit(Event::ChildEnded {
                    child: local,
                    status: child.status,
                });
                nodes::resume(m, *token, Signal::Child(end))?;
                Ok(Answer::Done)
            })
        }
        Cause::Step {
            task,
            attempt: _,
            sequence: _,
            ..
        } => {
            let end = journal_end(work, &child, &parent.instance, &parent.node)?;
            work.with(&parent.instance, |m| {
                let settled = journal::settle_child(m, task, child_id, &end)?;
                if settled {
                    m.emit(Event::ChildEnded {
                        child: local,
                        status: child.status,
                    });
                    journal::start_queued(m, task)?;
                } else {
                    ignore(m, local, child.status);
                    nodes::advance(m)?;
                }
                Ok(Answer::Done)
            })
        }
    }
}

/// Nobody waits for it any more (D21). A child that was cancelled has no result that could be ignored.
fn ignore(m: &mut Moves<'_, '_>, child: u32, status: Status) {
    m.emit(match status {
        Status::Cancelled => Event::ChildEnded { child, status },
        Status::Running | Status::Cancelling | Status::Compensating | Status::Completed | Status::Failed => {
            Event::ChildResultIgnored { child, status }
        }
    });
}

impl Moves<'_, '_> {
    /// Something sensitive comes in, under names that nobody declared here.
    fn seal(&mut self) {
        if !self.holds_secrets() {
            self.emit(Event::Sealed);
        }
    }
}

/// What `call-process` gets: the declared outputs, or every variable but sensitive ones when none are declared.
fn declared_outputs(work: &Work<'_>, child: &Instance) -> Result<BTreeMap<String, Value>, Stop> {
    let definition = work.definition(child)?;
    let crosses =
        |name: &String| definition.outputs.is_empty() || definition.outputs.iter().any(|o| o.name == *name);
    let crossing = child.variables().iter().filter(|(name, _)| crosses(name));
    at_hand(crossing.map(|(_, variable)| &variable.content), work.payloads)?;
    let mut values = BTreeMap::new();
    if definition.outputs.is_empty() {
        for (name, variable) in child.variables() {
            let input = definition.variables.iter().any(|d| d.input && d.name == *name);
            if !variable.sensitive && !input {
                values.insert(name.clone(), variable.content.value(work.payloads)?.clone());
            }
        }
        return Ok(values);
    }
    for output in &definition.outputs {
        let value = match child.variables().get(&output.name) {
            Some(variable) => variable.content.value(work.payloads)?.clone(),
            None => Value::Null,
        };
        values.insert(output.name.clone(), value);
    }
    Ok(values)
}

/// What a delegation step gets: the outputs that the delegates entry names, and no other (D4).
fn journal_end(
    work: &Work<'_>,
    child: &Instance,
    parent: &InstanceId,
    node: &str,
) -> Result<crate::journal::ChildEnd, Stop> {
    let definition = work.definition(work.instance(parent)?)?;
    let delegates = match definition.node(node).map(|node| &node.kind) {
        Some(NodeKind::Agent(agent)) => agent.delegates.clone(),
        Some(NodeKind::EngineTask(task)) => task.delegates.clone(),
        _ => Vec::new(),
    };
    let names = delegates
        .iter()
        .find(|delegate| delegate.process == child.process)
        .map(|d| d.outputs.clone());
    let named = names
        .iter()
        .flatten()
        .filter_map(|name| child.variables().get(name));
    at_hand(
        named.map(|variable| &variable.content).chain(&child.message),
        work.payloads,
    )?;
    let mut outputs = BTreeMap::new();
    let mut unset = Vec::new();
    for name in names.unwrap_or_default() {
        let value = match child.variables().get(&name) {
            Some(variable) => variable.content.value(work.payloads)?.clone(),
            None => Value::Null,
        };
        if value.is_null() {
            unset.push(name.clone());
        }
        outputs.insert(name, value);
    }
    let message = match &child.message {
        Some(content) => content.value(work.payloads)?.as_str().map(str::to_owned),
        None => None,
    };
    Ok(journal::child_end(child, outputs, unset, message))
}
