//! Evaluation of the language's expressions and templates: pure, bounded in steps, exact in numbers. Messages
//! name the field and the kinds, never a value, because they end up in incidents that many may read.

mod eval;
mod functions;
mod has;
mod macros;
pub mod number;
mod operators;
mod term;
#[cfg(test)]
mod tests;
mod text;
mod time;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use legation_language::Value;
use legation_language::expr::{Expr, Node};
use legation_language::template::{Part, Template};

use self::eval::{Env, eval};
use self::term::Term;

/// The code of every failed evaluation.
pub const EXPRESSION_FAILED: &str = "EXPRESSION_FAILED";

/// Lists and objects that an expression builds may nest this deep: less than what the JSON reader accepts, so
/// that what was computed can always be stored inside something and read again.
pub const MAX_RESULT_DEPTH: usize = 100;

/// The names that an expression can read.
pub trait Scope {
    /// The value of a variable or built-in name; nothing when there is none of that name.
    fn lookup(&self, name: &str) -> Option<Cow<'_, Value>>;
}

impl Scope for BTreeMap<String, Value> {
    fn lookup(&self, name: &str) -> Option<Cow<'_, Value>> {
        self.get(name).map(Cow::Borrowed)
    }
}

/// Steps that evaluations may still take. A step is a call, an element visited or built, or 64 bytes read or
/// produced; one budget may serve several evaluations.
#[derive(Clone, Debug)]
pub struct Budget {
    left: u64,
}

impl Budget {
    /// What one expression gets unless someone says otherwise.
    pub const DEFAULT_STEPS: u64 = 100_000;

    /// A budget of so many steps.
    #[must_use]
    pub const fn new(steps: u64) -> Self {
        Self { left: steps }
    }

    /// The steps not yet taken.
    #[must_use]
    pub const fn left(&self) -> u64 {
        self.left
    }

    fn charge(&mut self, steps: u64, node: &Node) -> Result<(), EvalError> {
        match self.left.checked_sub(steps) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                self.left = 0;
                Err(EvalError {
                    exhausted: true,
                    ..EvalError::at(node, "too costly: the step budget is used up")
                })
            }
        }
    }

    /// Bytes that are read or produced.
    fn charge_bytes(&mut self, bytes: usize, node: &Node) -> Result<(), EvalError> {
        self.charge(bytes as u64 / 64, node)
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self::new(Self::DEFAULT_STEPS)
    }
}

/// Why an evaluation failed; always code [`EXPRESSION_FAILED`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EvalError {
    /// What is wrong, with names and kinds and without values.
    pub message: String,
    /// The variable path concerned, when there is one.
    pub name: Option<String>,
    /// Byte offset in the expression, inside any `${`.
    pub offset: usize,
    /// The text of the expression as its author wrote it.
    pub expression: String,
    exhausted: bool,
}

impl EvalError {
    fn at(node: &Node, message: impl Into<String>) -> Self {
        let (message, name, expression) = (message.into(), None, String::new());
        Self {
            message,
            name,
            offset: node.offset,
            expression,
            exhausted: false,
        }
    }

    /// The stable code: [`EXPRESSION_FAILED`].
    #[must_use]
    pub const fn code(&self) -> &'static str {
        EXPRESSION_FAILED
    }
}

impl fmt::Display for EvalError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} at byte {} of `{}`",
            self.message, self.offset, self.expression
        )
    }
}

impl std::error::Error for EvalError {}

/// Evaluates an expression. Timestamps come out as RFC 3339 texts in UTC with milliseconds, durations as ISO
/// 8601 texts.
///
/// # Errors
/// `EXPRESSION_FAILED`: a name that does not exist, a value of the wrong kind, a number out of range, a
/// division by zero, or a budget used up.
pub fn evaluate(expr: &Expr, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
    let placed = |error: EvalError| EvalError {
        expression: expr.source().to_owned(),
        ..error
    };
    let root = expr.root();
    let term = eval(root, Env::new(scope), budget).map_err(placed)?;
    let built = matches!(term, Term::Value(Cow::Owned(_)));
    let value = term.into_value();
    if built && value.depth() > MAX_RESULT_DEPTH {
        return Err(placed(EvalError::at(
            root,
            format!("result nests deeper than {MAX_RESULT_DEPTH} levels"),
        )));
    }
    Ok(value)
}

/// Evaluates an expression that must say yes or no.
///
/// # Errors
/// Those of [`evaluate`], and a result that is no boolean.
pub fn evaluate_bool(expr: &Expr, scope: &dyn Scope, budget: &mut Budget) -> Result<bool, EvalError> {
    let placed = |error: EvalError| EvalError {
        expression: expr.source().to_owned(),
        ..error
    };
    let root = expr.root();
    let term = eval(root, Env::new(scope), budget).map_err(placed)?;
    term.truth(root).map_err(placed)
}

/// Renders a template. One `${…}` alone keeps the kind of its value; anything else becomes text: numbers as
/// their shortest decimal, lists and objects as JSON, null as nothing.
///
/// # Errors
/// Those of [`evaluate`].
pub fn render(template: &Template, scope: &dyn Scope, budget: &mut Budget) -> Result<Value, EvalError> {
    if let Some(expr) = template.single() {
        return evaluate(expr, scope, budget);
    }
    let mut out = String::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Expr { expr, offset: _ } => {
                let text = match evaluate(expr, scope, budget)? {
                    Value::Null => continue,
                    Value::String(text) => text,
                    other => other.to_json(),
                };
                let charged = budget.charge_bytes(text.len(), expr.root());
                charged.map_err(|error| EvalError {
                    expression: expr.source().to_owned(),
                    ..error
                })?;
                out.push_str(&text);
            }
        }
    }
    Ok(Value::String(out))
}
