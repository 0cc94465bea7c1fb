//! What an instance did and holds: history, journal, variables, lineage.

use std::collections::{BTreeMap, HashMap};

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::content::Content;
use legation_kernel::dates::rfc3339;
use legation_kernel::instance::Event;
use legation_kernel::task::TaskFile;
use legation_protocol::history::{History, HistoryEntry, HistoryQuery};
use legation_protocol::instances::{
    InstanceJournal, StartedByAgent, TaskJournal, VariableView, VariablesAnswer, VariablesQuery,
};
use legation_protocol::lineage::{Lineage, LineageNode};
use legation_store::external_tasks::{self, ExternalTaskRow};
use legation_store::history;
use legation_store::instances::{self, InstanceRow};
use legation_store::{Conn, Key};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::writes::{self, Writes};
use crate::http::Http;
use crate::http::auth::{Role, Who};
use crate::http::error::{Error, Result};
use crate::http::extract::{Id, Query};
use crate::http::load::{self, Wanted};
use crate::http::models;
use crate::http::page;
use crate::http::views::{self, events, steps::Sight};

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(history))
        .routes(routes!(journal))
        .routes(routes!(variables))
        .routes(routes!(lineage))
}

/// The events of an instance, in order.
#[utoipa::path(get, path = "/v1/instances/{id}/history", tag = "instances",
    params(("id" = String, Path), HistoryQuery), responses((status = 200, body = History)))]
async fn history(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Query(query): Query<HistoryQuery>,
) -> Result<Answer<History>> {
    who.need(Role::Read)?;
    let limit = page::limit_up_to(query.limit, 1_000, 5_000)?;
    let mut read = http.app().db().read().await?;
    let (row, _) = load::instance(&mut read, who.project(), &id).await?;
    let after = i64::try_from(query.after.unwrap_or(0)).unwrap_or(i64::MAX);
    let rows = history::list(&mut read, &row.root, &row.id, after, limit).await?;
    let mut nodes = nodes(&mut read, &row).await?;
    let mut entries = Vec::new();
    for row in &rows {
        let list: Vec<Event> = load::parse("history", &row.command_id, &row.events)?;
        for (index, event) in list.iter().enumerate() {
            let Some(shown) = events::show(event, &mut nodes)? else {
                continue;
            };
            entries.push(HistoryEntry {
                revision: row.revision.unsigned_abs(),
                index: u32::try_from(index).unwrap_or(u32::MAX),
                at: rfc3339(row.at),
                kind: shown.kind.to_owned(),
                node_id: shown.node,
                command_id: Some(row.command_id.clone()),
                actor: row.actor.clone().filter(|actor| actor != "engine"),
                data: shown.data,
            });
        }
    }
    let is_last = (rows.len() as i64) < limit;
    let after = rows
        .last()
        .filter(|_| !is_last)
        .map(|row| row.revision.unsigned_abs());
    Ok(Answer(History { entries, after }))
}

/// Every step of every external task of an instance.
#[utoipa::path(get, path = "/v1/instances/{id}/journal", tag = "instances", params(("id" = String, Path)),
    responses((status = 200, body = InstanceJournal)))]
async fn journal(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<InstanceJournal>> {
    who.need(Role::Read)?;
    let now = http.app().clock().now();
    let mut read = http.app().db().read().await?;
    let (row, _) = load::instance(&mut read, who.project(), &id).await?;
    let keys: Vec<Key> = load::tasks_of(&mut read, &row)
        .await?
        .iter()
        .map(ExternalTaskRow::key)
        .collect();
    let mut files = load::task_files(&mut read, &keys).await?;
    let leases = external_tasks::locked_at(&mut read, &row.root, &row.id).await?;
    let leases: HashMap<String, i64> = leases.into_iter().collect();
    files.sort_by_key(|file| (file.task.created_at, file.task.id.local()));
    let mut tasks = Vec::new();
    for file in &files {
        let mut journal = task_journal(&http, &mut read, file, now).await?;
        journal.task.locked_at = leases.get(&journal.task.id).copied().map(rfc3339);
        tasks.push(journal);
    }
    Ok(Answer(InstanceJournal { tasks }))
}

async fn task_journal(http: &Http, read: &mut Conn, file: &TaskFile, now: i64) -> Result<TaskJournal> {
    let wanted = load::wanted_by_steps(file.steps.iter().map(|step| &**step));
    let values = load::values(http, read, &wanted).await?;
    let steps = file
        .steps
        .iter()
        .map(|step| views::steps::view(step, &values, Sight::Reader, true));
    Ok(TaskJournal {
        task: views::tasks::view(file, now),
        steps: steps.collect::<Result<_>>()?,
    })
}

/// The variables of an instance, and who or what wrote each; with `history=true` every value that they had.
#[utoipa::path(get, path = "/v1/instances/{id}/variables", tag = "instances",
    params(("id" = String, Path), VariablesQuery), responses((status = 200, body = VariablesAnswer)))]
