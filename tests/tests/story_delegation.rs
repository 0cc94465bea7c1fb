//! What a delegation promises, seen from both ends: what the model is offered and reads, what runs in the engine, and
//! what ends with what (D3–D7, D9, D13, D16, D19, D20, D22, D65).

use legation_store::Dialect;
use legation_tests::e2e::model::{FakeModel, answers, calls, text, turn};
use legation_tests::e2e::{Client, Gate, Hold, Stage, until};
use legation_tests::on_both_databases;
use serde_json::{Value, json};

const PROCESS: &str = "processes/errand.process.yaml";

/// An agent that may do nothing but delegate; `fields` are further fields of its node.
fn errand(fields: &str) -> String {
    format!(
        "
metadata: {{ key: errand, variables: {{}}, outputs: {{ answer: {{ type: any, required: false }} }} }}
flow:
  nodes:
    - id: work
      type: agent
      model: first
      prompt: Run the errand.
      delegates: [{{ process: refund_payout, description: Refund a customer, outputs: [payout_id] }}]
      result_variable: answer
      next: done
      {fields}
    - {{ id: done, type: end }}
"
    )
}

struct Scene {
    stage: Stage,
    dev: Client,
    model: FakeModel,
}

impl Scene {
    /// The model delegates in its first turn and repeats what it read in its second. No tool server is configured.
    async fn new(dialect: Dialect, process: &str) -> Self {
        let (mut stage, engine) = Stage::new(dialect).await;
        stage.keep(engine);
        let model = FakeModel::new(|asked| match turn(asked) {
            1 => calls(&[(
                "1",
                "delegate__refund_payout",
                r#"{"orderId":"5531","amount":89,"currency":"EUR"}"#,
            )]),
            _ => text(&answers(asked).join(" ")),
        })
        .await;
        stage.agents_ask(&model.url, "");
        let dev = stage.client("dev");
        dev.deploy(&[(PROCESS, process)]).await;
        Self { stage, dev, model }
    }

    fn payments(&mut self) {
        self.stage.keep(self.stage.node("payments.mjs", &self.stage.url));
    }

    async fn child(&self) -> Value {
        until("the child to run", async || {
            self.dev.instances("refund_payout").await.first().cloned()
        })
        .await
    }
}

/// D3, D4, D7, D9, D16: the function has the child's variables as its parameters and the author's words; only the
/// declared output comes back, although the child knows more.
async fn the_model_is_offered_the_process_and_reads_its_outputs_alone(dialect: Dialect) {
    let mut scene = Scene::new(dialect, &errand("")).await;
    scene.stage.keep(scene.stage.agent(&scene.stage.url));
    scene.payments();
    let id = scene.dev.start("errand", json!({})).await;
    let ended = scene.dev.ended(&id).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let asked = scene.model.asked();
    let offered = asked[0]["tools"].as_array().expect("functions");
    assert_eq!(offered.len(), 1);
    let function = &offered[0]["function"];
    assert_eq!(function["name"], "delegate__refund_payout");
    let parameters = &function["parameters"];
    let names: Vec<&String> = parameters["properties"]
        .as_object()
        .expect("names")
        .keys()
        .collect();
    assert_eq!(names, ["amount", "currency", "orderId"], "D3: {parameters}");
    assert_eq!(parameters["properties"]["amount"]["type"], "number");
    assert_eq!(parameters["required"].as_array().map(Vec::len), Some(3));
    let description = function["description"].as_str().expect("words");
    assert!(
        description.starts_with("Refund a customer") && description.contains("payout_id"),
        "D7: {description}"
    );
    let paid = scene.stage.payments();
    let read = answers(&asked[1]).join("");
    let read: Value = serde_json::from_str(&read).expect("outputs as JSON");
    assert_eq!(read, json!({ "payout_id": paid[0]["payout_id"] }), "D4, D16");
    let child = scene.child().await["id"].as_str().expect("an id").to_owned();
    let knows = scene.dev.get(&format!("/v1/instances/{child}/variables")).await;
    assert!(
        knows.to_string().contains("instant"),
        "the child knows its method: {knows}"
    );
}

