//! `/v1/servers` and `/v1/projects`: the tool servers that are deployed, and the project that the caller is in.

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::dates::rfc3339;
use legation_language::documents::{Server, ServerTool, Transport};
use legation_language::model::Policy;
use legation_protocol::servers::{ProjectList, ProjectView, ServerList, ServerToolView, ServerView};
use legation_store::documents::{self, DocumentRow};
use legation_store::{definitions, projects};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::Result;
use super::load;

/// The kind of a server's document.
const SERVER: &str = "server";

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(server_list))
        .routes(routes!(project_list))
}

/// Deployed tool servers with the policy of each tool. No secret is known to the engine.
#[utoipa::path(get, path = "/v1/servers", tag = "operations", responses((status = 200, body = ServerList)))]
async fn server_list(State(http): State<Http>, who: Who) -> Result<Answer<ServerList>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let rows = documents::list(&mut read, who.project()).await?;
    let servers = rows.iter().filter(|row| row.kind == SERVER).map(view);
    Ok(Answer(ServerList {
        servers: servers.collect::<Result<_>>()?,
    }))
}

/// The projects that the caller's key belongs to.
#[utoipa::path(get, path = "/v1/projects", tag = "operations", responses((status = 200, body = ProjectList)))]
async fn project_list(State(http): State<Http>, who: Who) -> Result<Answer<ProjectList>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let Some(row) = projects::get(&mut read, who.project()).await? else {
        return Ok(Answer(ProjectList::default()));
    };
    let processes = definitions::list(&mut read, who.project()).await?.len();
    let documents = documents::list(&mut read, who.project()).await?;
    let servers = documents.iter().filter(|row| row.kind == SERVER).count();
    Ok(Answer(ProjectList {
        projects: vec![ProjectView {
            id: row.id,
            name: row.name,
            created_at: rfc3339(row.created_at),
            processes: u32::try_from(processes).unwrap_or(u32::MAX),
            servers: u32::try_from(servers).unwrap_or(u32::MAX),
        }],
    }))
}

fn view(row: &DocumentRow) -> Result<ServerView> {
    let server: Server = load::parse("documents", &row.key, &row.body)?;
    let (transport, url) = match server.transport {
        Transport::Stdio => ("stdio", None),
        Transport::StreamableHttp { url } => ("streamable-http", Some(url)),
    };
    Ok(ServerView {
        name: server.name,
        description: server.description,
        transport: transport.to_owned(),
        url,
        credential_env: server.credential_env,
        version: u32::try_from(row.version).unwrap_or_default(),
        digest: row.digest.clone(),
        deployed_at: rfc3339(row.created_at),
        tools: server.tools.into_iter().map(tool).collect(),
    })
}

fn tool((name, tool): (String, ServerTool)) -> ServerToolView {
    let policy = match tool.policy {
        Policy::Read => "read",
        Policy::Write => "write",
        Policy::ApprovalRequired => "approval_required",
    };
    let approval = tool.approval.unwrap_or_default();
    ServerToolView {
        name,
        policy: policy.to_owned(),
        idempotent: tool.idempotent,
        approvers: approval.groups.into_iter().chain(approval.users).collect(),
        description: tool.description,
        input_schema_sha256: tool.input_schema_sha256,
        timeout_ms: tool.timeout_ms.and_then(|ms| u64::try_from(ms).ok()),
    }
}
