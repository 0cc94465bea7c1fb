//! The protocol's own example servers, unchanged, over both transports (`make npm` fetches them).
#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

use std::path::PathBuf;
use std::process::Stdio;
use std::sync::Arc;

use legation_agent_worker::config::{Config, Server};
use legation_agent_worker::http::Outgoing;
use legation_agent_worker::tools::{ToolCall, ToolOutcome, ToolServers};
use legation_protocol::agent::{Idempotency, ToolBinding};
use legation_protocol::steps::ToolPolicy;
use serde_json::value::RawValue;
use tokio::io::{AsyncBufReadExt, BufReader};

fn package(name: &str) -> String {
    let modules = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../tests/node_modules");
    let path = modules
        .join("@modelcontextprotocol")
        .join(name)
        .join("dist/index.js");
    assert!(path.exists(), "{} is missing: run `make npm`", path.display());
    path.display().to_string()
}

fn servers(server: Server) -> ToolServers {
    let outgoing = Outgoing::new(server.url.iter()).unwrap();
    let mut config = Config::default();
    config.servers.insert("it".to_owned(), server);
    ToolServers::new(&config, Arc::new(|_: &str| None), outgoing)
}

fn program(name: &str, args: &[&str]) -> Server {
    let mut all = vec![package(name)];
    all.extend(args.iter().map(|a| (*a).to_owned()));
    Server {
        command: Some("node".to_owned()),
        args: all,
        ..Server::default()
    }
}

fn tool(name: &str) -> ToolBinding {
    ToolBinding {
        server: "it".to_owned(),
        tool: name.to_owned(),
        function: format!("it__{name}"),
        policy: ToolPolicy::Read,
        approval: false,
        description: None,
        idempotency: Idempotency::None,
        input_schema_sha256: None,
        timeout_ms: Some(30_000),
    }
}

async fn call(servers: &ToolServers, name: &str, arguments: &str) -> ToolOutcome {
    let arguments = RawValue::from_string(arguments.to_owned()).unwrap();
    let binding = tool(name);
    servers
        .call(&ToolCall {
            server: None,
            binding: &binding,
            arguments: &arguments,
            idempotency_key: Some("k"),
        })
        .await
}

fn done(outcome: ToolOutcome) -> String {
    let ToolOutcome::Done(text) = outcome else {
        panic!("{outcome:?}")
    };
    text.text
}

async fn everything(servers: &ToolServers) {
    let described = servers.describe(None, &tool("get-sum")).await.unwrap();
    assert!(described.input_schema["properties"].get("a").is_some());
    assert_eq!(
        done(call(servers, "echo", r#"{"message":"hi"}"#).await),
        "Echo: hi"
    );
    assert!(done(call(servers, "get-sum", r#"{"a":2,"b":40}"#).await).contains("42"));
    assert!(done(call(servers, "get-tiny-image", "{}").await).contains("[image image/png left out]"));
    let structured = done(call(servers, "get-structured-content", r#"{"location":"Chicago"}"#).await);
    assert!(structured.contains("temperature"), "{structured}");
    let long = done(
        call(
            servers,
            "trigger-long-running-operation",
            r#"{"duration":0.2,"steps":2}"#,
        )
        .await,
    );
    assert!(long.contains("completed"), "{long}");
    let outcome = call(servers, "get-sum", r#"{"a":"two"}"#).await;
    assert!(
        matches!(&outcome, ToolOutcome::Unsent(e) if e.code == "ARGUMENTS_INVALID"),
        "{outcome:?}"
    );
}

#[tokio::test]
async fn server_everything_over_stdio() {
    everything(&servers(program("server-everything", &["stdio"]))).await;
}

#[tokio::test]
async fn server_everything_over_streamable_http() {
    let port = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let mut child = tokio::process::Command::new("node")
        .args([package("server-everything"), "streamableHttp".to_owned()])
        .env("PORT", port.to_string())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    while !lines.next_line().await.unwrap().unwrap().contains("listening") {}
    let url = Some(format!("http://127.0.0.1:{port}/mcp"));
    everything(&servers(Server {
        url,
        ..Server::default()
    }))
    .await;
}

#[tokio::test]
async fn server_filesystem_reads_its_folder_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().canonicalize().unwrap();
    std::fs::write(path.join("note.txt"), "the order is A-7").unwrap();
    let servers = servers(program("server-filesystem", &[path.to_str().unwrap()]));
    let inside = serde_json::json!({ "path": path.join("note.txt") }).to_string();
    assert!(done(call(&servers, "read_text_file", &inside).await).contains("the order is A-7"));
    let outcome = call(&servers, "read_text_file", r#"{"path":"/etc/passwd"}"#).await;
    assert!(
        matches!(&outcome, ToolOutcome::Failed(e, _) if e.code == "TOOL_ERROR"),
        "{outcome:?}"
    );
}