/// D5: a parent keeps the version of the child that it was deployed with.
async fn a_redeployed_child_changes_nothing_for_its_parent(dialect: Dialect) {
    let mut scene = Scene::new(dialect, &errand("")).await;
    let text = std::fs::read_to_string(scene.stage.path().join("processes/refund_payout.process.yaml"));
    let other = text
        .expect("the example")
        .replace("payments.payout", "payments.of_tomorrow");
    scene
        .dev
        .deploy(&[("processes/refund_payout.process.yaml", &other)])
        .await;
    scene.stage.keep(scene.stage.agent(&scene.stage.url));
    scene.payments();
    let id = scene.dev.start("errand", json!({})).await;
    assert_eq!(scene.dev.ended(&id).await["status"], "COMPLETED");
    assert_eq!(scene.child().await["version"], 1);
    let alone = json!({ "orderId": "5531", "amount": 89, "currency": "EUR" });
    let alone = json!({ "process": "refund_payout", "variables": alone });
    assert_eq!(scene.dev.post("/v1/instances", alone).await["version"], 2);
}

/// D13, D19, D69: a parked agent holds nothing; its parent's cancel reaches the child and the worker below it.
async fn a_cancelled_parent_takes_its_child_with_it(dialect: Dialect) {
    let mut scene = Scene::new(dialect, &errand("")).await;
    scene.stage.keep(scene.stage.agent(&scene.stage.url));
    let id = scene.dev.start("errand", json!({})).await;
    let task = until("the agent to park", async || {
        let journal = scene.dev.get(&format!("/v1/instances/{id}/journal")).await;
        let task = journal["tasks"][0]["task"].clone();
        (task["state"] == "AWAITING_CHILD").then_some(task)
    })
    .await;
    assert!(
        task["workerId"].is_null() && task["lockedUntil"].is_null(),
        "D13: {task}"
    );
    let worker = scene.stage.client("worker");
    let ask = json!({ "workerId": "w", "topics": ["payments.payout"], "lockDuration": 30_000, "maxTasks": 1,
        "longPollMs": 20_000 });
    let work = worker.post("/v1/external-tasks/fetch-and-lock", ask).await;
    let lease = work["tasks"][0]["id"].as_str().expect("the child's work");

    let reason = json!({ "reason": "the customer called" });
    scene
        .dev
        .post(&format!("/v1/instances/{id}/cancel"), reason)
        .await;
    assert_eq!(scene.dev.ended(&id).await["status"], "CANCELLED");
    let child = scene.child().await;
    let child = scene.dev.ended(child["id"].as_str().expect("an id")).await;
    assert_eq!(child["status"], "CANCELLED", "D19: {child}");
    let body = json!({ "workerId": "w", "variables": { "payout_id": "P-late" } });
    let path = format!("/v1/external-tasks/{lease}/complete");
    let late = worker
        .try_call("POST", &path, Some(&body), None)
        .await
        .expect("an answer");
    assert_eq!(
        (late.status, &late.body["code"]),
        (410, &json!("WORK_RETIRED")),
        "D30"
    );
}

/// D20: when the agent's time is over the child is cancelled and the parent takes its other way.
async fn a_timeout_cancels_the_child_and_routes_the_parent(dialect: Dialect) {
    let fields = "on_timeout: { after: 2s, then: late }\n    - { id: late, type: end, error: TOO_LATE }";
    let mut scene = Scene::new(dialect, &errand(fields)).await;
    scene.stage.keep(scene.stage.agent(&scene.stage.url));
    let id = scene.dev.start("errand", json!({})).await;
    let child = scene.child().await["id"].as_str().expect("an id").to_owned();
    let ended = scene.dev.ended(&id).await;
    assert_eq!(ended["error"]["code"], "TOO_LATE", "{ended}");
    assert_eq!(scene.dev.ended(&child).await["status"], "CANCELLED");
}

