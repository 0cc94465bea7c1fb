//! Models on their bad days (B19, B20), with the real engine and the real agent worker between. Nothing that a model
//! says makes the engine pay twice, forget, or go on for ever; and every answer that it read is in the journal (D61).

use legation_store::Dialect;
use legation_tests::e2e::model::{FakeModel, Reply, answers, calls, text, turn};
use legation_tests::e2e::{Client, Stage, until};
use legation_tests::on_both_databases;
use serde_json::{Value, json};

const DESK: &str = "
name: desk
transport: stdio
tools:
  echo: { policy: read }
";

const SERVERS: &str = "[servers.desk]\ncommand = \"node\"\nargs = [\"server.mjs\"]\n";

struct Scene {
    stage: Stage,
    dev: Client,
    model: FakeModel,
}

impl Scene {
    /// An agent node with these fields beside its prompt and tools, and a model that says what `script` says.
    async fn new(dialect: Dialect, fields: &str, script: fn(&Value) -> Reply) -> Self {
        let (mut stage, engine) = Stage::new(dialect).await;
        stage.keep(engine);
        let model = FakeModel::new(script).await;
        stage.bring_test_server();
        stage.agents_ask(&model.url, SERVERS);
        let dev = stage.client("dev");
        let process = format!(
            "
metadata: {{ key: errand, variables: {{}}, outputs: {{ answer: {{ type: any, required: false }} }} }}
flow:
  nodes:
    - id: work
      type: agent
      model: first
      prompt: Run the errand.
      tools: [desk/echo]
      delegates: [{{ process: refund_payout, description: Refund, outputs: [payout_id] }}]
      retry: {{ max_attempts: 1 }}
      result_variable: answer
      next: done
      {fields}
    - {{ id: done, type: end }}
    - {{ id: gave_up, type: end, error: GAVE_UP }}
"
        );
        dev.deploy(&[
            ("servers/desk.server.yaml", DESK),
            ("processes/errand.process.yaml", &process),
        ])
        .await;
        stage.keep(stage.node("payments.mjs", &stage.url));
        stage.keep(stage.agent(&stage.url));
        Self { stage, dev, model }
    }

    async fn runs(&self) -> (Value, Vec<Value>) {
        let id = self.dev.start("errand", json!({})).await;
        let ended = self.dev.ended(&id).await;
        (ended, self.dev.journal(&id).await)
    }
}

/// `kind state code` of every step.
fn steps(journal: &[Value]) -> Vec<String> {
    let word = |value: &Value| value.as_str().unwrap_or("").to_owned();
    let code = |step: &Value| {
        let codes = ["/result/error/code", "/result/code", "/problem/code"];
        let found = codes.iter().find_map(|path| step.pointer(path));
        found.map(word).unwrap_or_default()
    };
    let line = |step: &Value| format!("{} {} {}", word(&step["kind"]), word(&step["state"]), code(step));
    journal
        .iter()
        .map(|step| line(step).trim_end().to_owned())
        .collect()
}

/// B19: an answer that is no answer is like no answer: the fallback is asked, and both are in the journal (D34).
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_a_model_that_answers_rubbish_is_followed_by_its_fallback() {
    let scene = Scene::new(Dialect::Sqlite, "fallback_models: [second]", |asked| {
        if asked["model"] == "fake-1" {
            Reply::Rubbish("<html>no model lives here</html>".to_owned())
        } else {
            text("said the second")
        }
    })
    .await;
    let (ended, journal) = scene.runs().await;
    assert_eq!(ended["outputs"]["answer"], "said the second", "{ended}");
    assert_eq!(steps(&journal), ["MODEL FAILED", "MODEL COMPLETED"]);
    assert_eq!(journal[0]["toolRef"], "model:first");
    assert_eq!(journal[1]["toolRef"], "model:second");
}

/// B19: a well-formed answer without a word and without a call completes nothing in silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_a_model_that_says_nothing_does_not_complete_the_work_with_nothing() {
    let on_error = "on_error: [{ code: WORK_FAILED, then: gave_up }]";
    let scene = Scene::new(Dialect::Sqlite, on_error, |_| text("")).await;
    let (ended, _) = scene.runs().await;
    assert_eq!(ended["error"]["code"], "GAVE_UP", "{ended}");
    let asked = scene.model.asked().len();
    assert!(asked <= 4, "it is asked a few times at most, not {asked}");
}

