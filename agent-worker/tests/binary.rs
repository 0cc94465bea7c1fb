//! The binary itself, against an engine that only answers: options, key file, script, logs, SIGTERM.
#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};
use wiremock::matchers::{header, method, path, path_regex};
use wiremock::{Mock, MockServer, Request, Respond, ResponseTemplate};

const KEY: &str = "worker-key-0123456789";

/// Gives one agent task once, then nothing.
struct OneTask(AtomicU32);

impl Respond for OneTask {
    fn respond(&self, _: &Request) -> ResponseTemplate {
        if self.0.fetch_add(1, Ordering::SeqCst) > 0 {
            return ResponseTemplate::new(200)
                .set_body_json(json!({ "tasks": [] }))
                .set_delay(Duration::from_millis(50));
        }
        let tool = json!({ "server": "crm", "tool": "echo", "function": "crm__echo", "policy": "read", "approval": false });
        let agent = json!({ "model": "gpt-5", "prompt": "p", "userMessage": "customer C-1", "promptVersion": "v",
            "resultVariable": "r", "maxTurns": 8, "maxSteps": 256, "maxConcurrent": 4, "tools": [tool],
            "servers": [{ "name": "crm", "transport": "stdio" }] });
        let task = json!({ "id": "R.t1~1-x", "topic": "agent", "instanceId": "R", "nodeId": "n", "attempt": 1,
            "idempotencyKey": "k", "lockedUntil": "2026-01-01T00:00:00.000Z", "agent": agent });
        ResponseTemplate::new(200).set_body_json(json!({ "tasks": [task] }))
    }
}

/// Records nothing, grants everything.
struct Journal;

impl Respond for Journal {
    fn respond(&self, request: &Request) -> ResponseTemplate {
        let body: Value = request.body_json().unwrap();
        let sent = body
            .get("steps")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_else(|| vec![body.clone()]);
        let answers: Vec<Value> = sent
            .iter()
            .map(|step| {
                let mut answer = json!({ "sequence": step["sequence"], "kind": step["kind"], "state": step["state"],
                    "policy": "read" });
                if step["kind"] == "TOOL" && step["state"] == "STARTED" {
                    answer["arguments"] = step["request"]["arguments"].clone();
                }
                answer
            })
            .collect();
        ResponseTemplate::new(200)
            .set_body_json(json!({ "steps": answers, "task": { "state": "LOCKED", "waitingFor": [] } }))
    }
}

async fn engine() -> MockServer {
    let server = MockServer::start().await;
    let bearer = format!("Bearer {KEY}");
    let fetch = path("/v1/external-tasks/fetch-and-lock");
    Mock::given(method("POST"))
        .and(fetch)
        .and(header("authorization", bearer.as_str()))
        .respond_with(OneTask(AtomicU32::new(0)))
        .mount(&server)
        .await;
    Mock::given(path_regex("/steps$"))
        .respond_with(Journal)
        .mount(&server)
        .await;
    let closed = ResponseTemplate::new(200).set_body_json(json!({ "state": "COMPLETED" }));
    Mock::given(path_regex("/(complete|failure|release)$"))
        .respond_with(closed)
        .mount(&server)
        .await;
    let beat = ResponseTemplate::new(200).set_body_json(json!({ "lockedUntil": "2026-01-01T00:00:00.000Z" }));
    Mock::given(path_regex("/heartbeat$"))
        .respond_with(beat)
        .mount(&server)
        .await;
    server
}

fn start(folder: &Path, url: &str) -> Child {
    let script = r#"
- match: { turn: 1, prompt: '(C-\d+)' }
  calls: [{ tool: crm/echo, arguments: { id: "${prompt.1}" } }]
- match: { tool: crm/echo, error: false }
  text: "the tier is ${result/tier}"
"#;
    std::fs::write(folder.join("story.yaml"), script).unwrap();
    std::fs::write(folder.join("worker.key"), format!("{KEY}\n")).unwrap();
    let server = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/server.mjs");
    let config = format!(
        "[servers.crm]\ncommand = \"node\"\nargs = [\"{}\"]\n[models]\nstory = {{ provider = \"scripted\", file = \"story.yaml\" }}\n",
        server.display()
    );
    std::fs::write(folder.join("legation-agent.toml"), config).unwrap();
    Command::new(env!("CARGO_BIN_EXE_legation-agent"))
        .args([
            "--url",
            url,
            "--key-file",
            "worker.key",
            "--concurrency",
            "2",
            "--worker-id",
            "agent-1",
            "--json-logs",
        ])
        .current_dir(folder)
        .env("LEGATION_MODEL", "story")
        .env("RUST_LOG", "debug")
        .env_remove("LEGATION_SCRIPT")
        // Of another engine, perhaps; what the command line names wins.
        .env("LEGATION_KEY", "another-key-0123456789")
        .env("LEGATION_KEY_FILE", "another.key")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap()
}

