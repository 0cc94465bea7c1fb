//! The page's story over the wire: delegate, park, pay, go on, answer (D8, D12–D17, D19, D21, D22, D47).

use serde_json::{Value, json};

use crate::journal::{leased, step, turn};
use crate::support::{TestApp, bare};

const ARGUMENTS: &str = r#"{ "orderId": "5531", "amount": 89, "currency": "EUR" }"#;

fn arguments() -> Value {
    serde_json::from_str(ARGUMENTS).expect("JSON")
}

fn delegation() -> Value {
    let request = json!({ "callId": "call_9", "arguments": arguments() });
    step(2, "DELEGATION", "STARTED", "delegate:refund_payout", request)
}

/// The child's id.
async fn delegated(app: &TestApp, lease: &Value) -> String {
    turn(
        app,
        lease,
        1,
        json!([{ "tool": "delegate__refund_payout", "arguments": arguments(), "callId": "call_9" }]),
    )
    .await;
    let answer = app.work("agent", lease, "steps", delegation()).await.ok();
    assert_eq!(answer["task"]["state"], "AWAITING_CHILD");
    assert_eq!(answer["task"]["waitingFor"][0]["kind"], "CHILD");
    answer["steps"][0]["childInstanceId"]
        .as_str()
        .expect("a child")
        .to_owned()
}

#[tokio::test]
async fn the_story_runs_from_the_complaint_to_the_answer() {
    let (app, lease) = leased().await;
    let parent = lease["instanceId"].as_str().expect("an id").to_owned();
    let child = delegated(&app, &lease).await;
    // D13: parked, nobody can lease it.
    assert!(app.fetch("agent", "agent").await.is_none());
    let pay = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the child's task");
    assert_eq!(pay["instanceId"], json!(child));
    app.work(
        "payer",
        &pay,
        "complete",
        json!({ "variables": { "payout_id": "P-55", "note": "x" } }),
    )
    .await
    .ok();
    let path = format!("/v1/external-tasks/{}", bare(&lease));
    app.until("dev", &path, |task| task["state"] == "OPEN").await;
    let again = app.fetch("agent", "agent").await.expect("the agent's task");
    // D4, D16: the declared outputs and no other.
    assert_eq!(again["attempt"], 1);
    assert_eq!(
        again["journal"]["steps"][1]["result"],
        json!({ "payout_id": "P-55" })
    );
    let answer = json!({ "result": "Your refund P-55 is on its way." });
    app.work("agent", &again, "complete", answer).await.ok();
    let notify = app
        .fetch("agent", "customers.notify")
        .await
        .expect("the next node");
    assert_eq!(
        notify["variables"]["triage_result"],
        "Your refund P-55 is on its way."
    );
    app.work("agent", &notify, "complete", json!({ "variables": {} }))
        .await
        .ok();
    assert_eq!(
        app.get("dev", &format!("/v1/instances/{parent}")).await.ok()["status"],
        "COMPLETED"
    );
    let journal = app
        .get("dev", &format!("/v1/instances/{parent}/journal"))
        .await
        .ok();
    let states: Vec<_> = journal["tasks"][0]["steps"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|step| format!("{} {}", step["kind"], step["state"]))
        .collect();
    assert_eq!(
        states,
        ["\"MODEL\" \"COMPLETED\"", "\"DELEGATION\" \"COMPLETED\""]
    );
    assert_eq!(journal["tasks"][1]["task"]["nodeId"], "notify_customer");
}

