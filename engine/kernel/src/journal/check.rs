//! What a new step must be before it is recorded: bound, well-formed, within depth (D10, D36, D38). The refusals
//! that a model can mend are marked `tool_error`; they never fail the task (D11).

use std::collections::BTreeMap;

use legation_language::model::{Delegate, ToolBinding};
use legation_language::types::check_inputs;
use legation_language::{Value, canonical};

use super::{Bindings, JournalContext, MAX_PAYLOAD_BYTES, StepInput, StepKind};
use crate::rejection::{Rejection, RejectionKind};

/// What a step is aimed at.
#[derive(Clone, Copy, Debug)]
pub(super) enum Target<'a> {
    Model,
    Tool(&'a ToolBinding),
    Delegate(&'a Delegate),
    Checkpoint { once: bool },
    Wait { duration_ms: i64 },
}

/// Finds the binding. Default-deny: what the node does not list is not bound.
///
/// # Errors
/// `TOOL_NOT_BOUND` (403), `STEP_INVALID` (422).
pub(super) fn target<'a>(cx: &JournalContext<'a>, input: &StepInput) -> Result<Target<'a>, Rejection> {
    match input.kind {
        StepKind::Model => match cx.node {
            Bindings::Agent(_) if input.tool_ref.starts_with("model:") => Ok(Target::Model),
            Bindings::Agent(_) => Err(invalid(
                input,
                "toolRef",
                "the toolRef of a MODEL step begins with model:",
            )),
            Bindings::EngineTask(_) => Err(invalid(input, "kind", "only agents have MODEL steps")),
        },
        StepKind::Tool => {
            let tool = cx
                .node
                .tools()
                .iter()
                .find(|tool| tool.reference() == input.tool_ref);
            tool.map(Target::Tool).ok_or_else(|| not_bound(input))
        }
        StepKind::Delegation => find_delegate(cx, &input.tool_ref)
            .map(|(_, delegate)| Target::Delegate(delegate))
            .ok_or_else(|| not_bound(input)),
        StepKind::Checkpoint if input.tool_ref.starts_with("step:") => {
            let once = input.once
                || input
                    .request
                    .get("once")
                    .and_then(Value::as_bool)
                    .unwrap_or(false);
            Ok(Target::Checkpoint { once })
        }
        StepKind::Checkpoint => Err(invalid(
            input,
            "toolRef",
            "the toolRef of a CHECKPOINT step begins with step:",
        )),
        StepKind::Wait => {
            let duration = input
                .request
                .get("durationMs")
                .and_then(Value::as_i64)
                .filter(|ms| *ms >= 0);
            duration
                .map(|duration_ms| Target::Wait { duration_ms })
                .ok_or_else(|| {
                    invalid(
                        input,
                        "request",
                        "a WAIT step needs request.durationMs, in milliseconds",
                    )
                })
        }
    }
}

/// The delegate that `delegate:process` names, with its place in the node.
pub(super) fn find_delegate<'a>(cx: &JournalContext<'a>, tool_ref: &str) -> Option<(usize, &'a Delegate)> {
    let process = tool_ref.strip_prefix("delegate:")?;
    cx.node
        .delegates()
        .iter()
        .enumerate()
        .find(|(_, delegate)| delegate.process == process)
}

/// The effective arguments of a call, checked; Null for kinds without any.
///
/// # Errors
/// `ARGUMENTS_INVALID` (422), `DELEGATION_INPUT_INVALID` (422), `DELEGATION_DEPTH`, `DELEGATION_CYCLE` (409).
pub(super) fn arguments(
    cx: &JournalContext<'_>,
    target: Target<'_>,
    input: &StepInput,
) -> Result<Value, Rejection> {
    match target {
        Target::Model | Target::Checkpoint { .. } | Target::Wait { .. } => Ok(Value::Null),
        Target::Tool(_) => Ok(Value::Map(given(input)?.clone())),
        Target::Delegate(delegate) => {
            let inputs = delegation_inputs(cx, delegate, given(input)?)?;
            within_depth(cx, delegate)?;
            Ok(Value::Map(inputs))
        }
    }
}

fn given(input: &StepInput) -> Result<&BTreeMap<String, Value>, Rejection> {
    input
        .request
        .get("arguments")
        .and_then(Value::as_map)
        .ok_or_else(|| {
            Rejection::invalid("ARGUMENTS_INVALID", "the arguments are not a JSON object")
                .hint("call again with one JSON object")
                .for_the_model()
        })
}

