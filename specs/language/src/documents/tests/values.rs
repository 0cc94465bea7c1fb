//! YAML's scalars, aliases and merges, and declared variables.

use rust_decimal::Decimal;

use super::*;
use crate::Value;
use crate::model::Type;

fn default_of(text: &str) -> Option<Value> {
    let text = format!(
        "metadata: {{ variables: {{ x: {{ type: any, default: {text} }} }} }}\nflow: {{ nodes: [{{ id: d, type: end }}] }}"
    );
    definition(&text).variables[0].default.clone()
}

#[test]
fn scalars_mean_what_yaml_1_2_says_and_keep_their_digits() {
    for (text, expected) in [
        ("yes", Value::from("yes")),
        ("NO", Value::from("NO")),
        ("true", Value::from(true)),
        ("'true'", Value::from("true")),
        ("010", Value::from(10)),
        ("0x1F", Value::from(31)),
        ("0o17", Value::from(15)),
        ("-7", Value::from(-7)),
        ("+.5", Value::Number(Decimal::new(5, 1))),
        ("0.10", Value::Number(Decimal::new(10, 2))),
        ("1e3", Value::from(1_000)),
        (
            "1234567890123456789.123456789",
            Value::parse("1234567890123456789.123456789").unwrap(),
        ),
        ("1.2.3", Value::from("1.2.3")),
        ("12:30", Value::from("12:30")),
        ("2026-01-31", Value::from("2026-01-31")),
        ("[a, {b: c}]", Value::parse(r#"["a", {"b": "c"}]"#).unwrap()),
    ] {
        assert_eq!(default_of(text), Some(expected), "{text}");
    }
    for bad in [".inf", ".nan", "12345678901234567890123456789012", "1e99"] {
        let text = format!("metadata: {{ variables: {{ x: {{ type: any, default: {bad} }} }} }}");
        assert_eq!(
            problems_of(&text),
            "INVALID_VALUE 1:51 /metadata/variables/x/default",
            "{bad}"
        );
    }
}

#[test]
fn anchors_and_merges_are_expanded() {
    let text = "metadata:
  variables:
    a: &text { type: string, description: first }
    b: { <<: *text, description: second }
    c: *text
flow: { nodes: [{ id: d, type: end }] }";
    let definition = definition(text);
    let described: Vec<Option<&str>> = definition
        .variables
        .iter()
        .map(|d| d.description.as_deref())
        .collect();
    assert_eq!(described, [Some("first"), Some("second"), Some("first")]);
}

#[test]
fn yaml_that_we_do_not_read_is_refused_with_its_place() {
    for (text, expected) in [
        ("", "YAML_SYNTAX 1:1"),
        ("a: !!str 5", "YAML_SYNTAX 1:10 /a"),
        ("a: 1\n---\nb: 2", "YAML_SYNTAX 2:1"),
        ("? [a]\n: b", "YAML_SYNTAX 1:3"),
        ("a: &a [*a]", "YAML_SYNTAX 1:8 /a/0"),
        ("a: *nobody", "YAML_SYNTAX 1:4 /a"),
        ("a: [1", "YAML_SYNTAX 1:4 /a/0"),
        ("a:\n\tb: 1", "YAML_SYNTAX 2:2 /a"),
        ("[1, 2]", "DOCUMENT_KIND 1:1"),
        ("just text", "DOCUMENT_KIND 1:1"),
    ] {
        assert_eq!(shown(&frozen(&[("p.yaml", text)]).problems), expected, "{text:?}");
    }
}

#[test]
fn declarations_read_every_field() {
    let text = "metadata:
  variables:
    colour: { type: string, required: false, nullable: true, enum: [red, blue], default: red, description: Of paint }
    secret: { type: string, sensitive: true, locked: false }
    count: { type: integer, input: false, default: 0 }
    title: { type: string }
    shape: { type: object, schema: { required: [a] }, default: { a: 1 } }
flow: { nodes: [{ id: d, type: end }] }";
    let definition = definition(text);
    let colour = &definition.variables[0];
    assert_eq!(
        (colour.kind, colour.required, colour.nullable, colour.locked),
        (Type::String, false, true, true)
    );
    assert_eq!(colour.choices.as_ref().unwrap().len(), 2);
    assert!(definition.variables[1].sensitive && !definition.is_locked_input("secret"));
    assert!(!definition.variables[2].input);
    assert!(!definition.is_locked_input("title") && definition.is_locked_input("colour"));
    let bad = "metadata:
  variables:
    a: { type: integer, default: 1.5 }
    b: { type: string, enum: [x, 5] }
    c: { type: file }
    d: { type: strin }
    e: string
    f: { type: object, schema: { type: object, required: [x] }, default: {} }
flow: { nodes: [{ id: d, type: end }] }";
    assert_eq!(
        problems_of(bad),
        "INVALID_VALUE 3:34 /metadata/variables/a/default\n\
         INVALID_VALUE 4:34 /metadata/variables/b/enum/1\n\
         NOT_YET 5:16 /metadata/variables/c/type\n\
         INVALID_VALUE 6:16 /metadata/variables/d/type\n\
         WRONG_TYPE 7:8 /metadata/variables/e\n\
         INVALID_VALUE 8:74 /metadata/variables/f/default"
    );
}

#[test]
fn reads_names_every_variable_that_a_node_looks_at() {
    let text = "metadata: { variables: { a: { type: object } } }
flow:
  nodes:
    - { id: t, type: engine-task, service: s, inputs: { x: a.b + c, y: 1 }, outputs: { z: result.q }, on_timeout: { at: d, then: e } }
    - { id: e, type: end, closing: 'For ${a.b}' }";
    let text = text.replace(
        "- { id: e",
        "- { id: r, type: exclusive, rules: [{ if: z > 1, then: e }, { else: e }] }\n    - { id: e",
    );
    let definition = definition(&text);
    let of = |id: &str| -> Vec<String> {
        reads(definition.node(id).unwrap())
            .iter()
            .map(|path| path.join("."))
            .collect()
    };
    assert_eq!(of("t"), ["a.b", "c", "result.q", "d"]);
    assert_eq!(of("r"), ["z"]);
    assert_eq!(of("e"), ["a.b"]);
}
