//! From leased rows to the answer of a fetch: what the writer had in memory is taken, the rest is read.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use legation_kernel::content::Content;
use legation_kernel::dates::rfc3339;
use legation_kernel::ids::{TaskId, lease_id};
use legation_kernel::instance::Instance;
use legation_kernel::journal::{Step, StepKind, StepState};
use legation_kernel::task::TaskFile;
use legation_language::Value;
use legation_language::model::{Definition, NodeKind};
use legation_protocol::external_tasks::LockedTask;
use legation_protocol::steps::{Journal, StepView};
use legation_store::Conn;

use super::{agent as bindings, read};
use crate::http::Http;
use crate::http::error::{Error, Result};
use crate::http::load::{self, Wanted};
use crate::http::views::{self, steps::Sight};
use crate::writer::Claimed;

/// A leased task with everything its answer is made of.
struct Work {
    claimed: Claimed,
    file: Arc<TaskFile>,
    instance: Arc<Instance>,
    definition: Arc<Definition>,
    values: HashMap<String, Value>,
}

/// The tasks as their worker gets them. `have`: the last sequence known of each, by bare task id.
pub(super) async fn assemble(
    http: &Http,
    claimed: Vec<Claimed>,
    have: &BTreeMap<String, u32>,
) -> Result<Vec<LockedTask>> {
    let mut tasks = Vec::with_capacity(claimed.len());
    // Taken only when something is missing in memory: the common fetch reads nothing.
    let mut conn = None;
    for claimed in claimed {
        let have = have.get(&claimed.row.id).copied();
        let work = gather(http, &mut conn, claimed, have).await?;
        tasks.push(locked(http, &mut conn, &work, have).await?);
    }
    Ok(tasks)
}

type Lent = Option<legation_store::Read>;

async fn connection<'c>(http: &Http, conn: &'c mut Lent) -> Result<&'c mut Conn> {
    if conn.is_none() {
        *conn = Some(http.app().db().read().await?);
    }
    conn.as_deref_mut()
        .ok_or_else(|| Error::internal(&"a connection is gone"))
}

async fn gather(http: &Http, conn: &mut Lent, mut claimed: Claimed, have: Option<u32>) -> Result<Work> {
    let row = &claimed.row;
    let file = match claimed.file.take() {
        Some(file) => file,
        None => Arc::new(load::task_file(connection(http, conn).await?, row).await?),
    };
    let instance = match claimed.instance.take() {
        Some(instance) => instance,
        None => Arc::new(
            load::instance(connection(http, conn).await?, &row.project, &row.instance)
                .await?
                .1,
        ),
    };
    let (key, version) = (&instance.process, Some(instance.version));
    let known = legation_kernel::work::Definitions::get(
        &http.app().shared().definitions,
        &row.project,
        key,
        instance.version,
    );
    let definition = match known {
        Some(definition) => definition,
        None => {
            let conn = connection(http, conn).await?;
            let found = http
                .app()
                .shared()
                .definitions
                .find(conn, &row.project, key, version)
                .await?;
            found.ok_or_else(|| Error::internal(&format!("process {key} version {version:?} is gone")))?
        }
    };
    let mut values = std::mem::take(&mut claimed.payloads);
    let missing: Vec<Wanted> = wanted(&file, &instance, have)
        .into_iter()
        .filter(|w| !values.contains_key(&w.reference.digest))
        .collect();
    if !missing.is_empty() {
        let conn = connection(http, conn).await?;
        values.extend(load::values(http, conn, &missing).await?);
    }
    Ok(Work {
        claimed,
        file,
        instance,
        definition,
        values,
    })
}

/// The values that the answer will show.
fn wanted(file: &TaskFile, instance: &Instance, have: Option<u32>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let mut add = |owner: &str, content: &Content| {
        if let Content::Payload(reference) = content {
            wanted.push(Wanted::new(owner, reference));
        }
    };
    match &file.task.inputs {
        Some(inputs) => add(file.task.id.as_str(), inputs),
        None => {
            let open = instance
                .variables()
                .values()
                .filter(|variable| !variable.sensitive);
            open.for_each(|variable| add(instance.id.as_str(), &variable.content));
        }
    }
    let shown = journal_steps(file, have).0.into_iter().chain(prior_effects(file));
    wanted.extend(load::wanted_by_steps(shown));
    wanted
}