/// What the child begins with: the arguments, and the defaults of inputs that were not given.
fn delegation_inputs(
    cx: &JournalContext<'_>,
    delegate: &Delegate,
    given: &BTreeMap<String, Value>,
) -> Result<BTreeMap<String, Value>, Rejection> {
    let mut inputs = check_inputs(&delegate.inputs, given, cx.schemas).map_err(|problem| {
        Rejection::invalid("DELEGATION_INPUT_INVALID", problem.message)
            .because(problem.reason.as_str())
            .argument(problem.argument)
            .for_the_model()
    })?;
    // Defaults of working variables are the child's own business.
    inputs.retain(|name, _| {
        delegate
            .inputs
            .iter()
            .any(|input| input.input && input.name == *name)
    });
    Ok(inputs)
}

fn within_depth(cx: &JournalContext<'_>, delegate: &Delegate) -> Result<(), Rejection> {
    let limit = delegate
        .max_depth
        .map_or(cx.max_depth, |own| own.min(cx.max_depth));
    if cx.depth + 1 > limit {
        let message = format!(
            "{} would run at depth {}, over the limit of {limit}",
            delegate.process,
            cx.depth + 1
        );
        return Err(Rejection::conflict("DELEGATION_DEPTH", message).for_the_model());
    }
    if cx.chain.contains(&delegate.process) {
        let message = format!("{} is already running above this delegation", delegate.process);
        return Err(Rejection::conflict("DELEGATION_CYCLE", message).for_the_model());
    }
    Ok(())
}

fn not_bound(input: &StepInput) -> Rejection {
    Rejection::forbidden(
        "TOOL_NOT_BOUND",
        format!("{} is not bound to this node", input.tool_ref),
    )
    .for_the_model()
}

pub(super) fn invalid(input: &StepInput, argument: &str, message: &str) -> Rejection {
    Rejection::invalid("STEP_INVALID", format!("step {}: {message}", input.sequence)).argument(argument)
}

/// # Errors
/// `PAYLOAD_TOO_LARGE` (413) over 1 MiB of canonical JSON.
pub(super) fn fits(what: &str, sequence: u32, value: &Value) -> Result<u64, Rejection> {
    let size = canonical::canonical(value).len() as u64;
    if size <= MAX_PAYLOAD_BYTES {
        return Ok(size);
    }
    let message =
        format!("the {what} of step {sequence} has {size} bytes, over the limit of {MAX_PAYLOAD_BYTES}");
    Err(Rejection::new(RejectionKind::TooLarge, "PAYLOAD_TOO_LARGE", message).argument(what))
}

/// Identity: kind, target, arguments as sent (D37). No id that a model chose is in it (I7).
pub(super) fn request_digest(input: &StepInput) -> String {
    let mut request = input.request.clone();
    if let Some(entries) = request.as_map_mut() {
        entries.remove("callId");
    }
    canonical::digest(&Value::map([
        ("kind", Value::from(kind_name(input.kind))),
        ("target", Value::from(input.tool_ref.as_str())),
        ("request", request),
    ]))
}

/// What is approved and run: kind, target with its pinned version, effective arguments.
pub(super) fn effective_digest(target: Target<'_>, input: &StepInput, arguments: &Value) -> Option<String> {
    let pin = match target {
        Target::Tool(tool) => tool
            .input_schema_sha256
            .as_deref()
            .map_or(Value::Null, Value::from),
        Target::Delegate(delegate) => Value::from(delegate.version),
        Target::Model | Target::Checkpoint { .. } | Target::Wait { .. } => return None,
    };
    Some(canonical::digest(&Value::map([
        ("kind", Value::from(kind_name(input.kind))),
        ("target", Value::from(input.tool_ref.as_str())),
        ("pin", pin),
        ("arguments", arguments.clone()),
    ])))
}

fn kind_name(kind: StepKind) -> &'static str {
    match kind {
        StepKind::Model => "MODEL",
        StepKind::Tool => "TOOL",
        StepKind::Delegation => "DELEGATION",
        StepKind::Checkpoint => "CHECKPOINT",
        StepKind::Wait => "WAIT",
    }
}
