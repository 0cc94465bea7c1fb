//! `engine-task`: work for an ordinary worker on a topic.

use legation_language::Value;
use legation_language::model::{EngineTask, Node};

use super::NodeType;
use crate::instance::Guard;
use crate::moves::{Moves, Trouble};

impl NodeType for EngineTask {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let inputs = match &node.inputs {
            Some(mappings) => Some(m.mapped(token, mappings, None)?),
            None => None,
        };
        m.create_task(
            token,
            node,
            &self.service,
            self.priority,
            false,
            inputs.map(Value::Map),
        );
        if let Some(within) = self.start_within_ms {
            let due_at = m.now().saturating_add(within);
            m.arm(node, due_at, Some(Guard::Start(token)));
        }
        Ok(())
    }
}
