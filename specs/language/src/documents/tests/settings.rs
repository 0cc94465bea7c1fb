//! `legation.toml` and tool servers.

use super::*;
use crate::Value;

const TOML: &str = "[models]
default = \"cheap\"
cheap = { provider = \"openai\", model = \"gpt-5-mini\", key = \"env:OPENAI_API_KEY\" }

[models.local]
provider = \"ollama\"
model = \"qwen\"
base_url = \"http://127.0.0.1:11434\"

[values]
limit = 100.10
name = \"acme\"

[env.production.values]
limit = 500

[dev]
port = 8700
";

const RULE: &str = "metadata: { variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: rule, type: decision, rules: [{ when: amount < values.limit, then: { ok: true } }] }
    - { id: done, type: end }
";

#[test]
fn models_and_values_are_read() {
    let frozen = frozen(&[("legation.toml", TOML)]);
    assert_eq!(shown(&frozen.problems), "");
    let settings = frozen.settings.unwrap();
    assert_eq!(settings.default_model.as_deref(), Some("cheap"));
    assert_eq!(
        settings.models["cheap"].key_env.as_deref(),
        Some("OPENAI_API_KEY")
    );
    assert_eq!(
        settings.models["local"].base_url.as_deref(),
        Some("http://127.0.0.1:11434")
    );
    assert_eq!(settings.values["limit"].to_json(), "100.1");
}

#[test]
fn only_the_values_that_a_process_reads_are_frozen_per_environment() {
    let set = files(&[("legation.toml", TOML), ("p.process.yaml", RULE)]);
    let plain = freeze(&set, &Options::default(), &Nothing);
    let values = &plain.processes[0].definition.values;
    assert_eq!(values.keys().collect::<Vec<_>>(), ["limit"]);
    let production = Options {
        env: Some("production".to_owned()),
        ..Options::default()
    };
    let other = freeze(&set, &production, &Nothing);
    assert_eq!(other.processes[0].definition.values["limit"], Value::from(500));
    assert_ne!(plain.processes[0].digest, other.processes[0].digest);
    let unrelated = TOML.replace("acme", "other");
    let again = freeze(
        &files(&[("legation.toml", &unrelated), ("p.process.yaml", RULE)]),
        &Options::default(),
        &Nothing,
    );
    assert_eq!(plain.processes[0].digest, again.processes[0].digest);
    let nowhere = Options {
        env: Some("nowhere".to_owned()),
        ..Options::default()
    };
    assert_eq!(
        shown(&freeze(&set, &nowhere, &Nothing).problems),
        "UNKNOWN_VALUE 1:1"
    );
}

#[test]
fn mistakes_in_toml_have_places() {
    let text = "[models]\ncheap = \"gpt\"\nb = { provider = \"x\", modle = \"y\" }\nc = { provider = \"x\", model = \"y\", key = \"sk-123\" }\n[vaules]\nx = 1\n[values]\n\"a b\" = 1\nbig = 1e99\n";
    let found = shown(&frozen(&[("legation.toml", text)]).problems);
    assert_eq!(found, "INVALID_VALUE 9:7 /values/big");
    let text = text.replace("big = 1e99\n", "");
    assert_eq!(
        shown(&frozen(&[("legation.toml", &text)]).problems),
        "WRONG_TYPE 2:1 /models/cheap\n\
         MISSING_FIELD 3:5 /models/b\n\
         UNKNOWN_KEY 3:23 /models/b/modle\n\
         INVALID_VALUE 4:42 /models/c/key\n\
         UNKNOWN_KEY 5:2 /vaules\n\
         INVALID_VALUE 8:1 /values/a b"
    );
}

#[test]
fn a_tool_server_is_read_with_its_policies() {
    let text = "name: crm
description: Customers
transport: streamable-http
url: https://crm.example.com/mcp
credential: env:CRM_TOKEN
tools:
  get: { policy: read, timeout: 5s, description: Get it }
  put: { policy: write, idempotency: key, input_schema_sha256: 9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08 }
  del: { policy: approval_required, approval: required, approvers: [finance] }
";
    let frozen = frozen(&[("crm.server.yaml", text)]);
    assert_eq!(shown(&frozen.problems), "");
    let server = &frozen.servers[0].server;
    assert_eq!(server.credential_env.as_deref(), Some("CRM_TOKEN"));
    assert_eq!(
        server.transport,
        Transport::StreamableHttp {
            url: "https://crm.example.com/mcp".to_owned()
        }
    );
    assert_eq!(server.tools["get"].timeout_ms, Some(5_000));
    assert!(server.tools["put"].idempotent && !server.tools["get"].idempotent);
    assert_eq!(server.tools["del"].approval.as_ref().unwrap().groups, ["finance"]);
    let json = serde_json::to_string(server).unwrap();
    assert_eq!(serde_json::from_str::<Server>(&json).unwrap(), *server);
}

#[test]
fn addresses_need_https_unless_they_are_on_this_machine() {
    for (url, expected) in [
        ("https://crm.example.com", ""),
        ("http://localhost:9000/mcp", ""),
        ("http://127.0.0.1:9000", ""),
        ("http://[::1]:9000/mcp", ""),
        ("http://10.0.0.1/mcp", "INSECURE_URL 3:6 /url"),
        ("http://localhost.example.com", "INSECURE_URL 3:6 /url"),
        ("http://127.0.0.1@example.com", "INVALID_VALUE 3:6 /url"),
        ("ftp://example.com", "INVALID_VALUE 3:6 /url"),
        ("crm.example.com", "INVALID_VALUE 3:6 /url"),
        ("https://", "INVALID_VALUE 3:6 /url"),
    ] {
        let text = format!("name: crm\ntransport: streamable-http\nurl: '{url}'\ntools: {{}}\n");
        assert_eq!(
            shown(&frozen(&[("crm.server.yaml", &text)]).problems),
            expected,
            "{url}"
        );
    }
}
