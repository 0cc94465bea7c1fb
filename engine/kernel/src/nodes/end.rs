//! `end`: the token is consumed. An error end ends the instance FAILED with its code; a plain one ends it when
//! no token is left and the declared outputs hold.

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::{End, Node};
use legation_language::types;

use super::NodeType;
use crate::content::at_hand;
use crate::expr::{Budget, render};
use crate::instance::{Event, Failure, Status};
use crate::moves::{Moves, Trouble};
use crate::rejection::Stop;

impl NodeType for End {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let message = match &self.closing {
            None => None,
            Some(template) => {
                let names = declared(m)?;
                let value = render(template, &Names(&names), &mut Budget::default()).map_err(|error| {
                    Trouble::Incident {
                        code: "EXPRESSION_FAILED",
                        message: format!("node {}: {error}", node.id),
                    }
                })?;
                Some(m.content(value))
            }
        };
        if let Some(code) = &self.error {
            m.emit(Event::ErrorRaised {
                node: node.id.clone(),
                code: code.clone(),
                message: None,
                caught_by: None,
            });
            m.end_token(token);
            let error = Failure {
                code: code.clone(),
                reason: None,
            };
            return Ok(m.end_all(
                Status::Failed,
                Some(format!("error end {}", node.id)),
                Some(error),
                message,
            )?);
        }
        m.end_token(token);
        if let Some(message) = message {
            m.emit(Event::ClosingRendered { message });
        }
        Ok(())
    }
}

/// Inputs and declared outputs only: what `closing` may tell the caller (architecture §7.1). What is unset is null.
fn declared(m: &Moves<'_, '_>) -> Result<BTreeMap<String, Value>, Stop> {
    let definition = m.definition.clone();
    let names = definition
        .variables
        .iter()
        .filter(|declared| declared.input)
        .chain(&definition.outputs)
        .map(|declared| &declared.name);
    let set = names
        .clone()
        .filter_map(|name| m.instance().variables().get(name));
    at_hand(set.map(|variable| &variable.content), m.work.payloads)?;
    let mut values = BTreeMap::new();
    for name in names {
        let value = match m.instance().variables().get(name) {
            Some(variable) => m.value(&variable.content)?,
            None => Value::Null,
        };
        values.insert(name.clone(), value);
    }
    Ok(values)
}

struct Names<'a>(&'a BTreeMap<String, Value>);

impl crate::expr::Scope for Names<'_> {
    fn lookup(&self, name: &str) -> Option<std::borrow::Cow<'_, Value>> {
        self.0.get(name).map(std::borrow::Cow::Borrowed)
    }
}

const UNWRITTEN: &str = "nothing on the way to this end wrote it";

/// Ends the instance when no token is left and nothing below it is still ending. A root must have set its declared
/// outputs; a child gives null.
pub(crate) fn complete_instance(m: &mut Moves<'_, '_>) -> Result<(), Stop> {
    if !m.instance().tokens.is_empty() || m.instance().is_over() || m.has_running_child()? {
        return Ok(());
    }
    let definition = m.definition.clone();
    let is_child = m.instance().parent.is_some();
    let set = definition
        .outputs
        .iter()
        .filter_map(|output| m.instance().variables().get(&output.name));
    at_hand(set.map(|variable| &variable.content), m.work.payloads)?;
    for output in &definition.outputs {
        let (reason, wrong) = match m.instance().variables().get(&output.name) {
            None if is_child || !output.required => continue,
            None => ("missing-output", UNWRITTEN.to_owned()),
            Some(variable) => {
                let value = m.value(&variable.content)?;
                match types::check(output, &value, m.work.env.schemas) {
                    Ok(()) => continue,
                    Err(_) if value.is_null() && !is_child => ("missing-output", UNWRITTEN.to_owned()),
                    Err(_) if value.is_null() => continue,
                    Err(problem) => ("invalid-return", problem.message),
                }
            }
        };
        let error = Failure {
            code: "OUTPUT_INVALID".to_owned(),
            reason: Some(reason.to_owned()),
        };
        let text = format!(
            "output {}, declared as {}: {wrong}",
            output.name,
            types::expected(output.kind)
        );
        return m.end_all(Status::Failed, Some(text), Some(error), None);
    }
    let message = m.instance().message.clone();
    m.end_all(Status::Completed, None, None, message)
}
