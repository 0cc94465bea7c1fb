//! The expressions of process documents: a subset of CEL with exact decimals. The parser is our own because
//! digits must stay exact, the words `and or not eq ne` are accepted, and every problem names its place.
//! Evaluation is the kernel's; this side compiles, bounds the cost and says what is read.

mod ast;
mod build;
mod cost;
mod functions;
pub(crate) mod lexer;
mod parser;
mod references;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub use ast::{Arithmetic, Kind, Macro, Node, Relation};
pub use cost::MAX_STATIC_COST;
pub use functions::Function;

/// The longest text of one expression, in bytes.
pub const MAX_TEXT: usize = 4 * 1024;

/// How deep an expression may nest: parentheses, calls, unary operators, chains of fields.
pub const MAX_NESTING: usize = 64;

/// Why a text is no acceptable expression, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExprError {
    /// `EXPRESSION_INVALID` or `EXPRESSION_COSTLY`.
    pub code: &'static str,
    /// What is wrong.
    pub message: String,
    /// Byte offset in the text as given, `${` included.
    pub offset: usize,
    /// What to write instead, when that is known.
    pub hint: Option<String>,
}

impl ExprError {
    /// The text is no expression of the language.
    pub const INVALID: &'static str = "EXPRESSION_INVALID";
    /// The worst case runs too long (bad day B6).
    pub const COSTLY: &'static str = "EXPRESSION_COSTLY";

    pub(crate) fn new(message: impl Into<String>, offset: usize) -> Self {
        Self {
            code: Self::INVALID,
            message: message.into(),
            offset,
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for ExprError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at byte {}", self.message, self.offset)?;
        match &self.hint {
            Some(hint) => write!(f, " ({hint})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for ExprError {}

/// A compiled expression. It is stored as its text and compiled again when read; two are equal when their
/// texts are. Cloning is cheap.
#[derive(Clone)]
pub struct Expr {
    compiled: Arc<Compiled>,
}

struct Compiled {
    source: String,
    root: Node,
    cost: u64,
}

impl Expr {
    /// Compiles a text, bare or wholly inside `${…}`.
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` with the place, or `EXPRESSION_COSTLY` when the worst case is over
    /// [`MAX_STATIC_COST`].
    pub fn compile(text: &str) -> Result<Self, ExprError> {
        let (inner, base) = unwrap(text)?;
        let at = |error: ExprError| ExprError {
            offset: error.offset + base,
            ..error
        };
        if inner.len() > MAX_TEXT {
            return Err(at(ExprError::new(
                format!("expression longer than {MAX_TEXT} bytes"),
                MAX_TEXT,
            )));
        }
        let root = parser::parse(inner).map_err(at)?;
        let cost = cost::check(&root).map_err(at)?;
        Ok(Self {
            compiled: Arc::new(Compiled {
                source: text.to_owned(),
                root,
                cost,
            }),
        })
    }

    /// The text as the author wrote it.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.compiled.source
    }

    /// The syntax tree, for the evaluator.
    #[must_use]
    pub fn root(&self) -> &Node {
        &self.compiled.root
    }

    /// The worst case in steps, lists of unknown length taken as 1,000 elements.
    #[must_use]
    pub fn cost(&self) -> u64 {
        self.compiled.cost
    }

    /// The variable paths that evaluation may read, each once, in the order of the text. `a.b` is
    /// `["a", "b"]`; names bound by macros are not variables.
    #[must_use]
    pub fn references(&self) -> Vec<Vec<String>> {
        references::of(self.root())
    }

    /// Every place that reads a variable path, in the order of the text: the path, and the byte offset of its first
    /// letter in the text as it was given.
    #[must_use]
    pub fn places(&self) -> Vec<(Vec<String>, usize)> {
        let base = unwrap(self.source()).map_or(0, |(_, base)| base);
        let mut places = references::places(self.root());
        places.iter_mut().for_each(|(_, offset)| *offset += base);
        places
    }

    /// The path, when the whole expression is nothing but one (`a`, `a.b`, `a["b"].c`).
    #[must_use]
    pub fn path(&self) -> Option<Vec<String>> {
        references::path(self.root())
    }
}

/// The text inside a whole `${…}` and where it begins, or the text itself.
fn unwrap(text: &str) -> Result<(&str, usize), ExprError> {
    let Some(rest) = text.trim_start().strip_prefix("${") else {
        return Ok((text, 0));
    };
    let base = text.len() - rest.len();
    match rest.trim_end().strip_suffix('}') {
        Some(inner) => Ok((inner, base)),
        None => Err(
            ExprError::new("`${` is not closed around the whole expression", base - 2)
                .hint("write the expression bare, or put all of it inside one `${…}`"),
        ),
    }
}

impl fmt::Debug for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Expr").field(&self.source()).finish()
    }
}

impl fmt::Display for Expr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.source())
    }
}

impl PartialEq for Expr {
    fn eq(&self, other: &Self) -> bool {
        self.source() == other.source()
    }
}

impl Eq for Expr {}

impl Serialize for Expr {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.source())
    }
}

impl<'de> Deserialize<'de> for Expr {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::compile(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Expr {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Expression".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "maxLength": MAX_TEXT, "x-legation": "expression" })
    }
}
