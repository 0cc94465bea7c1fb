//! `outputs` of a node, made of a result before the result is accepted: what its sender left out or sent wrong is
//! told to the sender while it still holds the work, and does not stop the instance after the work is done.

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::documents::{engine_written, is_built_in};
use legation_language::expr::Expr;
use legation_language::model::{Mapping, Node, NodeKind, Source as From};

use crate::expr::{Budget, evaluate};
use crate::lookup::Lookup;
use crate::moves::{Done, Moves, engine_name};
use crate::rejection::{Rejection, Stop};

/// Names of a result that a refusal lists.
const MOST_NAMES: usize = 20;

impl Moves<'_, '_> {
    /// Whether the node's `outputs` can be made of this result. What fails although the result has no part in it is
    /// the process's own matter: the result is accepted, and an incident holds it.
    ///
    /// # Errors
    /// 422 `OUTPUT_INVALID` when an expression fails because of the result, `VARIABLE_TYPE` when it gives another
    /// type than is declared, `VARIABLE_TOO_LARGE`.
    pub(crate) fn check_outputs(&self, token: u32, node: &Node, done: &Done) -> Result<(), Stop> {
        let Some(mappings) = &node.outputs else {
            return Ok(());
        };
        let ahead = written_first(node, done);
        let mut values = BTreeMap::new();
        for mapping in mappings {
            // A name that stays the same (`outputs: [payout_id]`) has to be sent: that the process promises it to its
            // caller writes it nowhere else.
            let of_sender = || match &mapping.from {
                From::Literal(_) => false,
                From::Expression(expr) => {
                    expr.source().trim() == mapping.name || self.is_of_sender(node, expr, done, &ahead)
                }
            };
            let value = match &mapping.from {
                From::Literal(value) => value.clone(),
                From::Expression(expr) => match self
                    .evaluate_ahead(token, expr, done, &ahead)
                    .map_err(|stop| self.with_reads(node, stop))?
                {
                    Ok(value) => value,
                    Err(problem) if of_sender() => {
                        return Err(unmapped(node, mapping, expr, &problem, done).into());
                    }
                    Err(_) => return Ok(()),
                },
            };
            if let Err(problem) = self.check_declared(&mapping.name, &value) {
                if !of_sender() {
                    return Ok(());
                }
                let message = format!("output {} of node {}: {}", mapping.name, node.id, problem.message);
                return Err(Rejection::invalid("VARIABLE_TYPE", message)
                    .argument(&mapping.name)
                    .into());
            }
            values.insert(mapping.name.clone(), value);
        }
        Ok(self.check_sizes(&values)?)
    }

    /// The value, or what is wrong in words without a value.
    fn evaluate_ahead(
        &self,
        token: u32,
        expr: &Expr,
        done: &Done,
        ahead: &BTreeMap<String, Value>,
    ) -> Result<Result<Value, String>, Stop> {
        let lookup = Lookup::new(self, token, Some(&done.result)).beside(ahead);
        let value = evaluate(expr, &lookup, &mut Budget::default()).map_err(|error| error.message);
        match lookup.missing() {
            Some(digest) => Err(Stop::MissingPayloads(vec![digest])),
            None => Ok(value),
        }
    }

    /// Whether an expression reads the result: `result` itself, a name that came or is written with it, or one that
    /// nobody else has written or will write.
    fn is_of_sender(&self, node: &Node, expr: &Expr, done: &Done, ahead: &BTreeMap<String, Value>) -> bool {
        let references = expr.references();
        let mut names = references.iter().filter_map(|path| path.first());
        names.any(|name| {
            let came = name == "result" || done.result.get(name).is_some() || ahead.contains_key(name);
            let known = || self.instance().variables().contains_key(name) || self.is_promised(node, name);
            came || (!is_built_in(name) && !known())
        })
    }

    /// Whether the process says somewhere else that this name will be written.
    fn is_promised(&self, node: &Node, name: &str) -> bool {
        let mut declared = self.definition.variables.iter().chain(&self.definition.outputs);
        declared.any(|declared| declared.name == name)
            || self.definition.nodes.iter().any(|other| {
                let mapped = other.outputs.iter().flatten().any(|mapping| mapping.name == name);
                let of_agent = matches!(&other.kind, NodeKind::Agent(agent) if agent.result_variable == name);
                (mapped && other.id != node.id)
                    || of_agent
                    || engine_written(other).iter().any(|own| own == name)
            })
    }
}

/// What the engine itself writes before the outputs are made.
fn written_first(node: &Node, done: &Done) -> BTreeMap<String, Value> {
    let mut written = BTreeMap::new();
    if let NodeKind::Agent(agent) = &node.kind {
        written.insert(agent.result_variable.clone(), done.result.clone());
    }
    if let Some(outcome) = &done.outcome {
        written.insert(engine_name(&node.id, "outcome"), Value::from(outcome.as_str()));
    }
    written
}

fn unmapped(node: &Node, mapping: &Mapping, expr: &Expr, problem: &str, done: &Done) -> Rejection {
    let message = format!(
        "output {} of node {} is made of `{}`: {problem}; {}",
        mapping.name,
        node.id,
        expr.source(),
        given(done)
    );
    Rejection::invalid("OUTPUT_INVALID", message)
        .argument(&mapping.name)
        .hint("send every name that the node's `outputs` read, and complete again under the same lease")
}

/// The names of the result, never its values.
fn given(done: &Done) -> String {
    let Some(entries) = done.result.as_map() else {
        return format!("the result is {}", done.result.kind());
    };
    let shown: Vec<String> = entries
        .keys()
        .take(MOST_NAMES)
        .map(|name| name.chars().take(64).collect::<String>())
        .collect();
    match (shown.len(), entries.len() - shown.len()) {
        (0, _) => "no name was given".to_owned(),
        (_, 0) => format!("given were {}", shown.join(", ")),
        (_, more) => format!("given were {} and {more} more", shown.join(", ")),
    }
}

/// The refusal of an agent's result as the model reads it: like any other broken contract.
pub(crate) fn for_the_model(stop: Stop) -> Result<String, Stop> {
    match stop {
        Stop::Rejected(refusal) if refusal.code == "OUTPUT_INVALID" || refusal.code == "VARIABLE_TYPE" => {
            Ok(refusal.message)
        }
        other => Err(other),
    }
}
