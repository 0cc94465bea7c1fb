//! `agent`: work whose next step a model chooses. It gets only its declared inputs (D31); what it says goes to
//! its result variable, and its outcome chooses the way.

use legation_language::Value;
use legation_language::model::{Agent, Node};

use super::{NodeType, Signal, finish};
use crate::instance::Event;
use crate::moves::{Moves, Trouble};

impl NodeType for Agent {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let mappings = node.inputs.as_deref().unwrap_or_default();
        let inputs = m.mapped(token, mappings, None)?;
        m.create_task(token, node, &self.topic, 0, true, Some(Value::Map(inputs)));
        Ok(())
    }

    fn resume(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node, signal: Signal) -> Result<(), Trouble> {
        let Signal::Done(done) = signal else {
            return m.leave(token, node);
        };
        // The contract was checked when the task was completed.
        let chosen = match &done.outcome {
            None => None,
            Some(name) => match self.outcomes.iter().find(|outcome| outcome.name == *name) {
                Some(outcome) => Some(outcome),
                None => {
                    let message = format!("node {} has no outcome {name}", node.id);
                    return Err(Trouble::Incident {
                        code: "OUTCOME_NOT_FOUND",
                        message,
                    });
                }
            },
        };
        m.set(&self.result_variable, done.result.clone(), true, &done.source);
        if let Some(outcome) = chosen {
            m.set_engine_name(&node.id, "outcome", Value::from(outcome.name.as_str()));
            m.emit(Event::OutcomeChosen {
                node: node.id.clone(),
                outcome: outcome.name.clone(),
            });
        }
        let target = chosen.map(|outcome| outcome.then.as_str());
        if node.outputs.is_some() {
            return finish(m, token, node, done, target);
        }
        match target {
            Some(target) => m.goto(token, target, None),
            None => m.leave(token, node)?,
        }
        Ok(())
    }
}
