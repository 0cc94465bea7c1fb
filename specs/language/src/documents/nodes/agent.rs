//! `agent`: a model chooses the next step, within what is declared here.

use std::collections::BTreeMap;

use super::{COMMON, NodeType, Reading};
use crate::Value;
use crate::canonical;
use crate::documents::activity::{self, ACTIVITY};
use crate::documents::codes::Code;
use crate::documents::delegates;
use crate::documents::names;
use crate::documents::pins::Pinning;
use crate::documents::shape::{Field, Object, Shape, deprecated, not_yet, optional, required};
use crate::documents::tools;
use crate::documents::yaml::At;
use crate::expr::Expr;
use crate::model::{Agent, AgentOutcome, Mapping, Node, NodeKind, Source, ToolBinding};
use crate::template::{Part, Template};

pub(super) const TYPE: NodeType = NodeType {
    name: "agent",
    object: Object {
        name: "an `agent` node",
        fields: &[COMMON, ACTIVITY, FIELDS],
    },
    read,
    pin,
};

const MAX_STEPS: u32 = 256;
const MAX_TOKENS: u32 = 4_096;
const MAX_TOKENS_TOTAL: u64 = 50_000;

const FIELDS: &[Field] = &[
    optional(
        "model",
        Shape::Text,
        "an alias of legation.toml or a name; absent: the project's default",
    ),
    optional(
        "fallback_models",
        Shape::List(&Shape::Text),
        "at most 3, tried when a model is unavailable",
    ),
    required(
        "prompt",
        Shape::Prompt,
        "the user's message; `${name}` puts values in",
    ),
    optional(
        "instructions",
        Shape::Prompt,
        "the system message; `${name}` becomes a reference, never a value",
    ),
    optional(
        "tools",
        Shape::List(&tools::SHAPE),
        "server/tool, or { ref, policy, approval }",
    ),
    optional(
        "delegates",
        Shape::List(&delegates::SHAPE),
        "processes that the model may start, at most 8",
    ),
    optional(
        "result_variable",
        Shape::Name,
        "where the answer goes; <id>_result unless given",
    ),
    optional(
        "output_schema",
        Shape::JsonSchema,
        "what the answer must look like",
    ),
    optional(
        "confidence_threshold",
        Shape::Number(0, 1),
        "an answer with a lower `_confidence` is LOW_CONFIDENCE",
    ),
    optional("on_low_confidence", Shape::NodeId, "where the token goes then"),
    optional(
        "on_invalid_output",
        Shape::NodeId,
        "where the token goes when the answer breaks its schema",
    ),
    optional(
        "on_delegation_failure",
        Shape::WordNotYet(&["report"], &["recover"]),
        "report: the model reads it",
    ),
    optional(
        "outcomes",
        Shape::Map(&Shape::Object(&OUTCOME)),
        "2 to 8 results: name: {then, description, when}",
    ),
    optional("temperature", Shape::Number(0, 2), "passed to the model"),
    optional(
        "max_tokens",
        Shape::Integer(1, 1_000_000),
        "per answer; 4,096 unless given",
    ),
    optional("model_timeout", Shape::Duration, "for one request to a model"),
    optional(
        "max_turns",
        Shape::Integer(1, 32),
        "model turns per attempt; 8 unless given",
    ),
    optional(
        "max_steps",
        Shape::Integer(1, 10_000),
        "journal steps per attempt; 256 unless given",
    ),
    optional(
        "max_tokens_total",
        Shape::Integer(1, 1_000_000_000),
        "tokens of all turns; 50,000 with tools or delegates unless given",
    ),
    optional(
        "max_concurrent",
        Shape::Integer(1, 50),
        "children running at once; 4 unless given",
    ),
    deprecated("routes", Shape::Map(&Shape::Object(&OUTCOME)), "outcomes"),
    deprecated(
        "max_attempts",
        Shape::Integer(1, 100),
        "retry: { max_attempts: 3 }",
    ),
    deprecated(
        "retry_backoff_ms",
        Shape::Integer(0, 86_400_000),
        "retry: { backoff: 5s }",
    ),
    deprecated("timeout_ms", Shape::Integer(1, 86_400_000), "model_timeout: 60s"),
    not_yet("agent"),
    not_yet("subagents"),
    not_yet("workflows"),
    not_yet("transitions"),
    not_yet("requires"),
    not_yet("argument_references"),
    not_yet("plans"),
    not_yet("max_calls"),
    not_yet("budget_usd"),
    not_yet("loop_guard"),
    not_yet("evidence"),
    not_yet("session"),
];

