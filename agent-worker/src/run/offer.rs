//! The functions that the model is offered. A tool whose server is down is offered all the same: its call
//! ends FAILED unsent, and the model reads why.

use legation_protocol::Json;
use serde_json::value::RawValue;

use super::Run;
use crate::models::{Function, raw_of};

impl Run {
    /// All functions of the node; servers are asked once a lease.
    pub(super) async fn functions(&mut self) -> Vec<Function> {
        if let Some(known) = &self.functions {
            return known.clone();
        }
        let described = futures::future::join_all(self.agent.tools.iter().map(|tool| {
            let server = self.agent.servers.iter().find(|s| s.name == tool.server);
            self.shared.tools.describe(server, tool)
        }))
        .await;
        let mut functions = Vec::new();
        for (tool, described) in self.agent.tools.iter().zip(described) {
            let (says, parameters) = match described {
                Ok(d) => (d.description, raw_of(&*d.input_schema)),
                Err(error) => {
                    let name = format!("{}/{}", tool.server, tool.tool);
                    tracing::warn!(task = %self.lease, tool = name, %error, "tool cannot be described");
                    (String::new(), any_object())
                }
            };
            let description = tool.description.clone().unwrap_or(says);
            functions.push(Function {
                name: tool.function.clone(),
                description,
                parameters,
            });
        }
        functions.extend(self.agent.delegates.iter().map(|d| Function {
            name: d.function.clone(),
            description: d.description.clone(),
            parameters: d.parameters.clone(),
        }));
        self.functions = Some(functions.clone());
        functions
    }
}

fn any_object() -> Json {
    RawValue::from_string(r#"{"type":"object"}"#.to_owned()).unwrap_or_default()
}
