//! Death of real processes at chosen moments (B13–B15): workers by `kill -9`, the engine at crash points of its own.
//! Whatever dies when, the story ends as told: one payment, one ticket, one child, no model turn paid twice.

use legation_store::Dialect;
use legation_tests::e2e::model::{FakeModel, calls, text, turn};
use legation_tests::e2e::{Client, Gate, Hold, Process, Stage, Start, until};
use legation_tests::on_both_databases;
use serde_json::{Value, json};

/// An engine, a gate before it, and whoever the test adds.
struct Scene {
    stage: Stage,
    engine: Process,
    gate: Gate,
    dev: Client,
}

impl Scene {
    async fn new(dialect: Dialect) -> Self {
        let (mut stage, engine) = Stage::new(dialect).await;
        stage.keep(stage.node("notify.mjs", &stage.url));
        let gate = Gate::before(&stage.url).await;
        let dev = stage.client("dev");
        Self {
            stage,
            engine,
            gate,
            dev,
        }
    }

    async fn complain(&self) -> String {
        let variables =
            json!({ "customerId": "C-1001", "orderId": "5531", "amount": 89, "message": "It is broken." });
        self.dev.start("complaint", variables).await
    }

    fn payments(&mut self) {
        self.stage.keep(self.stage.node("payments.mjs", &self.stage.url));
    }

    /// A worker that nobody disturbs goes on.
    fn agent(&mut self) {
        self.stage.keep(self.stage.agent(&self.stage.url));
    }

    /// Gives work of a dead worker free at once, as its lease would in time.
    async fn unlock(&self, path: &str) {
        let lease = path.split('/').nth(3).expect("a lease in the path");
        let task = lease.split('~').next().expect("a task in the lease");
        self.dev
            .post(&format!("/v1/external-tasks/{task}/unlock"), json!({}))
            .await;
    }

    async fn restart(&mut self) {
        self.engine.ended().await;
        self.engine = self.stage.engine(&Start::default());
        self.stage.is_up().await;
    }

    /// The end of the story, whoever died in it.
    async fn ends(&self, id: &str) {
        let ended = self.dev.ended(id).await;
        assert_eq!(ended["status"], "COMPLETED", "{ended}");
        let paid = self.stage.payments();
        assert_eq!(paid.len(), 1, "one payment: {paid:?}");
        let children = self.dev.instances("refund_payout").await;
        assert_eq!(children.len(), 1, "one child: {children:?}");
        assert_eq!(children[0]["status"], "COMPLETED");
        let incidents = self.dev.get("/v1/incidents").await;
        assert_eq!(incidents["incidents"], json!([]), "{incidents}");
    }

    /// How often any worker has had an answer of the model for this step.
    fn turns(&self, step: u32) -> usize {
        let log = std::fs::read_to_string(self.stage.path().join("logs/agent.log")).unwrap_or_default();
        let plain: String = without_colours(&log);
        let lines = plain.lines().filter(|line| line.contains("the model answered"));
        lines
            .filter(|line| line.split_whitespace().any(|word| word == format!("step={step}")))
            .count()
    }
}

fn without_colours(log: &str) -> String {
    let mut plain = String::new();
    let mut parts = log.split('\u{1b}');
    plain.push_str(parts.next().unwrap_or_default());
    for part in parts {
        plain.push_str(part.split_once('m').map_or(part, |(_, rest)| rest));
    }
    plain
}

/// Whether a call journals a step of this kind in this state, in either form.
fn journals(kind: &'static str, state: &'static str) -> impl Fn(&str, &Value) -> bool + Send + 'static {
    move |path, body| {
        let is = |step: &Value| step["kind"] == kind && step["state"] == state;
        let batch = body["steps"].as_array().is_some_and(|steps| steps.iter().any(is));
        path.ends_with("/steps") && (is(body) || batch)
    }
}

fn completes(path: &str, _: &Value) -> bool {
    path.ends_with("/complete")
}

