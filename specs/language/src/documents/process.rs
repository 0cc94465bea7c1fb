//! A process document: metadata and flow, read into drafts that freezing completes.

use std::collections::{BTreeMap, BTreeSet};

use super::activity;
use super::codes::Code;
use super::flow;
use super::names::{self, engine_written};
use super::nodes::{self, NodeType, Reading, Route};
use super::problem::Problems;
use super::shape::{self, Field, Object, Shape, not_yet, optional, required};
use super::variables;
use super::yaml::{At, Source};
use crate::model::{Declaration, Definition, Node, NodeKind, Position};

pub(super) const SHAPE: Shape = Shape::Object(&PROCESS);

pub(super) const PROCESS: Object = Object {
    name: "a process",
    fields: &[&[
        optional("version", Shape::Word(&["legation/v1"]), "of the language"),
        optional(
            "metadata",
            Shape::Object(&METADATA),
            "what the process is called, takes and gives",
        ),
        required("flow", Shape::Object(&FLOW), "the nodes"),
    ]],
};

const METADATA: Object = Object {
    name: "`metadata`",
    fields: &[METADATA_FIELDS],
};

const METADATA_FIELDS: &[Field] = &[
    optional(
        "key",
        Shape::Text,
        "names the process in its project; absent: the file's name",
    ),
    optional("name", Shape::Text, "shown to people"),
    optional(
        "description",
        Shape::Text,
        "for people, and for models that may delegate to it",
    ),
    optional(
        "variables",
        variables::SHAPE,
        "its inputs and typed working variables",
    ),
    optional("outputs", variables::SHAPE, "what it guarantees at its end"),
    not_yet("owner"),
    not_yet("category"),
    not_yet("labels"),
    not_yet("tag"),
    not_yet("disabled"),
    not_yet("policy"),
    not_yet("retention"),
    not_yet("search"),
];

const FLOW: Object = Object {
    name: "`flow`",
    fields: &[&[
        optional(
            "entry",
            Shape::NodeId,
            "where a start enters; absent: the start node, else the first node",
        ),
        required(
            "nodes",
            Shape::List(&Shape::Node),
            "in the order in which they follow each other",
        ),
    ]],
};

/// More nodes than any reader can follow.
const MAX_NODES: usize = 1_000;

/// A document on its way to a definition.
pub(super) struct Process<'a> {
    pub(super) at: At<'a>,
    pub(super) key: String,
    pub(super) drafts: Vec<Draft<'a>>,
    /// Complete but for what is pinned; None when some node cannot be read.
    pub(super) definition: Option<Definition>,
}

/// A node on its way.
pub(super) struct Draft<'a> {
    pub(super) at: At<'a>,
    pub(super) id: String,
    /// None when the type is unknown or reserved: then nothing is known about where it leads.
    pub(super) node_type: Option<&'static NodeType>,
    /// None when the node cannot be read.
    pub(super) node: Option<Node>,
    pub(super) next: Option<At<'a>>,
    pub(super) routes: Vec<Route<'a>>,
    pub(super) routes_itself: bool,
}

/// Reads a document and checks everything that can be checked without looking at others.
pub(super) fn read<'a>(source: &'a Source, problems: &mut Problems) -> Process<'a> {
    let at = At::root(source);
    shape::check(&at, &SHAPE, problems);
    let metadata = at.get("metadata");
    let key = key(source, metadata.as_ref(), problems);
    let declared = |name: &str, problems: &mut Problems| -> Vec<Declaration> {
        let at = metadata.as_ref().and_then(|metadata| metadata.get(name));
        at.map(|at| variables::read(&at, problems)).unwrap_or_default()
    };
    let variables = declared("variables", problems);
    let outputs = declared("outputs", problems);
    check_outputs(metadata.as_ref(), problems);

    let flow_at = at.get("flow");
    let nodes_at = flow_at.as_ref().and_then(|flow| flow.get("nodes"));
    let items = nodes_at.as_ref().map(At::items).unwrap_or_default();
    if let Some(nodes_at) = &nodes_at
        && items.len() > MAX_NODES
    {
        let message = format!(
            "a flow has at most {MAX_NODES} nodes, this one has {}",
            items.len()
        );
        problems.error(nodes_at, Code::TooManyNodes, message);
        return Process {
            at,
            key,
            drafts: Vec::new(),
            definition: None,
        };
    }
    if let Some(nodes_at) = &nodes_at
        && nodes_at.is_list()
        && items.is_empty()
    {
        problems.error(nodes_at, Code::InvalidValue, "a flow needs at least one node");
    }
    let listed = items.len();
    let mut drafts: Vec<Draft<'a>> = items
        .into_iter()
        .filter_map(|item| draft(item, problems))
        .collect();
    let all_read = drafts.len() == listed;
    let entry = flow::check(
        &mut drafts,
        flow_at.and_then(|flow| flow.get("entry")),
        all_read,
        problems,
    );
    check_names(&drafts, &variables, &outputs, problems);
    check_closings(&drafts, &variables, &outputs, problems);

    let nodes: Option<Vec<Node>> = drafts.iter().map(|draft| draft.node.clone()).collect();
    let definition = match (nodes, entry) {
        (Some(nodes), Some(entry)) if all_read => Some(Definition {
            key: key.clone(),
            version: 0,
            name: metadata.as_ref().and_then(|at| activity::text(at, "name")),
            description: metadata.as_ref().and_then(|at| activity::text(at, "description")),
            variables,
            outputs,
            entry,
            nodes,
            values: BTreeMap::new(),
        }),
        _ => None,
    };
    Process {
        at,
        key,
        drafts,
        definition,
    }
}

