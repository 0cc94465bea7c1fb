//! JSON Schemas that strangers wrote: process documents that anyone may post, and tool servers, which may lie. Nothing is
//! ever fetched, patterns run in linear time, and what a schema can cost is known before a value is seen (core §2, "CEL
//! and schema cost"; B18): see `cost`.

mod cost;

use jsonschema::{Draft, PatternOptions, Validator};
use serde_json::Value;

/// Places of a value times what the schema may look at in one: about a second.
const MOST_STEPS: u64 = 10_000_000;

/// The rules by which a schema is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rules {
    /// JSON Schema 2020-12, whatever the schema says of itself.
    Draft202012,
    /// Those that its `$schema` names; without one, 2020-12.
    Declared,
}

/// A schema that can be used.
#[derive(Debug)]
pub struct Schema {
    validator: Validator,
    /// How often one place of a value may be looked at.
    visits: u64,
}

/// What a value does wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// JSON pointer into the value; empty for the value itself.
    pub pointer: String,
    /// In words, without the value: it may be a secret.
    pub words: String,
}

impl Schema {
    /// Makes it usable.
    ///
    /// # Errors
    /// In words: it is no schema, it reaches outside itself, or it can cost too much.
    pub fn compile(schema: &Value, rules: Rules) -> Result<Self, String> {
        let visits = cost::visits(schema)?;
        let mut options = jsonschema::options();
        if rules == Rules::Draft202012 {
            options = options.with_draft(Draft::Draft202012);
        }
        let patterns = PatternOptions::regex()
            .size_limit(1 << 20)
            .dfa_size_limit(1 << 20);
        let built = options
            .with_pattern_options(patterns)
            .should_validate_formats(true)
            .build(schema);
        built
            .map(|validator| Self { validator, visits })
            .map_err(|error| error.to_string())
    }

    /// What is wrong with a value, at most `most` complaints. One that is too large for what the schema may cost is not
    /// looked at, and that is the complaint.
    #[must_use]
    pub fn complaints(&self, value: &Value, most: usize) -> Vec<Complaint> {
        let steps = places(value).saturating_mul(self.visits);
        if steps > MOST_STEPS {
            let words = format!(
                "checking it may take {steps} steps, more than {MOST_STEPS}: a smaller value, or a simpler schema"
            );
            return vec![Complaint {
                pointer: String::new(),
                words,
            }];
        }
        let complaints = self.validator.iter_errors(value).map(|error| Complaint {
            pointer: error.instance_path().to_string(),
            words: error.masked().to_string(),
        });
        complaints.take(most).collect()
    }
}

/// How many values a value is made of.
fn places(value: &Value) -> u64 {
    let mut open = vec![value];
    let mut count = 0;
    while let Some(here) = open.pop() {
        count += 1;
        match here {
            Value::Array(items) => open.extend(items),
            Value::Object(entries) => open.extend(entries.values()),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "a test stops at the first surprise")]

    use serde_json::json;

    use super::*;

    #[test]
    fn complaints_name_the_place_and_never_the_value() {
        let schema =
            json!({"type": "object", "required": ["id"], "properties": {"id": {"pattern": "^[0-9]+$"}}});
        let schema = Schema::compile(&schema, Rules::Draft202012).unwrap();
        assert_eq!(schema.complaints(&json!({"id": "5531"}), 8), []);
        let [wrong] = &schema.complaints(&json!({"id": "hunter2"}), 8)[..] else {
            panic!("one complaint");
        };
        assert_eq!(wrong.pointer, "/id");
        assert!(!wrong.words.contains("hunter2"), "{}", wrong.words);
        assert_eq!(schema.complaints(&json!({}), 8)[0].pointer, "");
    }

    #[test]
    fn a_wrong_schema_or_one_that_reaches_outside_is_refused() {
        for bad in [
            json!({"$ref": "https://example.com/a.json"}),
            json!({"$ref": "file:///etc/passwd"}),
            json!({"type": "strin"}),
            json!({"pattern": "("}),
            json!(3),
        ] {
            assert!(Schema::compile(&bad, Rules::Draft202012).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_pattern_takes_linear_time_also_by_older_rules() {
        let schema = json!({"$schema": "http://json-schema.org/draft-07/schema#", "pattern": "^(a+)+$"});
        let schema = Schema::compile(&schema, Rules::Declared).unwrap();
        let value = Value::from(format!("{}!", "a".repeat(50_000)));
        assert_eq!(schema.complaints(&value, 8).len(), 1);
    }

    #[test]
    fn a_value_that_is_too_large_for_its_schema_is_not_looked_at() {
        let branches: Vec<Value> = (0..400).map(|number| json!({"const": number})).collect();
        let schema = Schema::compile(&json!({"items": {"anyOf": branches}}), Rules::Draft202012).unwrap();
        let list = |count: usize| Value::from(vec![1; count]);
        assert_eq!(schema.complaints(&list(1_000), 8), []);
        let refused = schema.complaints(&list(100_000), 8);
        assert!(refused[0].words.contains("simpler schema"), "{refused:?}");
    }
}
