//! `end`: where a token ends, with an error code for the caller or a closing message.

use super::{COMMON, NodeType, Reading, no_pins};
use crate::documents::activity;
use crate::documents::shape::{Field, Object, Shape, not_yet, optional};
use crate::documents::yaml::At;
use crate::model::{End, NodeKind};
use crate::template::Template;

pub(super) const TYPE: NodeType = NodeType {
    name: "end",
    object: Object {
        name: "an `end` node",
        fields: &[COMMON, FIELDS],
    },
    read,
    pin: no_pins,
};

const FIELDS: &[Field] = &[
    optional(
        "error",
        Shape::Text,
        "the process ends FAILED with this code, which its caller may catch",
    ),
    optional(
        "closing",
        Shape::Template,
        "the message to the caller, over inputs and declared outputs only",
    ),
    not_yet("terminate"),
    not_yet("emit"),
];

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    reading.routes_itself = true;
    let error = at
        .get("error")
        .and_then(|at| activity::error_code(&at, reading.problems));
    let closing = at.get("closing").and_then(|at| Template::parse(at.text()?).ok());
    Some(NodeKind::End(End { error, closing }))
}
