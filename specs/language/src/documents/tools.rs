//! `tools` of an agent: bound to a tool server's document, its policy tightened but never loosened (D38).

use super::activity;
use super::approval::{self, Asked};
use super::codes::Code;
use super::pins::Pinning;
use super::server::{Server, ServerTool};
use super::shape::{Object, Shape, not_yet, optional};
use super::words;
use super::yaml::At;
use crate::model::{Approval, Policy, ToolBinding};

/// An entry: `server/tool`, or a map.
pub(super) const SHAPE: Shape = Shape::Either(&[Shape::Text, Shape::Object(&ENTRY)]);

const ENTRY: Object = Object {
    name: "a tool",
    fields: &[
        &[
            optional("ref", Shape::Text, "server/tool"),
            optional(
                "policy",
                Shape::Word(&["read", "write", "approval_required"]),
                "at least as tight as the server's own",
            ),
            not_yet("service"),
            not_yet("input_schema"),
        ],
        approval::FIELDS,
    ],
};

/// Providers take about as many.
const MAX_TOOLS: usize = 128;

/// Binds the tools of an agent.
pub(super) fn freeze(node_at: &At<'_>, pinning: &mut Pinning<'_>) -> Vec<ToolBinding> {
    let Some(list) = node_at.get("tools") else {
        return Vec::new();
    };
    if list.items().len() > MAX_TOOLS {
        pinning.problems.error(
            &list,
            Code::InvalidValue,
            format!("a node has at most {MAX_TOOLS} tools"),
        );
        return Vec::new();
    }
    let mut functions = Vec::new();
    let mut out = Vec::new();
    for entry in list.items() {
        let ref_at = if entry.text().is_some() {
            Some(entry.clone())
        } else {
            entry.get("ref")
        };
        let Some((ref_at, reference)) = ref_at.and_then(|at| Some((at.clone(), at.text()?))) else {
            let reserved = entry.get("service").is_some() || entry.get("input_schema").is_some();
            if entry.is_map() && !reserved {
                pinning
                    .problems
                    .error(&entry, Code::MissingField, "a tool needs `ref`")
                    .hint("{ ref: crm/get_customer }");
            }
            continue;
        };
        let Some((server_name, tool_name)) = split(reference) else {
            pinning
                .problems
                .error(&ref_at, Code::InvalidValue, format!("`{reference}` is no tool"))
                .hint("write server/tool, such as crm/get_customer");
            continue;
        };
        let function = pinning.function(server_name, tool_name, &ref_at, &mut functions);
        let Some((server, tool)) = find(server_name, tool_name, &ref_at, pinning) else {
            continue;
        };
        let (policy, approval) = tighten(&entry, &tool, pinning);
        out.push(ToolBinding {
            server: server.name,
            tool: tool_name.to_owned(),
            function,
            policy,
            idempotent: tool.idempotent,
            approval,
            description: tool.description,
            input_schema_sha256: tool.input_schema_sha256,
            timeout_ms: tool.timeout_ms,
        });
    }
    out
}

fn split(reference: &str) -> Option<(&str, &str)> {
    let (server, tool) = reference.split_once('/')?;
    let good = !server.is_empty() && !tool.is_empty() && !reference.contains(char::is_whitespace);
    good.then_some((server, tool))
}

fn find(
    server_name: &str,
    tool_name: &str,
    at: &At<'_>,
    pinning: &mut Pinning<'_>,
) -> Option<(Server, ServerTool)> {
    let Some(server) = pinning.server(server_name) else {
        // A server document of this set that has problems of its own is not missing.
        if !pinning.is_broken_server(server_name) {
            let message = format!("there is no tool server `{server_name}`");
            let hint = format!("servers/{server_name}.server.yaml lists the tools that may be called");
            pinning
                .problems
                .error(at, Code::ServerNotFound, message)
                .hint(hint);
        }
        return None;
    };
    let Some(tool) = server.tools.get(tool_name).cloned() else {
        let known: Vec<&str> = server.tools.keys().map(String::as_str).collect();
        let near = words::nearest(tool_name, &known);
        let hint = match near {
            Some(near) => format!("did you mean `{server_name}/{near}`?"),
            None => format!("a tool that servers/{server_name}.server.yaml does not list is denied"),
        };
        let message = format!("the server `{server_name}` lists no tool `{tool_name}`");
        pinning.problems.error(at, Code::ToolNotFound, message).hint(hint);
        return None;
    };
    Some((server, tool))
}

/// The tighter of the server's and the node's rules.
fn tighten(entry: &At<'_>, tool: &ServerTool, pinning: &mut Pinning<'_>) -> (Policy, Option<Approval>) {
    let own = entry.get("policy");
    let own_policy = match own.as_ref().and_then(At::text) {
        Some("read") => Some(Policy::Read),
        Some("write") => Some(Policy::Write),
        Some("approval_required") => Some(Policy::ApprovalRequired),
        _ => None,
    };
    if let (Some(at), Some(own_policy)) = (&own, own_policy)
        && own_policy < tool.policy
    {
        let message = "the node's policy is looser than the server's";
        pinning
            .problems
            .error(at, Code::PolicyLoosened, message)
            .hint("leave `policy` out, or tighten it");
    }
    let asked = approval::read(entry, pinning.problems);
    let server_requires = tool.policy == Policy::ApprovalRequired || tool.approval.is_some();
    let required_here = own_policy == Some(Policy::ApprovalRequired) || matches!(asked, Asked::Required(_));
    if asked == Asked::None && (server_requires || own_policy == Some(Policy::ApprovalRequired)) {
        let at = entry.get("approval").unwrap_or_else(|| entry.clone());
        pinning.problems.error(
            &at,
            Code::PolicyLoosened,
            "this tool needs an approval, which the node takes away",
        );
    }
    if !server_requires && !required_here {
        return (own_policy.unwrap_or(tool.policy).max(tool.policy), None);
    }
    let servers = tool.approval.clone().unwrap_or_default();
    let nodes = match asked {
        Asked::Required(approval) => approval,
        Asked::Nothing | Asked::None => Approval::default(),
    };
    let approval = if is_empty(&nodes) {
        servers
    } else {
        let within = nodes.groups.iter().all(|group| servers.groups.contains(group))
            && nodes.users.iter().all(|user| servers.users.contains(user));
        if !is_empty(&servers) && !within {
            let at = entry
                .get("approvers")
                .or_else(|| entry.get("approval"))
                .unwrap_or_else(|| entry.clone());
            let message = "the node names approvers that the server's document does not";
            pinning.problems.error(&at, Code::PolicyLoosened, message);
        }
        nodes
    };
    approval::check_approvers(&approval, entry, pinning.problems);
    (Policy::ApprovalRequired, Some(approval))
}

fn is_empty(approval: &Approval) -> bool {
    approval.groups.is_empty() && approval.users.is_empty()
}

/// The function names that tools have taken.
pub(super) fn functions(tools: &[ToolBinding]) -> Vec<String> {
    tools.iter().map(|tool| tool.function.clone()).collect()
}

/// Whether the node names any tool or delegate, which bounds its tokens by default (D42).
pub(super) fn has_any(node_at: &At<'_>) -> bool {
    ["tools", "delegates"]
        .iter()
        .any(|key| node_at.get(key).is_some_and(|at| !at.items().is_empty()))
}

/// Reads `policy`.
pub(super) fn policy(at: &At<'_>) -> Policy {
    match activity::text(at, "policy").as_deref() {
        Some("read") => Policy::Read,
        Some("approval_required") => Policy::ApprovalRequired,
        _ => Policy::Write,
    }
}
