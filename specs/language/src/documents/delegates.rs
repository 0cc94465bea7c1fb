//! `delegates`: processes that an agent or a worker may start as instances of their own (D1–D7).

use super::activity;
use super::approval::{self, Asked};
use super::codes::Code;
use super::names;
use super::pins::{Found, Pinning};
use super::shape::{Object, Shape, not_yet, optional, required};
use super::yaml::At;
use crate::Value;
use crate::model::{Declaration, Definition, Delegate, OnParentEnd, Type};

/// D6.
const MAX_DELEGATES: usize = 8;

/// An entry: the key of a process, or a map.
pub(super) const SHAPE: Shape = Shape::Either(&[Shape::Text, Shape::Object(&ENTRY)]);

const ENTRY: Object = Object {
    name: "a delegate",
    fields: &[
        &[
            required("process", Shape::Text, "the key of a process in the same project"),
            optional(
                "description",
                Shape::Text,
                "what the model reads about it; absent: the child's own",
            ),
            optional(
                "outputs",
                Shape::List(&Shape::Name),
                "the only variables that come back; absent: its declared outputs",
            ),
            optional(
                "max_depth",
                Shape::Integer(1, 4),
                "a lower limit than the global depth of 4",
            ),
            optional(
                "on_parent_end",
                Shape::WordNotYet(&["cancel"], &["detach"]),
                "what becomes of the child when this process ends first",
            ),
            optional(
                "closing",
                Shape::Word(&["agent"]),
                "agent: the last words of the child's agent may come back",
            ),
            not_yet("when"),
        ],
        approval::FIELDS,
    ],
};

/// The key that an entry names.
pub(super) fn process_at<'a>(entry: &At<'a>) -> Option<At<'a>> {
    if entry.text().is_some() {
        Some(entry.clone())
    } else {
        entry.get("process").filter(|at| at.text().is_some())
    }
}

/// Pins the delegates of a node. `taken` are function names that its tools have already.
pub(super) fn freeze(node_at: &At<'_>, taken: &[String], pinning: &mut Pinning<'_>) -> Vec<Delegate> {
    let Some(list) = node_at.get("delegates") else {
        return Vec::new();
    };
    let entries = list.items();
    if entries.len() > MAX_DELEGATES {
        let message = format!(
            "a node has at most {MAX_DELEGATES} delegates, this one has {}",
            entries.len()
        );
        pinning.problems.error(&list, Code::TooManyDelegates, message);
        return Vec::new();
    }
    let mut functions = taken.to_vec();
    let mut out = Vec::new();
    for entry in entries {
        let Some(process_at) = process_at(&entry) else {
            continue;
        };
        let Some(key) = process_at.text() else { continue };
        let function = pinning.function("delegate", key, &process_at, &mut functions);
        // D6; the cycle itself is reported with the whole set in view.
        if key == pinning.process {
            continue;
        }
        let child = match pinning.child(key) {
            Found::Definition(child) => child,
            Found::Broken => continue,
            Found::Nothing => {
                pinning.process_missing(&process_at, key);
                continue;
            }
        };
        let approval = match approval::read(&entry, pinning.problems) {
            Asked::Nothing | Asked::None => None,
            Asked::Required(approval) => {
                approval::check_approvers(&approval, &entry, pinning.problems);
                Some(approval)
            }
        };
        let outputs = outputs(&entry, &child, pinning);
        out.push(Delegate {
            process: key.to_owned(),
            version: child.version,
            function,
            description: description(activity::text(&entry, "description"), &child, &outputs),
            inputs: child
                .variables
                .iter()
                .filter(|declaration| declaration.input)
                .cloned()
                .collect(),
            parameters: parameters(&child.variables),
            outputs,
            approval,
            max_depth: entry
                .get("max_depth")
                .map(|_| activity::integer(&entry, "max_depth", 4)),
            on_parent_end: OnParentEnd::Cancel,
            closing_agent: entry.get("closing").is_some(),
        });
    }
    out
}