/// `metadata.key`, else the file's stem.
fn key(source: &Source, metadata: Option<&At<'_>>, problems: &mut Problems) -> String {
    const RULE: &str = "small letters, digits, `_` and `-`, at most 128, beginning with a letter";
    if let Some(key_at) = metadata.and_then(|metadata| metadata.get("key"))
        && let Some(key) = key_at.text()
    {
        if !names::is_process_key(key) {
            problems
                .error(
                    &key_at,
                    Code::InvalidValue,
                    format!("`{key}` is no key of a process"),
                )
                .hint(RULE);
        }
        return key.to_owned();
    }
    let file = source.file.rsplit('/').next().unwrap_or_default();
    let stem = file.split('.').next().unwrap_or_default();
    if !names::is_process_key(stem) {
        let message = format!("the file's name gives no key: `{stem}` is none");
        problems
            .error(&At::root(source), Code::MissingField, message)
            .hint(format!("metadata:\n  key: refund_payout\n({RULE})"));
    }
    stem.to_owned()
}

fn check_outputs(metadata: Option<&At<'_>>, problems: &mut Problems) {
    let Some(outputs) = metadata.and_then(|metadata| metadata.get("outputs")) else {
        return;
    };
    for (entry, value) in outputs.entries() {
        names::check_output(&entry.key, &value.key(entry), problems);
    }
    for item in outputs.items() {
        if let Some(name_at) = item.get("name")
            && let Some(name) = name_at.text()
        {
            names::check_output(name, &name_at, problems);
        }
    }
}

fn draft<'a>(at: At<'a>, problems: &mut Problems) -> Option<Draft<'a>> {
    let id_at = at.get("id")?;
    let id = id_at.text()?.to_owned();
    if !names::is_node_id(&id) {
        problems
            .error(&id_at, Code::InvalidValue, format!("`{id}` is no id of a node"))
            .hint("letters, digits, `_` and `-`, beginning with a letter");
    }
    let node_type = at.get("type").as_ref().and_then(At::text).and_then(nodes::find);
    let mut reading = Reading {
        id: &id,
        problems,
        routes: Vec::new(),
        routes_itself: false,
    };
    let kind = node_type.and_then(|node_type| (node_type.read)(&at, &mut reading));
    let shared = activity::read(&at, &mut reading);
    let Reading {
        routes,
        routes_itself,
        ..
    } = reading;
    let node = kind.map(|kind| Node {
        id: id.clone(),
        name: activity::text(&at, "name"),
        description: activity::text(&at, "description"),
        ui: position(&at),
        next: None,
        inputs: shared.inputs,
        outputs: shared.outputs,
        on_error: shared.on_error,
        on_timeout: shared.on_timeout,
        retry: shared.retry,
        kind,
    });
    let next = at.get("next").filter(|next| next.text().is_some());
    Some(Draft {
        at,
        id,
        node_type,
        node,
        next,
        routes,
        routes_itself,
    })
}

fn position(at: &At<'_>) -> Option<Position> {
    let ui = at.get("ui")?;
    Some(Position {
        x: ui.get("x")?.value().as_i64()?,
        y: ui.get("y")?.value().as_i64()?,
    })
}

