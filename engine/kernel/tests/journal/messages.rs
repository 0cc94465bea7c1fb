//! What workers, people and children say, in short forms.

use std::collections::BTreeMap;

use legation_kernel::instance::Status;
use legation_kernel::journal::{Call, ChildEnd, Decision, StepInput, StepKind, StepState};
use legation_kernel::rejection::{Rejection, Stop};
use legation_language::Value;

pub fn refusal(stop: Stop) -> Rejection {
    match stop {
        Stop::Rejected(refusal) => *refusal,
        other => panic!("{other:?}"),
    }
}

pub fn decision(by: &str, approved: bool, comment: Option<&str>, digest: &str) -> Decision {
    Decision {
        approved,
        by: by.to_owned(),
        comment: comment.map(str::to_owned),
        digest: digest.to_owned(),
    }
}

pub fn object(json: &str) -> Value {
    Value::parse(json).unwrap()
}

pub fn refund() -> Value {
    object(r#"{"orderId":"5531","amount":89,"currency":"EUR"}"#)
}

fn input(sequence: u32, kind: StepKind, tool_ref: &str, request: Value) -> StepInput {
    StepInput {
        sequence,
        kind,
        state: StepState::Started,
        tool_ref: tool_ref.to_owned(),
        call: None,
        call_id: None,
        request,
        result: None,
        once: false,
    }
}

pub fn model(sequence: u32) -> StepInput {
    let request = Value::map([("added", Value::list([Value::from(sequence)]))]);
    input(sequence, StepKind::Model, "model:gemini-3.6-flash", request)
}

pub fn tool(sequence: u32, tool_ref: &str, arguments: Value) -> StepInput {
    input(
        sequence,
        StepKind::Tool,
        tool_ref,
        Value::map([("arguments", arguments)]),
    )
}

pub fn delegation(sequence: u32, process: &str, arguments: Value) -> StepInput {
    input(
        sequence,
        StepKind::Delegation,
        &format!("delegate:{process}"),
        Value::map([("arguments", arguments)]),
    )
}

pub fn checkpoint(sequence: u32, once: bool) -> StepInput {
    let request = Value::map([("once", Value::from(once))]);
    StepInput {
        once,
        ..input(sequence, StepKind::Checkpoint, "step:fetch", request)
    }
}

pub fn wait(sequence: u32, ms: i64) -> StepInput {
    input(
        sequence,
        StepKind::Wait,
        "wait",
        Value::map([("durationMs", Value::from(ms))]),
    )
}

pub fn with(step: StepInput, state: StepState, result: Option<Value>) -> StepInput {
    StepInput {
        state,
        result,
        ..step
    }
}

pub fn done(step: StepInput, result: Value) -> StepInput {
    with(step, StepState::Completed, Some(result))
}

pub fn at(step: StepInput, turn: u32, index: u32) -> StepInput {
    StepInput {
        call: Some(Call { step: turn, index }),
        ..step
    }
}

pub fn said(calls: &[(&str, Value)], tokens: u64) -> Value {
    let calls = calls.iter().map(|(tool, arguments)| {
        Value::map([
            ("tool", Value::from(*tool)),
            ("arguments", arguments.clone()),
            ("callId", Value::from("call_0")),
        ])
    });
    let usage = Value::map([
        ("inputTokens", Value::from(tokens)),
        ("outputTokens", Value::from(0u64)),
    ]);
    Value::map([
        ("calls", Value::list(calls)),
        ("usage", usage),
        ("model", Value::from("gemini-3.6-flash")),
    ])
}

pub fn completed(outputs: &[(&str, Value)]) -> ChildEnd {
    ChildEnd {
        status: Status::Completed,
        outputs: outputs
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect(),
        unset: Vec::new(),
        message: None,
        error: None,
    }
}

pub fn ended(status: Status, error: Option<&str>) -> ChildEnd {
    ChildEnd {
        status,
        outputs: BTreeMap::new(),
        unset: Vec::new(),
        message: None,
        error: error.map(str::to_owned),
    }
}
