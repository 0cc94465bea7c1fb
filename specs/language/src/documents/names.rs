//! Names: what a variable may be called, what the engine writes by itself, and which names a process can produce.

use std::collections::BTreeSet;

use super::codes::Code;
use super::problem::Problems;
use super::yaml::At;
use crate::model::{Definition, Node, NodeKind};

/// Read-only names (language.md, "Built-in names") and the words of the expression language.
const RESERVED: &[&str] = &[
    "instance", "root", "node", "item", "index", "result", "error", "payload", "values", "now", "true",
    "false", "null", "in", "and", "or", "not", "eq", "ne",
];

/// What `note` and `message` mean in the answer of a delegation (architecture §7.1).
const RESERVED_OUTPUTS: &[&str] = &["note", "message"];

/// `^[A-Za-z_][A-Za-z0-9_]{0,63}$`
#[must_use]
pub fn is_name(name: &str) -> bool {
    let rest_is_good = name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    rest_is_good && name.len() <= 64 && name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
}

/// `^[A-Za-z][A-Za-z0-9_-]{0,127}$`
pub(super) fn is_node_id(id: &str) -> bool {
    let rest_is_good = id
        .bytes()
        .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    rest_is_good && id.len() <= 128 && id.starts_with(|c: char| c.is_ascii_alphabetic())
}

/// `^[a-z][a-z0-9_-]{0,127}$`
#[must_use]
pub fn is_process_key(key: &str) -> bool {
    let rest_is_good = key
        .bytes()
        .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_' || b == b'-');
    rest_is_good && key.len() <= 128 && key.starts_with(|c: char| c.is_ascii_lowercase())
}

/// Whether expressions know this name without any variable, so that no variable can have it.
#[must_use]
pub fn is_built_in(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Reports a name that is no name or is reserved.
pub(super) fn check_pattern(name: &str, at: &At<'_>, problems: &mut Problems) {
    if !is_name(name) {
        problems
            .error(
                at,
                Code::InvalidValue,
                format!("`{name}` is no name of a variable"),
            )
            .hint("letters, digits and `_`, at most 64, not beginning with a digit");
    } else if RESERVED.contains(&name) {
        problems.error(
            at,
            Code::ReservedName,
            format!("`{name}` is built in and cannot be a variable"),
        );
    }
}

/// Reports a name that means something else in the outputs of a process.
pub(super) fn check_output(name: &str, at: &At<'_>, problems: &mut Problems) {
    if RESERVED_OUTPUTS.contains(&name) {
        let message = format!("`{name}` cannot be an output: a delegation's answer uses it for itself");
        problems.error(at, Code::ReservedName, message);
    }
}

/// The variables that the engine writes by itself for this node, `-` made `_`. They are locked.
///
/// `<id>_outcome` where something is chosen or caught, `<id>_error_code` where an error is caught.
#[must_use]
pub fn engine_written(node: &Node) -> Vec<String> {
    let id = node.id.replace('-', "_");
    let chooses = match &node.kind {
        NodeKind::Agent(agent) => {
            !agent.outcomes.is_empty()
                || agent.on_invalid_output.is_some()
                || agent.on_low_confidence.is_some()
        }
        NodeKind::Human(human) => !human.outcomes.is_empty(),
        NodeKind::Start
        | NodeKind::End(_)
        | NodeKind::EngineTask(_)
        | NodeKind::Decision(_)
        | NodeKind::CallProcess(_)
        | NodeKind::Exclusive(_)
        | NodeKind::Parallel(_)
        | NodeKind::Timer(_) => false,
    };
    let mut names = Vec::new();
    if chooses || !node.on_error.is_empty() || node.on_timeout.is_some() {
        names.push(format!("{id}_outcome"));
    }
    if !node.on_error.is_empty() {
        names.push(format!("{id}_error_code"));
    }
    names
}

/// The names that a process can hold at its end (D5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Produced {
    pub(super) names: BTreeSet<String>,
    /// Some node merges whatever its worker answers, so that other names may appear.
    pub(super) open: bool,
}

impl Produced {
    pub(super) fn of(definition: &Definition) -> Self {
        let mut produced = Self::default();
        produced.names.extend(
            definition
                .variables
                .iter()
                .map(|declaration| declaration.name.clone()),
        );
        for node in &definition.nodes {
            produced.add(node);
        }
        produced
    }

    pub(super) fn add(&mut self, node: &Node) {
        self.names.extend(engine_written(node));
        if let NodeKind::Agent(agent) = &node.kind {
            self.names.insert(agent.result_variable.clone());
        }
        if let Some(outputs) = &node.outputs {
            self.names
                .extend(outputs.iter().map(|mapping| mapping.name.clone()));
            return;
        }
        match &node.kind {
            NodeKind::EngineTask(_) | NodeKind::CallProcess(_) => self.open = true,
            NodeKind::Decision(table) => {
                let columns = table.rules.iter().map(|rule| &rule.then).chain(&table.otherwise);
                self.names
                    .extend(columns.flatten().map(|column| column.name.clone()));
            }
            NodeKind::Human(human) => {
                let fields = human
                    .form
                    .as_ref()
                    .and_then(|form| form.get("properties"))
                    .and_then(|p| p.as_map());
                self.names
                    .extend(fields.into_iter().flatten().map(|(name, _)| name.clone()));
            }
            NodeKind::Start
            | NodeKind::End(_)
            | NodeKind::Agent(_)
            | NodeKind::Exclusive(_)
            | NodeKind::Parallel(_)
            | NodeKind::Timer(_) => {}
        }
    }

    pub(super) fn list(&self) -> Vec<&str> {
        self.names.iter().map(String::as_str).collect()
    }
}
