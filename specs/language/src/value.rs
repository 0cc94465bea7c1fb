//! The engine's own JSON value. It exists because digits must survive: every number is an exact decimal of
//! at most 28 significant digits, from the wire to the database and back; nothing passes through a double.

mod convert;
mod parse;
mod print;
mod schema;
#[cfg(test)]
mod tests;
mod wire;

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use crate::canonical::canonical;

pub use parse::{JsonError, MAX_DEPTH, parse_number};
pub(crate) use print::{push_number, push_string};

/// A JSON value with exact numbers: `1 == 1.0`, and `0.1` is a tenth.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// JSON `null`; also what an absent optional value reads as.
    #[default]
    Null,
    /// JSON `true` or `false`.
    Bool(bool),
    /// A decimal of at most 28 significant digits.
    Number(Decimal),
    /// Text; may contain U+0000, which the API layer judges.
    String(String),
    /// A JSON array.
    List(Vec<Value>),
    /// A JSON object, ordered by key.
    Map(BTreeMap<String, Value>),
}

impl Value {
    /// Reads one JSON text exactly: no rounding, no duplicate keys, nothing after the value.
    ///
    /// # Errors
    /// `JSON_INVALID` with the byte offset, or `NUMBER_RANGE` for a number outside 28 significant digits.
    pub fn parse(text: &str) -> Result<Self, JsonError> {
        parse::parse(text)
    }

    /// Compact JSON, which is the canonical text too; reading it again gives an equal value.
    #[must_use]
    pub fn to_json(&self) -> String {
        canonical(self)
    }

    /// The kind as messages name it: `null`, `boolean`, `number`, `string`, `list` or `object`.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "boolean",
            Self::Number(_) => "number",
            Self::String(_) => "string",
            Self::List(_) => "list",
            Self::Map(_) => "object",
        }
    }

    /// An object of these entries; a later entry of the same name wins.
    pub fn map<K: Into<String>, V: Into<Self>>(entries: impl IntoIterator<Item = (K, V)>) -> Self {
        Self::Map(
            entries
                .into_iter()
                .map(|(key, value)| (key.into(), value.into()))
                .collect(),
        )
    }

    /// A list of these values.
    pub fn list<V: Into<Self>>(items: impl IntoIterator<Item = V>) -> Self {
        Self::List(items.into_iter().map(Into::into).collect())
    }

    /// Whether this is `null`.
    #[must_use]
    pub const fn is_null(&self) -> bool {
        matches!(self, Self::Null)
    }

    /// The text, if this is a string.
    #[must_use]
    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::String(text) => Some(text),
            _ => None,
        }
    }

    /// The truth value, if this is a boolean.
    #[must_use]
    pub const fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(truth) => Some(*truth),
            _ => None,
        }
    }

    /// The number, if this is one.
    #[must_use]
    pub const fn as_decimal(&self) -> Option<Decimal> {
        match self {
            Self::Number(number) => Some(*number),
            _ => None,
        }
    }

    /// The number, if it is whole and fits; `2.0` is 2, `2.5` is nothing.
    #[must_use]
    pub fn as_i64(&self) -> Option<i64> {
        let number = self.as_decimal()?;
        if number.is_integer() {
            i64::try_from(number).ok()
        } else {
            None
        }
    }

    /// The number, if it is whole, not negative, and fits.
    #[must_use]
    pub fn as_u64(&self) -> Option<u64> {
        let number = self.as_decimal()?;
        if number.is_integer() {
            u64::try_from(number).ok()
        } else {
            None
        }
    }

    /// The elements, if this is a list.
    #[must_use]
    pub fn as_list(&self) -> Option<&[Self]> {
        match self {
            Self::List(items) => Some(items),
            _ => None,
        }
    }

    /// The entries, if this is an object.
    #[must_use]
    pub const fn as_map(&self) -> Option<&BTreeMap<String, Self>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entries for change, if this is an object.
    #[must_use]
    pub const fn as_map_mut(&mut self) -> Option<&mut BTreeMap<String, Self>> {
        match self {
            Self::Map(entries) => Some(entries),
            _ => None,
        }
    }

    /// The entry of an object; nothing when absent or when this is no object.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.as_map()?.get(key)
    }

    /// Follows a JSON pointer (RFC 6901); the empty pointer is the value itself.
    #[must_use]
    pub fn pointer(&self, pointer: &str) -> Option<&Self> {
        if pointer.is_empty() {
            return Some(self);
        }
        let mut here = self;
        for part in pointer.strip_prefix('/')?.split('/') {
            here = match here {
                Self::Map(entries) => entries.get(&part.replace("~1", "/").replace("~0", "~"))?,
                Self::List(items) => items.get(list_index(part)?)?,
                Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => return None,
            };
        }
        Some(here)
    }

    /// How many lists and objects stand inside one another; a scalar has depth 0.
    #[must_use]
    pub fn depth(&self) -> usize {
        match self {
            Self::Null | Self::Bool(_) | Self::Number(_) | Self::String(_) => 0,
            Self::List(items) => 1 + items.iter().map(Self::depth).max().unwrap_or(0),
            Self::Map(entries) => 1 + entries.values().map(Self::depth).max().unwrap_or(0),
        }
    }
}

fn list_index(part: &str) -> Option<usize> {
    let canonical = part == "0" || !part.starts_with('0');
    if canonical && part.bytes().all(|byte| byte.is_ascii_digit()) {
        part.parse().ok()
    } else {
        None
    }
}
