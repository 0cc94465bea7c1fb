//! Tool servers on their bad days (B18): real child processes and real HTTP, a server of 60 lines.
#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;
use std::time::{Duration, Instant};

use legation_agent_worker::config::{Config, Server};
use legation_agent_worker::http::Outgoing;
use legation_agent_worker::models::configured::Env;
use legation_agent_worker::tools::{ToolCall, ToolOutcome, ToolServers, canonical_sha256};
use legation_protocol::agent::{Idempotency, ServerBinding, ToolBinding, Transport};
use legation_protocol::steps::ToolPolicy;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, BufReader};

fn script() -> String {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
        .join("tests/server.mjs")
        .display()
        .to_string()
}

fn env() -> Env {
    Arc::new(|name: &str| (name == "TOKEN").then(|| "token-0123456789".to_owned()))
}

fn stdio(args: &[&str]) -> Config {
    let mut server = Server {
        command: Some("node".to_owned()),
        args: vec![script()],
        ..Server::default()
    };
    server.args.extend(args.iter().map(|a| (*a).to_owned()));
    server.env.insert("OWN".to_owned(), "env:TOKEN".to_owned());
    let mut config = Config::default();
    config.servers.insert("crm".to_owned(), server);
    config
}

fn servers(config: &Config) -> ToolServers {
    let urls: Vec<String> = config.servers.values().filter_map(|s| s.url.clone()).collect();
    ToolServers::new(config, env(), Outgoing::new(urls).unwrap())
}

fn tool(name: &str) -> ToolBinding {
    ToolBinding {
        server: "crm".to_owned(),
        tool: name.to_owned(),
        function: format!("crm__{name}"),
        policy: ToolPolicy::Read,
        approval: false,
        description: None,
        idempotency: Idempotency::None,
        input_schema_sha256: None,
        timeout_ms: Some(20_000),
    }
}

async fn call(servers: &ToolServers, binding: &ToolBinding, arguments: &str) -> ToolOutcome {
    call_with(servers, None, binding, arguments, None).await
}

async fn call_with(
    servers: &ToolServers,
    server: Option<&ServerBinding>,
    binding: &ToolBinding,
    arguments: &str,
    key: Option<&str>,
) -> ToolOutcome {
    let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
    servers
        .call(&ToolCall {
            server,
            binding,
            arguments: &arguments,
            idempotency_key: key,
        })
        .await
}

fn done(outcome: ToolOutcome) -> String {
    let ToolOutcome::Done(text) = outcome else {
        panic!("{outcome:?}")
    };
    text.text
}