#[tokio::test]
async fn d47_lineage_leads_both_ways() {
    let (app, lease) = leased().await;
    let parent = lease["instanceId"].as_str().expect("an id").to_owned();
    let child = delegated(&app, &lease).await;
    let down = app
        .get("dev", &format!("/v1/instances/{parent}/lineage"))
        .await
        .ok();
    assert_eq!(down["ancestors"], json!([]));
    let node = &down["instance"]["children"][0];
    assert_eq!(
        (&node["id"], &node["process"], &node["depth"]),
        (&json!(child), &json!("refund_payout"), &json!(1))
    );
    let by = &node["startedByAgent"];
    assert_eq!(
        (
            &by["nodeId"],
            &by["model"],
            &by["taskId"],
            &by["attempt"],
            &by["sequence"]
        ),
        (
            &json!("triage"),
            &json!("gemini-3.6-flash"),
            &json!(bare(&lease)),
            &json!(1),
            &json!(2)
        )
    );
    assert_eq!(by["promptVersion"].as_str().map(str::len), Some(12));
    let up = app
        .get("dev", &format!("/v1/instances/{child}/lineage"))
        .await
        .ok();
    assert_eq!(up["ancestors"][0]["id"], json!(parent));
    let view = app.get("dev", &format!("/v1/instances/{child}")).await.ok();
    assert_eq!(
        (&view["parentId"], &view["rootId"], &view["depth"]),
        (&json!(parent), &json!(parent), &json!(1))
    );
    let children = app
        .get("dev", &format!("/v1/instances?parentId={parent}"))
        .await
        .ok();
    assert_eq!(children["instances"][0]["id"], json!(child));
    let tree = app
        .get("dev", &format!("/v1/instances?rootId={parent}"))
        .await
        .ok();
    assert_eq!(tree["instances"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn d22_the_same_delegation_sent_again_starts_no_second_child() {
    let (app, lease) = leased().await;
    let child = delegated(&app, &lease).await;
    let again = app.work("agent", &lease, "steps", delegation()).await.ok();
    // Outside the live lease: state, number and child only (D37).
    assert_eq!(
        again["steps"][0],
        json!({ "sequence": 2, "kind": "DELEGATION", "state": "STARTED", "childInstanceId": child })
    );
    let root = lease["instanceId"].as_str().expect("an id");
    let tree = app.get("dev", &format!("/v1/instances?rootId={root}")).await.ok();
    assert_eq!(tree["instances"].as_array().map(Vec::len), Some(2));
}

#[tokio::test]
async fn d19_cancelling_the_parent_cancels_the_child_with_the_reason() {
    let (app, lease) = leased().await;
    let child = delegated(&app, &lease).await;
    let pay = app
        .fetch("payer", "payments.payout")
        .await
        .expect("the child's task");
    let parent = lease["instanceId"].as_str().expect("an id");
    app.post(
        "dev",
        &format!("/v1/instances/{parent}/cancel"),
        json!({ "reason": "fraud" }),
    )
    .await
    .ok();
    let view = app
        .until("dev", &format!("/v1/instances/{child}"), |view| {
            view["status"] == "CANCELLED"
        })
        .await;
    assert!(
        view["error"]["message"]
            .as_str()
            .is_some_and(|message| !message.is_empty()),
        "{view}"
    );
    app.work(
        "payer",
        &pay,
        "complete",
        json!({ "variables": { "payout_id": "P" } }),
    )
    .await
    .refused(410, "WORK_RETIRED");
}

#[tokio::test]
async fn explain_follows_a_delegation() {
    let (app, lease) = leased().await;
    let child = delegated(&app, &lease).await;
    let parent = lease["instanceId"].as_str().expect("an id");
    let waits = app
        .get("dev", &format!("/v1/instances/{parent}/explain"))
        .await
        .ok()["waits"]
        .clone();
    assert_eq!(
        (&waits[0]["kind"], &waits[0]["id"]),
        (&json!("CHILD"), &json!(child)),
        "{waits}"
    );
    assert_eq!(
        waits[0]["text"],
        json!(format!(
            "step 2 (delegate:refund_payout) waits 0s for its child {child}; legation explain {child}"
        ))
    );
}

/// Core §3: what is to be done is news at a park, no refusal.
#[tokio::test]
async fn a_park_with_a_granted_step_leaves_the_lease() {
    let (app, lease) = leased().await;
    let arguments = json!({ "id": "C-1001" });
    let calls = json!([{ "tool": "crm__get_customer", "arguments": arguments }]);
    turn(&app, &lease, 1, calls).await;
    let call = json!({ "attempt": 1, "steps": [{ "sequence": 2, "kind": "TOOL", "state": "STARTED",
        "toolRef": "crm/get_customer", "call": { "step": 1, "index": 0 }, "request": { "arguments": arguments } }] });
    app.work("agent", &lease, "steps", call).await.ok();
    let answer = app.work("agent", &lease, "park", json!({})).await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.ok();
    assert_eq!(answer["task"]["state"], "LOCKED");
    assert_eq!(answer["steps"][1]["state"], "STARTED");
    app.work("agent", &lease, "heartbeat", json!({ "lockDuration": 1_000 }))
        .await
        .ok();
}

#[tokio::test]
async fn a_park_with_nothing_to_wait_for_leaves_the_lease() {
    let (app, lease) = leased().await;
    turn(&app, &lease, 1, json!([])).await;
    let answer = app.work("agent", &lease, "park", json!({})).await.ok();
    assert_eq!(answer["task"]["state"], "LOCKED");
    assert_eq!(answer["steps"][0]["kind"], "MODEL");
    app.work("agent", &lease, "heartbeat", json!({ "lockDuration": 1_000 }))
        .await
        .ok();
}
