//! Approvals and human tasks over the wire (D18, D45, D46, B21).

use serde_json::{Value, json};

use crate::journal::{step, turn};
use crate::support::{APPROVAL, REFUND, TestApp};

const HUMAN: &str = "
metadata:
  key: review
  variables: { text: { type: string } }
flow:
  nodes:
    - id: look
      name: Look at the text
      type: human
      candidates: { groups: [finance] }
      inputs: [text]
      form: { type: object, required: [score], properties: { score: { type: integer } } }
      outcomes:
        accept: { then: done, comment: none }
        refuse: { then: done, comment: required }
    - { id: done, type: end }
";

fn arguments() -> Value {
    json!({ "orderId": "7702", "amount": 1200, "currency": "EUR" })
}

/// An agent that proposed a large payout: the app, the lease and the approval.
async fn proposed() -> (TestApp, Value, Value) {
    let app = TestApp::new().await;
    app.deploy(&REFUND).await;
    let answer = app.deploy(&[APPROVAL]).await;
    let process = answer["processes"][0]["key"].as_str().expect("a key").to_owned();
    app.start(&process, json!({ "customerId": "C-1002" })).await;
    let lease = app.fetch("agent", "agent").await.expect("the agent's task");
    turn(
        &app,
        &lease,
        1,
        json!([{ "tool": "delegate__large_payout", "arguments": arguments() }]),
    )
    .await;
    let call = step(
        2,
        "DELEGATION",
        "STARTED",
        "delegate:large_payout",
        json!({ "arguments": arguments() }),
    );
    let answer = app.work("agent", &lease, "steps", call).await.ok();
    assert_eq!(
        (&answer["steps"][0]["state"], &answer["task"]["state"]),
        (&json!("PROPOSED"), &json!("AWAITING_APPROVAL"))
    );
    let id = answer["steps"][0]["approvalTaskId"]
        .as_str()
        .expect("an approval");
    let approval = app.get("alice", &format!("/v1/tasks/{id}")).await.ok();
    (app, lease, approval)
}

fn path(approval: &Value) -> String {
    format!(
        "/v1/tasks/{}/decision",
        approval["id"].as_str().unwrap_or_default()
    )
}

fn approve(approval: &Value) -> Value {
    json!({ "outcome": "approved", "digest": approval["approval"]["digest"] })
}

#[tokio::test]
async fn d18_a_person_approves_the_exact_inputs_and_the_child_exists() {
    let (app, lease, approval) = proposed().await;
    let subject = &approval["approval"];
    assert_eq!(subject["arguments"], arguments());
    assert_eq!(
        (
            &subject["toolRef"],
            &subject["version"],
            &subject["model"],
            &subject["sequence"]
        ),
        (
            &json!("delegate:large_payout"),
            &json!(1),
            &json!("gemini-3.6-flash"),
            &json!(2)
        )
    );
    assert_eq!(approval["candidates"]["groups"], json!(["finance"]));
    let parent = lease["instanceId"].as_str().expect("an id");
    let children = format!("/v1/instances?parentId={parent}");
    assert_eq!(app.get("dev", &children).await.ok()["instances"], json!([]));
    let mine = app.get("alice", "/v1/tasks?for=me&kind=approval").await.ok();
    assert_eq!(mine["tasks"][0]["id"], approval["id"]);
    let decided = app.post("alice", &path(&approval), approve(&approval)).await.ok();
    let child = decided["childInstanceId"].as_str().expect("a child").to_owned();
    assert_eq!(
        app.get("dev", &children).await.ok()["instances"][0]["id"],
        json!(child)
    );
    let after = app
        .get(
            "alice",
            &format!("/v1/tasks/{}", approval["id"].as_str().unwrap_or_default()),
        )
        .await
        .ok();
    assert_eq!(
        (&after["state"], &after["decidedBy"], &after["outcome"]),
        (&json!("COMPLETED"), &json!("alice"), &json!("approved"))
    );
    assert_eq!(
        app.get("alice", "/v1/tasks?for=me").await.ok()["tasks"],
        json!([])
    );
}