async fn locked(http: &Http, conn: &mut Lent, work: &Work, have: Option<u32>) -> Result<LockedTask> {
    let (row, task) = (&work.claimed.row, &work.file.task);
    let node = work.definition.node(&task.node);
    let node =
        node.ok_or_else(|| Error::internal(&format!("node {} of task {} is gone", task.node, task.id)))?;
    let inputs = inputs(work);
    let (mut agent, mut headers) = (None, BTreeMap::new());
    match &node.kind {
        NodeKind::Agent(frozen) => {
            let servers = bindings::server_names(frozen);
            let servers = if servers.is_empty() {
                Vec::new()
            } else {
                crate::deploy::servers(connection(http, conn).await?, &row.project, &servers).await?
            };
            agent = Some(bindings::node(frozen, &servers, &inputs)?);
        }
        NodeKind::EngineTask(task) => headers = views::named(&Value::Map(task.headers.clone()))?,
        // These are no work of a worker's.
        NodeKind::Start
        | NodeKind::End(_)
        | NodeKind::Decision(_)
        | NodeKind::Human(_)
        | NodeKind::CallProcess(_)
        | NodeKind::Exclusive(_)
        | NodeKind::Parallel(_)
        | NodeKind::Timer(_) => {}
    }
    let number = u32::try_from(row.lease_no).unwrap_or_default();
    Ok(LockedTask {
        id: lease_id(
            &TaskId(row.id.clone()),
            number,
            row.lease_random.as_deref().unwrap_or_default(),
        ),
        topic: row.topic.clone(),
        instance_id: row.instance.clone(),
        process: work.instance.process.clone(),
        business_key: work.instance.business_key.clone(),
        node_id: row.node.clone(),
        attempt: task.attempt,
        variables: views::named(&Value::Map(inputs))?,
        headers,
        idempotency_key: task.idempotency_key.clone(),
        locked_until: rfc3339(row.locked_until.unwrap_or_default()),
        traceparent: row.traceparent.clone(),
        agent,
        journal: journal(work, have)?,
        prior_effects: prior(work)?,
    })
}

/// What the worker may know: the node's inputs, or every variable but sensitive ones.
fn inputs(work: &Work) -> BTreeMap<String, Value> {
    match &work.file.task.inputs {
        Some(content) => {
            let value = load::content(content, &work.values);
            value.and_then(Value::as_map).cloned().unwrap_or_default()
        }
        None => {
            let open = work
                .instance
                .variables()
                .iter()
                .filter(|(_, variable)| !variable.sensitive);
            let valued = open.filter_map(|(name, variable)| {
                load::content(&variable.content, &work.values).map(|value| (name.clone(), value.clone()))
            });
            valued.collect()
        }
    }
}

/// The steps of the attempt that go with the fetch: the first 256 KiB, or with `have` the news.
fn journal_steps(file: &TaskFile, have: Option<u32>) -> (Vec<&Step>, Option<u32>) {
    let steps: Vec<&Step> = file
        .current()
        .filter(|step| have.is_none_or(|have| is_news(step, have)))
        .collect();
    let fitting = read::fitting(steps.iter().map(|step| read::bytes(step)));
    let after = (fitting < steps.len()).then(|| steps[..fitting].last().map_or(0, |step| step.sequence));
    (steps.into_iter().take(fitting).collect(), after)
}

/// What a worker that knows the steps up to `have` may not know: later steps, and those that others may have moved.
fn is_news(step: &Step, have: u32) -> bool {
    step.sequence > have
        || step.approval.is_some()
        || step.resolved_by.is_some()
        || matches!(step.kind, StepKind::Delegation | StepKind::Wait)
        || !matches!(
            step.state,
            StepState::Completed | StepState::Failed | StepState::Refused
        )
}

fn journal(work: &Work, have: Option<u32>) -> Result<Option<Journal>> {
    let (steps, after) = journal_steps(&work.file, have);
    if steps.is_empty() && !work.file.task.agent && have.is_none() {
        return Ok(None);
    }
    let steps = steps
        .into_iter()
        .map(|step| views::steps::view(step, &work.values, Sight::Lease, false));
    Ok(Some(Journal {
        steps: steps.collect::<Result<_>>()?,
        after,
    }))
}

/// D33: what earlier attempts did to the world.
fn prior_effects(file: &TaskFile) -> impl Iterator<Item = &Step> {
    let attempt = file.task.attempt;
    let earlier = file
        .steps
        .iter()
        .map(|step| &**step)
        .filter(move |step| step.attempt < attempt);
    earlier.filter(|step| {
        let effect = step.is_write() || step.kind == StepKind::Delegation;
        let happened = matches!(step.state, StepState::Completed | StepState::OutcomeUnknown)
            || (step.kind == StepKind::Delegation && step.child.is_some());
        effect && happened && step.reused_from.is_none()
    })
}

fn prior(work: &Work) -> Result<Vec<StepView>> {
    prior_effects(&work.file)
        .map(|step| views::steps::view(step, &work.values, Sight::Reader, true))
        .collect()
}
