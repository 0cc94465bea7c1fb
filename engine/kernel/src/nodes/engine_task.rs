//! `engine-task`: work for an ordinary worker on a topic.

use legation_language::Value;
use legation_language::model::{EngineTask, Node};

use super::NodeType;
use crate::moves::{Moves, Trouble};

impl NodeType for EngineTask {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let inputs = match &node.inputs {
            Some(mappings) => Some(m.mapped(token, mappings, None)?),
            None => None,
        };
        m.create_task(token, node, &self.service, self.priority, false, inputs.map(Value::Map));
        Ok(())
    }
}
