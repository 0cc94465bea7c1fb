//! `/v1/processes`, `/v1/deployments`, `/v1/validate`: what may be started, and how it got there (D1–D6).

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::{Path, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use legation_kernel::dates::rfc3339;
use legation_language::documents::{self, Frozen, Options, Severity};
use legation_language::model::{Declaration, Definition};
use legation_protocol::problem::Severity as WireSeverity;
use legation_protocol::processes::{
    DeployAnswer, DeployQuery, DeployRequest, DeployedProcess, DeployedServer, ProcessList, ProcessQuery,
    ProcessView, ValidateAnswer,
};
use legation_protocol::{DocumentProblem, Json as RawJson};
use legation_store::definitions::{self, DefinitionRow};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::{Error, Result};
use super::extract::{Documents, Id, Query, Text};
use super::parts::DeployForm;
use crate::definitions::DefinitionCache;
use crate::deploy::{self, Deployer};
use crate::plural;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(get, put))
        .routes(routes!(versions))
        .routes(routes!(version))
        .routes(routes!(source))
        .routes(routes!(bpmn))
        .routes(routes!(deploy_set))
        .routes(routes!(validate))
}

/// Deploys one process; the body is its YAML.
#[utoipa::path(put, path = "/v1/processes/{key}", tag = "processes", params(("key" = String, Path), DeployQuery),
    request_body(content = String, content_type = "application/yaml"), responses((status = 200, body = DeployAnswer)))]
async fn put(
    State(http): State<Http>,
    who: Who,
    Id(key): Id,
    Query(query): Query<DeployQuery>,
    Text(yaml): Text,
) -> Result<Answer<DeployAnswer>> {
    who.need(Role::Deploy)?;
    let file = format!("{key}.process.yaml");
    let files = BTreeMap::from([(file, yaml)]);
    let dry = deploy::validate(http.app(), who.project(), &files, &Options::default()).await?;
    if let Some(other) = dry.processes.iter().find(|process| process.definition.key != key) {
        let detail = format!(
            "the document's key is {}, the path says {key}",
            other.definition.key
        );
        let refusal = Error::new(StatusCode::UNPROCESSABLE_ENTITY, "KEY_MISMATCH", detail);
        return Err(refusal
            .argument("metadata.key")
            .hint(format!("PUT /v1/processes/{}", other.definition.key)));
    }
    run(&http, &who, &files, &query).await.map(Answer)
}

/// Deploys a set of documents together: all of it or nothing.
#[utoipa::path(post, path = "/v1/deployments", tag = "processes", params(DeployQuery),
    request_body(content((DeployRequest = "application/json"), (DeployForm = "multipart/form-data"))),
    responses((status = 200, body = DeployAnswer)))]
async fn deploy_set(
    State(http): State<Http>,
    who: Who,
    Query(query): Query<DeployQuery>,
    Documents(set): Documents,
) -> Result<Answer<DeployAnswer>> {
    who.need(Role::Deploy)?;
    run(&http, &who, &set.files, &query).await.map(Answer)
}

/// Every problem of every document; changes nothing.
#[utoipa::path(post, path = "/v1/validate", tag = "processes",
    request_body(content((DeployRequest = "application/json"), (DeployForm = "multipart/form-data"))),
    responses((status = 200, body = ValidateAnswer)))]
async fn validate(
    State(http): State<Http>,
    who: Who,
    Documents(set): Documents,
) -> Result<Answer<ValidateAnswer>> {
    if !who.principal.has(Role::Read) {
        who.need(Role::Deploy)?;
    }
    let frozen = deploy::validate(http.app(), who.project(), &set.files, &Options::default()).await?;
    let valid = !frozen.has_errors();
    Ok(Answer(ValidateAnswer {
        valid,
        problems: problems(frozen.problems),
    }))
}