/// Names that the engine writes must be free, and declared inputs are locked.
fn check_names(
    drafts: &[Draft<'_>],
    variables: &[Declaration],
    outputs: &[Declaration],
    problems: &mut Problems,
) {
    let mut engine: BTreeMap<String, &str> = BTreeMap::new();
    for draft in drafts {
        for name in draft.node.iter().flat_map(engine_written) {
            let place = draft.at.get("id").unwrap_or_else(|| draft.at.clone());
            if let Some(other) = engine.get(&name).filter(|other| **other != draft.id) {
                let message = format!("the engine would write `{name}` for this node and for `{other}`");
                problems
                    .error(&place, Code::NameCollision, message)
                    .hint("give one of them another id");
            } else if variables.iter().any(|declaration| declaration.name == name) {
                let message = format!("`{name}` is declared, but the engine writes it for this node");
                problems
                    .error(&place, Code::NameCollision, message)
                    .hint("rename the variable or the node");
            }
            engine.insert(name, &draft.id);
        }
    }
    let given_back: BTreeSet<&str> = outputs.iter().map(|d| d.name.as_str()).collect();
    let inputs = variables
        .iter()
        .filter(|d| d.input && d.locked)
        .map(|d| d.name.as_str());
    let locked: BTreeSet<&str> = inputs.filter(|name| !given_back.contains(name)).collect();
    for draft in drafts {
        let Some(node) = &draft.node else { continue };
        for (name, place) in written(draft, node) {
            if let Some(other) = engine.get(&name) {
                let message = format!("`{name}` is written by the engine, for `{other}`");
                problems.error(&place, Code::NameCollision, message);
            }
            let may_write = node.outputs.is_some() && !matches!(node.kind, NodeKind::Agent(_));
            if !may_write && locked.contains(name.as_str()) {
                problems
                    .error(&place, Code::LockedName, format!("the input `{name}` is locked"))
                    .hint("use another name, or declare it with `locked: false`");
            }
        }
    }
}

/// The names that a node's document says it writes, with their places.
fn written<'a>(draft: &Draft<'a>, node: &Node) -> Vec<(String, At<'a>)> {
    let mut out = Vec::new();
    if let (Some(outputs), Some(at)) = (&node.outputs, draft.at.get("outputs")) {
        for (index, mapping) in outputs.iter().enumerate() {
            out.push((mapping.name.clone(), activity::mapping_place(&at, index)));
        }
    }
    match &node.kind {
        NodeKind::Agent(agent) => {
            let place = draft
                .at
                .get("result_variable")
                .unwrap_or_else(|| draft.at.clone());
            out.push((agent.result_variable.clone(), place));
        }
        NodeKind::Decision(_) if node.outputs.is_none() => {
            for rule in draft.at.get("rules").iter().flat_map(At::items) {
                for columns in [rule.get("then"), rule.get("otherwise")].into_iter().flatten() {
                    let entries = columns.entries();
                    out.extend(
                        entries
                            .into_iter()
                            .map(|(entry, value)| (entry.key.clone(), value.key(entry))),
                    );
                }
            }
        }
        NodeKind::Start
        | NodeKind::End(_)
        | NodeKind::EngineTask(_)
        | NodeKind::Decision(_)
        | NodeKind::Human(_)
        | NodeKind::CallProcess(_)
        | NodeKind::Exclusive(_)
        | NodeKind::Parallel(_)
        | NodeKind::Timer(_) => {}
    }
    out
}

/// A closing message crosses to the caller, so it may say only what may cross (architecture §7.1).
fn check_closings(
    drafts: &[Draft<'_>],
    variables: &[Declaration],
    outputs: &[Declaration],
    problems: &mut Problems,
) {
    let may_cross = |name: &str| {
        variables.iter().any(|d| d.input && d.name == name) || outputs.iter().any(|d| d.name == name)
    };
    for draft in drafts {
        let Some(Node {
            kind: NodeKind::End(end),
            ..
        }) = &draft.node
        else {
            continue;
        };
        let (Some(closing), Some(at)) = (&end.closing, draft.at.get("closing")) else {
            continue;
        };
        for (expression, offset) in closing.expressions() {
            for name in expression.references().iter().filter_map(|path| path.first()) {
                if !may_cross(name) {
                    let place = problems.place_inside(&at, offset);
                    let message = format!("`{name}` is neither an input nor a declared output");
                    problems
                        .error_at(at.file(), place, &at.pointer, Code::ClosingReference, message)
                        .hint("declare it in `metadata.outputs`");
                }
            }
        }
    }
}