/// B19, D62: calls are told apart by their place in the turn, never by the ids that a model made up.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_repeated_and_missing_call_ids_do_no_harm() {
    let scene = Scene::new(Dialect::Sqlite, "", |asked| match turn(asked) {
        1 => calls(&[
            ("same", "desk__echo", r#"{"id":"a"}"#),
            ("same", "desk__echo", r#"{"id":"b"}"#),
            ("", "desk__echo", r#"{"id":"c"}"#),
        ]),
        2 => calls(&[("same", "desk__echo", r#"{"id":"d"}"#)]),
        _ => text(&answers(asked).join(" ")),
    })
    .await;
    let (ended, journal) = scene.runs().await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let said = ended["outputs"]["answer"].as_str().expect("words");
    assert!(
        said.contains("\"id\":\"d\""),
        "the last turn read its own answer: {said}"
    );
    let second = &scene.model.asked()[1];
    let read = answers(second);
    for (place, id) in ["a", "b", "c"].iter().enumerate() {
        assert!(read[place].contains(&format!("\"id\":\"{id}\"")), "{read:?}");
    }
    let messages = second["messages"].as_array().expect("messages");
    let mut ids: Vec<&Value> = messages
        .iter()
        .filter(|message| message["role"] == "tool")
        .map(|message| &message["tool_call_id"])
        .collect();
    ids.dedup();
    assert_eq!(ids.len(), 3, "each answer has an id of its own: {ids:?}");
    assert_eq!(journal.iter().filter(|step| step["kind"] == "TOOL").count(), 4);
}

/// B19, D10, D11, D61: unknown tools, broken and unfitting arguments are answers for the model, which corrects itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_unknown_tools_and_bad_arguments_are_read_by_the_model_and_stay_in_the_journal() {
    let scene = Scene::new(Dialect::Sqlite, "", |asked| match turn(asked) {
        1 => calls(&[
            ("1", "rm_rf", "{}"),
            ("2", "desk__echo", r#"{"id":"#),
            ("3", "desk__echo", "[1, 2]"),
            ("4", "desk__echo", r#"{"id":5}"#),
            ("5", "delegate__refund_payout", r#"{"orderId":"5531"}"#),
            ("6", "delegate__complaint", "{}"),
        ]),
        2 => calls(&[("1", "desk__echo", r#"{"id":"right"}"#)]),
        _ => text(&answers(asked).join(" ")),
    })
    .await;
    let (ended, journal) = scene.runs().await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    assert!(ended["outputs"]["answer"].to_string().contains("right"));
    assert_eq!(
        steps(&journal),
        [
            "MODEL COMPLETED",
            "TOOL REFUSED TOOL_NOT_BOUND",
            "TOOL REFUSED ARGUMENTS_INVALID",
            "TOOL REFUSED ARGUMENTS_INVALID",
            "TOOL FAILED ARGUMENTS_INVALID",
            "DELEGATION REFUSED DELEGATION_INPUT_INVALID",
            "DELEGATION REFUSED TOOL_NOT_BOUND",
            "MODEL COMPLETED",
            "TOOL COMPLETED",
            "MODEL COMPLETED",
        ]
    );
    let read = answers(&scene.model.asked()[1]);
    assert_eq!(read.len(), 6, "no call without an answer: {read:?}");
    assert!(read.iter().all(|answer| !answer.is_empty()), "{read:?}");
    assert!(scene.dev.instances("refund_payout").await.is_empty());
    assert!(scene.stage.payments().is_empty());
}

/// B19: a model that never stops is stopped by `max_turns`, which routes like any failed work.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b19_a_model_that_never_stops_ends_at_the_turn_limit() {
    let fields = "max_turns: 3\n      on_error: [{ code: WORK_FAILED, then: gave_up }]";
    let scene = Scene::new(Dialect::Sqlite, fields, |_| {
        calls(&[("x", "desk__echo", r#"{"id":"again"}"#)])
    })
    .await;
    let (ended, journal) = scene.runs().await;
    assert_eq!(ended["error"]["code"], "GAVE_UP", "{ended}");
    assert_eq!(
        scene.model.asked().len(),
        3,
        "three turns are paid for, not one more"
    );
    assert_eq!(journal.iter().filter(|step| step["kind"] == "TOOL").count(), 3);
    let id = ended["id"].as_str().expect("an id");
    let history = scene.dev.get(&format!("/v1/instances/{id}/history")).await;
    assert!(
        history.to_string().contains("TURN_LIMIT"),
        "the reason is kept: {history}"
    );
}

/// B19, D33, D40: an answer that breaks the contract after a paid delegation goes back to the model twice, then a new
/// attempt begins; the same delegation there is answered by the first one. One child, one payment.
async fn b19_a_broken_answer_after_a_paid_delegation_pays_no_second_time(dialect: Dialect) {
    let fields =
        "output_schema: { type: object, required: [payout], properties: { payout: { type: string } } }";
    let scene = Scene::new(dialect, fields, |asked| {
        let messages = asked["messages"].to_string();
        let is_second_attempt = asked["messages"][1]["content"]
            .as_str()
            .is_some_and(|said| said.contains("P-"));
        let read = answers(asked);
        match turn(asked) {
            1 => calls(&[(
                "1",
                "delegate__refund_payout",
                r#"{"orderId":"5531","amount":89,"currency":"EUR"}"#,
            )]),
            2 if is_second_attempt => {
                let outputs: Value = serde_json::from_str(&read[0]).expect("outputs");
                text(&json!({ "payout": outputs["payout_id"] }).to_string())
            }
            _ => text(&format!("done, I think ({} characters so far)", messages.len())),
        }
    })
    .await;
    // A retry of the operator begins the second attempt: the first one is all that the node allows.
    let id = scene.dev.start("errand", json!({})).await;
    let incident = until("the broken contract to become an incident", async || {
        let listed = scene.dev.get(&format!("/v1/incidents?instanceId={id}")).await;
        listed["incidents"][0]["id"].as_str().map(str::to_owned)
    })
    .await;
    assert_eq!(scene.model.asked().len(), 4, "one call, three broken answers");
    scene
        .dev
        .post(&format!("/v1/incidents/{incident}/retry"), json!({}))
        .await;
    let ended = scene.dev.ended(&id).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let paid = scene.stage.payments();
    assert_eq!(paid.len(), 1, "no second payout: {paid:?}");
    assert_eq!(ended["outputs"]["answer"]["payout"], paid[0]["payout_id"]);
    assert_eq!(scene.dev.instances("refund_payout").await.len(), 1);
    let journal = scene.dev.journal(&id).await;
    let reused: Vec<&Value> = journal.iter().filter(|step| !step["reused"].is_null()).collect();
    assert_eq!(reused.len(), 1, "{journal:?}");
    assert_eq!(
        (&reused[0]["kind"], &reused[0]["attempt"]),
        (&json!("DELEGATION"), &json!(2))
    );
}

/// B20, D34: when every model says 429, the task waits as long as they ask, uses up no attempt, and goes on.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b20_429_from_every_model_defers_the_work_and_counts_no_attempt() {
    static BUSY: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(true);
    let scene = Scene::new(Dialect::Sqlite, "fallback_models: [second]", |_| {
        if BUSY.load(std::sync::atomic::Ordering::SeqCst) {
            Reply::Status(429, 7)
        } else {
            text("back again")
        }
    })
    .await;
    let id = scene.dev.start("errand", json!({})).await;
    let waiting = until("the work to be deferred", async || {
        let shown = scene.dev.get(&format!("/v1/instances/{id}/journal")).await;
        let task = shown["tasks"][0]["task"].clone();
        task["availableAt"].is_string().then_some(task)
    })
    .await;
    assert_eq!(
        (&waiting["state"], &waiting["attempt"], &waiting["failures"]),
        (&json!("OPEN"), &json!(1), &json!(0)),
        "{waiting}"
    );
    BUSY.store(false, std::sync::atomic::Ordering::SeqCst);
    let asked = scene.model.asked();
    let asked: Vec<&Value> = asked.iter().map(|request| &request["model"]).collect();
    assert_eq!(asked, ["fake-1", "fake-2"], "each model was asked once");
    let began = tokio::time::Instant::now();
    let ended = scene.dev.ended(&id).await;
    assert_eq!(ended["outputs"]["answer"], "back again", "{ended}");
    assert!(
        began.elapsed().as_secs() >= 5,
        "Retry-After was 7 s, not {:?}",
        began.elapsed()
    );
    let journal = scene.dev.journal(&id).await;
    assert_eq!(
        steps(&journal),
        ["MODEL FAILED", "MODEL FAILED", "MODEL COMPLETED"]
    );
    assert!(journal.iter().all(|step| step["attempt"] == 1), "{journal:?}");
}

on_both_databases!(b19_a_broken_answer_after_a_paid_delegation_pays_no_second_time);
