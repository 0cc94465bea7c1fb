//! Reading one thing for an answer: found only within the caller's project, with the values it names.

use std::collections::{HashMap, HashSet};
use std::sync::{Mutex, PoisonError};

use legation_kernel::content::{Content, PayloadRef};
use legation_kernel::ids::{TaskId, root_of};
use legation_kernel::instance::Instance;
use legation_kernel::journal::Step;
use legation_kernel::task::{Task, TaskFile};
use legation_language::Value;
use legation_protocol::keys::PrincipalKind;
use legation_store::external_tasks::{ExternalTaskFilter, ExternalTaskRow};
use legation_store::incidents::IncidentRow;
use legation_store::instances::InstanceRow;
use legation_store::payloads::{self, PayloadKey};
use legation_store::steps::StepRow;
use legation_store::{Conn, Error as StoreError, Key, external_tasks, incidents, instances, steps};

use super::Http;
use super::auth::Who;
use super::error::{Error, Result};
use crate::writer::{read_payloads, task_of};

/// Past this many topics of tasks the memory is emptied.
const MOST_TOPICS: usize = 50_000;

/// Tasks of one instance that an answer shows.
const MOST_TASKS: i64 = 200;

/// A value that an answer shows, and who owns it.
#[derive(Clone)]
pub struct Wanted {
    pub owner: String,
    pub reference: PayloadRef,
}

impl Wanted {
    pub fn new(owner: &str, reference: &PayloadRef) -> Self {
        Self {
            owner: owner.to_owned(),
            reference: reference.clone(),
        }
    }
}

/// An instance of the caller's project.
pub async fn instance(conn: &mut Conn, project: &str, id: &str) -> Result<(InstanceRow, Instance)> {
    let row = instances::get(conn, root_of(id), id)
        .await?
        .filter(|row| row.project == project);
    let row = row.ok_or_else(|| Error::not_found(format!("no instance {id}")))?;
    let instance = parse("instances", &row.id, &row.snapshot)?;
    Ok((row, instance))
}

/// An incident or notice of the caller's project.
pub async fn incident(conn: &mut Conn, project: &str, id: &str) -> Result<IncidentRow> {
    let row = incidents::get(conn, root_of(id), id)
        .await?
        .filter(|row| row.project == project);
    row.ok_or_else(|| Error::not_found(format!("no incident {id}")))
}

/// The process of an instance, for rows that do not carry it.
pub async fn process_of(conn: &mut Conn, instance: &str) -> Result<String> {
    let row = instances::get(conn, root_of(instance), instance).await?;
    Ok(row.map(|row| row.process).unwrap_or_default())
}

/// A task of the caller's project, and for a worker's key of its topics (D36): else 404.
pub async fn task_row(conn: &mut Conn, who: &Who, id: &TaskId) -> Result<ExternalTaskRow> {
    let row = external_tasks::get(conn, id.root(), id.as_str()).await?;
    row.filter(|row| row.project == who.project() && who.principal.reaches(&row.topic))
        .ok_or_else(|| no_task(id))
}

/// What a caller learns of a task that is not theirs.
pub fn no_task(id: &TaskId) -> Error {
    Error::not_found(format!("no external task {id}"))
}

/// The tasks of an instance, newest first, without their bodies.
pub async fn tasks_of(conn: &mut Conn, row: &InstanceRow) -> Result<Vec<ExternalTaskRow>> {
    let filter = ExternalTaskFilter {
        project: row.project.clone(),
        instance: Some(row.key()),
        limit: MOST_TASKS,
        ..ExternalTaskFilter::default()
    };
    Ok(external_tasks::list(conn, &filter).await?)
}

/// A task with all its steps.
pub async fn task_file(conn: &mut Conn, row: &ExternalTaskRow) -> Result<TaskFile> {
    let rows = steps::list_for_tasks(conn, &[row.key()]).await?;
    Ok(TaskFile {
        task: task(row)?,
        steps: rows
            .iter()
            .map(|row| step(row).map(Into::into))
            .collect::<Result<_>>()?,
    })
}

