//! `servers/*.server.yaml`: a tool server (MCP) and the policy of its tools. What is not listed is denied.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::activity;
use super::approval::{self, Asked};
use super::codes::Code;
use super::problem::Problems;
use super::shape::{self, Field, Object, Shape, not_yet, optional, required};
use super::tools;
use super::yaml::{At, Source};
use super::{Origin, names};
use crate::model::{Approval, Policy};

/// A tool server as it is deployed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Server {
    pub name: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    pub transport: Transport,
    /// The name of the environment variable of the agent worker that holds the secret.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub credential_env: Option<String>,
    pub tools: BTreeMap<String, ServerTool>,
}

/// How the agent worker reaches the server.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Transport {
    /// The command stands in the agent worker's own configuration, never here.
    Stdio,
    /// MCP over streamable HTTP.
    StreamableHttp { url: String },
}

/// One listed tool.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ServerTool {
    pub policy: Policy,
    /// `idempotency: key`
    pub idempotent: bool,
    /// The approvers may be empty: then each node names its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval: Option<Approval>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input_schema_sha256: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout_ms: Option<i64>,
}

/// How `dev` starts a stdio server of a local project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StdioCommand {
    pub server: String,
    /// The file that says so; a relative command runs in the project's folder.
    pub file: String,
    pub command: String,
    pub args: Vec<String>,
}

pub(super) const SHAPE: Shape = Shape::Object(&SERVER);

pub(super) const SERVER: Object = Object {
    name: "a tool server",
    fields: &[&[
        required("name", Shape::Text, "as in the `server/tool` of agents"),
        optional("description", Shape::Text, "for people"),
        required(
            "transport",
            Shape::Word(&["stdio", "streamable-http"]),
            "how the agent worker reaches it",
        ),
        optional(
            "url",
            Shape::Text,
            "for streamable-http; https unless it is on this machine",
        ),
        optional("credential", Shape::Text, "env:NAME, read by the agent worker"),
        optional(
            "command",
            Shape::Text,
            "for stdio, in a local project only: what `legation dev` starts",
        ),
        optional(
            "args",
            Shape::List(&Shape::Text),
            "for stdio, in a local project only",
        ),
        required(
            "tools",
            Shape::Map(&Shape::Object(&TOOL)),
            "name: {policy, …}; unlisted tools are denied",
        ),
    ]],
};

const TOOL: Object = Object {
    name: "a tool",
    fields: &[TOOL_FIELDS, approval::FIELDS],
};

const TOOL_FIELDS: &[Field] = &[
    required(
        "policy",
        Shape::Word(&["read", "write", "approval_required"]),
        "what a call does",
    ),
    optional(
        "idempotency",
        Shape::Word(&["key", "none"]),
        "key: the server honours the Idempotency-Key",
    ),
    optional(
        "description",
        Shape::Text,
        "replaces what the server says about the tool",
    ),
    optional(
        "input_schema_sha256",
        Shape::Text,
        "the contract: a server with another input schema is refused",
    ),
    optional("timeout", Shape::Duration, "for one call"),
    not_yet("evidence"),
];

/// Reads a server document; nothing when it is unusable.
pub(super) fn read(
    source: &Source,
    origin: Origin,
    problems: &mut Problems,
) -> (Option<Server>, Option<StdioCommand>) {
    let at = At::root(source);
    shape::check(&at, &SHAPE, problems);
    let name = name(&at, problems);
    let transport = transport(&at, origin, problems);
    let credential_env = credential(&at, problems);
    let mut read_tools = BTreeMap::new();
    if let Some(tools_at) = at.get("tools") {
        for (entry, tool_at) in tools_at.entries() {
            if entry.key.is_empty() || entry.key.len() > 128 || entry.key.contains(['/', ' ']) {
                let message = format!("`{}` is no name of a tool", entry.key);
                problems.error(&tool_at.key(entry), Code::InvalidValue, message);
            }
            read_tools.insert(entry.key.clone(), tool(&tool_at, problems));
        }
    }
    let command = activity::text(&at, "command")
        .zip(name.clone())
        .map(|(command, server)| StdioCommand {
            server,
            file: source.file.clone(),
            command,
            args: activity::texts(&at, "args"),
        });
    let server = name.zip(transport).map(|(name, transport)| Server {
        name,
        description: activity::text(&at, "description"),
        transport,
        credential_env,
        tools: read_tools,
    });
    (server, command)
}

