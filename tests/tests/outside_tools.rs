//! Tool servers on their bad days (B18), through the real engine: the model reads what happened, the journal keeps it,
//! the instance goes on. A write of which nobody knows stops and asks a person.

use legation_store::Dialect;
use legation_tests::e2e::model::{FakeModel, answers, calls, text, turn};
use legation_tests::e2e::{Client, Stage, until};
use legation_tests::on_both_databases;
use serde_json::{Value, json};

/// The server of the tests under two names, and one that is not there.
const SERVERS: &str = r#"
[servers.desk]
command = "node"
args = ["server.mjs"]
env = { CALLS = "calls.txt" }
[servers.lobby]
command = "node"
args = ["server.mjs"]
[servers.gone]
command = "node"
args = ["there-is-no-such-file.mjs"]
"#;

const DESK: &str = "
name: desk
transport: stdio
tools:
  echo: { policy: read }
  broken: { policy: read }
  rpc_error: { policy: read }
  big: { policy: read }
  slow: { policy: read, timeout: 0.3s }
  structured: { policy: read, input_schema_sha256: '0000000000000000000000000000000000000000000000000000000000000000' }
  keys: { policy: read }
  die: { policy: write, idempotency: none }
";

const LOBBY: &str = "
name: lobby
transport: stdio
tools:
  die: { policy: read }
  echo: { policy: read }
";

const GONE: &str = "
name: gone
transport: stdio
tools:
  anything: { policy: read }
";

fn process(tools: &str) -> String {
    format!(
        "
metadata: {{ key: errand, variables: {{}}, outputs: {{ answer: {{ type: any }} }} }}
flow:
  nodes:
    - {{ id: work, type: agent, model: first, prompt: Run the errand., tools: [{tools}], result_variable: answer }}
    - {{ id: done, type: end }}
"
    )
}

async fn stage(dialect: Dialect, model: &FakeModel, tools: &str) -> Stage {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    stage.bring_test_server();
    stage.agents_ask(&model.url, SERVERS);
    let dev = stage.client("dev");
    let process = process(tools);
    dev.deploy(&[
        ("servers/desk.server.yaml", DESK),
        ("servers/lobby.server.yaml", LOBBY),
        ("servers/gone.server.yaml", GONE),
        ("processes/errand.process.yaml", &process),
    ])
    .await;
    stage.keep(stage.agent(&stage.url));
    stage
}