#[tokio::test]
async fn d45_b21_who_may_decide() {
    let (app, _lease, approval) = proposed().await;
    // An outsider, a project role alone, a worker's key, another project.
    app.post("bob", &path(&approval), approve(&approval))
        .await
        .refused(403, "NOT_A_CANDIDATE");
    app.post("dev", &path(&approval), approve(&approval))
        .await
        .refused(403, "NOT_A_CANDIDATE");
    app.post("agent", &path(&approval), approve(&approval))
        .await
        .refused(403, "WORKER_MAY_NOT_DECIDE");
    app.post("stranger", &path(&approval), approve(&approval))
        .await
        .refused(404, "NOT_FOUND");
    assert_eq!(app.get("bob", "/v1/tasks?for=me").await.ok()["tasks"], json!([]));
    assert_eq!(app.get("stranger", "/v1/tasks").await.ok()["tasks"], json!([]));
}

#[tokio::test]
async fn d46_b21_a_decision_names_what_it_saw() {
    let (app, _lease, approval) = proposed().await;
    let stale = json!({ "outcome": "approved", "digest": "0".repeat(64) });
    app.post("alice", &path(&approval), stale)
        .await
        .refused(409, "APPROVAL_CHANGED");
    app.post("alice", &path(&approval), json!({ "outcome": "approved" }))
        .await
        .refused(422, "DIGEST_REQUIRED");
    let silent = json!({ "outcome": "rejected", "digest": approval["approval"]["digest"] });
    app.post("alice", &path(&approval), silent)
        .await
        .refused(422, "COMMENT_REQUIRED");
    let other = json!({ "outcome": "maybe", "digest": approval["approval"]["digest"] });
    app.post("alice", &path(&approval), other)
        .await
        .refused(422, "INVALID_REQUEST");
}

#[tokio::test]
async fn b21_of_two_approvers_at_once_one_decides() {
    let (mut app, _lease, approval) = proposed().await;
    let person = legation_protocol::keys::PrincipalKind::Person;
    app.key("anna", "default", person, &["finance"], &["read"], &[])
        .await;
    let no =
        json!({ "outcome": "rejected", "comment": "too much", "digest": approval["approval"]["digest"] });
    let path = path(&approval);
    let (one, two) = tokio::join!(
        app.post("alice", &path, approve(&approval)),
        app.post("anna", &path, no)
    );
    let mut statuses = [one.status, two.status];
    statuses.sort_unstable();
    assert_eq!(statuses, [200, 409]);
}

#[tokio::test]
async fn d45_after_a_cancel_a_decision_is_gone() {
    let (app, lease, approval) = proposed().await;
    let parent = lease["instanceId"].as_str().expect("an id");
    app.post(
        "dev",
        &format!("/v1/instances/{parent}/cancel"),
        json!({ "reason": "x" }),
    )
    .await
    .ok();
    app.post("alice", &path(&approval), approve(&approval))
        .await
        .refused(410, "TASK_CLOSED");
}

#[tokio::test]
async fn a_rejection_is_read_by_the_model_d45() {
    let (app, _lease, approval) = proposed().await;
    let no = json!({ "outcome": "rejected", "comment": "ask for a receipt", "digest": approval["approval"]["digest"] });
    app.post("alice", &path(&approval), no).await.ok();
    let lease = app.fetch("agent", "agent").await.expect("the task is open again");
    let step = &lease["journal"]["steps"][1];
    assert_eq!(
        (&step["state"], &step["comment"]),
        (&json!("REJECTED"), &json!("ask for a receipt"))
    );
    assert_eq!(step["decidedBy"], "alice");
}