/// B13: the turn was granted, the model not asked.
async fn b13_an_agent_killed_after_started_is_followed_by_another(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    scene.payments();
    scene.gate.hold(Hold::After, journals("MODEL", "STARTED"));
    let agent = scene.stage.agent(&scene.gate.url);
    let id = scene.complain().await;
    scene.gate.held().await;
    agent.kill();
    scene.agent();
    scene.ends(&id).await;
    let journal = scene.dev.journal(&id).await;
    assert_eq!(
        journal.iter().filter(|step| step["kind"] == "MODEL").count(),
        3,
        "{journal:?}"
    );
}

/// B13: the turn was paid and journaled; the worker died before it could act on it.
async fn b13_a_paid_model_turn_is_not_paid_again(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    scene.payments();
    scene.gate.hold(Hold::After, journals("MODEL", "COMPLETED"));
    let agent = scene.stage.agent(&scene.gate.url);
    let id = scene.complain().await;
    scene.gate.held().await;
    agent.kill();
    scene.agent();
    scene.ends(&id).await;
    assert_eq!(scene.turns(1), 1, "the first turn");
}

/// B13, D40: the same with a model that counts. A worker dies after each of three turns; three turns are paid for.
async fn b13_a_model_that_counts_is_asked_once_for_each_turn(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    scene.payments();
    let model = FakeModel::new(|asked| match turn(asked) {
        1 => calls(&[("1", "crm__get_customer", r#"{"customerId":"C-1001"}"#)]),
        2 => calls(&[(
            "2",
            "delegate__refund_payout",
            r#"{"orderId":"5531","amount":89,"currency":"EUR"}"#,
        )]),
        _ => text("You are paid back."),
    })
    .await;
    let crm = "[servers.crm]\ncommand = \"node\"\nargs = [\"crm.mjs\"]\n";
    scene.stage.agents_ask(&model.url, crm);
    let id = scene.complain().await;
    for turns in 1..=3 {
        scene.gate.hold(Hold::After, journals("MODEL", "COMPLETED"));
        let agent = scene.stage.agent(&scene.gate.url);
        scene.gate.held().await;
        assert_eq!(model.asked().len(), turns);
        agent.kill();
        scene.gate.release();
    }
    scene.agent();
    scene.ends(&id).await;
    assert_eq!(model.asked().len(), 3, "no turn is paid twice");
}

/// B13: a delegation runs and a write was sent in the same turn; nobody hears of the write's end.
async fn b13_a_write_and_a_delegation_in_flight_are_done_once(dialect: Dialect) {
    const SCRIPT: &str = r#"
- match: { turn: 1 }
  calls:
    - { tool: crm/create_ticket, arguments: { customerId: C-1001, subject: It is broken } }
    - { tool: "delegate:refund_payout", arguments: { orderId: "5531", amount: 89, currency: EUR } }
- match: { turn: 2 }
  text: We opened a ticket and paid you back.
"#;
    let mut scene = Scene::new(dialect).await;
    std::fs::write(scene.stage.path().join("scripted.yaml"), SCRIPT).expect("the script can be written");
    scene.gate.hold(Hold::Before, journals("TOOL", "COMPLETED"));
    let agent = scene.stage.agent(&scene.gate.url);
    let id = scene.complain().await;
    scene.gate.held().await;
    until("the delegation to run", async || {
        (!scene.dev.instances("refund_payout").await.is_empty()).then_some(())
    })
    .await;
    assert_eq!(
        scene.stage.tickets().len(),
        1,
        "the ticket is written, nobody knows"
    );
    agent.kill();
    scene.payments();
    scene.agent();
    scene.ends(&id).await;
    assert_eq!(scene.stage.tickets().len(), 1, "the key of the write is the same");
    assert_eq!(scene.turns(1), 1);
}

/// B13: nothing of a parked agent is in any process.
async fn b13_an_agent_killed_while_parked_is_not_missed(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    let agent = scene.stage.agent(&scene.stage.url);
    let id = scene.complain().await;
    until("the agent to park", async || {
        let journal = scene.dev.get(&format!("/v1/instances/{id}/journal")).await;
        (journal["tasks"][0]["task"]["state"] == "AWAITING_CHILD").then_some(())
    })
    .await;
    agent.kill();
    scene.payments();
    scene.agent();
    scene.ends(&id).await;
    assert_eq!((scene.turns(1), scene.turns(3)), (1, 1));
}

/// B14: paid, not completed; the next worker pays under the same key, and the bank knows it.
async fn b14_a_payments_worker_killed_between_paying_and_completing_pays_once(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    scene.agent();
    scene.gate.hold(Hold::Before, completes);
    let payments = scene.stage.node("payments.mjs", &scene.gate.url);
    let id = scene.complain().await;
    let (path, _) = scene.gate.held().await;
    assert_eq!(scene.stage.payments().len(), 1, "paid, and nobody knows");
    payments.kill();
    scene.unlock(&path).await;
    scene.payments();
    scene.ends(&id).await;
}

/// B15, I8: the child has ended, its parent does not know.
async fn b15_an_engine_killed_between_the_childs_end_and_the_parents_resume(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    scene.agent();
    scene.payments();
    scene.stage.crash_at("child-ended");
    let id = scene.complain().await;
    scene.restart().await;
    scene.ends(&id).await;
    let history = scene.dev.get(&format!("/v1/instances/{id}/history")).await;
    assert_eq!(
        history.to_string().matches("\"CHILD_ENDED\"").count(),
        1,
        "{history}"
    );
}

/// B15: a completion that was not committed is as if it was never sent.
async fn b15_an_engine_killed_before_a_commit_has_done_nothing(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    let (path, id) = complete_into_a_crash(&mut scene, "before-commit").await;
    let child = &scene.dev.instances("refund_payout").await[0];
    assert_eq!(child["status"], "RUNNING", "{child}");
    scene.unlock(&path).await;
    scene.ends(&id).await;
}

/// B15: a completion that was committed counts, although its worker was never answered.
async fn b15_an_engine_killed_after_a_commit_has_done_all_of_it(dialect: Dialect) {
    let mut scene = Scene::new(dialect).await;
    let (_, id) = complete_into_a_crash(&mut scene, "after-commit").await;
    scene.ends(&id).await;
}

/// The completion of the payment arrives, the engine dies around its commit, another one starts.
async fn complete_into_a_crash(scene: &mut Scene, moment: &str) -> (String, String) {
    scene.agent();
    scene.gate.hold(Hold::Before, completes);
    let payments = scene.stage.node("payments.mjs", &scene.gate.url);
    scene.stage.keep(payments);
    let id = scene.complain().await;
    let (path, _) = scene.gate.held().await;
    scene.stage.crash_at(moment);
    scene.gate.release();
    scene.restart().await;
    (path, id)
}

/// B15 with two engines on one PostgreSQL: what a dead one left is done by the other within a sweep.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b15_another_engine_takes_over_what_a_dead_one_left() {
    let mut scene = Scene::new(Dialect::Postgres).await;
    let (second, url) = scene.stage.second_engine();
    scene.stage.keep(second);
    let there = Client::new(&url, &scene.stage.key("dev"));
    until("the second engine", async || {
        there.try_call("GET", "/v1/processes", None, None).await
    })
    .await;
    scene.stage.keep(scene.stage.agent(&url));
    scene.stage.keep(scene.stage.node("notify.mjs", &url));
    // The first engine gets the payment, and dies between the child's end and the parent's resume.
    scene.payments();
    scene.stage.crash_at("child-ended");
    let id = scene.complain().await;
    scene.engine.ended().await;
    scene.dev = there;
    scene.ends(&id).await;
}

on_both_databases!(
    b13_an_agent_killed_after_started_is_followed_by_another,
    b13_a_paid_model_turn_is_not_paid_again,
    b13_a_model_that_counts_is_asked_once_for_each_turn,
    b13_a_write_and_a_delegation_in_flight_are_done_once,
    b13_an_agent_killed_while_parked_is_not_missed,
    b14_a_payments_worker_killed_between_paying_and_completing_pays_once,
    b15_an_engine_killed_between_the_childs_end_and_the_parents_resume,
    b15_an_engine_killed_before_a_commit_has_done_nothing,
    b15_an_engine_killed_after_a_commit_has_done_all_of_it,
);
