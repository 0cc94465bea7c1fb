//! What an expression can read: variables, the built-in names of language.md, and `result` with its keys. There
//! is deliberately no `parent`.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::Definition;

use crate::content::Payloads;
use crate::expr::Scope;
use crate::instance::Instance;
use crate::moves::Moves;
use crate::{dates, ids};

/// The names of one evaluation.
pub struct Lookup<'m> {
    instance: &'m Instance,
    definition: &'m Definition,
    payloads: &'m Payloads,
    now: i64,
    token: u32,
    result: Option<&'m Value>,
    /// Values that are not written yet, but will be before this is evaluated again.
    ahead: Option<&'m BTreeMap<String, Value>>,
    missing: RefCell<Option<String>>,
}

impl<'m> Lookup<'m> {
    pub(crate) fn new(moves: &'m Moves<'_, '_>, token: u32, result: Option<&'m Value>) -> Self {
        Self {
            instance: moves.instance(),
            definition: &moves.definition,
            payloads: moves.work.payloads,
            now: moves.now(),
            token,
            result,
            ahead: None,
            missing: RefCell::new(None),
        }
    }

    /// With values over the variables that are there.
    pub(crate) fn beside(mut self, ahead: &'m BTreeMap<String, Value>) -> Self {
        self.ahead = Some(ahead);
        self
    }

    /// The digest of a payload that an evaluation wanted but that is not loaded.
    pub(crate) fn missing(&self) -> Option<String> {
        self.missing.borrow().clone()
    }

    fn built_in(&self, name: &str) -> Option<Value> {
        let instance = self.instance;
        let text = |text: &str| Value::from(text);
        match name {
            "now" => Some(Value::from(dates::rfc3339(self.now))),
            "values" => Some(Value::Map(self.definition.values.clone())),
            "instance" => Some(Value::Map(BTreeMap::from([
                ("id".to_owned(), text(instance.id.as_str())),
                ("key".to_owned(), text(&instance.process)),
                ("process".to_owned(), text(&instance.process)),
                ("version".to_owned(), Value::from(i64::from(instance.version))),
                (
                    "business_key".to_owned(),
                    instance.business_key.as_deref().map_or(Value::Null, text),
                ),
                (
                    "started_at".to_owned(),
                    Value::from(dates::rfc3339(instance.started_at)),
                ),
                ("initiator".to_owned(), text(&instance.initiator)),
                (
                    "labels".to_owned(),
                    Value::Map(
                        instance
                            .labels
                            .iter()
                            .map(|(k, v)| (k.clone(), text(v)))
                            .collect(),
                    ),
                ),
            ]))),
            "root" => Some(Value::Map(BTreeMap::from([
                ("id".to_owned(), text(ids::root_of(instance.id.as_str()))),
                (
                    "key".to_owned(),
                    instance.chain.first().map_or(Value::Null, |key| text(key)),
                ),
            ]))),
            "node" => {
                let token = instance.tokens.get(&self.token)?;
                Some(Value::Map(BTreeMap::from([
                    ("id".to_owned(), text(&token.node)),
                    ("iteration".to_owned(), Value::from(1_i64)),
                ])))
            }
            _ => None,
        }
    }
}

impl Scope for Lookup<'_> {
    fn lookup(&self, name: &str) -> Option<Cow<'_, Value>> {
        // Read-only: neither a result nor a variable answers in their place.
        if let Some(value) = self.built_in(name) {
            return Some(Cow::Owned(value));
        }
        if let Some(result) = self.result {
            if name == "result" {
                return Some(Cow::Borrowed(result));
            }
            if let Some(value) = result.get(name) {
                return Some(Cow::Borrowed(value));
            }
        }
        if let Some(value) = self.ahead.and_then(|ahead| ahead.get(name)) {
            return Some(Cow::Borrowed(value));
        }
        if let Some(variable) = self.instance.variables().get(name) {
            return match variable.content.value(self.payloads) {
                Ok(value) => Some(Cow::Borrowed(value)),
                Err(missing) => {
                    *self.missing.borrow_mut() = Some(missing.0);
                    None
                }
            };
        }
        None
    }
}