/// The newest version of every process.
#[utoipa::path(get, path = "/v1/processes", tag = "processes", responses((status = 200, body = ProcessList)))]
async fn list(State(http): State<Http>, who: Who) -> Result<Answer<ProcessList>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let rows = definitions::list(&mut read, who.project()).await?;
    let processes = rows.into_iter().map(view).collect::<Result<_>>()?;
    Ok(Answer(ProcessList { processes }))
}

/// One process, the newest version unless another is asked for, with its source.
#[utoipa::path(get, path = "/v1/processes/{key}", tag = "processes", params(("key" = String, Path), ProcessQuery),
    responses((status = 200, body = ProcessView)))]
async fn get(
    State(http): State<Http>,
    who: Who,
    Id(key): Id,
    Query(query): Query<ProcessQuery>,
) -> Result<Answer<ProcessView>> {
    who.need(Role::Read)?;
    let row = find(&http, &who, &key, query.version).await?;
    with_source(row).map(Answer)
}

/// All versions of a process, the newest first.
#[utoipa::path(get, path = "/v1/processes/{key}/versions", tag = "processes", params(("key" = String, Path)),
    responses((status = 200, body = ProcessList)))]
async fn versions(State(http): State<Http>, who: Who, Id(key): Id) -> Result<Answer<ProcessList>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let rows = definitions::versions(&mut read, who.project(), &key).await?;
    if rows.is_empty() {
        return Err(unknown(&key));
    }
    let processes = rows.into_iter().map(view).collect::<Result<_>>()?;
    Ok(Answer(ProcessList { processes }))
}

/// One version of a process, with its source.
#[utoipa::path(get, path = "/v1/processes/{key}/versions/{version}", tag = "processes",
    params(("key" = String, Path), ("version" = u32, Path)), responses((status = 200, body = ProcessView)))]
async fn version(
    State(http): State<Http>,
    who: Who,
    Path(version): Path<(String, String)>,
) -> Result<Answer<ProcessView>> {
    who.need(Role::Read)?;
    let row = find_version(&http, &who, version).await?;
    with_source(row).map(Answer)
}

/// The document of a version as it was deployed, as YAML.
#[utoipa::path(get, path = "/v1/processes/{key}/versions/{version}/source", tag = "processes",
    params(("key" = String, Path), ("version" = u32, Path)),
    responses((status = 200, body = String, content_type = "application/yaml")))]
async fn source(
    State(http): State<Http>,
    who: Who,
    Path(version): Path<(String, String)>,
) -> Result<Response> {
    who.need(Role::Read)?;
    let row = find_version(&http, &who, version).await?;
    Ok((
        [(header::CONTENT_TYPE, "application/yaml; charset=utf-8")],
        row.source,
    )
        .into_response())
}

/// A version as BPMN 2.0 XML; with a diagram when every node has a position (`ui`).
#[utoipa::path(get, path = "/v1/processes/{key}/versions/{version}/bpmn", tag = "processes",
    params(("key" = String, Path), ("version" = u32, Path)),
    responses((status = 200, body = String, content_type = "application/xml")))]
async fn bpmn(State(http): State<Http>, who: Who, Path(version): Path<(String, String)>) -> Result<Response> {
    who.need(Role::Read)?;
    let row = find_version(&http, &who, version).await?;
    let xml = crate::bpmn::export(&DefinitionCache::parse(&row)?);
    Ok(([(header::CONTENT_TYPE, "application/xml; charset=utf-8")], xml).into_response())
}

async fn run(
    http: &Http,
    who: &Who,
    files: &BTreeMap<String, String>,
    query: &DeployQuery,
) -> Result<DeployAnswer> {
    let options = Options::default();
    let by = Deployer {
        project: who.project().to_owned(),
        actor: who.principal.id.clone(),
    };
    let frozen = if query.dry_run {
        deploy::validate(http.app(), who.project(), files, &options).await?
    } else {
        deploy::deploy(http.app(), &by, files, &options).await?
    };
    if frozen.has_errors() {
        let errors = frozen
            .problems
            .iter()
            .filter(|problem| problem.severity == Severity::Error)
            .count();
        let detail = format!(
            "nothing was deployed: the documents have {}",
            plural::count(errors, "error")
        );
        let refusal = Error::new(StatusCode::UNPROCESSABLE_ENTITY, "DOCUMENTS_INVALID", detail);
        return Err(refusal
            .hint("`problems` has file, line, column and what to write instead")
            .problems(problems(frozen.problems)));
    }
    Ok(answer(frozen))
}

