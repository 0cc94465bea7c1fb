//! JSON Schemas of the documents, for editors and other tools: made from the same tables as the checks, so that
//! they cannot disagree. Every field says in `x-legation` whether it holds an expression, a template or a literal.

use std::collections::BTreeMap;

use super::nodes::TYPES;
use super::shape::{Field, Need, Object, Shape};
use super::{process, server, settings};
use crate::Value;

/// The schemas by file name, as they are checked in under `specs/schemas`.
#[must_use]
pub fn json_schemas() -> BTreeMap<&'static str, String> {
    [
        ("process.schema.json", document("A process", &process::SHAPE)),
        ("server.schema.json", document("A tool server", &server::SHAPE)),
        (
            "legation.schema.json",
            document("legation.toml", &settings::SHAPE),
        ),
    ]
    .into_iter()
    .collect()
}

fn document(title: &str, shape: &'static Shape) -> String {
    let mut schema = of_shape(shape);
    if let Some(map) = schema.as_map_mut() {
        map.insert(
            "$schema".to_owned(),
            "https://json-schema.org/draft/2020-12/schema".into(),
        );
        map.insert("title".to_owned(), title.into());
    }
    let mut text = serde_json::to_string_pretty(&serde_json::Value::from(&schema)).unwrap_or_default();
    text.push('\n');
    text
}

fn of_shape(shape: &'static Shape) -> Value {
    let typed = |kind: &str| vec![("type", Value::from(kind))];
    let mut fields: Vec<(&str, Value)> = match shape {
        Shape::Literal => Vec::new(),
        Shape::Text => typed("string"),
        Shape::Bool => typed("boolean"),
        Shape::Integer(least, most) => bounded("integer", *least, *most),
        Shape::Number(least, most) => bounded("number", *least, *most),
        Shape::Duration => {
            let pattern = r"^(P[0-9.WDTHMS]+|[0-9]+(\.[0-9]+)?(ms|s|m|h|d|w))$";
            vec![("type", "string".into()), ("pattern", pattern.into())]
        }
        Shape::Word(words) | Shape::WordNotYet(words, _) => {
            vec![("enum", Value::list(words.iter().copied()))]
        }
        Shape::Expression => vec![("type", Value::list(["string", "boolean", "number"]))],
        Shape::Template | Shape::Prompt => typed("string"),
        Shape::NodeId => vec![
            ("type", "string".into()),
            ("pattern", "^[A-Za-z][A-Za-z0-9_-]*$".into()),
        ],
        Shape::Name => vec![
            ("type", "string".into()),
            ("pattern", "^[A-Za-z_][A-Za-z0-9_]{0,63}$".into()),
        ],
        Shape::JsonSchema => vec![("$ref", "https://json-schema.org/draft/2020-12/schema".into())],
        Shape::List(inner) => vec![("type", "array".into()), ("items", of_shape(inner))],
        Shape::Map(inner) => vec![
            ("type", "object".into()),
            ("additionalProperties", of_shape(inner)),
        ],
        Shape::Object(object) => return of_object(object, None),
        Shape::Either(shapes) => vec![("anyOf", Value::list(shapes.iter().map(of_shape)))],
        Shape::Node => {
            let nodes = TYPES
                .iter()
                .map(|node_type| of_object(&node_type.object, Some(node_type.name)));
            vec![("oneOf", Value::list(nodes))]
        }
    };
    if let Some(holds) = holds(shape) {
        fields.push(("x-legation", holds.into()));
    }
    Value::map(fields)
}

/// The kind of text that stands in a leaf.
fn holds(shape: &Shape) -> Option<&'static str> {
    match shape {
        Shape::Expression => Some("expression"),
        Shape::Template | Shape::Prompt => Some("template"),
        Shape::Literal
        | Shape::Text
        | Shape::Bool
        | Shape::Integer(..)
        | Shape::Number(..)
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordNotYet(..)
        | Shape::NodeId
        | Shape::Name
        | Shape::JsonSchema => Some("literal"),
        Shape::List(_) | Shape::Map(_) | Shape::Object(_) | Shape::Either(_) | Shape::Node => None,
    }
}

fn bounded(kind: &'static str, least: i64, most: i64) -> Vec<(&'static str, Value)> {
    vec![
        ("type", kind.into()),
        ("minimum", least.into()),
        ("maximum", most.into()),
    ]
}

fn of_object(object: &'static Object, node_type: Option<&'static str>) -> Value {
    let offered = || object.all().filter(|field| field.need != Need::NotYet);
    let required: Vec<&str> = offered()
        .filter(|field| field.need == Need::Required)
        .map(|field| field.name)
        .collect();
    let properties = offered().map(|field| {
        let schema = match node_type {
            Some(name) if field.name == "type" => Value::map([("const", Value::from(name))]),
            _ => of_field(field),
        };
        (field.name, schema)
    });
    let mut fields = vec![
        ("type", Value::from("object")),
        ("properties", Value::map(properties)),
        ("additionalProperties", false.into()),
    ];
    if !required.is_empty() {
        fields.push(("required", Value::list(required)));
    }
    Value::map(fields)
}

fn of_field(field: &'static Field) -> Value {
    let mut schema = of_shape(&field.shape);
    if let Some(map) = schema.as_map_mut() {
        map.insert("description".to_owned(), field.doc.into());
        if matches!(field.need, Need::Deprecated(_)) {
            map.insert("deprecated".to_owned(), true.into());
        }
    }
    schema
}
