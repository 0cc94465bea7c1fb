//! Events of an instance as history and feed show them: a kind in UPPER_SNAKE, the node, and plain data.
//!
//! An event names tokens and numbers; where they stand is remembered from the events before it.

use std::collections::HashMap;

use legation_kernel::content::Content;
use legation_kernel::dates::rfc3339;
use legation_kernel::ids::local_of;
use legation_kernel::instance::{Cause, Event, Guard, Status, Wait};
use legation_language::Value;
use legation_protocol::Json as RawJson;

use super::raw;
use crate::http::error::Result;

/// What readers are told of an event.
pub struct Shown {
    pub kind: &'static str,
    pub node: Option<String>,
    /// The number of the external or human task that it is about.
    pub task: Option<String>,
    pub data: RawJson,
}

/// Where tokens, tasks, human tasks and timers stand, as far as is known.
#[derive(Default)]
pub struct Nodes {
    tokens: HashMap<u32, String>,
    tasks: HashMap<u32, String>,
    others: HashMap<u32, String>,
}

impl Nodes {
    /// Notes the node of an external task.
    pub fn task(&mut self, id: &str, node: &str) {
        if let Some(number) = local_of(id) {
            self.tasks.insert(number, node.to_owned());
        }
    }

    /// The node of an external task.
    pub fn of_task(&self, id: &str) -> Option<String> {
        self.tasks.get(&local_of(id)?).cloned()
    }

    fn token(&self, token: u32) -> Option<String> {
        self.tokens.get(&token).cloned()
    }
}

