//! The wire types of the HTTP API, shared by the engine and by every worker written in Rust.
//!
//! One file per resource, named like its URL segment. The rule of the crate: types only, no decisions. JSON is
//! camelCase, states are UPPER_CASE, durations are integer milliseconds (`…Ms`, and `lockDuration`), points in time are
//! RFC 3339 strings in UTC with milliseconds. Request bodies refuse unknown fields; answers may grow new ones.
//!
//! Free-form JSON travels as [`Json`], so that the digits of a number survive unchanged. Such a value cannot sit inside an
//! untagged, flattened or internally tagged type, which is why this crate has none.

use std::collections::BTreeMap;

pub mod agent;
pub mod events;
pub mod external_tasks;
pub mod health;
pub mod history;
pub mod incidents;
pub mod instances;
pub mod keys;
pub mod lineage;
pub mod problem;
pub mod processes;
pub mod servers;
pub mod statistics;
pub mod step_bodies;
pub mod steps;
pub mod tasks;
pub mod workers;

pub use problem::{DocumentProblem, Problem};
pub use steps::{StepKind, StepState};

/// Any JSON value, kept as the text that was sent: numbers keep every digit.
pub type Json = Box<serde_json::value::RawValue>;

/// Named JSON values: an instance's variables, a task's inputs, a child's outputs.
pub type Variables = BTreeMap<String, Json>;

/// A point in time on the wire: RFC 3339, UTC, with milliseconds, such as `2026-11-03T09:15:00.000Z`.
pub type Timestamp = String;

/// Writes any serialisable value as [`Json`].
///
/// # Errors
/// When the value has a map whose keys are no strings, or its own `Serialize` fails.
pub fn to_json<T: serde::Serialize + ?Sized>(value: &T) -> Result<Json, serde_json::Error> {
    serde_json::value::to_raw_value(value)
}

/// Keeps `null` apart from "not sent": a present `null` is a value, a missing field is `None`.
pub(crate) fn present<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<Option<Json>, D::Error> {
    serde::Deserialize::deserialize(deserializer).map(Some)
}
