//! The wire forms that outside clients write by hand: they must keep parsing, and digits must survive.
#![expect(clippy::unwrap_used, reason = "a failed parse is a failed test")]

use legation_protocol::external_tasks::{CompleteRequest, FetchRequest, LockedTask};
use legation_protocol::steps::{StepsRequest, StepsShapeError};
use legation_protocol::{StepKind, StepState};

/// The page's own body, D8.
const PAGE_BODY: &str = r#"{
  "workerId": "agent-worker-1", "attempt": 1, "sequence": 5,
  "kind": "DELEGATION", "state": "STARTED", "toolRef": "delegate:refund_payout",
  "request": { "callId": "call_9", "arguments": { "orderId": "5531", "amount": 89.10, "currency": "EUR" } }
}"#;

#[test]
fn d8_the_pages_body_is_one_step_in_the_single_form() {
    let request: StepsRequest = serde_json::from_str(PAGE_BODY).unwrap();
    let (single, steps) = request.into_steps().unwrap();
    assert!(single);
    assert_eq!(steps.len(), 1);
    assert_eq!(steps[0].sequence, 5);
    assert_eq!(steps[0].kind, StepKind::Delegation);
    assert_eq!(steps[0].state, StepState::Started);
    assert!(
        steps[0].request.as_ref().unwrap().get().contains("89.10"),
        "digits are kept as sent"
    );
}

#[test]
fn a_batch_keeps_its_order_and_mixes_starts_and_results() {
    let body = r#"{"workerId":"w","attempt":2,"steps":[
        {"sequence":3,"kind":"TOOL","state":"COMPLETED","toolRef":"crm/get","result":{"n":1.50}},
        {"sequence":4,"kind":"MODEL","state":"STARTED","toolRef":"model:m","request":{"base":1,"added":[]}}]}"#;
    let (single, steps) = serde_json::from_str::<StepsRequest>(body)
        .unwrap()
        .into_steps()
        .unwrap();
    assert!(!single);
    assert_eq!(steps.iter().map(|s| s.sequence).collect::<Vec<_>>(), [3, 4]);
    assert_eq!(steps[0].result.as_ref().unwrap().get(), r#"{"n":1.50}"#);
}

#[test]
fn a_body_that_is_neither_form_says_what_is_missing() {
    let shape = |body: &str| {
        serde_json::from_str::<StepsRequest>(body)
            .unwrap()
            .into_steps()
            .unwrap_err()
    };
    assert_eq!(
        shape(r#"{"workerId":"w","attempt":1}"#),
        StepsShapeError::Missing("sequence")
    );
    assert_eq!(
        shape(r#"{"workerId":"w","attempt":1,"steps":[]}"#),
        StepsShapeError::Empty
    );
    assert_eq!(
        shape(r#"{"workerId":"w","attempt":1,"sequence":1,"steps":[]}"#),
        StepsShapeError::Both
    );
}

#[test]
fn a_null_result_is_a_result_and_a_missing_one_is_none() {
    let with = r#"{"workerId":"w","attempt":1,"sequence":1,"kind":"CHECKPOINT","state":"COMPLETED","toolRef":"step:a","result":null}"#;
    let request: StepsRequest = serde_json::from_str(with).unwrap();
    assert_eq!(request.result.as_ref().unwrap().get(), "null");
    assert_eq!(serde_json::to_string(&request).unwrap(), with);
    let without = with.replace(r#","result":null"#, "");
    assert!(
        serde_json::from_str::<StepsRequest>(&without)
            .unwrap()
            .result
            .is_none()
    );
}

#[test]
fn b7_request_bodies_refuse_unknown_fields() {
    let refused = serde_json::from_str::<CompleteRequest>(r#"{"workerId":"w","variable":{}}"#).unwrap_err();
    assert!(refused.to_string().contains("variable"), "{refused}");
}

#[test]
fn d31_a_fetch_needs_only_a_worker_and_topics() {
    let fetch: FetchRequest =
        serde_json::from_str(r#"{"workerId":"w","topics":["payments.payout"]}"#).unwrap();
    assert_eq!(
        (fetch.lock_duration, fetch.max_tasks, fetch.long_poll_ms),
        (30_000, 1, 0)
    );
}

#[test]
fn a_client_reads_answers_with_fields_that_it_does_not_know() {
    let body = r#"{"id":"r.t1~1-a","topic":"t","instanceId":"r","nodeId":"pay","attempt":1,"variables":{"amount":89.10},
        "headers":{},"idempotencyKey":"k","lockedUntil":"2026-11-03T09:15:00.000Z","somethingNew":1}"#;
    let task: LockedTask = serde_json::from_str(body).unwrap();
    assert_eq!(task.variables["amount"].get(), "89.10");
}
