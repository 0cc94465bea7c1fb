//! The journal over the wire: every code of D36, and what a fetch carries (D8, D31, D33, D37, D40, D60–D63).

use serde_json::{Value, json};

use crate::support::{REFUND, TestApp, bare};

/// A complaint whose agent task is leased to `agent`.
pub async fn leased() -> (TestApp, Value) {
    let app = TestApp::new().await;
    app.deploy(&REFUND).await;
    app.start("complaint", json!({ "customerId": "C-1001" })).await;
    let lease = app.fetch("agent", "agent").await.expect("the agent's task");
    (app, lease)
}

pub fn step(sequence: u32, kind: &str, state: &str, target: &str, request: Value) -> Value {
    json!({ "attempt": 1, "sequence": sequence, "kind": kind, "state": state, "toolRef": target, "request": request })
}

pub fn result(sequence: u32, kind: &str, target: &str, result: Value) -> Value {
    json!({ "attempt": 1, "sequence": sequence, "kind": kind, "state": "COMPLETED", "toolRef": target, "result": result })
}

/// Journals one model turn at `sequence` that asks for these calls.
pub async fn turn(app: &TestApp, lease: &Value, sequence: u32, calls: Value) {
    let model = "model:gemini-3.6-flash";
    let request = json!({ "added": [{ "role": "user", "content": "Handle it" }] });
    let answer = app
        .work(
            "agent",
            lease,
            "steps",
            step(sequence, "MODEL", "STARTED", model, request),
        )
        .await
        .ok();
    assert_eq!(answer["steps"][0]["state"], "STARTED");
    let usage = json!({ "inputTokens": 10, "outputTokens": 5 });
    let said = json!({ "text": "", "calls": calls, "usage": usage, "model": "gemini-3.6-flash-002" });
    app.work("agent", lease, "steps", result(sequence, "MODEL", model, said))
        .await
        .ok();
}

fn look_up() -> Value {
    json!([{ "tool": "crm__get_customer", "arguments": { "id": "C-1001" }, "callId": "c1" }])
}

#[tokio::test]
async fn d31_an_agent_gets_its_node_its_inputs_and_nothing_else() {
    let (_app, lease) = leased().await;
    assert_eq!(lease["variables"], json!({ "customerId": "C-1001" }));
    let agent = &lease["agent"];
    assert_eq!(agent["userMessage"], "Handle the complaint from C-1001...");
    assert_eq!(agent["prompt"], "Handle the complaint from `customerId`...");
    assert_eq!(agent["servers"], json!([{ "name": "crm", "transport": "stdio" }]));
    let tools: Vec<_> = agent["tools"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|tool| (&tool["function"], &tool["policy"]))
        .collect();
    assert_eq!(
        tools,
        [
            (&json!("crm__get_customer"), &json!("read")),
            (&json!("crm__create_ticket"), &json!("write"))
        ]
    );
    let delegate = &agent["delegates"][0];
    assert_eq!(
        (&delegate["function"], &delegate["version"], &delegate["outputs"]),
        (
            &json!("delegate__refund_payout"),
            &json!(1),
            &json!(["payout_id"])
        )
    );
    assert_eq!(
        delegate["parameters"]["required"],
        json!(["orderId", "amount", "currency"])
    );
    assert_eq!(lease["journal"], json!({ "steps": [] }));
}

#[tokio::test]
async fn a_tool_call_is_granted_run_and_read_back() {
    let (app, lease) = leased().await;
    turn(&app, &lease, 1, look_up()).await;
    let request = json!({ "callId": "c1", "arguments": { "id": "C-1001" } });
    let call = step(2, "TOOL", "STARTED", "crm/get_customer", request);
    let answer = app.work("agent", &lease, "steps", call).await.ok();
    let granted = &answer["steps"][0];
    assert_eq!(granted["arguments"], json!({ "id": "C-1001" }));
    assert_eq!(
        (&granted["policy"], &answer["task"]["state"]),
        (&json!("read"), &json!("LOCKED"))
    );
    let got = result(
        2,
        "TOOL",
        "crm/get_customer",
        json!({ "name": "Ada", "balance": 10.5 }),
    );
    let answer = app.work("agent", &lease, "steps", got.clone()).await.ok();
    assert_eq!(
        (&answer["steps"][0]["state"], &answer["steps"][0]["settled"]),
        (&json!("COMPLETED"), &json!(2))
    );
    // D37: the same again is the stored step.
    assert_eq!(app.work("agent", &lease, "steps", got).await.ok(), answer);
    // The next lease gets all of it, in the same attempt.
    app.work("agent", &lease, "release", json!({})).await.ok();
    let lease = app.fetch("agent", "agent").await.expect("the task again");
    let steps = lease["journal"]["steps"].as_array().expect("steps");
    assert_eq!(steps.len(), 2);
    assert_eq!(
        steps[1]["request"],
        json!({ "callId": "c1", "arguments": { "id": "C-1001" } })
    );
    assert_eq!(steps[1]["result"]["balance"].to_string(), "10.5");
    // With `have` only what it may not know.
    app.work("agent", &lease, "release", json!({})).await.ok();
    let mut body = json!({ "workerId": "agent-1", "topics": ["agent"] });
    body["have"] = json!({ bare(&lease): 2 });
    let news = app
        .post("agent", "/v1/external-tasks/fetch-and-lock", body)
        .await
        .ok();
    assert_eq!(news["tasks"][0]["journal"], json!({ "steps": [] }));
}

