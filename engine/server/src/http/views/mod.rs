//! From what is stored to what the API shows: pure conversions, one file per resource.

pub mod events;
pub mod incidents;
pub mod instances;
pub mod steps;
pub mod tasks;

use legation_language::Value;
use legation_protocol::{Json as RawJson, Variables};

use super::error::{Error, Result};

/// A value as the wire has it, digit for digit.
///
/// # Errors
/// 500: values are always JSON.
pub fn raw(value: &Value) -> Result<RawJson> {
    legation_protocol::to_json(value).map_err(|error| Error::internal(&error))
}

/// Named values as the wire has them; what is no object has none.
///
/// # Errors
/// 500: values are always JSON.
pub fn named(value: &Value) -> Result<Variables> {
    let entries = value.as_map().into_iter().flatten();
    entries
        .map(|(name, value)| Ok((name.clone(), raw(value)?)))
        .collect()
}
