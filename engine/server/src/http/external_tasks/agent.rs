//! The frozen agent node as its worker gets it: contracts and bindings of the version, and the user's message made
//! of the task's inputs. Nothing of the process's data goes into the system message (D43).

use std::collections::BTreeMap;

use legation_kernel::expr::{Budget, render};
use legation_language::Value;
use legation_language::documents::{Server, Transport as ServerTransport};
use legation_language::model::{Agent, Delegate, ToolBinding};
use legation_language::template::{Part, Template};
use legation_protocol::agent::{
    AgentNode, DelegateBinding, Idempotency, OnDelegationFailure, OutcomeChoice, ServerBinding, Transport,
};

use crate::http::error::Result;
use crate::http::views;

/// The tool servers that a node's tools need, each once.
pub(super) fn server_names(agent: &Agent) -> Vec<&str> {
    let mut names: Vec<&str> = agent.tools.iter().map(|tool| tool.server.as_str()).collect();
    names.sort_unstable();
    names.dedup();
    names
}

/// The node with the values of this task.
pub(super) fn node(agent: &Agent, servers: &[Server], inputs: &BTreeMap<String, Value>) -> Result<AgentNode> {
    Ok(AgentNode {
        model: agent.model.clone(),
        fallback_models: agent.fallback_models.clone(),
        instructions: agent.instructions.clone(),
        prompt: referenced(&agent.prompt),
        user_message: user_message(agent, inputs),
        inputs: views::named(&Value::Map(inputs.clone()))?,
        prompt_version: agent.prompt_version.clone(),
        servers: servers.iter().map(server).collect(),
        tools: agent.tools.iter().map(tool).collect(),
        delegates: agent.delegates.iter().map(delegate).collect::<Result<_>>()?,
        output_schema: agent.output_schema.as_ref().map(views::raw).transpose()?,
        confidence_threshold: agent
            .confidence_threshold
            .as_ref()
            .and_then(|value| value.to_json().parse().ok()),
        result_variable: agent.result_variable.clone(),
        outcomes: agent
            .outcomes
            .iter()
            .map(|outcome| OutcomeChoice {
                name: outcome.name.clone(),
                description: outcome.description.clone(),
            })
            .collect(),
        temperature: agent
            .temperature
            .as_ref()
            .and_then(|value| value.to_json().parse().ok()),
        max_tokens: Some(agent.max_tokens),
        model_timeout_ms: agent.model_timeout_ms.map(i64::unsigned_abs),
        max_turns: agent.max_turns,
        max_steps: agent.max_steps,
        max_tokens_total: agent.max_tokens_total,
        max_concurrent: agent.max_concurrent,
        on_delegation_failure: OnDelegationFailure::Report,
    })
}

/// The prompt with its values, as the first message of the user. An input that the prompt does not name follows it;
/// a prompt that names what the node's `inputs` leave out is followed by all of them.
fn user_message(agent: &Agent, inputs: &BTreeMap<String, Value>) -> String {
    let (mut message, named) = match render(&agent.prompt, inputs, &mut Budget::default()) {
        Ok(Value::String(text)) => (text, agent.prompt.references()),
        Ok(other) => (other.to_json(), agent.prompt.references()),
        Err(_) => (referenced(&agent.prompt), Vec::new()),
    };
    let is_named = |name: &str| {
        named
            .iter()
            .any(|path| path.first().is_some_and(|first| first == name))
    };
    let others = inputs.iter().filter(|(name, _)| !is_named(name));
    let others: BTreeMap<String, Value> = others
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect();
    if !others.is_empty() {
        message.push_str("\n\nInputs:\n");
        message.push_str(&Value::Map(others).to_json());
    }
    message
}

/// The prompt with the names of values instead of the values.
fn referenced(prompt: &Template) -> String {
    let part = |part: &Part| match part {
        Part::Text(text) => text.clone(),
        Part::Expr { expr, offset: _ } => format!("`{}`", expr.source()),
    };
    prompt.parts().iter().map(part).collect()
}

fn server(server: &Server) -> ServerBinding {
    let (transport, url) = match &server.transport {
        ServerTransport::Stdio => (Transport::Stdio, None),
        ServerTransport::StreamableHttp { url } => (Transport::StreamableHttp, Some(url.clone())),
    };
    ServerBinding {
        name: server.name.clone(),
        transport,
        url,
        credential: server.credential_env.as_ref().map(|name| format!("env:{name}")),
    }
}

fn tool(tool: &ToolBinding) -> legation_protocol::agent::ToolBinding {
    legation_protocol::agent::ToolBinding {
        server: tool.server.clone(),
        tool: tool.tool.clone(),
        function: tool.function.clone(),
        policy: views::steps::policy(tool.policy),
        approval: tool.approval.is_some(),
        description: tool.description.clone(),
        idempotency: if tool.idempotent {
            Idempotency::Key
        } else {
            Idempotency::None
        },
        input_schema_sha256: tool.input_schema_sha256.clone(),
        timeout_ms: tool.timeout_ms.map(i64::unsigned_abs),
    }
}

fn delegate(delegate: &Delegate) -> Result<DelegateBinding> {
    Ok(DelegateBinding {
        process: delegate.process.clone(),
        version: delegate.version,
        function: delegate.function.clone(),
        description: delegate.description.clone(),
        parameters: views::raw(&delegate.parameters)?,
        outputs: delegate.outputs.clone(),
        approval: delegate.approval.is_some(),
    })
}
