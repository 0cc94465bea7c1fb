//! What evaluation computes with: JSON values, borrowed where possible, and the two kinds that JSON lacks.

use std::borrow::Cow;

use legation_language::Value;
use legation_language::expr::{Kind, Node};
use rust_decimal::Decimal;

use super::{Budget, EvalError, time};

#[derive(Clone, Debug)]
pub(super) enum Term<'a> {
    Value(Cow<'a, Value>),
    /// Epoch milliseconds.
    Time(i64),
    /// Milliseconds.
    Span(i64),
}

impl<'a> Term<'a> {
    pub(super) fn own(value: impl Into<Value>) -> Self {
        Self::Value(Cow::Owned(value.into()))
    }

    pub(super) fn borrow(value: &'a Value) -> Self {
        Self::Value(Cow::Borrowed(value))
    }

    pub(super) fn kind(&self) -> &'static str {
        match self {
            Self::Value(value) => value.kind(),
            Self::Time(_) => "timestamp",
            Self::Span(_) => "duration",
        }
    }

    /// The JSON value; nothing for timestamps and durations.
    pub(super) fn json(&self) -> Option<&Value> {
        match self {
            Self::Value(value) => Some(value),
            Self::Time(_) | Self::Span(_) => None,
        }
    }

    pub(super) fn is_null(&self) -> bool {
        self.json().is_some_and(Value::is_null)
    }

    pub(super) fn into_value(self) -> Value {
        match self {
            Self::Value(value) => value.into_owned(),
            Self::Time(ms) => Value::String(time::print(ms)),
            Self::Span(ms) => Value::String(time::print_span(ms)),
        }
    }

    /// A value to keep in a list or an object; what has to be copied is paid for.
    pub(super) fn kept(self, node: &Node, budget: &mut Budget) -> Result<Value, EvalError> {
        if let Self::Value(Cow::Borrowed(value)) = &self {
            budget.charge_bytes(weight(value), node)?;
        }
        Ok(self.into_value())
    }

    pub(super) fn truth(&self, node: &Node) -> Result<bool, EvalError> {
        self.json()
            .and_then(Value::as_bool)
            .ok_or_else(|| wrong_kind(node, self, "a boolean"))
    }

    pub(super) fn number(&self, node: &Node) -> Result<Decimal, EvalError> {
        self.json()
            .and_then(Value::as_decimal)
            .ok_or_else(|| wrong_kind(node, self, "a number"))
    }

    pub(super) fn text(&self, node: &Node) -> Result<&str, EvalError> {
        self.json()
            .and_then(Value::as_str)
            .ok_or_else(|| wrong_kind(node, self, "a string"))
    }

    pub(super) fn list(&self, node: &Node) -> Result<&[Value], EvalError> {
        self.json()
            .and_then(Value::as_list)
            .ok_or_else(|| wrong_kind(node, self, "a list"))
    }
}

/// About how many bytes a copy takes.
pub(super) fn weight(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 16,
        Value::String(text) => 16 + text.len(),
        Value::List(items) => 16 + items.iter().map(weight).sum::<usize>(),
        Value::Map(entries) => {
            16 + entries
                .iter()
                .map(|(key, item)| 16 + key.len() + weight(item))
                .sum::<usize>()
        }
    }
}

/// The path that a node is, as messages show it: `order.lines`.
pub(super) fn path(node: &Node) -> Option<String> {
    match &node.kind {
        Kind::Name(name) => Some(name.clone()),
        Kind::Select { from, field } => Some(format!("{}.{field}", path(from)?)),
        Kind::Index { from, index } => match &index.kind {
            Kind::Literal(Value::String(field)) => Some(format!("{}.{field}", path(from)?)),
            Kind::Literal(Value::Number(place)) => Some(format!("{}[{}]", path(from)?, place.normalize())),
            _ => None,
        },
        _ => None,
    }
}

/// `` `order.id` `` or `the value`.
pub(super) fn called(node: &Node) -> String {
    path(node).map_or_else(|| "the value".to_owned(), |path| format!("`{path}`"))
}

/// `` `order.id` (string) `` or `a string`.
pub(super) fn described(node: &Node, term: &Term<'_>) -> String {
    path(node).map_or_else(
        || with_article(term.kind()),
        |path| format!("`{path}` ({})", term.kind()),
    )
}

pub(super) fn with_article(kind: &str) -> String {
    match kind {
        "null" => kind.to_owned(),
        "object" => "an object".to_owned(),
        _ => format!("a {kind}"),
    }
}

pub(super) fn wrong_kind(node: &Node, term: &Term<'_>, wanted: &str) -> EvalError {
    let found = with_article(term.kind());
    about(node, format!("{} is {found}, not {wanted}", called(node)))
}

/// An error about what a node names.
pub(super) fn about(node: &Node, message: impl Into<String>) -> EvalError {
    EvalError {
        name: path(node),
        ..EvalError::at(node, message)
    }
}
