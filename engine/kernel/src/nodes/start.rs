//! `start` without a trigger: the token goes on.

use legation_language::model::Node;

use super::NodeType;
use crate::moves::{Moves, Trouble};

pub(super) struct Start;

impl NodeType for Start {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        m.leave(token, node)
    }
}
