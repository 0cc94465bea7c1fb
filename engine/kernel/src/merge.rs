//! How results become variables: which names a result may write, how large it may be, and the writing itself.

use std::collections::BTreeMap;

use legation_language::documents::{engine_written, is_built_in, is_name};
use legation_language::model::Node;
use legation_language::{Value, types};

use crate::content::{Content, INLINE_LIMIT, at_hand, is_longer_than, size};
use crate::moves::{Done, Moves, Trouble};
use crate::rejection::{Rejection, Stop};

/// The most bytes of one variable (core §1).
const MAX_VALUE_BYTES: usize = 1024 * 1024;

/// The most bytes of all large variables of an instance (core §1).
const MAX_INSTANCE_BYTES: u64 = 8 * 1024 * 1024;

impl Moves<'_, '_> {
    /// Whether a result may be merged: legal names, locked values untouched, declared types kept, sizes within
    /// their bounds. The worker's lease stands when it is refused.
    ///
    /// # Errors
    /// 422 `VARIABLE_NAME`, `VARIABLE_LOCKED`, `VARIABLE_TYPE` or `VARIABLE_TOO_LARGE`.
    pub fn check_result(&self, node: &Node, result: &BTreeMap<String, Value>) -> Result<(), Stop> {
        if node.outputs.is_some() {
            return Ok(self.check_sizes(result)?);
        }
        self.check_merge(result)
    }

    /// Whether values may be merged under their own names.
    ///
    /// # Errors
    /// As [`check_result`](Self::check_result).
    pub fn check_merge(&self, values: &BTreeMap<String, Value>) -> Result<(), Stop> {
        let known = values
            .keys()
            .filter_map(|name| self.instance().variables().get(name));
        let locked = known.filter(|known| known.locked);
        at_hand(locked.map(|known| &known.content), self.work.payloads)?;
        for (name, value) in values {
            check_name(name)?;
            if self.is_changed_lock(name, value)? {
                let hint = "return another name, or name it under the node's `outputs`";
                let refusal = Rejection::invalid("VARIABLE_LOCKED", format!("variable {name} is locked"));
                return Err(refusal.argument(name).hint(hint).into());
            }
            self.check_declared(name, value).map_err(|problem| {
                Stop::from(Rejection::invalid("VARIABLE_TYPE", problem.message).argument(name))
            })?;
        }
        Ok(self.check_sizes(values)?)
    }

    /// Whether values, written over what is there, keep the bounds of a value and of an instance.
    ///
    /// # Errors
    /// 422 `VARIABLE_TOO_LARGE`.
    pub(crate) fn check_sizes(&self, values: &BTreeMap<String, Value>) -> Result<(), Rejection> {
        let hint = "store large things elsewhere and pass a reference";
        let mut large: u64 = 0;
        for (name, value) in values
            .iter()
            .filter(|(_, value)| is_longer_than(value, INLINE_LIMIT))
        {
            if is_longer_than(value, MAX_VALUE_BYTES) {
                let message = format!("`{name}` is larger than {MAX_VALUE_BYTES} bytes");
                return Err(Rejection::invalid("VARIABLE_TOO_LARGE", message)
                    .argument(name)
                    .hint(hint));
            }
            large += size(value) as u64;
        }
        if large == 0 {
            return Ok(());
        }
        let kept = self
            .instance()
            .variables()
            .iter()
            .filter(|(name, _)| !values.contains_key(*name));
        let held = kept.map(|(_, variable)| match &variable.content {
            Content::Inline(_) => 0,
            Content::Payload(reference) => reference.size,
        });
        if held.sum::<u64>() + large > MAX_INSTANCE_BYTES {
            let message =
                format!("the instance would hold more than {MAX_INSTANCE_BYTES} bytes of variables");
            return Err(Rejection::invalid("VARIABLE_TOO_LARGE", message).hint(hint));
        }
        Ok(())
    }

    /// Whether the value differs from what is locked under this name. What the engine writes is locked before it
    /// is there: a worker must not foretell how a later node ends.
    fn is_changed_lock(&self, name: &str, value: &Value) -> Result<bool, Stop> {
        match self.instance().variables().get(name) {
            Some(known) => Ok(known.locked && known.content.value(self.work.payloads)? != value),
            None => Ok((name.ends_with("_outcome") || name.ends_with("_error_code"))
                && self
                    .definition
                    .nodes
                    .iter()
                    .any(|node| engine_written(node).iter().any(|own| own == name))),
        }
    }

    pub(crate) fn check_declared(&self, name: &str, value: &Value) -> Result<(), types::TypeProblem> {
        match self
            .definition
            .variables
            .iter()
            .find(|declared| declared.name == name)
        {
            Some(declared) => types::check(declared, value, self.work.env.schemas),
            None => Ok(()),
        }
    }

    /// Takes the result of an activity over and says what was written.
    pub fn take_over(&mut self, token: u32, node: &Node, done: &Done) -> Result<(), Trouble> {
        let refused = |refusal: Rejection| {
            let message = format!("node {}: {}", node.id, refusal.message);
            Trouble::Incident {
                code: refusal.code,
                message,
            }
        };
        match &node.outputs {
            Some(mappings) => {
                let values = self.mapped(token, mappings, Some(&done.result))?;
                for (name, value) in &values {
                    if let Err(problem) = self.check_declared(name, value) {
                        let message = format!("node {}: {}", node.id, problem.message);
                        return Err(Trouble::Incident {
                            code: "VARIABLE_TYPE",
                            message,
                        });
                    }
                }
                self.check_sizes(&values).map_err(refused)?;
                for (name, value) in values {
                    self.set(&name, value, false, &done.source);
                }
            }
            None => {
                let Some(result) = done.result.as_map() else {
                    return Ok(());
                };
                match self.check_result(node, result) {
                    Ok(()) => {}
                    Err(Stop::Rejected(refusal)) => return Err(refused(*refusal)),
                    Err(stop) => return Err(stop.into()),
                }
                for (name, value) in result.clone() {
                    if !self
                        .instance()
                        .variables()
                        .get(&name)
                        .is_some_and(|known| known.locked)
                    {
                        self.set(&name, value, false, &done.source);
                    }
                }
            }
        }
        Ok(())
    }
}

/// Built-in names are read-only: a variable of that name would answer in their place.
fn check_name(name: &str) -> Result<(), Rejection> {
    if !is_name(name) {
        let hint = "use letters, digits and _, beginning with a letter; or map it with `outputs`";
        let shown: String = name.chars().take(64).collect();
        let refusal = Rejection::invalid("VARIABLE_NAME", format!("`{shown}` is no variable name"));
        return Err(refusal.argument(shown).hint(hint));
    }
    if is_built_in(name) {
        let hint = "return it under another name; or map it with `outputs`";
        let refusal = Rejection::invalid(
            "VARIABLE_NAME",
            format!("`{name}` is built in and cannot be a variable"),
        );
        return Err(refusal.argument(name).hint(hint));
    }
    Ok(())
}
