//! The node types: one file each, holding its fields, how it is read, and what deployment pins in it. Adding one is
//! a file, a line in [`TYPES`], a variant of `NodeKind`, and its file in the kernel.

mod agent;
mod call_process;
mod decision;
mod end;
mod engine_task;
mod exclusive;
mod human;
mod parallel;
mod start;
mod timer;

pub(super) use call_process::is_pinned as pinned_call;

use super::codes::Code;
use super::pins::Pinning;
use super::problem::Problems;
use super::shape::{self, Field, Object, Shape, optional, required};
use super::words;
use super::yaml::At;
use crate::model::{Node, NodeKind};

/// A node type.
pub(super) struct NodeType {
    pub(super) name: &'static str,
    pub(super) object: Object,
    /// Reads the type's own fields; nothing when a field that it cannot do without is unusable.
    pub(super) read: for<'a> fn(&At<'a>, &mut Reading<'a, '_>) -> Option<NodeKind>,
    /// Looks up what the node names (children, tools) and writes it into the node.
    pub(super) pin: fn(&At<'_>, &mut Node, &mut Pinning<'_>),
}

/// The registry.
pub(super) const TYPES: &[NodeType] = &[
    start::TYPE,
    end::TYPE,
    agent::TYPE,
    engine_task::TYPE,
    decision::TYPE,
    human::TYPE,
    call_process::TYPE,
    exclusive::TYPE,
    parallel::TYPE,
    timer::TYPE,
];

/// Types of language.md that a later release brings.
const LATER: &[&str] = &[
    "script",
    "inclusive",
    "event-gateway",
    "receive",
    "emit",
    "wait",
    "subprocess",
    "event-subprocess",
    "compensate",
    "plan",
];

/// The fields of every node.
const COMMON: &[Field] = &[
    required("id", Shape::Text, "names the node within its process"),
    required("type", Shape::Text, "what the node does"),
    optional("name", Shape::Text, "shown to people"),
    optional("description", Shape::Text, "for people"),
    optional(
        "next",
        Shape::NodeId,
        "where the token goes next; absent: the next node in the list",
    ),
    optional("ui", Shape::Object(&UI), "where an editor drew the node"),
];

const UI: Object = Object {
    name: "`ui`",
    fields: &[&[
        required("x", Shape::Integer(-1_000_000, 1_000_000), "in pixels"),
        required("y", Shape::Integer(-1_000_000, 1_000_000), "in pixels"),
    ]],
};

/// What reading a node gathers beside its kind.
pub(super) struct Reading<'a, 'p> {
    pub(super) id: &'p str,
    pub(super) problems: &'p mut Problems,
    /// Where rules, branches, boundaries and outcomes lead.
    pub(super) routes: Vec<Route<'a>>,
    /// The node takes no `next`.
    pub(super) routes_itself: bool,
}

/// A way out of a node that is not its `next`.
#[derive(Clone, Debug)]
pub(super) struct Route<'a> {
    pub(super) to: String,
    pub(super) at: At<'a>,
}

impl<'a> Reading<'a, '_> {
    /// Notes a way out and answers its target.
    pub(super) fn route(&mut self, at: Option<At<'a>>) -> Option<String> {
        let at = at?;
        let to = at.text()?.to_owned();
        self.routes.push(Route { to: to.clone(), at });
        Some(to)
    }
}

pub(super) fn find(name: &str) -> Option<&'static NodeType> {
    TYPES.iter().find(|node_type| node_type.name == name)
}

/// Checks a node against the fields of its type.
pub(super) fn check_shape(at: &At<'_>, problems: &mut Problems) {
    if !at.is_map() {
        problems.error(
            at,
            Code::WrongType,
            format!("a node must be a map, not {}", at.tree.found()),
        );
        return;
    }
    let Some(type_at) = at.get("type") else {
        let names: Vec<&str> = TYPES.iter().map(|node_type| node_type.name).collect();
        problems
            .error(at, Code::MissingField, "a node needs `type`")
            .hint(format!("one of {}", names.join(", ")));
        return;
    };
    let Some(name) = type_at.text() else {
        problems.error(&type_at, Code::WrongType, "`type` must be text");
        return;
    };
    if let Some(node_type) = find(name) {
        shape::check_object(at, &node_type.object, problems);
    } else if LATER.contains(&name) {
        problems.error(
            &type_at,
            Code::NotYet,
            format!("the node type `{name}` is reserved for a later release"),
        );
    } else {
        let known: Vec<&str> = TYPES.iter().map(|node_type| node_type.name).collect();
        problems
            .error(
                &type_at,
                Code::UnknownNodeType,
                format!("there is no node type `{name}`"),
            )
            .maybe(words::type_hint(name, &known));
    }
}

/// For types that pin nothing.
fn no_pins(_: &At<'_>, _: &mut Node, _: &mut Pinning<'_>) {}