#[tokio::test]
async fn the_feed_says_when_an_approved_step_went_on_and_not_when_it_was_proposed() {
    let (app, lease, approval) = proposed().await;
    app.advance(20_000);
    app.post("alice", &path(&approval), approve(&approval)).await.ok();
    let feed = crate::feed::once(&app, "&after=", None).await;
    let at = |kind: &str| {
        let told = feed
            .iter()
            .find(|message| message.kind == kind && message.data["nodeId"] == lease["nodeId"]);
        told.unwrap_or_else(|| panic!("no {kind} in {feed:?}")).data["at"].clone()
    };
    assert_eq!(at("STEP_STARTED"), at("CHILD_STARTED"));
    assert_ne!(at("STEP_STARTED"), at("APPROVAL_OPENED"));
}

const TICKETS: &str = "
metadata:
  key: tickets
  variables: { customerId: { type: string } }
flow:
  nodes:
    - id: triage
      type: agent
      prompt: Handle ${customerId}
      result_variable: answer
      tools:
        - { ref: crm/get_customer, policy: approval_required, approval: { approvers: [finance] } }
    - { id: done, type: end }
";

/// Such a step is told with the worker's grant, of which no other row says when it was.
#[tokio::test]
async fn an_approved_call_that_a_worker_goes_on_with_is_not_told_as_of_its_proposal() {
    let app = TestApp::new().await;
    app.deploy(&[REFUND[0], ("tickets.process.yaml", TICKETS)]).await;
    app.start("tickets", json!({ "customerId": "C-1" })).await;
    let lease = app.fetch("agent", "agent").await.expect("the agent's task");
    let arguments = json!({ "id": "C-1" });
    let calls = json!([{ "tool": "crm__get_customer", "arguments": arguments }]);
    turn(&app, &lease, 1, calls).await;
    let call = step(
        2,
        "TOOL",
        "STARTED",
        "crm/get_customer",
        json!({ "arguments": arguments }),
    );
    let answer = app.work("agent", &lease, "steps", call.clone()).await.ok();
    assert_eq!(answer["steps"][0]["state"], "PROPOSED");
    let id = answer["steps"][0]["approvalTaskId"]
        .as_str()
        .expect("an approval");
    let approval = app.get("alice", &format!("/v1/tasks/{id}")).await.ok();
    app.advance(20_000);
    app.post("alice", &path(&approval), approve(&approval)).await.ok();
    let decided = app.get("alice", &format!("/v1/tasks/{id}")).await.ok();
    let before = crate::feed::once(&app, "&after=", None).await;
    let again = app.fetch("agent", "agent").await.expect("the task again");
    let granted = app.work("agent", &again, "steps", call).await.ok();
    assert_eq!(granted["steps"][0]["state"], "STARTED");
    let last = before.last().map(|message| message.id.as_str());
    let news = crate::feed::once(&app, "", last).await;
    let told = news.iter().find(|message| message.kind == "STEP_STARTED");
    assert_eq!(told.expect("the call").data["at"], decided["endedAt"]);
}

/// The model that a node names need not be the one that answers: a fallback may, or the worker's override.
#[tokio::test]
async fn an_approval_and_the_lineage_name_the_model_asked_for_and_the_one_that_answered() {
    let (app, _lease, approval) = proposed().await;
    let subject = &approval["approval"];
    let models = |of: &Value| (of["model"].clone(), of["usedModel"].clone());
    let both = (json!("gemini-3.6-flash"), json!("gemini-3.6-flash-002"));
    assert_eq!(models(subject), both);
    let decided = app.post("alice", &path(&approval), approve(&approval)).await.ok();
    let child = decided["childInstanceId"].as_str().expect("a child");
    let view = app.get("dev", &format!("/v1/instances/{child}")).await.ok();
    assert_eq!(models(&view["startedByAgent"]), both);
    let lineage = app
        .get("dev", &format!("/v1/instances/{child}/lineage"))
        .await
        .ok();
    assert_eq!(models(&lineage["instance"]["startedByAgent"]), both);
}

#[tokio::test]
async fn the_group_star_stands_for_every_group() {
    let (mut app, _lease, approval) = proposed().await;
    let person = legation_protocol::keys::PrincipalKind::Person;
    app.key("approver", "default", person, &["*"], &["read"], &[])
        .await;
    let mine = app.get("approver", "/v1/tasks?for=me").await.ok();
    assert_eq!(mine["tasks"][0]["id"], approval["id"]);
    app.post("approver", &path(&approval), approve(&approval))
        .await
        .ok();
}

