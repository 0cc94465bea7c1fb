//! Tool servers of this worker, reached through MCP.
//!
//! Its rule: every call ends in one of four ways that the journal can tell apart. A call that never left
//! is *unsent*, a server's refusal is *failed*, and a call that left without an answer is *uncertain*:
//! only then may it have happened.

mod connection;
mod http_client;
mod outcome;
mod schema;
mod stdio;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use legation_protocol::agent::{ServerBinding, ToolBinding, Transport};
use serde_json::value::RawValue;
use tokio::sync::Mutex;

use crate::config::{Config, Limits, Server, from_env};
use crate::http::Outgoing;
use crate::models::configured::{Env, key_variables};
use connection::{Connection, Target};

pub use outcome::{CallError, LOST, Text, ToolOutcome};
pub use schema::{canonical_sha256, check_arguments};

/// One call as the grant says it: the effective arguments and the key.
#[derive(Debug, Clone)]
pub struct ToolCall<'a> {
    pub server: Option<&'a ServerBinding>,
    pub binding: &'a ToolBinding,
    pub arguments: &'a RawValue,
    /// Sent with writes (D39).
    pub idempotency_key: Option<&'a str>,
}

/// A tool as its server describes it now.
#[derive(Debug, Clone)]
pub struct Described {
    pub description: String,
    pub input_schema: Arc<serde_json::Map<String, serde_json::Value>>,
}

/// All tool servers, connected when first needed and again when one died.
pub struct ToolServers {
    config: HashMap<String, Server>,
    limits: Limits,
    env: Env,
    outgoing: Outgoing,
    slots: Mutex<HashMap<String, Arc<Slot>>>,
    /// Variables with keys of models; no document may send them anywhere.
    own_keys: HashSet<String>,
}

#[derive(Default)]
struct Slot {
    /// Held while connecting, so that two calls start one program.
    current: Mutex<Option<Arc<Connection>>>,
}

impl ToolServers {
    pub fn new(config: &Config, env: Env, outgoing: Outgoing) -> Self {
        Self {
            config: config.servers.clone().into_iter().collect(),
            limits: config.limits.clone(),
            env,
            outgoing,
            slots: Mutex::default(),
            own_keys: key_variables(&config.models),
        }
    }

    /// What a tool's server says about it; the error is for the log, the model is offered the tool all the same.
    pub async fn describe(
        &self,
        server: Option<&ServerBinding>,
        binding: &ToolBinding,
    ) -> Result<Described, CallError> {
        let (connection, _) = self.connect(&binding.server, server).await?;
        let tool = connection.tool(&binding.tool)?;
        pinned(binding, tool)?;
        Ok(Described {
            description: tool.description.as_deref().unwrap_or_default().to_owned(),
            input_schema: Arc::clone(&tool.input_schema),
        })
    }

    /// Runs one granted call within its own time limit.
    pub async fn call(&self, call: &ToolCall<'_>) -> ToolOutcome {
        let limit = Duration::from_millis(call.binding.timeout_ms.unwrap_or(self.limits.tool_timeout_ms));
        let (connection, slot) = match self.connect(&call.binding.server, call.server).await {
            Ok(found) => found,
            Err(error) => return ToolOutcome::Unsent(error),
        };
        let checked = connection.tool(&call.binding.tool).and_then(|tool| {
            pinned(call.binding, tool)?;
            check_arguments(&tool.input_schema, call.arguments)
        });
        let arguments = match checked {
            Ok(arguments) => arguments,
            Err(error) => return ToolOutcome::Unsent(error),
        };
        let sent = connection.call(
            &call.binding.tool,
            arguments,
            call.idempotency_key,
            self.limits.result_bytes,
        );
        match tokio::time::timeout(limit, sent).await {
            Ok(outcome) => {
                if matches!(&outcome, ToolOutcome::Uncertain(_)) {
                    // The next call begins with a session of its own.
                    slot.current.lock().await.take_if(|c| Arc::ptr_eq(c, &connection));
                }
                outcome
            }
            Err(_) => ToolOutcome::Uncertain(CallError::new(
                "TOOL_TIMEOUT",
                format!(
                    "{}/{} did not answer within {} ms",
                    call.binding.server,
                    call.binding.tool,
                    limit.as_millis()
                ),
            )),
        }
    }