#[tokio::test]
async fn a_stdio_server_is_described_called_and_gets_no_key_of_a_model() {
    let servers = servers(&stdio(&[]));
    let described = servers.describe(None, &tool("echo")).await.unwrap();
    assert_eq!(described.description, "does echo");
    assert_eq!(described.input_schema["required"][0], "id");
    assert_eq!(
        done(call(&servers, &tool("echo"), r#"{"id":"C-1"}"#).await),
        r#"{"id":"C-1","tier":"gold"}"#
    );
    assert_eq!(
        done(call(&servers, &tool("structured"), "{}").await),
        r#"{"ok":true}"#
    );
    let keys = done(call_with(&servers, None, &tool("keys"), "{}", Some("k-1")).await);
    assert_eq!(keys, r#"{"meta":"k-1","own":"token-0123456789"}"#);
}

#[tokio::test]
async fn bad_arguments_are_found_before_anything_is_sent_b19() {
    let folder = tempfile::tempdir().unwrap();
    let calls = folder.path().join("calls");
    let mut config = stdio(&[]);
    let server = config.servers.get_mut("crm").unwrap();
    server.env.insert("CALLS".to_owned(), calls.display().to_string());
    let servers = servers(&config);
    let outcome = call(&servers, &tool("echo"), r#"{"id":7}"#).await;
    let ToolOutcome::Unsent(error) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.code, "ARGUMENTS_INVALID");
    assert!(error.message.contains("/id"), "{error}");
    assert!(!calls.exists());
    done(call(&servers, &tool("echo"), r#"{"id":"x"}"#).await);
    assert_eq!(std::fs::read_to_string(calls).unwrap(), "echo {\"id\":\"x\"}\n");
}

#[tokio::test]
async fn a_server_that_lies_about_its_schema_is_refused_by_its_pin_b18() {
    let servers = servers(&stdio(&[]));
    let schema = servers.describe(None, &tool("echo")).await.unwrap().input_schema;
    let right = ToolBinding {
        input_schema_sha256: Some(canonical_sha256(&schema)),
        ..tool("echo")
    };
    done(call(&servers, &right, r#"{"id":"x"}"#).await);
    let wrong = ToolBinding {
        input_schema_sha256: Some("0".repeat(64)),
        ..tool("echo")
    };
    let outcome = call(&servers, &wrong, r#"{"id":"x"}"#).await;
    let ToolOutcome::Unsent(error) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(error.code, "TOOL_SCHEMA_CHANGED");
    assert!(error.message.contains("crm/echo"), "{error}");
    assert!(servers.describe(None, &wrong).await.is_err());
}

#[tokio::test]
async fn an_error_of_the_server_is_failed_not_broken_b18() {
    let servers = servers(&stdio(&[]));
    let outcome = call(&servers, &tool("broken"), "{}").await;
    let ToolOutcome::Failed(error, text) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(
        (error.code.as_str(), text.text.as_str()),
        ("TOOL_ERROR", "no such customer")
    );
    let outcome = call(&servers, &tool("rpc_error"), "{}").await;
    assert!(
        matches!(&outcome, ToolOutcome::Failed(e, _) if e.message == "wrong parameters"),
        "{outcome:?}"
    );
    let outcome = call(&servers, &tool("nowhere"), "{}").await;
    assert!(
        matches!(&outcome, ToolOutcome::Unsent(e) if e.code == "TOOL_UNKNOWN"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn ten_megabytes_are_cut_and_marked_b18() {
    let servers = servers(&stdio(&[]));
    let outcome = call(&servers, &tool("big"), r#"{"bytes":10485760}"#).await;
    let ToolOutcome::Done(text) = outcome else {
        panic!("{outcome:?}")
    };
    assert_eq!(text.cut_from, Some(10_485_760));
    assert!(text.text.len() < 70_000);
    assert!(
        text.text
            .ends_with("[truncated: 10485760 bytes, the first 65536 are shown]")
    );
}

#[tokio::test]
async fn a_slow_server_is_uncertain_after_the_tools_own_time_and_others_go_on_b18() {
    let servers = servers(&stdio(&[]));
    done(call(&servers, &tool("echo"), r#"{"id":"x"}"#).await);
    let begun = Instant::now();
    let slow = ToolBinding {
        timeout_ms: Some(100),
        ..tool("slow")
    };
    let outcome = call(&servers, &slow, r#"{"ms":60000}"#).await;
    assert!(
        matches!(&outcome, ToolOutcome::Uncertain(e) if e.code == "TOOL_TIMEOUT"),
        "{outcome:?}"
    );
    assert!(begun.elapsed() < Duration::from_secs(20));
    done(call(&servers, &tool("echo"), r#"{"id":"x"}"#).await);
}

#[tokio::test]
async fn a_server_that_dies_is_uncertain_then_started_again_b18() {
    let servers = servers(&stdio(&[]));
    let outcome = call(&servers, &tool("die"), "{}").await;
    assert!(
        matches!(&outcome, ToolOutcome::Uncertain(e) if e.code == "TOOL_SERVER_LOST"),
        "{outcome:?}"
    );
    done(call(&servers, &tool("echo"), r#"{"id":"x"}"#).await);
}

#[tokio::test]
async fn a_server_that_is_down_mute_or_unknown_is_unsent_b18() {
    let mut down = stdio(&[]);
    down.servers.get_mut("crm").unwrap().command = Some("/nowhere/at-all".to_owned());
    let mut mute = stdio(&["--mute"]);
    mute.limits.connect_timeout_ms = 300;
    let mut closed = Config::default();
    let address = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let url = Some(format!("http://{address}/mcp"));
    closed.servers.insert(
        "crm".to_owned(),
        Server {
            url,
            ..Server::default()
        },
    );
    for config in [down, mute, closed, Config::default()] {
        let outcome = call(&servers(&config), &tool("echo"), r#"{"id":"x"}"#).await;
        let ToolOutcome::Unsent(error) = outcome else {
            panic!("{outcome:?}")
        };
        assert_eq!(error.code, "TOOL_SERVER_UNREACHABLE");
        assert!(error.message.contains("'crm'"), "{error}");
    }
}

#[tokio::test]
async fn a_server_and_its_children_end_with_the_worker() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let mut config = stdio(&[]);
    let server = config.servers.get_mut("crm").unwrap();
    let start = format!(
        "sleep 600 & echo $! > {}; exec node {}",
        pid_file.display(),
        script()
    );
    server.command = Some("sh".to_owned());
    server.args = vec!["-c".to_owned(), start];
    let servers = servers(&config);
    done(call(&servers, &tool("echo"), r#"{"id":"x"}"#).await);
    let pid = std::fs::read_to_string(&pid_file).unwrap().trim().to_owned();
    let alive = || {
        let state = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        !state.is_empty() && !state.contains(") Z ")
    };
    assert!(alive());
    servers.close().await;
    let deadline = Instant::now() + Duration::from_secs(10);
    while alive() {
        assert!(
            Instant::now() < deadline,
            "the child of the tool server still runs"
        );
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_server_over_http_gets_credential_and_key_and_only_a_listed_one_may_be_private() {
    let mut child = tokio::process::Command::new("node")
        .args([script(), "--http".to_owned()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    let port = lines.next_line().await.unwrap().unwrap();
    let url = format!("http://127.0.0.1:{port}/mcp");
    let document = ServerBinding {
        name: "crm".to_owned(),
        transport: Transport::StreamableHttp,
        url: Some(url.clone()),
        credential: Some("env:TOKEN".to_owned()),
    };
    // Only the document names it: refused.
    let outcome = call_with(
        &servers(&Config::default()),
        Some(&document),
        &tool("keys"),
        "{}",
        Some("k-9"),
    )
    .await;
    assert!(
        matches!(&outcome, ToolOutcome::Unsent(e) if e.code == "TOOL_SERVER_UNREACHABLE"),
        "{outcome:?}"
    );

    // The worker's own configuration names it too.
    let mut config = Config::default();
    let own = Server {
        url: Some(url),
        ..Server::default()
    };
    config.servers.insert("crm".to_owned(), own);
    let servers = servers(&config);
    let said = done(call_with(&servers, Some(&document), &tool("keys"), "{}", Some("k-9")).await);
    assert_eq!(
        said,
        r#"{"meta":"k-9","header":"k-9","bearer":"Bearer token-0123456789"}"#
    );
    let said = done(call_with(&servers, Some(&document), &tool("keys"), "{}", None).await);
    assert_eq!(said, r#"{"bearer":"Bearer token-0123456789"}"#);
    // A document cannot have a model's key sent to an address of its choice.
    let thief = ServerBinding {
        credential: Some("env:OPENAI_API_KEY".to_owned()),
        ..document.clone()
    };
    let outcome = call_with(&servers, Some(&thief), &tool("keys"), "{}", None).await;
    assert!(
        matches!(&outcome, ToolOutcome::Unsent(e) if e.message.contains("OPENAI_API_KEY")),
        "{outcome:?}"
    );

    drop(child.stdin.take());
    child.wait().await.unwrap();
    // The connection that was kept alive breaks with the call on its way; after that nobody is there.
    let outcome = call_with(&servers, Some(&document), &tool("keys"), "{}", None).await;
    assert!(
        matches!(&outcome, ToolOutcome::Uncertain(_) | ToolOutcome::Unsent(_)),
        "{outcome:?}"
    );
    let outcome = call_with(&servers, Some(&document), &tool("keys"), "{}", None).await;
    assert!(matches!(&outcome, ToolOutcome::Unsent(_)), "{outcome:?}");
}