/// D22, B13: the worker dies before it hears that its delegation was taken; the next one asks again for the same.
async fn a_delegation_asked_for_twice_starts_one_child(dialect: Dialect) {
    let mut scene = Scene::new(dialect, &errand("")).await;
    let gate = Gate::before(&scene.stage.url).await;
    gate.hold(Hold::After, |path, body| {
        path.ends_with("/steps") && body.to_string().contains("DELEGATION")
    });
    let agent = scene.stage.agent(&gate.url);
    let id = scene.dev.start("errand", json!({})).await;
    let (path, body) = gate.held().await;
    agent.kill();
    // The very same call once more, as a client does that was not answered.
    let worker = scene.stage.client("worker");
    let again = worker
        .try_call("POST", &path, Some(&body), None)
        .await
        .expect("an answer");
    assert_eq!(again.status, 200, "{again:?}");
    let child = scene.child().await;
    assert_eq!(
        again.body["steps"][0]["childInstanceId"], child["id"],
        "{again:?}"
    );
    scene.payments();
    scene.stage.keep(scene.stage.agent(&scene.stage.url));
    assert_eq!(scene.dev.ended(&id).await["status"], "COMPLETED");
    assert_eq!(scene.dev.instances("refund_payout").await.len(), 1);
    assert_eq!(scene.model.asked().len(), 2);
}

/// D5, D6, D65: what could not run is refused at deployment, with the place and nothing deployed.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn delegations_that_could_not_run_are_refused_at_deployment() {
    let (mut stage, engine) = Stage::new(Dialect::Sqlite).await;
    stage.keep(engine);
    let dev = stage.client("dev");
    let of = "{ process: refund_payout, description: Refund a customer, outputs: [payout_id] }";
    let nine = ["{ process: refund_payout, outputs: [payout_id] }"; 9].join(", ");
    let cases = [
        (
            "DELEGATION_CYCLE",
            errand("")
                .replace("refund_payout", "errand")
                .replace("[payout_id]", "[answer]"),
        ),
        ("TOO_MANY_DELEGATES", errand("").replace(of, &nine)),
        (
            "PROCESS_NOT_FOUND",
            errand("").replace("refund_payout", "refund_of_nobody"),
        ),
        ("OUTPUT_UNKNOWN", errand("").replace("[payout_id]", "[nothing]")),
        ("FUNCTION_NAME", errand("tools: [delegate/refund_payout]")),
    ];
    let server = "name: delegate\ntransport: stdio\ntools: { refund_payout: { policy: read } }\n";
    for (code, text) in cases {
        let body = json!({ "files": { PROCESS: text, "servers/delegate.server.yaml": server } });
        let answer = dev
            .try_call("POST", "/v1/deployments", Some(&body), None)
            .await
            .expect("an answer");
        assert_eq!(answer.status, 422, "{code}: {:#}", answer.body);
        let problems = answer.body["problems"].as_array().expect("problems");
        let found = problems.iter().any(|problem| {
            problem["code"] == code
                && problem["file"] == PROCESS
                && problem["severity"] == "ERROR"
                && problem["line"].is_u64()
        });
        assert!(found, "{code}: {problems:#?}");
    }
    let listed = dev.get("/v1/processes").await;
    assert!(!listed.to_string().contains("errand"), "{listed}");
}

on_both_databases!(
    the_model_is_offered_the_process_and_reads_its_outputs_alone,
    a_redeployed_child_changes_nothing_for_its_parent,
    a_cancelled_parent_takes_its_child_with_it,
    a_timeout_cancels_the_child_and_routes_the_parent,
    a_delegation_asked_for_twice_starts_one_child,
);
