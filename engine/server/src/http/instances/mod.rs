//! `/v1/instances`: start, find, look, cancel.

mod explain;
mod look;
mod writes;

use std::collections::BTreeMap;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use legation_kernel::commands::{self, Command, StartInstance};
use legation_kernel::ids::{InstanceId, root_of};
use legation_kernel::instance::Instance;
use legation_language::Value;
use legation_language::model::Definition;
use legation_protocol::Variables;
use legation_protocol::instances::{
    CancelAnswer, CancelRequest, InstanceList, InstanceQuery, InstanceStarted, InstanceStatus, InstanceView,
    StartInstanceRequest,
};
use legation_store::incidents::{self, IncidentFilter};
use legation_store::instances::{self, InstanceFilter, InstanceRow};
use legation_store::{Conn, Key};
use serde::{Deserialize, Serialize};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::counts::time;
use super::error::{Error, Result};
use super::extract::{Hashed, Id, Json, Query, values};
use super::load::{self, Wanted};
use super::models;
use super::page;
use super::views;
use crate::writer::{Failure, Idempotency};

/// Pages that one list call looks through for instances with a label.
const MOST_PAGES: usize = 10;

/// Of a business key, and of a label's name or value.
const MOST_CHARACTERS: usize = 255;

const MOST_LABELS: usize = 50;

/// Open incidents that one instance shows.
const MOST_INCIDENTS: i64 = 100;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(list, start))
        .routes(routes!(get))
        .routes(routes!(cancel))
        .merge(look::router())
        .merge(explain::router())
}

/// Starts an instance. With an `Idempotency-Key` the same call again gets the first answer.
#[utoipa::path(post, path = "/v1/instances", tag = "instances",
    params(("Idempotency-Key" = Option<String>, Header, description = "repeat safely within 24 hours")),
    request_body = StartInstanceRequest, responses((status = 201, body = InstanceStarted)))]
async fn start(
    State(http): State<Http>,
    who: Who,
    headers: HeaderMap,
    Hashed { body, hash }: Hashed<StartInstanceRequest>,
) -> Result<(StatusCode, Answer<InstanceStarted>)> {
    who.need(Role::Start)?;
    let idempotency = idempotency(&who, &headers, hash)?;
    bounded(&body)?;
    let version = version(&http, &who, &body).await?;
    let id = InstanceId(http.app().chance().root_id(http.app().clock().now()));
    let start = StartInstance {
        id,
        project: who.project().to_owned(),
        process: body.process.clone(),
        version,
        business_key: body.business_key.clone(),
        labels: body.labels.clone(),
        variables: values(&body.variables)?,
    };
    let result = http
        .app()
        .run_once(&who.sender(), Command::Start(Box::new(start)), idempotency)
        .await;
    let started = match result {
        Ok(commands::Answer::Started { id, status }) => {
            let key = body.business_key.unwrap_or_else(|| id.0.clone());
            InstanceStarted {
                id: id.0,
                key,
                process: body.process,
                version,
                status: views::instances::status(status),
            }
        }
        Ok(other) => return Err(Error::internal(&format!("a start answered {other:?}"))),
        Err(Failure::Answered { status: 201, body }) => repeated(&http, &who, &body).await?,
        Err(failure) => return Err(failure.into()),
    };
    Ok((StatusCode::CREATED, Answer(started)))
}

/// Instances, newest first.
#[utoipa::path(get, path = "/v1/instances", tag = "instances", params(InstanceQuery),
    responses((status = 200, body = InstanceList)))]
async fn list(
    State(http): State<Http>,
    who: Who,
    Query(query): Query<InstanceQuery>,
) -> Result<Answer<InstanceList>> {
    who.need(Role::Read)?;
    let limit = page::limit(query.limit)?;
    let started_from = time("startedAfter", query.started_after.as_deref())?;
    let started_before = time("startedBefore", query.started_before.as_deref())?;
    let mut read = http.app().db().read().await?;
    if let Some(root) = &query.root_id {
        let rows = instances::list_tree(&mut read, root).await?;
        let good = rows
            .iter()
            .filter(|row| row.project == who.project() && fits(row, &query))
            .filter(|row| started_from.is_none_or(|from| row.started_at >= from))
            .filter(|row| started_before.is_none_or(|before| row.started_at < before));
        return Ok(Answer(InstanceList {
            instances: good.map(views::instances::listed).collect(),
            next: None,
        }));
    }
    let mut filter = InstanceFilter {
        project: who.project().to_owned(),
        process: query.process.clone(),
        status: query
            .status
            .map(|status| views::instances::column(status).to_owned()),
        business_key: query.business_key.clone(),
        parent: query.parent_id.as_deref().map(|id| Key::new(root_of(id), id)),
        started_from,
        started_before,
        after: page::place(query.after.as_deref())?,
        limit,
        ..InstanceFilter::default()
    };
    let mut found = Vec::new();
    for _ in 0..MOST_PAGES {
        let rows = instances::list(&mut read, &filter).await?;
        let is_last = (rows.len() as i64) < limit;
        found.extend(
            rows.iter()
                .filter(|row| fits(row, &query))
                .map(views::instances::listed),
        );
        filter.after = rows.last().map(InstanceRow::place).filter(|_| !is_last);
        if filter.after.is_none() || found.len() as i64 >= limit {
            break;
        }
    }
    Ok(Answer(InstanceList {
        instances: found,
        next: filter.after.as_ref().map(page::cursor),
    }))
}

