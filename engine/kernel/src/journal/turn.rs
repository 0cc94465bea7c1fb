//! Model turns: what they asked for, what they cost, and which step answers which call (D61, D62).

use legation_language::{Value, canonical};

use super::check::invalid;
use super::{Bindings, Call, JournalContext, Step, StepInput, StepKind, StepState, TurnCall, Usage};
use crate::rejection::Rejection;
use crate::task::TaskFile;

/// Whether a new model turn may begin: everything before it settled, every call of the last turn answered.
///
/// # Errors
/// `OPEN_STEP` (409).
pub(super) fn may_begin(file: &TaskFile) -> Result<(), Rejection> {
    if let Some(open) = file.current().find(|step| !step.is_settled()) {
        let message = format!("step {} is not settled", open.sequence);
        return Err(Rejection::conflict("OPEN_STEP", message).hint("settle every call of the turn first"));
    }
    let Some(turn) = last_turn(file) else {
        return Ok(());
    };
    for index in 0..turn.calls.len() {
        let call = place(turn, index);
        if !file.current().any(|step| step.call == Some(call)) {
            let message = format!("call {index} of step {} has no step yet", turn.sequence);
            return Err(
                Rejection::conflict("OPEN_STEP", message).hint("journal every call of the turn first")
            );
        }
    }
    Ok(())
}

/// Whether a turn is left. Failed and repeated model steps cost tokens, never turns.
///
/// # Errors
/// `TURN_LIMIT`, `TOKEN_LIMIT` (409).
pub(super) fn within_limits(cx: &JournalContext<'_>, file: &TaskFile) -> Result<(), Rejection> {
    let Bindings::Agent(agent) = cx.node else {
        return Ok(());
    };
    let turns = file.current().filter(|step| is_turn(step)).count();
    if turns >= agent.max_turns as usize {
        return Err(Rejection::conflict(
            "TURN_LIMIT",
            format!("the attempt had its {} turns", agent.max_turns),
        ));
    }
    if let Some(limit) = agent.max_tokens_total
        && file.task.tokens_used >= limit
    {
        return Err(Rejection::conflict(
            "TOKEN_LIMIT",
            format!("the attempt used its {limit} tokens"),
        ));
    }
    Ok(())
}

/// Which call of which turn this step answers: as it says, else the first unjournaled call of the last turn with
/// this tool and these arguments; None for steps that no model asked for.
///
/// # Errors
/// `STEP_INVALID` (422) when the named call does not exist or has a step already.
pub(super) fn locate(
    cx: &JournalContext<'_>,
    file: &TaskFile,
    input: &StepInput,
) -> Result<Option<Call>, Rejection> {
    if !matches!(input.kind, StepKind::Tool | StepKind::Delegation) {
        return Ok(None);
    }
    let taken = |call: Call| file.current().any(|step| step.call == Some(call));
    if let Some(call) = input.call {
        let turn = file
            .current()
            .find(|step| step.sequence == call.step && is_turn(step));
        if turn.is_none_or(|turn| call.index as usize >= turn.calls.len()) {
            return Err(invalid(input, "call", "no such call was made"));
        }
        if taken(call) {
            return Err(invalid(input, "call", "this call has a step already"));
        }
        return Ok(Some(call));
    }
    let Some(turn) = last_turn(file) else {
        return Ok(None);
    };
    let digest = canonical::digest(&said_arguments(&input.request));
    let found = turn.calls.iter().enumerate().find(|(index, call)| {
        call.arguments_digest == digest
            && names(cx, &call.tool, &input.tool_ref)
            && !taken(place(turn, *index))
    });
    Ok(found.map(|(index, _)| place(turn, index)))
}

/// Reads the result of a completed model step.
///
/// # Errors
/// `STEP_INVALID` (422).
pub(super) fn calls(input: &StepInput, result: &Value) -> Result<Vec<TurnCall>, Rejection> {
    if result.as_map().is_none() {
        return Err(invalid(
            input,
            "result",
            "the result of a MODEL step is an object",
        ));
    }
    let Some(calls) = result.get("calls").filter(|calls| !calls.is_null()) else {
        return Ok(Vec::new());
    };
    let Some(calls) = calls.as_list() else {
        return Err(invalid(input, "result", "result.calls is a list"));
    };
    let read = |call: &Value| {
        let tool = call.get("tool").and_then(Value::as_str)?.to_owned();
        Some(TurnCall {
            tool,
            arguments_digest: canonical::digest(&said_arguments(call)),
        })
    };
    let turn: Option<Vec<TurnCall>> = calls.iter().map(read).collect();
    turn.ok_or_else(|| invalid(input, "result", "every call of result.calls names its tool"))
}

/// Tokens of a model step, whether it completed or failed.
pub(super) fn usage(result: &Value) -> Option<Usage> {
    let usage = result.get("usage")?;
    let tokens = |name: &str| usage.get(name).and_then(Value::as_u64).unwrap_or(0);
    Some(Usage {
        input: tokens("inputTokens"),
        output: tokens("outputTokens"),
    })
}

/// `arguments`, or as text when they were no JSON object.
fn said_arguments(from: &Value) -> Value {
    let text = || from.get("argumentsText").cloned();
    from.get("arguments")
        .cloned()
        .or_else(text)
        .unwrap_or(Value::Null)
}

/// Whether the function name that a model said is this target's.
fn names(cx: &JournalContext<'_>, said: &str, tool_ref: &str) -> bool {
    if said == tool_ref {
        return true;
    }
    let tool = cx
        .node
        .tools()
        .iter()
        .find(|tool| tool.reference() == tool_ref)
        .map(|tool| &tool.function);
    let delegate = || {
        let process = tool_ref.strip_prefix("delegate:")?;
        cx.node
            .delegates()
            .iter()
            .find(|delegate| delegate.process == process)
            .map(|delegate| &delegate.function)
    };
    match tool.or_else(delegate) {
        Some(function) => function == said,
        // What is not bound has no function name of its own: compare as deployment would have named it.
        None => sanitised(tool_ref) == sanitised(said),
    }
}

fn sanitised(name: &str) -> String {
    let spelled = name.replacen("delegate:", "delegate__", 1).replacen('/', "__", 1);
    spelled
        .chars()
        .map(|c| {
            if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn last_turn(file: &TaskFile) -> Option<&Step> {
    file.current().filter(|step| is_turn(step)).last()
}

fn is_turn(step: &Step) -> bool {
    step.kind == StepKind::Model && step.state == StepState::Completed
}

fn place(turn: &Step, index: usize) -> Call {
    Call {
        step: turn.sequence,
        index: u32::try_from(index).unwrap_or(u32::MAX),
    }
}