async fn bodies(server: &MockServer, ending: &str) -> Vec<Value> {
    let requests = server.received_requests().await.unwrap();
    requests
        .iter()
        .filter(|r| r.url.path().ends_with(ending))
        .map(|r| r.body_json().unwrap())
        .collect()
}

#[tokio::test]
async fn it_takes_a_task_runs_the_script_completes_and_stops_on_sigterm() {
    let folder = tempfile::tempdir().unwrap();
    let engine = engine().await;
    let child = start(folder.path(), &engine.uri());
    let deadline = Instant::now() + Duration::from_secs(30);
    while bodies(&engine, "/complete").await.is_empty() {
        assert!(Instant::now() < deadline, "nothing was completed");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap());
    kill(pid, Signal::SIGTERM).unwrap();
    let output = tokio::time::timeout(Duration::from_secs(30), child.wait_with_output())
        .await
        .unwrap()
        .unwrap();
    let logs = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success(), "{logs}");

    let complete = &bodies(&engine, "/complete").await[0];
    assert_eq!(
        complete,
        &json!({ "workerId": "agent-1", "result": "the tier is gold" })
    );
    // Asked and used stand side by side: the node's own model, and the one that the override put in its place.
    let steps = bodies(&engine, "/steps").await;
    assert_eq!(steps[0]["toolRef"], "model:gpt-5");
    assert_eq!(steps[1]["steps"][0]["result"]["model"], "scripted");
    assert_eq!(steps[2]["steps"][0]["call"], json!({ "step": 1, "index": 0 }));

    for line in logs.lines() {
        let event: Value = serde_json::from_str(line).unwrap_or_else(|e| panic!("{e}: {line}"));
        assert!(event.get("level").is_some(), "{line}");
    }
    assert!(logs.contains("come from a script"), "{logs}");
    assert!(!logs.contains(KEY), "the key stands in the logs: {logs}");
}

#[tokio::test]
async fn a_missing_key_or_a_broken_configuration_ends_it_with_a_reason() {
    let folder = tempfile::tempdir().unwrap();
    let run = |folder: &Path| {
        Command::new(env!("CARGO_BIN_EXE_legation-agent"))
            .args(["--key-file", "nowhere.key"])
            .current_dir(folder)
            .env_remove("LEGATION_KEY")
            .output()
    };
    let output = run(folder.path()).await.unwrap();
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere.key"));
    std::fs::write(
        folder.path().join("legation-agent.toml"),
        "[servers.crm]\ncomand = \"node\"\n",
    )
    .unwrap();
    let output = run(folder.path()).await.unwrap();
    assert!(String::from_utf8_lossy(&output.stderr).contains("comand"));
}

#[tokio::test]
async fn a_log_that_nobody_looks_at_has_no_colours() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("worker.key"), KEY).unwrap();
    let mut child = Command::new(env!("CARGO_BIN_EXE_legation-agent"))
        .args(["--url", "http://127.0.0.1:1", "--key-file", "worker.key"])
        .current_dir(folder.path())
        .env_remove("NO_COLOR")
        .env_remove("RUST_LOG")
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let line = tokio::time::timeout(Duration::from_secs(30), lines.next_line())
        .await
        .unwrap();
    let line = line.unwrap().unwrap();
    assert!(line.contains("legation-agent is ready"), "{line}");
    assert!(!line.contains('\x1b'), "{line}");
}

#[test]
fn the_examples_configuration_and_script_are_valid() {
    use legation_agent_worker::{config::Config, models::scripted::Scripted};
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/refund");
    let config = Config::load(&folder.join("legation-agent.toml")).unwrap();
    assert!(config.servers.contains_key("crm"));
    let script = config.models.aliases["scripted"].file.clone().unwrap();
    Scripted::load(&script).unwrap();
}
