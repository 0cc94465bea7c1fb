//! `metadata.variables` and `metadata.outputs`: a map of name to type, or a list; both mean the same (D1).

use super::codes::Code;
use super::names;
use super::problem::Problems;
use super::shape::{Field, Object, Shape, optional, required};
use super::yaml::At;
use crate::model::{Declaration, Type};
use crate::types::{self, SchemaCheck};

pub(super) const SHAPE: Shape = Shape::Either(&[
    Shape::Map(&Shape::Object(&IN_MAP)),
    Shape::List(&Shape::Object(&IN_LIST)),
]);

const IN_MAP: Object = Object {
    name: "a variable",
    fields: &[FIELDS],
};

const IN_LIST: Object = Object {
    name: "a variable",
    fields: &[&[required("name", Shape::Name, "the variable's name")], FIELDS],
};

const FIELDS: &[Field] = &[
    required(
        "type",
        Shape::WordNotYet(
            &[
                "string",
                "integer",
                "number",
                "boolean",
                "date",
                "date-time",
                "duration",
                "object",
                "list",
                "any",
            ],
            &["file"],
        ),
        "what values it takes; nothing is ever converted",
    ),
    optional("required", Shape::Bool, "true unless given"),
    optional(
        "input",
        Shape::Bool,
        "false makes it a typed working variable that callers neither see nor give",
    ),
    optional("nullable", Shape::Bool, "whether null is a value of it"),
    optional("locked", Shape::Bool, "false lets the process change an input"),
    optional(
        "sensitive",
        Shape::Bool,
        "always encrypted, and never handed to work that does not name it",
    ),
    optional("default", Shape::Literal, "used when it is not given"),
    optional("enum", Shape::List(&Shape::Literal), "the only values it takes"),
    optional(
        "schema",
        Shape::JsonSchema,
        "a JSON Schema 2020-12, beside the type",
    ),
    optional("description", Shape::Text, "what people and models read about it"),
];

/// More than anybody can give names to.
const MAX_VARIABLES: usize = 1_000;

/// Reads the declarations; `at` is the map or list.
pub(super) fn read(at: &At<'_>, problems: &mut Problems) -> Vec<Declaration> {
    let mut out: Vec<Declaration> = Vec::new();
    if at.entries().len().max(at.items().len()) > MAX_VARIABLES {
        problems.error(
            at,
            Code::InvalidValue,
            format!("at most {MAX_VARIABLES} variables are declared"),
        );
        return out;
    }
    for (entry, value) in at.entries() {
        names::check_pattern(&entry.key, &value.key(entry), problems);
        out.extend(read_one(&entry.key, &value, problems));
    }
    for item in at.items() {
        let Some(name_at) = item.get("name") else { continue };
        let Some(name) = name_at.text() else { continue };
        if out.iter().any(|declaration| declaration.name == name) {
            problems.error(
                &name_at,
                Code::DuplicateName,
                format!("`{name}` is declared twice"),
            );
            continue;
        }
        out.extend(read_one(name, &item, problems));
    }
    out
}

fn read_one(name: &str, at: &At<'_>, problems: &mut Problems) -> Option<Declaration> {
    let truth = |key: &str, absent: bool| at.get(key).and_then(|at| at.truth()).unwrap_or(absent);
    let choices_at = at.get("enum").filter(At::is_list);
    let default_at = at.get("default");
    let declaration = Declaration {
        name: name.to_owned(),
        kind: kind(at.get("type")?.text()?)?,
        input: truth("input", true),
        required: truth("required", true),
        nullable: truth("nullable", false),
        // `title` names an instance to people, who may rename it (language.md, "Variables").
        locked: truth("locked", name != "title"),
        sensitive: truth("sensitive", false),
        default: default_at.as_ref().map(At::value),
        choices: choices_at
            .as_ref()
            .map(|at| at.items().iter().map(At::value).collect()),
        schema: at.get("schema").map(|at| at.value()),
        description: at.get("description").and_then(|at| at.text().map(str::to_owned)),
    };
    for choice in choices_at.iter().flat_map(At::items) {
        if !types::fits(declaration.kind, &choice.value()) {
            let message = format!("this is not {}", types::expected(declaration.kind));
            problems.error(&choice, Code::InvalidValue, message);
        }
    }
    if let (Some(default_at), Some(default)) = (&default_at, &declaration.default)
        && let Err(problem) = types::check(&declaration, default, schemas().as_ref())
    {
        problems.error(
            default_at,
            Code::InvalidValue,
            format!("the default does not fit: {}", problem.message),
        );
    }
    Some(declaration)
}

fn kind(word: &str) -> Option<Type> {
    Some(match word {
        "string" => Type::String,
        "integer" => Type::Integer,
        "number" => Type::Number,
        "boolean" => Type::Boolean,
        "date" => Type::Date,
        "date-time" => Type::DateTime,
        "duration" => Type::Duration,
        "object" => Type::Object,
        "list" => Type::List,
        "any" => Type::Any,
        _ => return None,
    })
}

#[cfg(feature = "schemas")]
fn schemas() -> Box<dyn SchemaCheck> {
    Box::new(types::JsonSchemas::default())
}

#[cfg(not(feature = "schemas"))]
fn schemas() -> Box<dyn SchemaCheck> {
    Box::new(types::NoSchemas)
}