/// D4, D5.
fn outputs(entry: &At<'_>, child: &Definition, pinning: &mut Pinning<'_>) -> Vec<String> {
    let Some(list) = entry.get("outputs") else {
        return child
            .outputs
            .iter()
            .map(|declaration| declaration.name.clone())
            .collect();
    };
    let mut out: Vec<String> = Vec::new();
    for item in list.items() {
        let Some(name) = item.text() else { continue };
        if out.iter().any(|known| known == name) {
            pinning
                .problems
                .error(&item, Code::DuplicateName, format!("`{name}` stands twice"));
            continue;
        }
        names::check_output(name, &item, pinning.problems);
        pinning.check_output(name, child, &item);
        out.push(name.to_owned());
    }
    out
}

/// D7: the author's words, then what kind of call this is.
fn description(author: Option<String>, child: &Definition, outputs: &[String]) -> String {
    let own = author
        .or_else(|| child.description.clone())
        .or_else(|| child.name.clone())
        .unwrap_or_else(|| format!("Starts the process {}", child.key));
    let own = own.trim();
    let stop = if own.ends_with(['.', '!', '?', ':']) {
        ""
    } else {
        "."
    };
    let sentence = if outputs.is_empty() {
        "It runs as its own process; you continue when it ends.".to_owned()
    } else {
        format!(
            "It runs as its own process; you continue with its outputs ({}) when it ends.",
            outputs.join(", ")
        )
    };
    format!("{own}{stop} {sentence}")
}

/// D3: the JSON Schema of a process's inputs, as the model sees it.
#[must_use]
pub fn parameters(variables: &[Declaration]) -> Value {
    let inputs = || variables.iter().filter(|declaration| declaration.input);
    let required: Vec<&str> = inputs()
        .filter(|d| d.required && d.default.is_none())
        .map(|d| d.name.as_str())
        .collect();
    Value::map([
        ("type", Value::from("object")),
        (
            "properties",
            Value::map(inputs().map(|declaration| (declaration.name.clone(), property(declaration)))),
        ),
        ("required", Value::list(required)),
        ("additionalProperties", Value::from(false)),
    ])
}

fn property(declaration: &Declaration) -> Value {
    let (kind, format) = match declaration.kind {
        Type::String => (Some("string"), None),
        Type::Integer => (Some("integer"), None),
        Type::Number => (Some("number"), None),
        Type::Boolean => (Some("boolean"), None),
        Type::Date => (Some("string"), Some("date")),
        Type::DateTime => (Some("string"), Some("date-time")),
        // Not the format `duration`: `15m` is welcome too.
        Type::Duration => (Some("string"), None),
        Type::Object | Type::File => (Some("object"), None),
        Type::List => (Some("array"), None),
        Type::Any => (None, None),
    };
    let mut schema = declaration
        .schema
        .as_ref()
        .and_then(Value::as_map)
        .cloned()
        .unwrap_or_default();
    if let Some(kind) = kind {
        let value = if declaration.nullable {
            Value::list([kind, "null"])
        } else {
            Value::from(kind)
        };
        schema.entry("type".to_owned()).or_insert(value);
    }
    if let Some(format) = format {
        schema.entry("format".to_owned()).or_insert_with(|| format.into());
    }
    if let Some(choices) = &declaration.choices {
        let mut choices = choices.clone();
        if declaration.nullable {
            choices.push(Value::Null);
        }
        schema.insert("enum".to_owned(), Value::List(choices));
    }
    if let Some(default) = &declaration.default {
        schema.insert("default".to_owned(), default.clone());
    }
    let hint = (declaration.kind == Type::Duration).then_some("A duration such as PT15M or 15m");
    if let Some(description) = declaration.description.as_deref().or(hint) {
        schema.insert("description".to_owned(), description.into());
    }
    Value::Map(schema)
}
