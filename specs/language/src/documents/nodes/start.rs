//! `start`: where a process begins when somebody starts it.

use super::{COMMON, NodeType, no_pins};
use crate::documents::shape::{Field, Object, not_yet};
use crate::model::NodeKind;

pub(super) const TYPE: NodeType = NodeType {
    name: "start",
    object: Object {
        name: "a `start` node",
        fields: &[COMMON, FIELDS],
    },
    read: |_, _| Some(NodeKind::Start),
    pin: no_pins,
};

const FIELDS: &[Field] = &[
    not_yet("schedule"),
    not_yet("webhook"),
    not_yet("message"),
    not_yet("signal"),
    not_yet("variables"),
];
