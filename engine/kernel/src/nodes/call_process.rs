//! `call-process`: another process as a node. Its outputs come back; its error end's code is raised here.

use legation_language::Value;
use legation_language::model::{CallProcess, Node};

use super::{ChildEnd, NodeType, Signal, finish};
use crate::instance::{Cause, Child, Event, Parent, Source, Status, Wait};
use crate::moves::{Done, Moves, Trouble};
use crate::rejection::Stop;
use crate::start::{ChildSpec, start_child};

impl NodeType for CallProcess {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let definitions = m.work.env.definitions;
        let project = m.instance().project.clone();
        let definition = match self.version {
            Some(version) => definitions.get(&project, &self.process, version),
            None => definitions.latest(&project, &self.process),
        };
        let Some(definition) = definition else {
            if m.work.env.absent.contains(&(self.process.clone(), self.version)) {
                let message = format!("process {} is not deployed", self.process);
                return m.raise(token, node, "CHILD_START_REFUSED", Some(message));
            }
            return Err(Stop::MissingDefinition(self.process.clone(), self.version).into());
        };
        let deepest = self
            .max_depth
            .unwrap_or(m.work.env.max_depth)
            .min(m.work.env.max_depth);
        if m.instance().depth + 1 > deepest {
            let message = format!("a child of this instance would be deeper than {deepest}");
            return m.raise(token, node, "CHILD_DEPTH_EXCEEDED", Some(message));
        }
        let inputs = match &node.inputs {
            Some(mappings) => m.mapped(token, mappings, None)?,
            None => {
                let open = m.open_variables()?;
                let takes = |name: &String| definition.variables.iter().any(|d| d.input && d.name == *name);
                open.into_iter().filter(|(name, _)| takes(name)).collect()
            }
        };
        let child = m.number();
        let spec = ChildSpec {
            id: m.id().child(child),
            definition,
            inputs,
            parent: Parent {
                instance: m.id(),
                node: node.id.clone(),
                cause: Cause::Token(token),
            },
        };
        let process = self.process.clone();
        match start_child(m, spec) {
            Ok(()) => {
                m.emit(Event::ChildStarted {
                    child,
                    running: Child { process, step: None },
                });
                m.emit(Event::TokenWaits {
                    token,
                    wait: Wait::Child { child },
                });
                Ok(())
            }
            Err(Stop::Rejected(refusal)) => {
                m.raise(token, node, "CHILD_INPUT_INVALID", Some(refusal.message))
            }
            Err(stop) => Err(stop.into()),
        }
    }

    fn resume(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node, signal: Signal) -> Result<(), Trouble> {
        let end = match signal {
            Signal::Child(end) => end,
            // Its outputs could not be made when the child ended, and are made again.
            Signal::Done(done) => return finish(m, token, node, done, None),
            Signal::Timer => return m.leave(token, node),
        };
        let ChildEnd {
            status,
            outputs,
            error,
        } = end;
        if status == Status::Completed {
            let result = outputs.as_map().cloned().unwrap_or_default();
            let done = Done {
                result: Value::Map(present(result)),
                outcome: None,
                source: Source::node(&node.id),
            };
            return finish(m, token, node, done, None);
        }
        let message = format!("the called process ended {}", status.as_str());
        let code = error.unwrap_or_else(|| "CHILD_FAILED".to_owned());
        m.raise(token, node, &code, Some(message))
    }
}

/// Outputs that the child left unset are not merged.
fn present(result: std::collections::BTreeMap<String, Value>) -> std::collections::BTreeMap<String, Value> {
    result.into_iter().filter(|(_, value)| !value.is_null()).collect()
}