async fn variables(
    State(http): State<Http>,
    who: Who,
    Id(id): Id,
    Query(query): Query<VariablesQuery>,
) -> Result<Answer<VariablesAnswer>> {
    who.need(Role::Read)?;
    let sees_all = who.principal.has(Role::Admin);
    let mut read = http.app().db().read().await?;
    let (row, instance) = load::instance(&mut read, who.project(), &id).await?;
    let mut written = if query.history {
        writes::writes(&http, &mut read, &row, sees_all).await?
    } else {
        Writes {
            by_name: BTreeMap::new(),
            cut: false,
        }
    };
    let open = instance
        .variables()
        .values()
        .filter(|variable| sees_all || !variable.sensitive);
    let wanted: Vec<Wanted> = open
        .filter_map(|variable| match &variable.content {
            Content::Payload(reference) => Some(Wanted::new(instance.id.as_str(), reference)),
            Content::Inline(_) => None,
        })
        .collect();
    let values = load::values(&http, &mut read, &wanted).await?;
    let mut variables = BTreeMap::new();
    for (name, variable) in instance.variables() {
        let value = load::content(&variable.content, &values).filter(|_| sees_all || !variable.sensitive);
        let view = VariableView {
            value: value.map(views::raw).transpose()?,
            locked: variable.locked,
            sensitive: variable.sensitive,
            revision: variable.revision,
            source: Some(writes::source(&variable.source)),
            history: written.by_name.remove(name).unwrap_or_default(),
        };
        variables.insert(name.clone(), view);
    }
    Ok(Answer(VariablesAnswer {
        variables,
        history_cut: written.cut,
    }))
}

/// Where an instance comes from, and what it started (D47).
#[utoipa::path(get, path = "/v1/instances/{id}/lineage", tag = "instances", params(("id" = String, Path)),
    responses((status = 200, body = Lineage)))]
async fn lineage(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<Lineage>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let (row, _) = load::instance(&mut read, who.project(), &id).await?;
    let rows = instances::list_tree(&mut read, &row.root).await?;
    let mut children: HashMap<&str, Vec<&InstanceRow>> = HashMap::new();
    for row in &rows {
        if let Some(parent) = &row.parent {
            children.entry(parent).or_default().push(row);
        }
    }
    let find = |id: &str| rows.iter().find(|row| row.id == id);
    let own = find(&id).ok_or_else(|| Error::not_found(format!("no instance {id}")))?;
    let mut ancestors = Vec::new();
    let mut above = own.parent.as_deref().and_then(find);
    while let Some(row) = above {
        ancestors.push(views::instances::lineage(row, Vec::new()));
        above = row.parent.as_deref().and_then(find);
    }
    ancestors.reverse();
    let mut lineage = Lineage {
        ancestors,
        instance: below(own, &children),
    };
    name_models(&http, &mut read, &mut lineage).await?;
    Ok(Answer(lineage))
}

/// Says of every instance that an agent started which model answered.
async fn name_models(http: &Http, read: &mut Conn, lineage: &mut Lineage) -> Result<()> {
    let mut agents = Vec::new();
    for node in lineage.ancestors.iter_mut().chain([&mut lineage.instance]) {
        agents_of(node, &mut agents);
    }
    let places: Vec<models::Place> = agents.iter().map(|by| models::place(by)).collect();
    let mut used = models::used(http, read, &places).await?;
    for by in agents {
        by.used_model = used.remove(&models::place(by));
    }
    Ok(())
}

fn agents_of<'n>(node: &'n mut LineageNode, agents: &mut Vec<&'n mut StartedByAgent>) {
    agents.extend(&mut node.started_by_agent);
    for child in &mut node.children {
        agents_of(child, agents);
    }
}

fn below(row: &InstanceRow, children: &HashMap<&str, Vec<&InstanceRow>>) -> LineageNode {
    let list = children.get(row.id.as_str()).into_iter().flatten();
    views::instances::lineage(row, list.map(|child| below(child, children)).collect())
}

/// The nodes of the tasks of an instance: their later events name only the number.
async fn nodes(read: &mut Conn, row: &InstanceRow) -> Result<events::Nodes> {
    let mut nodes = events::Nodes::default();
    for task in load::tasks_of(read, row).await? {
        nodes.task(&task.id, &task.node);
    }
    Ok(nodes)
}
