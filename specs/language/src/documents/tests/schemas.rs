//! The generated JSON Schemas are checked in, unchanged, and agree with the checks.

use std::path::PathBuf;

use super::*;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../schemas")
}

/// With `UPDATE_SCHEMAS=1` the files are written instead.
#[test]
fn the_schemas_that_are_checked_in_are_unchanged() {
    for (name, text) in json_schemas() {
        let path = folder().join(name);
        if std::env::var_os("UPDATE_SCHEMAS").is_some() {
            std::fs::create_dir_all(folder()).unwrap();
            std::fs::write(&path, &text).unwrap();
        }
        let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            checked_in == text,
            "{name} differs: run the tests of this crate with UPDATE_SCHEMAS=1"
        );
    }
}

#[cfg(feature = "schemas")]
#[test]
fn the_schemas_accept_what_deploys_and_refuse_what_does_not() {
    use crate::Value;
    use crate::types::{JsonSchemas, SchemaCheck};

    let schemas = JsonSchemas::default();
    let all = json_schemas();
    let errors = |schema: &str, yaml: &str| {
        let schema = Value::parse(&all[schema]).unwrap();
        let document: serde_yaml::Value = serde_yaml::from_str(yaml).unwrap();
        schemas.errors(&schema, &Value::try_from(&document).unwrap())
    };
    let complaint = include_str!("../../../../../examples/refund/processes/complaint.process.yaml");
    assert_eq!(errors("process.schema.json", complaint), Vec::<String>::new());
    let child = include_str!("../../../../../examples/refund/processes/refund_payout.process.yaml");
    assert_eq!(errors("process.schema.json", child), Vec::<String>::new());
    assert_eq!(errors("server.schema.json", CRM), Vec::<String>::new());
    for bad in [
        "flow: { nodes: [{ id: a, type: serviceTask }] }",
        "flow: { nodes: [{ id: a, type: engine-task }] }",
        "flow: { nodes: [{ id: a, type: end, colour: red }] }",
        "metadata: {}",
    ] {
        assert!(!errors("process.schema.json", bad).is_empty(), "{bad}");
    }
    assert!(all["process.schema.json"].contains(r#""x-legation": "template""#));
}
