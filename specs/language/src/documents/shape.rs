//! What each field of a document takes, as data. One table serves three readers: this check, which reports every
//! value of a wrong kind with its place; the "did you mean"; and the JSON Schemas for editors.

use super::codes::Code;
use super::nodes;
use super::problem::Problems;
use super::words;
use super::yaml::{At, Kind};
use crate::Value;
use crate::duration;
use crate::expr::{Expr, ExprError};
use crate::template::Template;

/// What a field takes.
#[derive(Debug)]
pub(super) enum Shape {
    /// Any JSON, taken as it is.
    Literal,
    Text,
    Bool,
    /// A whole number, both bounds included.
    Integer(i64, i64),
    /// A number, both bounds included.
    Number(i64, i64),
    /// `PT15M` or `15m`.
    Duration,
    /// One of these texts.
    Word(&'static [&'static str]),
    /// One of the first texts; the second ones are reserved for later.
    WordNotYet(&'static [&'static str], &'static [&'static str]),
    /// CEL, bare or inside `${…}`.
    Expression,
    /// Text with `${…}` in it.
    Template,
    /// Text with `${path}` in it, nothing more (D43).
    Prompt,
    /// The id of a node.
    NodeId,
    /// The name of a variable.
    Name,
    /// A JSON Schema 2020-12.
    JsonSchema,
    List(&'static Shape),
    /// Keys are the author's.
    Map(&'static Shape),
    Object(&'static Object),
    /// Decided by the kind of YAML that stands there; the first that takes it.
    Either(&'static [Shape]),
    /// Decided by `type`.
    Node,
}

/// A map with known keys.
#[derive(Debug)]
pub(super) struct Object {
    /// How messages name it.
    pub(super) name: &'static str,
    /// In groups, so that nodes can share the fields of every activity.
    pub(super) fields: &'static [&'static [Field]],
}

/// A known key.
#[derive(Debug)]
pub(super) struct Field {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) need: Need,
    pub(super) doc: &'static str,
}

#[derive(Debug, PartialEq)]
pub(super) enum Need {
    Required,
    Optional,
    /// Refused, naming it.
    NotYet,
    /// Accepted with a warning that names the new field.
    Deprecated(&'static str),
}

pub(super) const fn required(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field {
        name,
        shape,
        need: Need::Required,
        doc,
    }
}

pub(super) const fn optional(name: &'static str, shape: Shape, doc: &'static str) -> Field {
    Field {
        name,
        shape,
        need: Need::Optional,
        doc,
    }
}

pub(super) const fn not_yet(name: &'static str) -> Field {
    Field {
        name,
        shape: Shape::Literal,
        need: Need::NotYet,
        doc: "reserved for a later release",
    }
}

pub(super) const fn deprecated(name: &'static str, shape: Shape, instead: &'static str) -> Field {
    Field {
        name,
        shape,
        need: Need::Deprecated(instead),
        doc: "an old name",
    }
}

impl Object {
    pub(super) fn all(&self) -> impl Iterator<Item = &'static Field> {
        self.fields.iter().flat_map(|group| group.iter())
    }
}

/// Reports everything below `at` that does not have this shape.
pub(super) fn check(at: &At<'_>, shape: &'static Shape, problems: &mut Problems) {
    match shape {
        Shape::Literal => {}
        Shape::Text => {
            if at.text().is_none() {
                wrong(at, shape, problems);
            }
        }
        Shape::Name => check_name(at, problems),
        Shape::NodeId => {
            if at.text().is_none() {
                wrong(at, shape, problems);
            }
        }
        Shape::Bool => {
            if at.truth().is_none() {
                wrong(at, shape, problems);
            }
        }
        Shape::Integer(least, most) => check_number(at, *least, *most, true, shape, problems),
        Shape::Number(least, most) => check_number(at, *least, *most, false, shape, problems),
        Shape::Duration => match at.text() {
            None => wrong(at, shape, problems),
            Some(text) => {
                if let Err(message) = duration::parse_ms(text) {
                    problems.error(at, Code::InvalidValue, format!("`{text}` {message}"));
                }
            }
        },
        Shape::Word(words) => check_word(at, words, &[], shape, problems),
        Shape::WordNotYet(words, later) => check_word(at, words, later, shape, problems),
        Shape::Expression => check_expression(at, shape, problems),
        Shape::Template | Shape::Prompt => check_template(at, shape, problems),
        Shape::JsonSchema => check_schema(at, shape, problems),
        Shape::List(inner) => {
            if !at.is_list() {
                wrong(at, shape, problems);
            }
            for item in at.items() {
                check(&item, inner, problems);
            }
        }
        Shape::Map(inner) => {
            if !at.is_map() {
                wrong(at, shape, problems);
            }
            for (_, value) in at.entries() {
                check(&value, inner, problems);
            }
        }
        Shape::Object(object) => check_object(at, object, problems),
        Shape::Either(shapes) => match shapes.iter().find(|shape| takes(shape, &at.tree.kind)) {
            Some(shape) => check(at, shape, problems),
            None => wrong(at, shape, problems),
        },
        Shape::Node => nodes::check_shape(at, problems),
    }
}

/// Checks the fields of a map: unknown, missing, reserved, and each value by its own shape.
pub(super) fn check_object(at: &At<'_>, object: &'static Object, problems: &mut Problems) {
    if !at.is_map() {
        problems.error(
            at,
            Code::WrongType,
            format!("{} must be a map, not {}", object.name, at.tree.found()),
        );
        return;
    }
    for (entry, value) in at.entries() {
        let Some(field) = object.all().find(|field| field.name == entry.key) else {
            unknown_key(&value.key(entry), &entry.key, object, problems);
            continue;
        };
        match field.need {
            Need::NotYet => {
                let message = format!(
                    "`{}` of {} is reserved for a later release",
                    entry.key, object.name
                );
                problems.error(&value.key(entry), Code::NotYet, message);
                continue;
            }
            Need::Deprecated(instead) => {
                let message = format!("`{}` is an old name", entry.key);
                problems
                    .warning(&value.key(entry), Code::DeprecatedField, message)
                    .hint(format!("write `{instead}`"));
            }
            Need::Required | Need::Optional => {}
        }
        if value.tree.kind == Kind::Null {
            if field.need == Need::Required {
                problems.error(
                    &value.key(entry),
                    Code::MissingField,
                    format!("`{}` has no value", entry.key),
                );
            }
            continue;
        }
        check(&value, &field.shape, problems);
    }
    for field in object.all().filter(|field| field.need == Need::Required) {
        let present = at.entries().iter().any(|(entry, _)| entry.key == field.name);
        if !present {
            problems
                .error(
                    at,
                    Code::MissingField,
                    format!("{} needs `{}`", object.name, field.name),
                )
                .hint(format!("`{}`: {}", field.name, field.doc));
        }
    }
}

fn unknown_key(at: &At<'_>, key: &str, object: &Object, problems: &mut Problems) {
    let hint = if problems.is_full() {
        None
    } else {
        let offered = object.all().filter(|field| field.need != Need::NotYet);
        words::key_hint(key, &offered.map(|field| field.name).collect::<Vec<_>>())
    };
    problems
        .error(at, Code::UnknownKey, format!("{} has no `{key}`", object.name))
        .maybe(hint);
}

/// Whether a value of this kind of YAML may stand there.
pub(super) fn takes(shape: &Shape, kind: &Kind) -> bool {
    match shape {
        Shape::Literal => true,
        Shape::Bool => matches!(kind, Kind::Bool(_)),
        Shape::Integer(..) | Shape::Number(..) => matches!(kind, Kind::Number(_)),
        Shape::Expression => matches!(kind, Kind::Text(_) | Kind::Bool(_) | Kind::Number(_)),
        Shape::Text
        | Shape::Duration
        | Shape::Word(_)
        | Shape::WordNotYet(..)
        | Shape::Template
        | Shape::Prompt
        | Shape::NodeId
        | Shape::Name => matches!(kind, Kind::Text(_)),
        Shape::JsonSchema => matches!(kind, Kind::Map(_) | Kind::Bool(_)),
        Shape::List(_) => matches!(kind, Kind::List(_)),
        Shape::Map(_) | Shape::Object(_) | Shape::Node => matches!(kind, Kind::Map(_)),
        Shape::Either(shapes) => shapes.iter().any(|shape| takes(shape, kind)),
    }
}

/// The shape in words.
fn describe(shape: &Shape) -> String {
    match shape {
        Shape::Literal => "a value".to_owned(),
        Shape::Text => "text".to_owned(),
        Shape::Bool => "true or false".to_owned(),
        Shape::Integer(least, most) => format!("a whole number from {least} to {most}"),
        Shape::Number(least, most) => format!("a number from {least} to {most}"),
        Shape::Duration => "a duration such as 15m".to_owned(),
        Shape::Word(words) | Shape::WordNotYet(words, _) => format!("one of {}", words.join(", ")),
        Shape::Expression => "an expression".to_owned(),
        Shape::Template | Shape::Prompt => "text, with `${…}` for values".to_owned(),
        Shape::NodeId => "the id of a node".to_owned(),
        Shape::Name => "a name".to_owned(),
        Shape::JsonSchema => "a JSON Schema".to_owned(),
        Shape::List(inner) => format!("a list (each: {})", describe(inner)),
        Shape::Map(_) | Shape::Object(_) | Shape::Node => "a map".to_owned(),
        Shape::Either(shapes) => shapes.iter().map(describe).collect::<Vec<_>>().join(", or "),
    }
}

fn wrong(at: &At<'_>, shape: &Shape, problems: &mut Problems) {
    let unquoted = matches!(
        shape,
        Shape::Text | Shape::Template | Shape::Prompt | Shape::Name | Shape::NodeId
    ) && matches!(at.tree.kind, Kind::Number(_) | Kind::Bool(_));
    problems
        .error(
            at,
            Code::WrongType,
            format!("this must be {}, not {}", describe(shape), at.tree.found()),
        )
        .maybe(unquoted.then_some("put it in quotes"));
}

fn check_number(at: &At<'_>, least: i64, most: i64, whole: bool, shape: &Shape, problems: &mut Problems) {
    let Some(number) = at.number() else {
        wrong(at, shape, problems);
        return;
    };
    if number < least.into() || number > most.into() || (whole && !number.is_integer()) {
        problems.error(
            at,
            Code::InvalidValue,
            format!("this must be {}", describe(shape)),
        );
    }
}

fn check_word(
    at: &At<'_>,
    words: &[&'static str],
    later: &[&'static str],
    shape: &Shape,
    problems: &mut Problems,
) {
    let Some(text) = at.text() else {
        wrong(at, shape, problems);
        return;
    };
    if words.contains(&text) {
        return;
    }
    if later.contains(&text) {
        problems.error(
            at,
            Code::NotYet,
            format!("`{text}` is reserved for a later release"),
        );
        return;
    }
    problems
        .error(
            at,
            Code::InvalidValue,
            format!("`{text}` is not one of {}", words.join(", ")),
        )
        .maybe(words::nearest(text, words).map(|word| format!("did you mean `{word}`?")));
}

fn check_name(at: &At<'_>, problems: &mut Problems) {
    match at.text() {
        None => wrong(at, &Shape::Name, problems),
        Some(name) => super::names::check_pattern(name, at, problems),
    }
}

fn check_expression(at: &At<'_>, shape: &Shape, problems: &mut Problems) {
    if !takes(shape, &at.tree.kind) {
        wrong(at, shape, problems);
        return;
    }
    if let Some(text) = at.text()
        && let Err(error) = Expr::compile(text)
    {
        report(at, error, problems);
    }
}

fn check_template(at: &At<'_>, shape: &Shape, problems: &mut Problems) {
    let Some(text) = at.text() else {
        wrong(at, shape, problems);
        return;
    };
    let template = match Template::parse(text) {
        Ok(template) => template,
        Err(error) => {
            report(at, error, problems);
            return;
        }
    };
    if matches!(shape, Shape::Prompt)
        && let Err(error) = template.path_only()
    {
        let place = problems.place_inside(at, error.offset);
        problems
            .error_at(
                at.file(),
                place,
                &at.pointer,
                Code::PromptExpression,
                error.message,
            )
            .maybe(error.hint);
    }
}

fn check_schema(at: &At<'_>, shape: &Shape, problems: &mut Problems) {
    if !takes(shape, &at.tree.kind) {
        wrong(at, shape, problems);
    } else if let Some(message) = schema_error(&at.value()) {
        problems.error(
            at,
            Code::SchemaInvalid,
            format!("this is no usable JSON Schema: {message}"),
        );
    }
}

#[cfg(feature = "schemas")]
fn schema_error(schema: &Value) -> Option<String> {
    crate::types::JsonSchemas::default().compile_error(schema)
}

/// Without the library nothing can be said; whoever deploys builds with it.
#[cfg(not(feature = "schemas"))]
fn schema_error(_: &Value) -> Option<String> {
    None
}

/// An error inside an expression or template, at its own place (B6).
pub(super) fn report(at: &At<'_>, error: ExprError, problems: &mut Problems) {
    let code = if error.code == ExprError::COSTLY {
        Code::ExpressionCostly
    } else {
        Code::ExpressionInvalid
    };
    let place = problems.place_inside(at, error.offset);
    problems
        .error_at(at.file(), place, &at.pointer, code, error.message)
        .maybe(error.hint);
}
