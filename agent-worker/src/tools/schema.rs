//! Arguments against the server's own schema, before anything is sent; and the pin of a schema.

use std::collections::BTreeMap;

use legation_schema::{Rules, Schema};
use serde_json::value::RawValue;
use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::CallError;

/// Complaints that the model reads of one call.
const MOST: usize = 10;

/// The arguments as MCP wants them, or the schema's complaints.
pub fn check_arguments(
    schema: &Map<String, Value>,
    arguments: &RawValue,
) -> Result<Map<String, Value>, CallError> {
    let invalid = |message: String| CallError::new("ARGUMENTS_INVALID", message);
    let value: Value = serde_json::from_str(arguments.get()).map_err(|e| invalid(e.to_string()))?;
    let schema = Value::Object(schema.clone());
    let schema = Schema::compile(&schema, Rules::Declared).map_err(|why| {
        CallError::new(
            "TOOL_SCHEMA_INVALID",
            format!("the server's input schema cannot be used: {why}"),
        )
    })?;
    let errors: Vec<String> = schema
        .complaints(&value, MOST)
        .into_iter()
        .map(|wrong| match wrong.pointer.as_str() {
            "" => wrong.words,
            place => format!("{place}: {}", wrong.words),
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

    /// B18: a server may lie about its schema, to stop whoever reads it.
    #[test]
    fn a_schema_that_never_ends_is_refused() {
        let arguments =
            RawValue::from_string(format!("{{\"a\":{}1{}}}", "[".repeat(60), "]".repeat(60))).unwrap();
        for text in [
            r##"{"$ref":"#"}"##,
            r##"{"properties":{"a":{"$ref":"#/$defs/a"}},"$defs":{"a":{"anyOf":[{"items":{"$ref":"#/$defs/a"}},{"items":{"$ref":"#/$defs/a"}}]}}}"##,
            r#"{"$ref":"https://example.com/schema.json"}"#,
        ] {
            let schema: Map<String, Value> = serde_json::from_str(text).unwrap();
            let error = check_arguments(&schema, &arguments).unwrap_err();
            assert_eq!(error.code, "TOOL_SCHEMA_INVALID", "{text}");
        }
    }

    #[test]
    fn a_pin_does_not_depend_on_the_order_of_names() {
        let other = r#"{"required":["id"],"properties":{"id":{"type":"string"}},"type":"object"}"#;
        let other: Map<String, Value> = serde_json::from_str(other).unwrap();
        assert_eq!(canonical_sha256(&schema()), canonical_sha256(&other));
        assert_eq!(canonical_sha256(&schema()).len(), 64);
    }
}