#[tokio::test]
async fn a_human_task_is_completed_with_its_form() {
    let app = TestApp::new().await;
    app.deploy(&[("review.process.yaml", HUMAN)]).await;
    let instance = app.start("review", json!({ "text": "hello" })).await;
    let mine = app.get("alice", "/v1/tasks?for=me&kind=human").await.ok();
    let task = &mine["tasks"][0];
    assert_eq!(
        (&task["title"], &task["variables"]),
        (&json!("Look at the text"), &json!({ "text": "hello" }))
    );
    assert_eq!(
        task["outcomes"][1],
        json!({ "name": "refuse", "comment": "required" })
    );
    let path = format!("/v1/tasks/{}/complete", task["id"].as_str().expect("an id"));
    let done = |outcome: &str, score: Value| json!({ "outcome": outcome, "variables": { "score": score } });
    app.post("bob", &path, done("accept", json!(1)))
        .await
        .refused(403, "NOT_A_CANDIDATE");
    app.post("payer", &path, done("accept", json!(1)))
        .await
        .refused(403, "WORKER_MAY_NOT_DECIDE");
    let refusal = app
        .post("alice", &path, done("accept", json!("one")))
        .await
        .refused(422, "FORM_INVALID");
    assert_eq!(refusal["errors"][0]["pointer"], "/score");
    app.post("alice", &path, done("refuse", json!(1)))
        .await
        .refused(422, "COMMENT_REQUIRED");
    app.post("alice", &path, json!({ "variables": { "score": 1 } }))
        .await
        .refused(422, "OUTCOME_REQUIRED");
    let answer = app.post("alice", &path, done("accept", json!(3))).await.ok();
    assert_eq!(
        (&answer["state"], &answer["outcome"]),
        (&json!("COMPLETED"), &json!("accept"))
    );
    app.post("alice", &path, done("accept", json!(3)))
        .await
        .refused(410, "TASK_CLOSED");
    let view = app.get("dev", &format!("/v1/instances/{instance}")).await.ok();
    assert_eq!(
        (&view["status"], &view["outputs"]["score"]),
        (&json!("COMPLETED"), &json!(3))
    );
}

#[tokio::test]
async fn d36_a_result_before_the_approval_is_refused() {
    let app = TestApp::new().await;
    app.deploy(&REFUND).await;
    let answer = app.deploy(&[APPROVAL]).await;
    let process = answer["processes"][0]["key"].as_str().expect("a key").to_owned();
    app.start(&process, json!({ "customerId": "C-1002" })).await;
    let lease = app.fetch("agent", "agent").await.expect("the agent's task");
    let calls = json!([
        { "tool": "crm__get_customer", "arguments": { "id": "C-1002" } },
        { "tool": "delegate__large_payout", "arguments": arguments() },
    ]);
    turn(&app, &lease, 1, calls).await;
    let look = json!({ "sequence": 2, "kind": "TOOL", "state": "STARTED", "toolRef": "crm/get_customer",
        "request": { "arguments": { "id": "C-1002" } } });
    let pay = json!({ "sequence": 3, "kind": "DELEGATION", "state": "STARTED", "toolRef": "delegate:large_payout",
        "request": { "arguments": arguments() } });
    let body = json!({ "attempt": 1, "steps": [look, pay] });
    let answer = app.work("agent", &lease, "steps", body).await.ok();
    // The lease stands, because a call is still to be run.
    assert_eq!(
        (&answer["steps"][1]["state"], &answer["task"]["state"]),
        (&json!("PROPOSED"), &json!("LOCKED"))
    );
    let forged = json!({ "attempt": 1, "sequence": 3, "kind": "DELEGATION", "state": "COMPLETED",
        "toolRef": "delegate:large_payout", "result": { "payout_id": "P-0" } });
    app.work("agent", &lease, "steps", forged)
        .await
        .refused(409, "APPROVAL_REQUIRED");
}
