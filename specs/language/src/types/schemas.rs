//! JSON Schema 2020-12 for values, compiled once and cached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use legation_schema::{Rules, Schema};

use super::SchemaCheck;
use crate::Value;
use crate::canonical::canonical;

/// Past this many the cache is emptied: definitions are few, and a flood of schemas must not eat the memory.
const MAX_CACHED: usize = 1_024;

/// At most this many texts per value: a list of 10,000 wrong elements helps nobody.
const MAX_ERRORS: usize = 8;

/// Compiled schemas by their canonical text. Share one per process.
#[derive(Default)]
pub struct JsonSchemas {
    compiled: Mutex<HashMap<String, Compiled>>,
}

type Compiled = Result<Arc<Schema>, String>;

impl JsonSchemas {
    /// Why this is no usable schema; None when it compiles.
    pub fn compile_error(&self, schema: &Value) -> Option<String> {
        self.compiled(schema).err()
    }

    fn compiled(&self, schema: &Value) -> Compiled {
        let key = canonical(schema);
        let lock = || self.compiled.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = lock().get(&key) {
            return known.clone();
        }
        // Outside the lock: whoever checks another schema meanwhile does not wait for this one.
        let result = Schema::compile(&serde_json::Value::from(schema), Rules::Draft202012).map(Arc::new);
        let mut compiled = lock();
        if compiled.len() >= MAX_CACHED {
            compiled.clear();
        }
        compiled.insert(key, result.clone());
        result
    }
}

impl SchemaCheck for JsonSchemas {
    fn errors(&self, schema: &Value, value: &Value) -> Vec<String> {
        let schema = match self.compiled(schema) {
            Ok(schema) => schema,
            Err(message) => return vec![format!("the schema itself is wrong: {message}")],
        };
        let complaints = schema.complaints(&serde_json::Value::from(value), MAX_ERRORS);
        let said = complaints.into_iter().map(|complaint| {
            let pointer = complaint.pointer.as_str();
            format!(
                "{}: {}",
                if pointer.is_empty() { "/" } else { pointer },
                complaint.words
            )
        });
        said.collect()
    }
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

    use super::*;

    fn value(text: &str) -> Value {
        Value::parse(text).unwrap()
    }

    #[test]
    fn errors_name_the_pointer_and_never_the_value() {
        let schemas = JsonSchemas::default();
        let schema = value(
            r#"{"type":"object","required":["id"],"properties":{"id":{"type":"string","pattern":"^[0-9]+$"},"n":{"minimum":1}}}"#,
        );
        assert_eq!(
            schemas.errors(&schema, &value(r#"{"id":"5531","n":1.0}"#)),
            Vec::<String>::new()
        );
        let errors = schemas.errors(&schema, &value(r#"{"id":"hunter2","n":0.123456789}"#));
        assert_eq!(errors.len(), 2);
        assert!(
            errors.iter().any(|error| error.starts_with("/id: ")),
            "{errors:?}"
        );
        assert!(errors.iter().any(|error| error.starts_with("/n: ")), "{errors:?}");
        assert!(
            errors
                .iter()
                .all(|error| !error.contains("hunter2") && !error.contains("0.123")),
            "{errors:?}"
        );
        assert!(schemas.errors(&schema, &value("{}"))[0].starts_with("/: "));
    }

    #[test]
    fn a_schema_that_reaches_outside_or_is_wrong_does_not_compile() {
        let schemas = JsonSchemas::default();
        for bad in [
            r#"{"$ref":"https://example.com/a.json"}"#,
            r#"{"$ref":"file:///etc/passwd"}"#,
            r#"{"type":"strin"}"#,
            r##"{"$ref":"#"}"##,
            r##"{"$defs":{"a":{"$ref":"#/$defs/b"},"b":{"$ref":"#/$defs/a"}},"properties":{"x":{"$ref":"#/$defs/a"}}}"##,
            r#"{"pattern":"("}"#,
            r##"{"anyOf":[{"items":{"$ref":"#"}},{"items":{"$ref":"#"}}]}"##,
            "3",
        ] {
            assert!(schemas.compile_error(&value(bad)).is_some(), "{bad}");
        }
        for good in [r#"{}"#, "true", r##"{"properties":{"child":{"$ref":"#"}}}"##] {
            assert_eq!(schemas.compile_error(&value(good)), None, "{good}");
        }
    }
}