    async fn connect(
        &self,
        name: &str,
        binding: Option<&ServerBinding>,
    ) -> Result<(Arc<Connection>, Arc<Slot>), CallError> {
        let (target, identity) = self.target(name, binding)?;
        let slot = Arc::clone(self.slots.lock().await.entry(identity).or_default());
        let mut current = slot.current.lock().await;
        if let Some(connection) = current.as_ref().filter(|c| c.is_alive()) {
            let connection = Arc::clone(connection);
            drop(current);
            return Ok((connection, slot));
        }
        if current.take().is_some() {
            tracing::warn!(server = name, "tool server is gone, connecting again");
        }
        let limit = Duration::from_millis(self.limits.connect_timeout_ms);
        let opened = tokio::time::timeout(limit, Connection::open(name, target, &self.outgoing)).await;
        let connection = opened.map_err(|_| {
            let waited = limit.as_millis();
            CallError::new(
                "TOOL_SERVER_UNREACHABLE",
                format!("tool server '{name}' did not start within {waited} ms"),
            )
        })??;
        let connection = Arc::new(connection);
        *current = Some(Arc::clone(&connection));
        drop(current);
        Ok((connection, slot))
    }

    /// Where a server is; the worker's own entry wins over the document's.
    fn target(&self, server: &str, binding: Option<&ServerBinding>) -> Result<(Target, String), CallError> {
        let unreachable = |message: String| CallError::new("TOOL_SERVER_UNREACHABLE", message);
        let own = self.config.get(server);
        if let Some(command) = own.and_then(|s| s.command.as_ref()) {
            let own = own.cloned().unwrap_or_default();
            let mut env = Vec::new();
            for (key, value) in own.env {
                let value = if value.starts_with("env:") {
                    let secret = from_env(&value, &*self.env).map_err(|e| unreachable(e.to_string()))?;
                    secret.expose().to_owned()
                } else {
                    value
                };
                env.push((key, value));
            }
            let target = Target::Program {
                command: command.clone(),
                args: own.args,
                env,
                cwd: own.cwd,
            };
            return Ok((target, server.to_owned()));
        }
        let document = binding.filter(|b| b.transport == Transport::StreamableHttp);
        let url = own
            .and_then(|s| s.url.clone())
            .or_else(|| document.and_then(|b| b.url.clone()));
        let Some(url) = url else {
            return Err(unreachable(format!(
                "tool server '{server}' is not configured: add [servers.{server}] to legation-agent.toml"
            )));
        };
        let own_credential = own.and_then(|s| s.credential.clone());
        // A document's credential goes only to the document's own address, and never is a key of this worker.
        let from_document = document
            .filter(|b| b.url.as_deref() == Some(&url))
            .and_then(|b| b.credential.clone());
        if let Some(name) = from_document.as_deref().and_then(|c| c.strip_prefix("env:"))
            && own_credential.is_none()
            && (self.own_keys.contains(name) || name.starts_with("LEGATION_"))
        {
            return Err(unreachable(format!(
                "the document of tool server '{server}' asks for {name}, a key of the worker itself"
            )));
        }
        let reference = own_credential.or(from_document);
        let credential = match &reference {
            Some(reference) => Some(from_env(reference, &*self.env).map_err(|e| unreachable(e.to_string()))?),
            None => None,
        };
        let identity = format!("{server} {url} {}", reference.unwrap_or_default());
        Ok((Target::Address { url, credential }, identity))
    }

    /// Ends every tool server and waits for it.
    pub async fn close(&self) {
        let slots: Vec<Arc<Slot>> = self.slots.lock().await.drain().map(|(_, slot)| slot).collect();
        for slot in slots {
            slot.current.lock().await.take();
        }
    }
}

fn pinned(binding: &ToolBinding, tool: &rmcp::model::Tool) -> Result<(), CallError> {
    let Some(pin) = &binding.input_schema_sha256 else {
        return Ok(());
    };
    let found = canonical_sha256(&tool.input_schema);
    if found.eq_ignore_ascii_case(pin) {
        return Ok(());
    }
    Err(CallError::new(
        "TOOL_SCHEMA_CHANGED",
        format!(
            "tool {}/{} was refused: its input schema has digest {found}, the process pins {pin}",
            binding.server, binding.tool
        ),
    ))
}
