//! Arguments against the server's own schema, before anything is sent; and the pin of a schema.

use std::collections::BTreeMap;

use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::CallError;

/// The arguments as MCP wants them, or the schema's complaints.
pub fn check_arguments(
    schema: &Map<String, Value>,
    arguments: &RawValue,
) -> Result<Map<String, Value>, CallError> {
    let invalid = |message: String| CallError::new("ARGUMENTS_INVALID", message);
    let value: Value = serde_json::from_str(arguments.get()).map_err(|e| invalid(e.to_string()))?;
    let schema = Value::Object(schema.clone());
    let validator = jsonschema::options().build(&schema).map_err(|e| {
        CallError::new(
            "TOOL_SCHEMA_INVALID",
            format!("the server's input schema cannot be used: {e}"),
        )
    })?;
    let errors: Vec<String> = validator
        .iter_errors(&value)
        .take(10)
        .map(|e| {
            let place = e.instance_path().to_string();
            if place.is_empty() {
                e.to_string()
            } else {
                format!("{place}: {e}")
            }
        })
        .collect();
    if !errors.is_empty() {
        return Err(invalid(format!(
            "the arguments do not fit the tool's schema: {}",
            errors.join("; ")
        )));
    }
    match value {
        Value::Object(object) => Ok(object),
        _ => Err(invalid("the arguments are not a JSON object".to_owned())),
    }
}

/// SHA-256 over the schema's JSON with sorted names and no space, in lower-case hex: what a pin holds.
pub fn canonical_sha256(schema: &Map<String, Value>) -> String {
    let digest = Sha256::digest(canonical(&Value::Object(schema.clone())).as_bytes());
    digest.iter().map(|b| format!("{b:02x}")).collect()
}

fn canonical(value: &Value) -> String {
    match value {
        Value::Object(object) => {
            let sorted: BTreeMap<&String, &Value> = object.iter().collect();
            let fields: Vec<String> = sorted
                .into_iter()
                .map(|(name, value)| format!("{}:{}", Value::from(name.as_str()), canonical(value)))
                .collect();
            format!("{{{}}}", fields.join(","))
        }
        Value::Array(items) => {
            let items: Vec<String> = items.iter().map(canonical).collect();
            format!("[{}]", items.join(","))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.to_string(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]
mod tests {
    use super::*;

    fn schema() -> Map<String, Value> {
        let text = r#"{"type":"object","properties":{"id":{"type":"string"}},"required":["id"]}"#;
        serde_json::from_str(text).unwrap()
    }

    #[test]
    fn arguments_are_checked_against_the_servers_schema() {
        let raw = |text: &str| RawValue::from_string(text.to_owned()).unwrap();
        assert!(check_arguments(&schema(), &raw(r#"{"id":"C-1"}"#)).is_ok());
        let error = check_arguments(&schema(), &raw(r#"{"id":7}"#)).unwrap_err();
        assert_eq!(error.code, "ARGUMENTS_INVALID");
        assert!(error.message.contains("/id"), "{error}");
    }

    #[test]
    fn a_pin_does_not_depend_on_the_order_of_names() {
        let other = r#"{"required":["id"],"properties":{"id":{"type":"string"}},"type":"object"}"#;
        let other: Map<String, Value> = serde_json::from_str(other).unwrap();
        assert_eq!(canonical_sha256(&schema()), canonical_sha256(&other));
        assert_eq!(canonical_sha256(&schema()).len(), 64);
    }
}