#[tokio::test]
async fn d36_leases_and_attempts() {
    let (app, lease) = leased().await;
    let model = |attempt: u32| {
        let mut body = step(1, "MODEL", "STARTED", "model:m", json!({ "added": [] }));
        body["attempt"] = json!(attempt);
        body
    };
    app.work("payer", &lease, "steps", model(1))
        .await
        .refused(404, "NOT_FOUND");
    app.work("dev", &lease, "steps", model(1))
        .await
        .refused(403, "LEASE_NOT_OWNED");
    app.work("agent", &lease, "steps", model(2))
        .await
        .refused(409, "STALE_ATTEMPT");
    let unknown = json!({ "id": "0193a1b2c3d4e5f60718293a4b5c6d7e.t1~1-0" });
    app.work("agent", &unknown, "steps", model(1))
        .await
        .refused(404, "NOT_FOUND");
    app.advance(31_000);
    app.work("agent", &lease, "steps", model(1))
        .await
        .refused(409, "LEASE_EXPIRED");
    let id = lease["instanceId"].as_str().expect("an id");
    app.post(
        "dev",
        &format!("/v1/instances/{id}/cancel"),
        json!({ "reason": "x" }),
    )
    .await
    .ok();
    app.work("agent", &lease, "steps", model(1))
        .await
        .refused(410, "WORK_RETIRED");
}

#[tokio::test]
async fn d36_sequences_digests_and_results() {
    let (app, lease) = leased().await;
    turn(&app, &lease, 1, look_up()).await;
    let arguments = json!({ "arguments": { "id": "C-1001" } });
    let gap = step(3, "TOOL", "STARTED", "crm/get_customer", arguments.clone());
    app.work("agent", &lease, "steps", gap)
        .await
        .refused(409, "SEQUENCE");
    let early = json!({ "attempt": 1, "sequence": 2, "kind": "TOOL", "state": "COMPLETED",
        "toolRef": "crm/get_customer", "request": arguments, "result": {} });
    app.work("agent", &lease, "steps", early)
        .await
        .refused(409, "WRITE_AHEAD_REQUIRED");
    app.work(
        "agent",
        &lease,
        "steps",
        step(2, "TOOL", "STARTED", "crm/get_customer", arguments.clone()),
    )
    .await
    .ok();
    let other = step(
        2,
        "TOOL",
        "STARTED",
        "crm/get_customer",
        json!({ "arguments": { "id": "C-2" } }),
    );
    app.work("agent", &lease, "steps", other)
        .await
        .refused(409, "DIVERGENT_STEP");
    let next_turn = step(
        3,
        "MODEL",
        "STARTED",
        "model:m",
        json!({ "base": 1, "added": [] }),
    );
    app.work("agent", &lease, "steps", next_turn)
        .await
        .refused(409, "OPEN_STEP");
    let done = result(2, "TOOL", "crm/get_customer", json!({ "name": "Ada" }));
    app.work("agent", &lease, "steps", done).await.ok();
    let changed = result(2, "TOOL", "crm/get_customer", json!({ "name": "Eve" }));
    app.work("agent", &lease, "steps", changed)
        .await
        .refused(409, "STEP_FINISHED");
}

#[tokio::test]
async fn d36_what_is_not_bound_is_for_the_model_to_read() {
    let (app, lease) = leased().await;
    turn(
        &app,
        &lease,
        1,
        json!([{ "tool": "crm__delete_customer", "arguments": {} }]),
    )
    .await;
    let call = step(
        2,
        "TOOL",
        "STARTED",
        "crm/delete_customer",
        json!({ "arguments": {} }),
    );
    let refusal = app
        .work("agent", &lease, "steps", call)
        .await
        .refused(403, "TOOL_NOT_BOUND");
    assert_eq!(refusal["toolError"], true);
    let call = step(
        2,
        "DELEGATION",
        "STARTED",
        "delegate:other",
        json!({ "arguments": {} }),
    );
    let refusal = app
        .work("agent", &lease, "steps", call)
        .await
        .refused(403, "TOOL_NOT_BOUND");
    assert_eq!(refusal["toolError"], true);
    // D61: what the model read is journaled as REFUSED.
    let mut refused = step(
        2,
        "TOOL",
        "REFUSED",
        "crm/delete_customer",
        json!({ "arguments": {} }),
    );
    refused["result"] = json!({ "error": "no such tool" });
    assert_eq!(
        app.work("agent", &lease, "steps", refused).await.ok()["steps"][0]["state"],
        "REFUSED"
    );
}