/// One instance: status, outputs, error, incidents, where tokens stand.
#[utoipa::path(get, path = "/v1/instances/{id}", tag = "instances", params(("id" = String, Path)),
    responses((status = 200, body = InstanceView)))]
async fn get(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<InstanceView>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let (row, instance) = load::instance(&mut read, who.project(), &id).await?;
    let filter = IncidentFilter {
        project: row.project.clone(),
        state: Some("OPEN".to_owned()),
        instance: Some(row.key()),
        limit: MOST_INCIDENTS,
        ..IncidentFilter::default()
    };
    let open = incidents::list(&mut read, &filter).await?;
    let open = open
        .iter()
        .map(|incident| views::incidents::view(incident, &row.process))
        .collect();
    let mut view = views::instances::full(&row, &instance, open);
    if view.status == InstanceStatus::Completed {
        view.outputs = Some(outputs(&http, &mut read, &instance).await?);
    }
    if let Some(by) = &mut view.started_by_agent {
        let place = models::place(by);
        by.used_model = models::used(&http, &mut read, std::slice::from_ref(&place))
            .await?
            .remove(&place);
    }
    Ok(Answer(view))
}

/// Cancels an instance and everything below it; repeatable (D19, D69).
#[utoipa::path(post, path = "/v1/instances/{id}/cancel", tag = "instances", params(("id" = String, Path)),
    request_body = CancelRequest, responses((status = 200, body = CancelAnswer)))]
async fn cancel(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Json(body): Json<CancelRequest>,
) -> Result<Answer<CancelAnswer>> {
    who.need(Role::Operate)?;
    let command = Command::Cancel {
        instance: InstanceId(id.clone()),
        reason: body.reason,
    };
    match http.app().run(&who.sender(), command).await? {
        commands::Answer::Ended { status } => Ok(Answer(CancelAnswer {
            id,
            status: views::instances::status(status),
        })),
        other => Err(Error::internal(&format!("a cancel answered {other:?}"))),
    }
}

/// What is kept of a start's answer under its `Idempotency-Key`; the rest stands in the instance.
#[derive(Serialize, Deserialize)]
struct Kept {
    id: String,
    status: InstanceStatus,
}

fn keep(answer: &commands::Answer) -> (u16, String) {
    let kept = match answer {
        commands::Answer::Started { id, status } => serde_json::to_string(&Kept {
            id: id.0.clone(),
            status: views::instances::status(*status),
        }),
        _ => Ok(String::new()),
    };
    (StatusCode::CREATED.as_u16(), kept.unwrap_or_default())
}

async fn repeated(http: &Http, who: &Who, body: &str) -> Result<InstanceStarted> {
    let kept: Kept = load::parse("idempotency", "a start", body)?;
    let mut read = http.app().db().read().await?;
    let (row, _) = load::instance(&mut read, who.project(), &kept.id).await?;
    let key = views::instances::key(&row);
    let version = u32::try_from(row.version).unwrap_or_default();
    Ok(InstanceStarted {
        id: kept.id,
        key,
        process: row.process,
        version,
        status: kept.status,
    })
}

/// What an instance is found by stands in indexes, which take no text of any length, and in every list.
fn bounded(body: &StartInstanceRequest) -> Result<()> {
    let fits = |text: &str| (1..=MOST_CHARACTERS).contains(&text.chars().count());
    if body.business_key.as_ref().is_some_and(|key| !fits(key)) {
        let detail = format!("a business key has 1 to {MOST_CHARACTERS} characters");
        return Err(Error::out_of_range("businessKey", detail));
    }
    let labels = &body.labels;
    let fits = |(name, value): (&String, &String)| fits(name) && value.chars().count() <= MOST_CHARACTERS;
    if labels.len() > MOST_LABELS || !labels.iter().all(fits) {
        let detail = format!(
            "at most {MOST_LABELS} labels, with names of 1 to {MOST_CHARACTERS} characters and values of up to as many"
        );
        return Err(Error::out_of_range("labels", detail));
    }
    Ok(())
}