const OUTCOME: Object = Object {
    name: "an outcome",
    fields: &[&[
        required("then", Shape::NodeId, "where the token goes"),
        optional("description", Shape::Text, "what the model reads about it"),
        optional("when", Shape::Expression, "a veto: false refuses the outcome"),
    ]],
};

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    let prompt = at.get("prompt").and_then(|at| Template::parse(at.text()?).ok());
    let fallback_models = activity::texts(at, "fallback_models");
    if let Some(list) = at.get("fallback_models")
        && fallback_models.len() > 3
    {
        reading
            .problems
            .error(&list, Code::InvalidValue, "there are at most 3 fallback models");
    }
    let outcomes = outcomes(at, reading);
    let on_low_confidence = reading.route(at.get("on_low_confidence"));
    let on_invalid_output = reading.route(at.get("on_invalid_output"));
    let result_variable = match activity::text(at, "result_variable") {
        Some(name) => name,
        None => default_result(at, reading),
    };
    let old_timeout = at.get("timeout_ms").and_then(|at| at.value().as_i64());
    let bounded = tools::has_any(at).then_some(MAX_TOKENS_TOTAL);
    Some(NodeKind::Agent(Box::new(Agent {
        topic: "agent".to_owned(),
        model: activity::text(at, "model"),
        fallback_models,
        prompt: prompt?,
        instructions: instructions(at),
        prompt_version: String::new(),
        tools: Vec::new(),
        delegates: Vec::new(),
        result_variable,
        output_schema: at.get("output_schema").map(|at| at.value()),
        confidence_threshold: at.get("confidence_threshold").map(|at| at.value()),
        on_low_confidence,
        on_invalid_output,
        outcomes,
        temperature: at.get("temperature").map(|at| at.value()),
        max_tokens: activity::integer(at, "max_tokens", MAX_TOKENS),
        model_timeout_ms: activity::duration(at, "model_timeout").or(old_timeout),
        max_turns: activity::integer(at, "max_turns", 8),
        max_steps: activity::integer(at, "max_steps", MAX_STEPS),
        max_tokens_total: at
            .get("max_tokens_total")
            .and_then(|at| at.value().as_u64())
            .or(bounded),
        max_concurrent: activity::integer(at, "max_concurrent", 4),
    })))
}

fn default_result<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> String {
    let name = format!("{}_result", reading.id.replace('-', "_"));
    if !names::is_name(&name) {
        let message = format!("`{name}` is too long for a variable");
        reading
            .problems
            .error(at, Code::InvalidValue, message)
            .hint("result_variable: answer");
    }
    name
}

fn outcomes<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Vec<AgentOutcome> {
    let Some(outcomes_at) = at.get("outcomes").or_else(|| at.get("routes")) else {
        return Vec::new();
    };
    reading.routes_itself = true;
    let entries = outcomes_at.entries();
    if !(2..=8).contains(&entries.len()) && outcomes_at.is_map() {
        reading
            .problems
            .error(&outcomes_at, Code::InvalidValue, "an agent has 2 to 8 outcomes");
    }
    let mut out = Vec::new();
    for (entry, outcome) in entries {
        activity::check_outcome_name(&entry.key, &outcome.key(entry), reading.problems);
        let Some(then) = reading.route(outcome.get("then")) else {
            continue;
        };
        out.push(AgentOutcome {
            name: entry.key.clone(),
            then,
            description: activity::text(&outcome, "description"),
            when: outcome.get("when").and_then(|when| activity::expression(&when)),
        });
    }
    out
}