#[tokio::test]
async fn d10_inputs_of_a_delegation_are_checked_by_name() {
    let (app, lease) = leased().await;
    let arguments = json!({ "orderId": "5531", "currency": "EUR" });
    turn(
        &app,
        &lease,
        1,
        json!([{ "tool": "delegate__refund_payout", "arguments": arguments }]),
    )
    .await;
    let call = step(
        2,
        "DELEGATION",
        "STARTED",
        "delegate:refund_payout",
        json!({ "arguments": arguments }),
    );
    let refusal = app
        .work("agent", &lease, "steps", call)
        .await
        .refused(422, "DELEGATION_INPUT_INVALID");
    assert_eq!(
        (&refusal["reason"], &refusal["argument"], &refusal["toolError"]),
        (&json!("missing-param"), &json!("amount"), &json!(true))
    );
}

#[tokio::test]
async fn a_batch_records_refusals_itself_d63() {
    let (app, lease) = leased().await;
    let calls = json!([
        { "tool": "crm__get_customer", "arguments": { "id": "C-1001" } },
        { "tool": "crm__nothing", "arguments": {} },
    ]);
    turn(&app, &lease, 1, calls).await;
    let one = |sequence: u32, target: &str, index: u32, arguments: Value| {
        json!({ "sequence": sequence, "kind": "TOOL", "state": "STARTED", "toolRef": target,
            "call": { "step": 1, "index": index }, "request": { "arguments": arguments } })
    };
    let steps = json!([
        one(2, "crm/get_customer", 0, json!({ "id": "C-1001" })),
        one(3, "crm/nothing", 1, json!({}))
    ]);
    let answer = app
        .work("agent", &lease, "steps", json!({ "attempt": 1, "steps": steps }))
        .await
        .ok();
    assert_eq!(answer["steps"][0]["state"], "STARTED");
    assert_eq!(answer["steps"][1]["state"], "REFUSED");
    assert_eq!(answer["steps"][1]["problem"]["code"], "TOOL_NOT_BOUND");
}

#[tokio::test]
async fn bodies_that_are_neither_form_are_refused() {
    let (app, lease) = leased().await;
    let both = json!({ "attempt": 1, "sequence": 1, "steps": [] });
    app.work("agent", &lease, "steps", both)
        .await
        .refused(422, "INVALID_REQUEST");
    app.work("agent", &lease, "steps", json!({ "attempt": 1, "steps": [] }))
        .await
        .refused(422, "INVALID_REQUEST");
    let missing = app
        .work(
            "agent",
            &lease,
            "steps",
            json!({ "attempt": 1, "sequence": 1, "kind": "MODEL" }),
        )
        .await;
    missing.refused(422, "INVALID_REQUEST");
    let large = step(
        1,
        "MODEL",
        "STARTED",
        "model:m",
        json!({ "added": ["x".repeat(1_100_000)] }),
    );
    let answer = app.work("agent", &lease, "steps", large).await;
    assert_eq!(answer.status, 413, "{}", answer.text);
}

#[tokio::test]
async fn a_writes_key_is_shown_to_its_lease_alone_d39() {
    let (app, lease) = leased().await;
    let arguments = json!({ "text": "leaks" });
    turn(
        &app,
        &lease,
        1,
        json!([{ "tool": "crm__create_ticket", "arguments": arguments }]),
    )
    .await;
    let call = step(
        2,
        "TOOL",
        "STARTED",
        "crm/create_ticket",
        json!({ "arguments": arguments }),
    );
    let answer = app.work("agent", &lease, "steps", call.clone()).await.ok();
    let key = answer["steps"][0]["idempotencyKey"]
        .as_str()
        .expect("a key")
        .to_owned();
    assert_eq!(key.len(), 64);
    let task = bare(&lease);
    let read = app.get("dev", &format!("/v1/external-tasks/{task}/steps")).await;
    assert!(!read.text.contains(&key), "{}", read.text);
    // After the lease ran out, the next one gets the same key, and the old one no key at all.
    app.advance(31_000);
    let next = app.fetch("agent", "agent").await.expect("the task again");
    let old = app.work("agent", &lease, "steps", call.clone()).await.ok();
    assert_eq!(
        (&old["steps"][0]["state"], &old["steps"][0]["idempotencyKey"]),
        (&json!("STARTED"), &Value::Null)
    );
    let again = app.work("agent", &next, "steps", call).await.ok();
    assert_eq!(again["steps"][0]["idempotencyKey"], json!(key));
}