fn idempotency(who: &Who, headers: &HeaderMap, body_hash: String) -> Result<Option<Idempotency>> {
    let Some(key) = headers.get("idempotency-key") else {
        return Ok(None);
    };
    let key = key.to_str().ok().filter(|key| (1..=255).contains(&key.len()));
    let key = key.ok_or_else(|| {
        Error::invalid("an Idempotency-Key has 1 to 255 visible characters").argument("Idempotency-Key")
    })?;
    Ok(Some(Idempotency {
        principal: who.principal.id.clone(),
        operation: "POST /v1/instances".to_owned(),
        key: key.to_owned(),
        body_hash,
        render: keep,
    }))
}

/// The version to start; the newest unless one is asked for.
async fn version(http: &Http, who: &Who, body: &StartInstanceRequest) -> Result<u32> {
    if !legation_language::documents::is_process_key(&body.process) {
        return Err(not_deployed(&body.process));
    }
    let cache = &http.app().shared().definitions;
    let known = match body.version {
        Some(version) => {
            legation_kernel::work::Definitions::get(cache, who.project(), &body.process, version)
        }
        None => legation_kernel::work::Definitions::latest(cache, who.project(), &body.process),
    };
    if let Some(definition) = known {
        return Ok(definition.version);
    }
    let mut read = http.app().db().read().await?;
    let found = cache
        .find(&mut read, who.project(), &body.process, body.version)
        .await?;
    found
        .map(|definition| definition.version)
        .ok_or_else(|| not_deployed(&body.process))
}

fn not_deployed(process: &str) -> Error {
    let detail = format!("process {process} is not deployed, or not in this version");
    Error::not_found(detail)
        .argument("process")
        .hint("GET /v1/processes lists what may be started")
}

fn fits(row: &InstanceRow, query: &InstanceQuery) -> bool {
    let label = query
        .label
        .as_deref()
        .map(|label| label.split_once('=').unwrap_or((label, "")));
    let labelled = label.is_none_or(|(name, value)| {
        let labels: BTreeMap<String, String> = serde_json::from_str(&row.labels).unwrap_or_default();
        labels.get(name).is_some_and(|have| have == value)
    });
    labelled
        && query
            .process
            .as_ref()
            .is_none_or(|process| *process == row.process)
        && query
            .status
            .is_none_or(|status| views::instances::word(&row.status) == status)
        && query
            .business_key
            .as_ref()
            .is_none_or(|key| row.business_key.as_ref() == Some(key))
        && query
            .parent_id
            .as_ref()
            .is_none_or(|parent| row.parent.as_ref() == Some(parent))
}

/// What a completed instance guarantees: its declared outputs, or every variable that is no input when it declares
/// none. Sensitive values stay out.
async fn outputs(http: &Http, conn: &mut Conn, instance: &Instance) -> Result<Variables> {
    let definitions = &http.app().shared().definitions;
    let found = definitions
        .find(conn, &instance.project, &instance.process, Some(instance.version))
        .await?;
    let Some(definition) = found else {
        return Ok(Variables::new());
    };
    let shown = instance
        .variables()
        .iter()
        .filter(|(name, variable)| !variable.sensitive && is_output(&definition, name));
    let shown: Vec<_> = shown.collect();
    let wanted = shown.iter().filter_map(|(_, variable)| match &variable.content {
        legation_kernel::content::Content::Payload(reference) => {
            Some(Wanted::new(instance.id.as_str(), reference))
        }
        legation_kernel::content::Content::Inline(_) => None,
    });
    let values = load::values(http, conn, &wanted.collect::<Vec<_>>()).await?;
    let mut outputs = Variables::new();
    for (name, variable) in shown {
        let value = load::content(&variable.content, &values).unwrap_or(&Value::Null);
        outputs.insert(name.clone(), views::raw(value)?);
    }
    Ok(outputs)
}

fn is_output(definition: &Definition, name: &str) -> bool {
    if definition.outputs.is_empty() {
        return !definition
            .variables
            .iter()
            .any(|declared| declared.input && declared.name == name);
    }
    definition.outputs.iter().any(|output| output.name == name)
}
