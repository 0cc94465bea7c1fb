//! To and from Rust's own types, and the values of serde_json (for JSON Schema checks) and of the YAML reader.

use std::collections::BTreeMap;

use rust_decimal::Decimal;

use super::{JsonError, MAX_DEPTH, Value, parse_number, push_number};

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::String(text.to_owned())
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::String(text)
    }
}

impl From<bool> for Value {
    fn from(truth: bool) -> Self {
        Self::Bool(truth)
    }
}

impl From<Decimal> for Value {
    fn from(number: Decimal) -> Self {
        Self::Number(number)
    }
}

macro_rules! from_integers {
    ($($integer:ty),*) => {$(
        impl From<$integer> for Value {
            fn from(number: $integer) -> Self {
                Self::Number(Decimal::from(number))
            }
        }
    )*};
}

// A macro because the bodies are the same and a blanket impl would collide with the others.
from_integers!(i32, u32, i64, u64, usize);

impl From<Vec<Value>> for Value {
    fn from(items: Vec<Value>) -> Self {
        Self::List(items)
    }
}

impl From<BTreeMap<String, Value>> for Value {
    fn from(entries: BTreeMap<String, Value>) -> Self {
        Self::Map(entries)
    }
}

impl<T: Into<Value>> From<Option<T>> for Value {
    fn from(value: Option<T>) -> Self {
        value.map_or(Self::Null, Into::into)
    }
}

/// For libraries that speak serde_json. Whole numbers of 64 bits stay exact; others become the double nearest
/// to their shortest text, so use this for checks, never to carry data on.
impl From<&Value> for serde_json::Value {
    fn from(value: &Value) -> Self {
        match value {
            Value::Null => Self::Null,
            Value::Bool(truth) => Self::Bool(*truth),
            Value::Number(number) => number_to_serde(*number),
            Value::String(text) => Self::String(text.clone()),
            Value::List(items) => Self::Array(items.iter().map(Self::from).collect()),
            Value::Map(entries) => Self::Object(
                entries
                    .iter()
                    .map(|(key, item)| (key.clone(), Self::from(item)))
                    .collect(),
            ),
        }
    }
}

fn number_to_serde(number: Decimal) -> serde_json::Value {
    if number.is_integer() {
        if let Ok(small) = i64::try_from(number) {
            return small.into();
        }
        if let Ok(large) = u64::try_from(number) {
            return large.into();
        }
    }
    let mut text = String::new();
    push_number(number, &mut text);
    text.parse::<f64>()
        .map_or(serde_json::Value::Null, serde_json::Value::from)
}

/// Fails with `NUMBER_RANGE` for doubles outside 28 digits, `JSON_INVALID` when nested too deep.
impl TryFrom<&serde_json::Value> for Value {
    type Error = JsonError;

    fn try_from(value: &serde_json::Value) -> Result<Self, JsonError> {
        from_serde(value, 0)
    }
}

fn from_serde(value: &serde_json::Value, depth: usize) -> Result<Value, JsonError> {
    Ok(match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(truth) => Value::Bool(*truth),
        serde_json::Value::Number(number) => Value::Number(parse_number(&number.to_string())?),
        serde_json::Value::String(text) => Value::String(text.clone()),
        serde_json::Value::Array(items) => {
            let depth = deeper(depth)?;
            Value::List(
                items
                    .iter()
                    .map(|item| from_serde(item, depth))
                    .collect::<Result<_, _>>()?,
            )
        }
        serde_json::Value::Object(entries) => {
            let depth = deeper(depth)?;
            let mut out = BTreeMap::new();
            for (key, item) in entries {
                out.insert(key.clone(), from_serde(item, depth)?);
            }
            Value::Map(out)
        }
    })
}

/// Fails with `NUMBER_RANGE` for infinities, NaN and doubles outside 28 digits, `JSON_INVALID` for tags, keys
/// that are no scalars, keys that are equal as text, and nesting too deep.
impl TryFrom<&serde_yaml::Value> for Value {
    type Error = JsonError;

    fn try_from(value: &serde_yaml::Value) -> Result<Self, JsonError> {
        from_yaml(value, 0)
    }
}

fn from_yaml(value: &serde_yaml::Value, depth: usize) -> Result<Value, JsonError> {
    Ok(match value {
        serde_yaml::Value::Null => Value::Null,
        serde_yaml::Value::Bool(truth) => Value::Bool(*truth),
        serde_yaml::Value::Number(number) => Value::Number(yaml_number(number)?),
        serde_yaml::Value::String(text) => Value::String(text.clone()),
        serde_yaml::Value::Sequence(items) => {
            let depth = deeper(depth)?;
            Value::List(
                items
                    .iter()
                    .map(|item| from_yaml(item, depth))
                    .collect::<Result<_, _>>()?,
            )
        }
        serde_yaml::Value::Mapping(entries) => {
            let depth = deeper(depth)?;
            let mut out = BTreeMap::new();
            for (key, item) in entries {
                if out.insert(yaml_key(key)?, from_yaml(item, depth)?).is_some() {
                    return Err(JsonError::invalid("duplicate key", 0));
                }
            }
            Value::Map(out)
        }
        serde_yaml::Value::Tagged(_) => return Err(JsonError::invalid("YAML tags are not supported", 0)),
    })
}

fn yaml_number(number: &serde_yaml::Number) -> Result<Decimal, JsonError> {
    if let Some(whole) = number.as_i64() {
        return Ok(Decimal::from(whole));
    }
    if let Some(whole) = number.as_u64() {
        return Ok(Decimal::from(whole));
    }
    match number.as_f64() {
        // Rust prints the shortest digits that give this double back: what the author wrote, up to 17 digits.
        Some(double) if double.is_finite() => parse_number(&double.to_string()),
        _ => Err(JsonError::range(0)),
    }
}

fn yaml_key(key: &serde_yaml::Value) -> Result<String, JsonError> {
    match key {
        serde_yaml::Value::String(text) => Ok(text.clone()),
        serde_yaml::Value::Bool(truth) => Ok(truth.to_string()),
        serde_yaml::Value::Number(number) => Ok(Value::Number(yaml_number(number)?).to_json()),
        _ => Err(JsonError::invalid("a key must be text", 0)),
    }
}

fn deeper(depth: usize) -> Result<usize, JsonError> {
    if depth == MAX_DEPTH {
        return Err(JsonError::invalid(
            format!("nested deeper than {MAX_DEPTH} levels"),
            0,
        ));
    }
    Ok(depth + 1)
}
