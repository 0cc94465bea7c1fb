//! `timer`: the token waits.

use super::{COMMON, NodeType, Reading, no_pins};
use crate::documents::activity;
use crate::documents::shape::Object;
use crate::documents::yaml::At;
use crate::model::NodeKind;

pub(super) const TYPE: NodeType = NodeType {
    name: "timer",
    object: Object {
        name: "a `timer` node",
        fields: &[COMMON, activity::MOMENT_FIELDS],
    },
    read,
    pin: no_pins,
};

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    activity::moment(at, reading.problems).map(NodeKind::Timer)
}