/// D43: the system message is the same for every instance; a placeholder becomes the name of the value, which
/// itself travels in the user's message.
fn instructions(at: &At<'_>) -> Option<String> {
    let template = Template::parse(at.get("instructions")?.text()?).ok()?;
    let mut out = String::new();
    for part in template.parts() {
        match part {
            Part::Text(text) => out.push_str(text),
            Part::Expr { expr, offset: _ } => {
                out.push('`');
                out.push_str(&expr.path().map(|path| path.join(".")).unwrap_or_default());
                out.push('`');
            }
        }
    }
    Some(out)
}

fn pin(at: &At<'_>, node: &mut Node, pinning: &mut Pinning<'_>) {
    let frozen_tools = tools::freeze(at, pinning);
    let frozen_delegates = delegates::freeze(at, &tools::functions(&frozen_tools), pinning);
    let NodeKind::Agent(agent) = &mut node.kind else {
        return;
    };
    agent.prompt_version = prompt_version(agent, &frozen_tools);
    agent.tools = frozen_tools;
    agent.delegates = frozen_delegates;
    if node.inputs.is_none() {
        node.inputs = Some(named_in_prompt(at));
    }
}

/// D31: an agent sees only what its prompt and instructions name; of an object, only the fields they name.
fn named_in_prompt(at: &At<'_>) -> Vec<Mapping> {
    let mut roots: Vec<(String, Fields)> = Vec::new();
    for key in ["prompt", "instructions"] {
        let template = at.get(key).and_then(|at| Template::parse(at.text()?).ok());
        for path in template.iter().flat_map(Template::references) {
            let Some((name, rest)) = path.split_first() else {
                continue;
            };
            let at = roots
                .iter()
                .position(|(known, _)| known == name)
                .unwrap_or_else(|| {
                    roots.push((name.clone(), Fields::default()));
                    roots.len() - 1
                });
            roots[at].1.add(rest);
        }
    }
    roots
        .into_iter()
        .filter_map(|(name, fields)| {
            let expression = Expr::compile(&fields.expression(&name))
                .or_else(|_| Expr::compile(&name))
                .ok()?;
            Some(Mapping {
                name,
                from: Source::Expression(expression),
            })
        })
        .collect()
}

/// Which fields of an object are named, by level.
#[derive(Default)]
struct Fields {
    whole: bool,
    named: BTreeMap<String, Self>,
}

impl Fields {
    fn add(&mut self, path: &[String]) {
        match path.split_first() {
            None => self.whole = true,
            Some((name, rest)) => self.named.entry(name.clone()).or_default().add(rest),
        }
    }

    /// `order`, or `{'total': order.total}`.
    fn expression(&self, path: &str) -> String {
        if self.whole || self.named.is_empty() {
            return path.to_owned();
        }
        let fields = self.named.iter().map(|(name, fields)| {
            let quoted = format!("'{}'", name.replace('\\', "\\\\").replace('\'', "\\'"));
            let below = if names::is_name(name) {
                format!("{path}.{name}")
            } else {
                format!("{path}[{quoted}]")
            };
            format!("{quoted}: {}", fields.expression(&below))
        });
        format!("{{{}}}", fields.collect::<Vec<_>>().join(", "))
    }
}

/// The first 12 hex digits over everything of the node that the model is told before the data.
fn prompt_version(agent: &Agent, frozen_tools: &[ToolBinding]) -> String {
    let tools = frozen_tools.iter().map(|tool| {
        Value::map([
            ("function", Value::from(tool.function.as_str())),
            ("description", Value::from(tool.description.clone())),
            ("inputSchemaSha256", Value::from(tool.input_schema_sha256.clone())),
        ])
    });
    let told = Value::map([
        ("prompt", Value::from(agent.prompt.source())),
        ("instructions", Value::from(agent.instructions.clone())),
        ("tools", Value::list(tools)),
        ("outputSchema", agent.output_schema.clone().unwrap_or_default()),
    ]);
    let mut digest = canonical::digest(&told);
    digest.truncate(12);
    digest
}