/// Tasks with all their steps, in the order of `keys`.
pub async fn task_files(conn: &mut Conn, keys: &[Key]) -> Result<Vec<TaskFile>> {
    let mut by_task: HashMap<String, Vec<StepRow>> = HashMap::new();
    for row in steps::list_for_tasks(conn, keys).await? {
        by_task.entry(row.task.clone()).or_default().push(row);
    }
    let rows = external_tasks::look_many(conn, keys).await?;
    let mut tasks: HashMap<String, ExternalTaskRow> =
        rows.into_iter().map(|row| (row.id.clone(), row)).collect();
    let mut files = Vec::new();
    for key in keys {
        let Some(row) = tasks.remove(&key.id) else {
            continue;
        };
        let rows = by_task.remove(&key.id).unwrap_or_default();
        let steps = rows
            .iter()
            .map(|row| step(row).map(Into::into))
            .collect::<Result<_>>()?;
        files.push(TaskFile {
            task: task(&row)?,
            steps,
        });
    }
    Ok(files)
}

/// The task of a row.
pub fn task(row: &ExternalTaskRow) -> Result<Task> {
    Ok(task_of(row)?)
}

/// The step of a row.
pub fn step(row: &StepRow) -> Result<Step> {
    parse("steps", &row.task, &row.body)
}

/// Everything that steps name.
pub fn wanted_by_steps<'a>(steps: impl Iterator<Item = &'a Step>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for step in steps {
        let named = std::iter::once(&step.request)
            .chain(&step.effective)
            .chain(&step.result)
            .chain(&step.late_result);
        wanted.extend(named.map(|reference| Wanted::new(step.task.as_str(), reference)));
    }
    wanted
}

/// The values, by digest. A value that was erased is missing in the answer.
pub async fn values(http: &Http, conn: &mut Conn, wanted: &[Wanted]) -> Result<HashMap<String, Value>> {
    if wanted.is_empty() {
        return Ok(HashMap::new());
    }
    let unique: HashSet<PayloadKey> = wanted.iter().map(key).collect();
    let keys: Vec<PayloadKey> = unique.into_iter().collect();
    let mut values = read_payloads(http.app().shared(), conn, &keys).await?;
    for wanted in wanted {
        // A value that crossed from another owner of the tree.
        let digest = &wanted.reference.digest;
        if !values.contains_key(digest)
            && let Some(row) = payloads::find(conn, root_of(&wanted.owner), digest).await?
        {
            let key = PayloadKey {
                root: row.root,
                owner: row.owner,
                digest: row.digest,
            };
            values.extend(read_payloads(http.app().shared(), conn, &[key]).await?);
        }
    }
    Ok(values)
}

fn key(wanted: &Wanted) -> PayloadKey {
    PayloadKey {
        root: root_of(&wanted.owner).to_owned(),
        owner: wanted.owner.clone(),
        digest: wanted.reference.digest.clone(),
    }
}

/// The value of a content, from the row or from the values at hand.
pub fn content<'v>(content: &'v Content, values: &'v HashMap<String, Value>) -> Option<&'v Value> {
    match content {
        Content::Inline(value) => Some(value),
        Content::Payload(reference) => values.get(&reference.digest),
    }
}

/// Reads what the engine stored.
pub fn parse<T: serde::de::DeserializeOwned>(table: &'static str, id: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| {
        Error::from(StoreError::Corrupt {
            table,
            id: format!("{id}: {error}"),
        })
    })
}

/// The topics of tasks that this process leased lately: a worker's calls are checked against its key's topics
/// without a query each.
#[derive(Default)]
pub struct Topics(Mutex<HashMap<String, (String, String)>>);

impl Topics {
    /// Remembers the project and topic of a leased task.
    pub fn remember(&self, row: &ExternalTaskRow) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST_TOPICS {
            known.clear();
        }
        known.insert(row.id.clone(), (row.project.clone(), row.topic.clone()));
    }

    /// The project and topic of a task that is remembered.
    pub fn get(&self, task: &TaskId) -> Option<(String, String)> {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .get(task.as_str())
            .cloned()
    }
}

/// Another project's or topic's task is unknown to a worker's key (D36). Other keys are judged by the kernel.
pub async fn need_task_topic(http: &Http, who: &Who, id: &TaskId) -> Result<()> {
    if who.principal.kind != PrincipalKind::Worker || who.principal.topics.is_none() {
        return Ok(());
    }
    if let Some((project, topic)) = http.topics().get(id) {
        let good = project == who.project() && who.principal.reaches(&topic);
        return if good { Ok(()) } else { Err(no_task(id)) };
    }
    let mut read = http.app().db().read().await?;
    let row = task_row(&mut read, who, id).await?;
    http.topics().remember(&row);
    Ok(())
}