type Data = Vec<(&'static str, Value)>;

fn text(text: &str) -> Value {
    Value::from(text)
}

fn number(number: u32) -> Value {
    Value::from(i64::from(number))
}

fn maybe(text: Option<&String>) -> Value {
    text.map_or(Value::Null, |text| Value::from(text.as_str()))
}

/// What to show of an event; None for mere bookkeeping.
///
/// # Errors
/// 500: values are always JSON.
pub fn show(event: &Event, nodes: &mut Nodes) -> Result<Option<Shown>> {
    let Some((kind, node, task, data)) = words(event, nodes) else {
        return Ok(None);
    };
    let data = data.into_iter().filter(|(_, value)| !value.is_null());
    Ok(Some(Shown {
        kind,
        node,
        task,
        data: raw(&Value::map(data))?,
    }))
}

#[expect(
    clippy::too_many_lines,
    reason = "one arm for each event, so that a new one must be given its words"
)]
fn words(event: &Event, nodes: &mut Nodes) -> Option<(&'static str, Option<String>, Option<String>, Data)> {
    Some(match event {
        Event::InstanceStarted(started) => {
            let by_step = started.parent.as_ref().map(|parent| match &parent.cause {
                Cause::Token(_) => text(&parent.node),
                Cause::Step { task, sequence, .. } => text(&format!("{task} step {sequence}")),
            });
            let data = vec![
                ("process", text(&started.process)),
                ("version", number(started.version)),
                ("initiator", text(&started.initiator)),
                (
                    "parent",
                    started
                        .parent
                        .as_ref()
                        .map_or(Value::Null, |parent| text(parent.instance.as_str())),
                ),
                ("startedBy", by_step.unwrap_or_default()),
            ];
            ("INSTANCE_STARTED", None, None, data)
        }
        Event::VariableSet {
            scope: _,
            name,
            variable,
        } => {
            let value = match &variable.content {
                Content::Inline(value) if !variable.sensitive => value.clone(),
                Content::Inline(_) | Content::Payload(_) => Value::Null,
            };
            let data = vec![("name", text(name)), ("value", value)];
            ("VARIABLE_SET", variable.source.node.clone(), None, data)
        }
        Event::TokenCreated {
            token, node, from, ..
        } => {
            nodes.tokens.insert(*token, node.clone());
            (
                "NODE_ENTERED",
                Some(node.clone()),
                None,
                vec![("token", number(*token)), ("from", maybe(from.as_ref()))],
            )
        }
        Event::TokenMoved {
            token, node, from, ..
        } => {
            nodes.tokens.insert(*token, node.clone());
            (
                "NODE_ENTERED",
                Some(node.clone()),
                None,
                vec![("token", number(*token)), ("from", text(from))],
            )
        }
        Event::TokenWaits { token, wait } => {
            let node = nodes.token(*token);
            if let (Some(node), Some(local)) = (&node, waited(wait)) {
                nodes.others.insert(local, node.clone());
            }
            ("NODE_WAITS", node, None, vec![("for", text(wait_word(wait)))])
        }
        Event::TokenStuck { token, code, .. } => (
            "NODE_STUCK",
            nodes.token(*token),
            None,
            vec![("code", text(code))],
        ),
        Event::TokenReady { token } => ("NODE_RETRIED", nodes.token(*token), None, Vec::new()),
        Event::TokenEnded { token } => ("TOKEN_ENDED", nodes.tokens.remove(token), None, Vec::new()),
        Event::TimerArmed {
            timer,
            due_at,
            guards,
        } => {
            let node = guards.and_then(|guard| match guard {
                Guard::Timeout(token) | Guard::Start(token) => nodes.token(token),
            });
            if let Some(node) = &node {
                nodes.others.insert(*timer, node.clone());
            }
            (
                "TIMER_ARMED",
                node,
                None,
                vec![("dueAt", text(&rfc3339(*due_at)))],
            )
        }
        Event::TimerFired { timer } => ("TIMER_FIRED", nodes.others.remove(timer), None, Vec::new()),
        Event::TimerDisarmed { timer } => ("TIMER_DISARMED", nodes.others.remove(timer), None, Vec::new()),
        Event::TaskCreated { token, task, topic } => {
            let node = nodes.token(*token);
            if let Some(node) = &node {
                nodes.tasks.insert(*task, node.clone());
            }
            (
                "TASK_CREATED",
                node,
                Some(format!("t{task}")),
                vec![("topic", text(topic))],
            )
        }
        Event::AttemptEnded {
            task,
            attempt,
            tries,
            code,
            message,
            available_at,
        } => {
            let data = vec![
                ("attempt", number(*attempt)),
                ("failures", number(*tries)),
                ("code", text(code)),
                ("message", text(message)),
                (
                    "availableAt",
                    available_at.map_or(Value::Null, |at| text(&rfc3339(at))),
                ),
            ];
            (
                "ATTEMPT_ENDED",
                nodes.tasks.get(task).cloned(),
                Some(format!("t{task}")),
                data,
            )
        }
        Event::TaskEnded { task, outcome, code } => {
            let data = vec![("outcome", text(outcome)), ("code", maybe(code.as_ref()))];
            (
                "TASK_ENDED",
                nodes.tasks.get(task).cloned(),
                Some(format!("t{task}")),
                data,
            )
        }
        Event::HumanOpened { human, approval_of } => {
            let node = approval_of.and_then(|(task, _, _)| nodes.tasks.get(&task).cloned());
            if let Some(node) = &node {
                nodes.others.insert(*human, node.clone());
            }
            let kind = if approval_of.is_some() {
                "APPROVAL_OPENED"
            } else {
                "HUMAN_TASK_OPENED"
            };
            let data = approval_of.map(|(_, attempt, sequence)| {
                vec![("attempt", number(attempt)), ("sequence", number(sequence))]
            });
            (kind, node, Some(format!("h{human}")), data.unwrap_or_default())
        }
        Event::HumanClosed {
            human,
            outcome,
            by,
            comment,
        } => {
            let data = vec![
                ("outcome", maybe(outcome.as_ref())),
                ("by", maybe(by.as_ref())),
                ("comment", maybe(comment.as_ref())),
            ];
            (
                "HUMAN_TASK_CLOSED",
                nodes.others.remove(human),
                Some(format!("h{human}")),
                data,
            )
        }
        Event::ChildStarted { child, running } => {
            let node = running
                .step
                .and_then(|(task, _, _)| nodes.tasks.get(&task).cloned());
            if let Some(node) = &node {
                nodes.others.insert(*child, node.clone());
            }
            (
                "CHILD_STARTED",
                node,
                None,
                vec![
                    ("child", text(&format!("i{child}"))),
                    ("process", text(&running.process)),
                ],
            )
        }
        Event::ChildEnded { child, status } => {
            let data = vec![
                ("child", text(&format!("i{child}"))),
                ("status", text(status.as_str())),
            ];
            ("CHILD_ENDED", nodes.others.remove(child), None, data)
        }
        Event::ChildResultIgnored { child, status } => {
            let data = vec![
                ("child", text(&format!("i{child}"))),
                ("status", text(status.as_str())),
            ];
            ("CHILD_RESULT_IGNORED", nodes.others.remove(child), None, data)
        }
        Event::IncidentOpened { incident, code, node } => {
            let data = vec![("incident", text(&format!("n{incident}"))), ("code", text(code))];
            ("INCIDENT_OPENED", Some(node.clone()), None, data)
        }
        Event::IncidentClosed {
            incident,
            by,
            resolution,
        } => {
            let data = vec![
                ("incident", text(&format!("n{incident}"))),
                ("by", text(by)),
                ("resolution", text(resolution)),
            ];
            ("INCIDENT_CLOSED", None, None, data)
        }
        Event::NoticeOpened { notice, code, node } => {
            let data = vec![("notice", text(&format!("n{notice}"))), ("code", text(code))];
            ("NOTICE_OPENED", Some(node.clone()), None, data)
        }
        Event::DecisionTaken {
            token: _,
            node,
            matched,
            columns,
        } => {
            let inline = columns.iter().filter_map(|(name, content)| match content {
                Content::Inline(value) => Some((name.clone(), value.clone())),
                Content::Payload(_) => None,
            });
            let data = vec![
                (
                    "matched",
                    Value::list(matched.iter().map(|rule| i64::from(*rule))),
                ),
                ("values", Value::map(inline)),
            ];
            ("DECISION_TAKEN", Some(node.clone()), None, data)
        }
        Event::BranchTaken {
            token: _,
            node,
            target,
        } => (
            "BRANCH_TAKEN",
            Some(node.clone()),
            None,
            vec![("target", text(target))],
        ),
        Event::ErrorRaised {
            node,
            code,
            message,
            caught_by,
        } => {
            let data = vec![
                ("code", text(code)),
                ("message", maybe(message.as_ref())),
                ("caughtBy", maybe(caught_by.as_ref())),
            ];
            ("ERROR_RAISED", Some(node.clone()), None, data)
        }
        Event::OutcomeChosen { node, outcome } => (
            "OUTCOME_CHOSEN",
            Some(node.clone()),
            None,
            vec![("outcome", text(outcome))],
        ),
        Event::NumbersTaken { next: _ } | Event::Sealed | Event::ClosingRendered { message: _ } => {
            return None;
        }
        Event::InstanceEnding { reason, .. } => {
            ("INSTANCE_CANCELLING", None, None, vec![("reason", text(reason))])
        }
        Event::InstanceEnded {
            status,
            reason,
            error,
            message: _,
        } => {
            let kind = match status {
                Status::Completed => "INSTANCE_COMPLETED",
                Status::Cancelled => "INSTANCE_CANCELLED",
                // The others are no end, so that whatever ended so has failed.
                Status::Failed | Status::Running | Status::Cancelling | Status::Compensating => {
                    "INSTANCE_FAILED"
                }
            };
            let data = vec![
                ("reason", maybe(reason.as_ref())),
                (
                    "code",
                    error.as_ref().map_or(Value::Null, |error| text(&error.code)),
                ),
            ];
            (kind, None, None, data)
        }
    })
}

fn waited(wait: &Wait) -> Option<u32> {
    match wait {
        Wait::Task { .. } | Wait::Join => None,
        Wait::Human { human } => Some(*human),
        Wait::Timer { timer } => Some(*timer),
        Wait::Child { child } => Some(*child),
    }
}

fn wait_word(wait: &Wait) -> &'static str {
    match wait {
        Wait::Task { .. } => "WORKER",
        Wait::Human { .. } => "HUMAN",
        Wait::Timer { .. } => "TIMER",
        Wait::Child { .. } => "CHILD",
        Wait::Join => "JOIN",
    }
}