/// B18: down, slow, lying about its schema, answering an error, answering 10 MB: all in one turn, each by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b18_what_goes_wrong_with_tools_is_read_by_the_model_and_the_work_goes_on() {
    let model = FakeModel::new(|asked| match turn(asked) {
        1 => calls(&[
            ("1", "gone__anything", "{}"),
            ("2", "desk__slow", r#"{"ms":60000}"#),
            ("3", "desk__structured", "{}"),
            ("4", "desk__broken", "{}"),
            ("5", "desk__rpc_error", "{}"),
            ("6", "desk__big", r#"{"bytes":10000000}"#),
            ("7", "desk__echo", r#"{"id":"well"}"#),
        ]),
        _ => text("I read it all."),
    })
    .await;
    let tools = "gone/anything, desk/slow, desk/structured, desk/broken, desk/rpc_error, desk/big, desk/echo";
    let stage = stage(Dialect::Sqlite, &model, tools).await;
    let dev = stage.client("dev");
    let id = dev.start("errand", json!({})).await;
    let ended = dev.ended(&id).await;
    assert_eq!(ended["outputs"]["answer"], "I read it all.", "{ended}");
    let journal = dev.journal(&id).await;
    let code = |step: &Value| step["result"]["error"]["code"].as_str().unwrap_or("").to_owned();
    let tools: Vec<(String, &str, String)> = journal
        .iter()
        .filter(|step| step["kind"] == "TOOL")
        .map(|step| {
            let name = step["toolRef"].as_str().unwrap_or("").to_owned();
            (name, step["state"].as_str().unwrap_or(""), code(step))
        })
        .collect();
    let expected = [
        ("gone/anything", "FAILED", "TOOL_SERVER_UNREACHABLE"),
        ("desk/slow", "FAILED", "TOOL_TIMEOUT"),
        ("desk/structured", "FAILED", "TOOL_SCHEMA_CHANGED"),
        ("desk/broken", "FAILED", "TOOL_ERROR"),
        ("desk/rpc_error", "FAILED", "TOOL_ERROR"),
        ("desk/big", "COMPLETED", ""),
        ("desk/echo", "COMPLETED", ""),
    ];
    let expected: Vec<(String, &str, String)> = expected
        .iter()
        .map(|(name, state, code)| ((*name).to_owned(), *state, (*code).to_owned()))
        .collect();
    assert_eq!(tools, expected);
    let asked = model.asked();
    assert_eq!(asked.len(), 2);
    let read = answers(&asked[1]);
    assert!(read[3].contains("no such customer"), "{read:?}");
    assert!(
        read[5].len() < 100_000 && read[5].contains("[truncated: 10000000 bytes"),
        "10 MB are cut and marked, not {} bytes",
        read[5].len()
    );
    let big = journal
        .iter()
        .find(|step| step["toolRef"] == "desk/big")
        .expect("the step");
    assert_eq!(big["result"]["truncatedFrom"], 10_000_000);
}

/// B18, D39: the server dies during a write that it does not know by key. Nobody repeats it: a person says what
/// happened, and the model reads what they say.
async fn b18_a_write_whose_server_died_waits_for_a_person(dialect: Dialect) {
    let model = FakeModel::new(|asked| match turn(asked) {
        1 => calls(&[("1", "desk__die", "{}")]),
        _ => text(&answers(asked).join(" ")),
    })
    .await;
    let stage = stage(dialect, &model, "desk/die").await;
    let dev = stage.client("dev");
    let id = dev.start("errand", json!({})).await;
    let first = unknown(&dev, &id, "").await;
    let journal = dev.journal(&id).await;
    assert_eq!(journal[1]["state"], "OUTCOME_UNKNOWN", "{journal:?}");
    assert_eq!(called(&stage), 1, "nobody repeats it by itself");
    let comment = "the printer was empty";
    stage
        .cli(&["resolve", &first, "--not-performed", "--comment", comment])
        .await;
    let second = unknown(&dev, &id, &first).await;
    assert_eq!(called(&stage), 2, "what was not performed is called again, once");
    let letter = r#"{"letter":"L-7"}"#;
    let words = [
        "resolve",
        &second,
        "--performed",
        "--result",
        letter,
        "--comment",
        "it was printed",
    ];
    stage.cli(&words).await;
    let ended = dev.ended(&id).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    assert!(ended["outputs"]["answer"].to_string().contains("L-7"), "{ended}");
    assert_eq!(model.asked().len(), 2, "no turn is paid twice");
}

/// The incident of a write with an unknown outcome, another one than `before`.
async fn unknown(dev: &Client, id: &str, before: &str) -> String {
    until("an incident", async || {
        let listed = dev.get(&format!("/v1/incidents?instanceId={id}")).await;
        let incident = listed["incidents"].get(0)?;
        assert_eq!(incident["code"], "OUTCOME_UNKNOWN", "{incident}");
        let found = incident["id"].as_str().expect("an id").to_owned();
        (found != before).then_some(found)
    })
    .await
}

/// How often the tool server was called.
fn called(stage: &Stage) -> usize {
    let calls = std::fs::read_to_string(stage.path().join("calls.txt")).unwrap_or_default();
    calls.lines().count()
}

/// B18: a server that died during a read is started again for the next call.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b18_a_server_that_died_is_there_again_for_the_next_call() {
    let model = FakeModel::new(|asked| match turn(asked) {
        1 => calls(&[("1", "lobby__die", "{}")]),
        2 => calls(&[("2", "lobby__echo", r#"{"id":"again"}"#)]),
        _ => text(&answers(asked).join(" ")),
    })
    .await;
    let stage = stage(Dialect::Sqlite, &model, "lobby/die, lobby/echo").await;
    let dev = stage.client("dev");
    let id = dev.start("errand", json!({})).await;
    let ended = dev.ended(&id).await;
    assert!(
        ended["outputs"]["answer"].to_string().contains("again"),
        "{ended}"
    );
    let journal = dev.journal(&id).await;
    assert_eq!(journal[1]["state"], "FAILED");
    assert_eq!(
        journal[1]["result"]["error"]["code"], "TOOL_SERVER_LOST",
        "{journal:?}"
    );
}

on_both_databases!(b18_a_write_whose_server_died_waits_for_a_person);
