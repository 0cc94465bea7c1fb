//! `parallel`: a fork into branches, or a join of them.

use super::{COMMON, NodeType, Reading, no_pins};
use crate::documents::codes::Code;
use crate::documents::shape::{Field, Object, Shape, not_yet, optional};
use crate::documents::yaml::At;
use crate::model::{NodeKind, Parallel};

pub(super) const TYPE: NodeType = NodeType {
    name: "parallel",
    object: Object {
        name: "a `parallel` node",
        fields: &[COMMON, FIELDS],
    },
    read,
    pin: no_pins,
};

const FIELDS: &[Field] = &[
    optional(
        "branches",
        Shape::List(&Shape::NodeId),
        "a fork: the first node of each branch",
    ),
    optional(
        "join",
        Shape::Either(&[
            Shape::WordNotYet(&["all"], &["first"]),
            Shape::Map(&Shape::Literal),
        ]),
        "a join: `all` waits for every branch that can still arrive",
    ),
    not_yet("rest"),
];

const MAX_BRANCHES: usize = 50;

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    match (at.get("branches"), at.get("join")) {
        (Some(branches), None) => {
            reading.routes_itself = true;
            let items = branches.items();
            if branches.is_list() && !(2..=MAX_BRANCHES).contains(&items.len()) {
                reading
                    .problems
                    .error(&branches, Code::InvalidValue, "a fork has 2 to 50 branches");
                return None;
            }
            let mut ids: Vec<String> = Vec::new();
            for item in items {
                let Some(id) = reading.route(Some(item.clone())) else {
                    continue;
                };
                if ids.contains(&id) {
                    let message = format!("`{id}` stands twice among the branches");
                    reading.problems.error(&item, Code::DuplicateName, message);
                }
                ids.push(id);
            }
            Some(NodeKind::Parallel(Parallel::Fork(ids)))
        }
        (None, Some(join)) => {
            if join.is_map() {
                reading
                    .problems
                    .error(
                        &join,
                        Code::NotYet,
                        "joining a number of branches is reserved for a later release",
                    )
                    .hint("join: all");
            }
            Some(NodeKind::Parallel(Parallel::JoinAll))
        }
        (Some(_), Some(join)) => {
            reading
                .problems
                .error(
                    &join,
                    Code::InvalidValue,
                    "a parallel node is either a fork or a join",
                )
                .hint("write two nodes: one with `branches`, one with `join: all`");
            None
        }
        (None, None) => {
            reading
                .problems
                .error(
                    at,
                    Code::MissingField,
                    "a parallel node needs `branches` or `join`",
                )
                .hint("branches: [first, second]");
            None
        }
    }
}
