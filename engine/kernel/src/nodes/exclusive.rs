//! `exclusive`: the first true rule wins; no match without `else` is an incident.

use legation_language::model::{Exclusive, Node};

use super::NodeType;
use crate::instance::Event;
use crate::moves::{Moves, Trouble};

impl NodeType for Exclusive {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let mut target = self.otherwise.as_deref();
        for rule in &self.rules {
            if m.is_true(token, &rule.when)? {
                target = Some(&rule.then);
                break;
            }
        }
        let Some(target) = target else {
            let message = format!("no rule of node {} is true and it has no else", node.id);
            return Err(Trouble::Incident {
                code: "NO_BRANCH",
                message,
            });
        };
        m.emit(Event::BranchTaken {
            token,
            node: node.id.clone(),
            target: target.to_owned(),
        });
        m.goto(token, target, None);
        Ok(())
    }
}