fn name(at: &At<'_>, problems: &mut Problems) -> Option<String> {
    let name_at = at.get("name")?;
    let name = name_at.text()?;
    if names::is_process_key(name) && name.len() <= 64 {
        return Some(name.to_owned());
    }
    problems
        .error(
            &name_at,
            Code::InvalidValue,
            format!("`{name}` is no name of a server"),
        )
        .hint("small letters, digits, `_` and `-`, at most 64, beginning with a letter");
    None
}

fn transport(at: &At<'_>, origin: Origin, problems: &mut Problems) -> Option<Transport> {
    let transport_at = at.get("transport")?;
    match transport_at.text()? {
        "stdio" => {
            if let Some(url) = at.get("url") {
                problems.error(&url, Code::InvalidValue, "a stdio server has no `url`");
            }
            for key in ["command", "args"] {
                if let Some(place) = at.get(key).filter(|_| origin == Origin::Posted) {
                    problems
                        .error(
                            &place,
                            Code::StdioCommand,
                            format!("`{key}` of a stdio server is never posted"),
                        )
                        .hint("it belongs to [servers.NAME] of the agent worker's legation-agent.toml");
                }
            }
            Some(Transport::Stdio)
        }
        "streamable-http" => {
            for key in ["command", "args"] {
                if let Some(place) = at.get(key) {
                    problems.error(
                        &place,
                        Code::InvalidValue,
                        format!("a streamable-http server has no `{key}`"),
                    );
                }
            }
            let Some(url_at) = at.get("url") else {
                problems.error(
                    &transport_at,
                    Code::MissingField,
                    "a streamable-http server needs `url`",
                );
                return None;
            };
            let url = url_at.text()?;
            check_url(url, &url_at, problems);
            Some(Transport::StreamableHttp { url: url.to_owned() })
        }
        _ => None,
    }
}

fn check_url(url: &str, at: &At<'_>, problems: &mut Problems) {
    let (scheme, rest) = url.split_once("://").unwrap_or(("", url));
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let odd = url.contains(|c: char| c.is_whitespace() || c.is_control()) || authority.is_empty();
    if !matches!(scheme, "http" | "https") || odd {
        problems.error(at, Code::InvalidValue, "this is no http or https address");
    } else if authority.contains('@') {
        problems
            .error(
                at,
                Code::InvalidValue,
                "an address holds no user name or password",
            )
            .hint("credential: env:NAME");
    } else if scheme == "http" && !is_loopback(authority) {
        problems.error(
            at,
            Code::InsecureUrl,
            "a tool server on another machine needs https",
        );
    }
}

fn is_loopback(authority: &str) -> bool {
    let host = match authority.strip_prefix('[') {
        Some(rest) => rest.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    };
    let address = host.parse::<std::net::IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.is_loopback())
}

fn credential(at: &At<'_>, problems: &mut Problems) -> Option<String> {
    let credential_at = at.get("credential")?;
    let text = credential_at.text()?;
    let Some(name) = text.strip_prefix("env:") else {
        problems
            .error(
                &credential_at,
                Code::NotYet,
                "secrets of the project are reserved for a later release",
            )
            .hint("credential: env:NAME");
        return None;
    };
    if names::is_name(name) {
        return Some(name.to_owned());
    }
    problems.error(
        &credential_at,
        Code::InvalidValue,
        "this is no name of an environment variable",
    );
    None
}

fn tool(at: &At<'_>, problems: &mut Problems) -> ServerTool {
    let approval = match approval::read(at, problems) {
        Asked::Required(approval) => Some(approval),
        Asked::Nothing | Asked::None => None,
    };
    if let Some(hash_at) = at.get("input_schema_sha256")
        && let Some(hash) = hash_at.text()
        && (hash.len() != 64
            || !hash
                .bytes()
                .all(|b| b.is_ascii_digit() || matches!(b, b'a'..=b'f')))
    {
        problems.error(
            &hash_at,
            Code::InvalidValue,
            "this must be 64 lower-case hex digits",
        );
    }
    ServerTool {
        policy: tools::policy(at),
        idempotent: activity::text(at, "idempotency").as_deref() == Some("key"),
        approval,
        description: activity::text(at, "description"),
        input_schema_sha256: activity::text(at, "input_schema_sha256"),
        timeout_ms: activity::duration(at, "timeout"),
    }
}
