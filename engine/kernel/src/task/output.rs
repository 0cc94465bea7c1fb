//! The output contract of an agent (D17, D42): what a completion must be before the token moves on.

use std::borrow::Cow;

use legation_language::Value;
use legation_language::model::Agent;
use legation_language::types::SchemaCheck;

use super::TaskFile;
use super::closing::open_step;
use crate::rejection::Rejection;

/// Refused completions of one attempt after which the contract counts as broken (core §3).
pub const MAX_INVALID_OUTPUTS: u32 = 3;

/// What to do with a completion.
#[derive(Clone, Debug, PartialEq)]
pub enum Completion {
    /// Retire the task and move on. Ordinary workers: as sent. A `when` of the outcome is the caller's to
    /// evaluate; a veto goes to [`invalid_output`].
    Accept { result: Value, outcome: Option<String> },
    /// Counted, answered 422 `INVALID_OUTPUT` with these errors; the lease stands and the model corrects itself.
    Invalid { errors: Vec<String> },
    /// The third: route `on_invalid_output`, else count a failure.
    InvalidFinal { errors: Vec<String> },
    /// Route `on_low_confidence`, else the error `LOW_CONFIDENCE`.
    LowConfidence { result: Value },
}

/// Checks a completion. `agent` is None for ordinary workers, whose variables the instance checks.
///
/// # Errors
/// `OPEN_STEP` (409): nothing is closed, the lease stands.
pub fn check_complete(
    file: &mut TaskFile,
    agent: Option<&Agent>,
    result: &Value,
    outcome: Option<&str>,
    schemas: &dyn SchemaCheck,
) -> Result<Completion, Rejection> {
    open_step(file)?;
    let Some(agent) = agent else {
        return Ok(Completion::Accept {
            result: result.clone(),
            outcome: outcome.map(str::to_owned),
        });
    };
    let mut errors = Vec::new();
    if let Some(schema) = &agent.output_schema {
        errors = schemas.errors(schema, &without_confidence(agent, schema, result));
    }
    errors.extend(outcome_error(agent, outcome));
    if !errors.is_empty() {
        return Ok(invalid_output(file, errors));
    }
    if is_unsure(agent, result) {
        return Ok(Completion::LowConfidence {
            result: result.clone(),
        });
    }
    Ok(Completion::Accept {
        result: result.clone(),
        outcome: outcome.map(str::to_owned),
    })
}

/// Counts an output that broke the contract.
pub fn invalid_output(file: &mut TaskFile, errors: Vec<String>) -> Completion {
    file.task.invalid_outputs += 1;
    if file.task.invalid_outputs < MAX_INVALID_OUTPUTS {
        return Completion::Invalid { errors };
    }
    Completion::InvalidFinal { errors }
}

/// `_confidence` is the engine's own field: a schema that does not know it does not forbid it.
fn without_confidence<'a>(agent: &Agent, schema: &Value, result: &'a Value) -> Cow<'a, Value> {
    let known = schema.pointer("/properties/_confidence").is_some();
    if agent.confidence_threshold.is_none() || known || result.get("_confidence").is_none() {
        return Cow::Borrowed(result);
    }
    let mut stripped = result.clone();
    if let Some(entries) = stripped.as_map_mut() {
        entries.remove("_confidence");
    }
    Cow::Owned(stripped)
}

fn outcome_error(agent: &Agent, outcome: Option<&str>) -> Option<String> {
    let names: Vec<&str> = agent
        .outcomes
        .iter()
        .map(|outcome| outcome.name.as_str())
        .collect();
    match outcome {
        None if names.is_empty() => None,
        None => Some(format!(
            "outcome is missing; it must be one of {}",
            names.join(", ")
        )),
        Some(_) if names.is_empty() => Some("outcome is given, but this node has none".to_owned()),
        Some(name) if names.contains(&name) => None,
        Some(_) => Some(format!("outcome must be one of {}", names.join(", "))),
    }
}

fn is_unsure(agent: &Agent, result: &Value) -> bool {
    let Some(threshold) = agent.confidence_threshold.as_ref().and_then(Value::as_decimal) else {
        return false;
    };
    let confidence = result.get("_confidence").and_then(Value::as_decimal);
    confidence.is_none_or(|confidence| confidence < threshold)
}
