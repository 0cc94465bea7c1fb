//! Values inside aggregates: small ones stand in the row, large and sensitive ones are payloads that the row
//! names by digest. Replay needs only digests (core §2, "Payloads"); the bytes travel beside the state.

use std::collections::hash_map::Entry;
use std::collections::{BTreeSet, HashMap};

use legation_language::{Value, canonical};
use serde::{Deserialize, Serialize};

use crate::rejection::Stop;

/// Values over this many bytes of JSON leave the row (performance.md: 10 KB in the row cost 3×).
pub const INLINE_LIMIT: usize = 1024;

/// Names a payload: SHA-256 (lowercase hex) of the canonical JSON, and its size in bytes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PayloadRef {
    pub digest: String,
    pub size: u64,
}

/// A value in an aggregate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Content {
    Inline(Value),
    Payload(PayloadRef),
}

impl Content {
    /// The value, from the row or from the payloads at hand.
    ///
    /// # Errors
    /// [`MissingPayload`] when the payload was not loaded: the shell loads it and asks again.
    pub fn value<'a>(&'a self, payloads: &'a Payloads) -> Result<&'a Value, MissingPayload> {
        match self {
            Self::Inline(value) => Ok(value),
            Self::Payload(reference) => payloads.get(&reference.digest),
        }
    }
}

/// A payload that is named but not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MissingPayload(pub String);

/// The payload values at hand while deciding, by digest.
#[derive(Clone, Debug, Default)]
pub struct Payloads {
    values: HashMap<String, Value>,
    bytes: usize,
}

impl Payloads {
    /// # Errors
    /// [`MissingPayload`] when it was not loaded.
    pub fn get(&self, digest: &str) -> Result<&Value, MissingPayload> {
        self.values
            .get(digest)
            .ok_or_else(|| MissingPayload(digest.to_owned()))
    }

    pub fn insert(&mut self, digest: String, value: Value) {
        // The same digest is the same value.
        if let Entry::Vacant(free) = self.values.entry(digest) {
            self.bytes += size(&value);
            free.insert(value);
        }
    }

    /// About how much memory they take.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    #[must_use]
    pub fn contains(&self, digest: &str) -> bool {
        self.values.contains_key(digest)
    }
}

/// Whether all of these are at hand; those that are not are asked for together.
///
/// # Errors
/// [`Stop::MissingPayloads`]
pub(crate) fn at_hand<'c>(
    contents: impl IntoIterator<Item = &'c Content>,
    payloads: &Payloads,
) -> Result<(), Stop> {
    let missing: BTreeSet<&String> = contents
        .into_iter()
        .filter_map(|content| match content {
            Content::Payload(reference) if !payloads.contains(&reference.digest) => Some(&reference.digest),
            Content::Inline(_) | Content::Payload(_) => None,
        })
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    Err(Stop::MissingPayloads(missing.into_iter().cloned().collect()))
}

/// A payload to be written with the commit that names it.
#[derive(Clone, Debug, PartialEq)]
pub struct NewPayload {
    /// An instance id or a task id.
    pub owner: String,
    pub digest: String,
    pub value: Value,
}

/// Turns a value into a payload reference and the payload to write.
#[must_use]
pub fn payload(owner: &str, value: Value) -> (PayloadRef, NewPayload) {
    let text = canonical::canonical(&value);
    let reference = PayloadRef {
        digest: canonical::sha256_hex(text.as_bytes()),
        size: text.len() as u64,
    };
    let new = NewPayload {
        owner: owner.to_owned(),
        digest: reference.digest.clone(),
        value,
    };
    (reference, new)
}

/// Whether a value's JSON is longer than `limit` bytes, without writing it out: escapes are not counted.
#[must_use]
pub fn is_longer_than(value: &Value, limit: usize) -> bool {
    left(value, limit).is_none()
}

/// The bytes of a value's JSON, as [`is_longer_than`] counts them.
#[must_use]
pub fn size(value: &Value) -> usize {
    usize::MAX - left(value, usize::MAX).unwrap_or(0)
}

/// What is left of `limit` bytes after a value's JSON.
fn left(value: &Value, limit: usize) -> Option<usize> {
    match value {
        Value::Null | Value::Bool(_) => limit.checked_sub(4),
        Value::Number(_) => limit.checked_sub(8),
        Value::String(text) => limit.checked_sub(text.len() + 2),
        Value::List(items) => items.iter().try_fold(limit.checked_sub(2)?, |rest, item| {
            left(item, rest)?.checked_sub(1)
        }),
        Value::Map(entries) => entries
            .iter()
            .try_fold(limit.checked_sub(2)?, |rest, (key, item)| {
                left(item, rest)?.checked_sub(key.len() + 4)
            }),
    }
}
