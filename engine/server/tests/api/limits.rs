//! Limits of a journal over the wire: turns, tokens, steps, pages (D36).

use serde_json::{Value, json};

use crate::journal::{leased, result, step, turn};
use crate::support::{REFUND, TestApp, bare};

/// An agent with its own limits, leased.
async fn limited(limits: &str) -> (TestApp, Value) {
    let app = TestApp::new().await;
    let process = format!(
        "metadata: {{ key: small }}
flow:
  nodes:
    - id: think
      type: agent
      prompt: Think
      tools: [crm/get_customer]
{limits}
    - {{ id: done, type: end }}
"
    );
    app.deploy(&[REFUND[0], ("small.process.yaml", &process)]).await;
    app.start("small", json!({})).await;
    let lease = app.fetch("agent", "agent").await.expect("the agent's task");
    (app, lease)
}

fn model(sequence: u32) -> Value {
    step(sequence, "MODEL", "STARTED", "model:m", json!({ "added": [] }))
}

#[tokio::test]
async fn d36_turns_are_limited() {
    let (app, lease) = limited("      max_turns: 1").await;
    turn(&app, &lease, 1, json!([])).await;
    app.work("agent", &lease, "steps", model(2))
        .await
        .refused(409, "TURN_LIMIT");
}

#[tokio::test]
async fn d36_tokens_are_limited() {
    let (app, lease) = limited("      max_tokens_total: 15").await;
    turn(&app, &lease, 1, json!([])).await;
    app.work("agent", &lease, "steps", model(2))
        .await
        .refused(409, "TOKEN_LIMIT");
}

#[tokio::test]
async fn d36_at_the_limit_of_steps_an_incident_asks_for_somebody() {
    let (app, lease) = limited("      max_steps: 1").await;
    turn(&app, &lease, 1, json!([])).await;
    app.work("agent", &lease, "steps", model(2))
        .await
        .refused(409, "STEP_LIMIT");
    let incidents = app.get("dev", "/v1/incidents").await.ok();
    assert_eq!(incidents["incidents"][0]["code"], "STEP_LIMIT");
    let task = app
        .get("dev", &format!("/v1/external-tasks/{}", bare(&lease)))
        .await
        .ok();
    assert_eq!(task["state"], "INCIDENT");
}

#[tokio::test]
async fn arguments_that_are_no_object_are_refused_for_the_model() {
    let (app, lease) = leased().await;
    turn(
        &app,
        &lease,
        1,
        json!([{ "tool": "crm__get_customer", "arguments": "C-1001" }]),
    )
    .await;
    let call = step(
        2,
        "TOOL",
        "STARTED",
        "crm/get_customer",
        json!({ "argumentsText": "C-1001" }),
    );
    let refusal = app.work("agent", &lease, "steps", call).await;
    assert_eq!(
        (&refusal.body["code"], &refusal.body["toolError"]),
        (&json!("ARGUMENTS_INVALID"), &json!(true))
    );
}

#[tokio::test]
async fn a_long_journal_is_read_in_pages() {
    let (app, lease) = leased().await;
    let customer = |sequence: u32| {
        json!({ "sequence": sequence, "kind": "TOOL", "state": "STARTED", "toolRef": "crm/get_customer",
            "call": { "step": 1, "index": sequence - 2 }, "request": { "arguments": { "id": sequence } } })
    };
    let calls: Vec<Value> = (2..8_u32)
        .map(|n| json!({ "tool": "crm__get_customer", "arguments": { "id": n } }))
        .collect();
    turn(&app, &lease, 1, json!(calls)).await;
    for sequence in 2..8_u32 {
        let steps = json!({ "attempt": 1, "steps": [customer(sequence)] });
        app.work("agent", &lease, "steps", steps).await.ok();
        let body = result(sequence, "TOOL", "crm/get_customer", json!("x".repeat(100_000)));
        app.work("agent", &lease, "steps", body).await.ok();
    }
    app.work("agent", &lease, "release", json!({})).await.ok();
    let lease = app.fetch("agent", "agent").await.expect("the task again");
    let mut steps = lease["journal"]["steps"].as_array().expect("steps").clone();
    let mut after = lease["journal"]["after"].clone();
    assert!(steps.len() < 7 && !after.is_null());
    while let Some(place) = after.as_u64() {
        let page = app
            .get(
                "agent",
                &format!("/v1/external-tasks/{}/steps?after={place}", bare(&lease)),
            )
            .await
            .ok();
        steps.extend(page["steps"].as_array().expect("steps").clone());
        after = page["after"].clone();
    }
    let sequences: Vec<u64> = steps
        .iter()
        .filter_map(|step| step["sequence"].as_u64())
        .collect();
    assert_eq!(sequences, [1, 2, 3, 4, 5, 6, 7]);
}