/// What a deployment did, as the API answers it.
#[must_use]
pub fn answer(frozen: Frozen) -> DeployAnswer {
    let process = |process: &documents::FrozenProcess| DeployedProcess {
        key: process.definition.key.clone(),
        version: process.definition.version,
        changed: process.changed,
    };
    let server = |server: &documents::FrozenServer| DeployedServer {
        name: server.server.name.clone(),
        changed: server.changed,
    };
    DeployAnswer {
        processes: frozen.processes.iter().map(process).collect(),
        servers: frozen.servers.iter().map(server).collect(),
        problems: problems(frozen.problems),
    }
}

/// Document problems, as the API answers them.
#[must_use]
pub fn problems(problems: Vec<documents::Problem>) -> Vec<DocumentProblem> {
    let wire = |problem: documents::Problem| DocumentProblem {
        code: problem.code.as_str().to_owned(),
        severity: match problem.severity {
            Severity::Error => WireSeverity::Error,
            Severity::Warning => WireSeverity::Warning,
        },
        message: problem.message,
        file: Some(problem.file),
        line: Some(problem.line),
        column: Some(problem.column),
        pointer: Some(problem.pointer),
        hint: problem.hint,
    };
    problems.into_iter().map(wire).collect()
}

/// The version that a path names.
pub(super) async fn find_version(
    http: &Http,
    who: &Who,
    (key, version): (String, String),
) -> Result<DefinitionRow> {
    find(http, who, &key, Some(number(&version)?)).await
}

async fn find(http: &Http, who: &Who, key: &str, version: Option<u32>) -> Result<DefinitionRow> {
    if !documents::is_process_key(key) {
        return Err(unknown(key));
    }
    let mut read = http.app().db().read().await?;
    let row = match version {
        Some(version) => definitions::get(&mut read, who.project(), key, i64::from(version)).await?,
        None => definitions::latest(&mut read, who.project(), key).await?,
    };
    row.ok_or_else(|| unknown(key))
}

fn unknown(key: &str) -> Error {
    Error::not_found(format!("process {key} is not deployed, or not in this version"))
}

fn number(version: &str) -> Result<u32> {
    version
        .parse()
        .map_err(|_| Error::not_found("a version is a number"))
}

fn with_source(row: DefinitionRow) -> Result<ProcessView> {
    let source = Some(row.source.clone());
    Ok(ProcessView { source, ..view(row)? })
}

fn view(row: DefinitionRow) -> Result<ProcessView> {
    let definition = DefinitionCache::parse(&row)?;
    Ok(ProcessView {
        inputs: Some(raw(&documents::parameters(&definition.variables))?),
        outputs: outputs(&definition)?,
        key: row.key,
        name: definition.name,
        description: definition.description,
        version: definition.version,
        digest: row.digest,
        deployed_at: rfc3339(row.created_at),
        source: None,
    })
}

fn outputs(definition: &Definition) -> Result<Option<RawJson>> {
    if definition.outputs.is_empty() {
        return Ok(None);
    }
    // Outputs are declared like inputs, so the same schema serves them.
    let declared = definition.outputs.iter().map(|output| Declaration {
        input: true,
        ..output.clone()
    });
    raw(&documents::parameters(&declared.collect::<Vec<_>>())).map(Some)
}

fn raw(value: &legation_language::Value) -> Result<RawJson> {
    legation_protocol::to_json(value).map_err(|error| Error::internal(&error))
}
