//! A value in a generated JSON Schema: anything is allowed.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

use super::Value;

impl JsonSchema for Value {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Value".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        true.into()
    }
}
