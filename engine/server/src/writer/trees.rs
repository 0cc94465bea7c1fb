//! Trees in memory: authoritative on SQLite, on PostgreSQL a hint that the root's version checks. What a command
//! misses is loaded inside its transaction.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use legation_kernel::content::Payloads;
use legation_kernel::ids::{InstanceId, TaskId, root_of};
use legation_kernel::instance::Instance;
use legation_kernel::journal::Step;
use legation_kernel::task::{Lease, Task, TaskFile};
use legation_kernel::work::Tree;
use legation_language::Value;
use legation_store::external_tasks::ExternalTaskRow;
use legation_store::payloads::{PayloadKey, PayloadRow};
use legation_store::roots::RootRow;
use legation_store::{Conn, Error, Key, Result, Tx, external_tasks, instances, payloads, steps};

use super::Shared;
use crate::cipher::DataKey;

/// Trees that are kept. Past it the least recently used go.
const MOST_TREES: usize = 20_000;

/// Bytes of payloads that are kept. Past it the least recently used trees lose theirs: what a command asks for is
/// loaded again.
const MOST_BYTES: usize = 128 * 1024 * 1024;

/// One root's tree with what the rows know beside the aggregates.
pub(super) struct Loaded {
    pub root: RootRow,
    pub key: Option<DataKey>,
    pub tree: Tree,
    /// Revision and queue place of every loaded task row.
    pub rows: HashMap<TaskId, TaskRow>,
    /// Not in the database before this batch.
    pub fresh: bool,
    pub used: u64,
}

/// What a task's row knows that its aggregate does not.
#[derive(Clone, Copy, Debug)]
pub(super) struct TaskRow {
    pub revision: i64,
    pub position: i64,
}

impl Loaded {
    pub(super) fn new(root: RootRow, key: Option<DataKey>, fresh: bool) -> Self {
        Self {
            root,
            key,
            tree: Tree::default(),
            rows: HashMap::new(),
            fresh,
            used: 0,
        }
    }

    /// Whether the task is in memory, with its steps.
    pub(super) fn has_task(&self, row: &ExternalTaskRow) -> bool {
        self.tree.tasks.contains_key(&TaskId(row.id.clone()))
    }

    /// Whether the task is in memory as it was before the claim that gave this row: each write of a step is one of
    /// its task's row too.
    pub(super) fn has_task_before(&self, row: &ExternalTaskRow) -> bool {
        let known = self.rows.get(&TaskId(row.id.clone()));
        self.has_task(row) && known.is_some_and(|known| known.revision + 1 == row.revision)
    }

    /// Takes a task's row over; steps that are in memory stay, since steps only change under the root's lock.
    pub(super) fn take_row(&mut self, row: &ExternalTaskRow) -> Result<()> {
        let id = TaskId(row.id.clone());
        if self
            .rows
            .get(&id)
            .is_some_and(|known| known.revision == row.revision)
        {
            return Ok(());
        }
        let file = self.tree.tasks.get(&id);
        // A claim of the row that is known changed the lease and nothing else: the body need not be read again.
        let leased = |file: &&Arc<TaskFile>| {
            let known = self.rows.get(&id).map(|known| known.revision + 1);
            known == Some(row.revision) && i64::from(file.task.lease_no) + 1 == row.lease_no
        };
        let task = match file.filter(leased) {
            Some(file) => with_lease(file.task.clone(), row),
            None => task_of(row)?,
        };
        let steps = file.map(|file| file.steps.clone()).unwrap_or_default();
        self.rows.insert(
            id.clone(),
            TaskRow {
                revision: row.revision,
                position: row.position,
            },
        );
        self.tree.tasks.insert(id, Arc::new(TaskFile { task, steps }));
        Ok(())
    }
}

/// The task of a row: leases and expiries are the row's, since a fetch writes only those.
///
/// # Errors
/// `Corrupt` when its body cannot be read.
pub fn task_of(row: &ExternalTaskRow) -> Result<Task> {
    Ok(with_lease(parse("external_tasks", &row.id, &row.body)?, row))
}

fn with_lease(mut task: Task, row: &ExternalTaskRow) -> Task {
    if row.lease_no as u32 > task.lease_no {
        // A lease that was taken since the task was written: what `task::take` does to the rest of it.
        task.ended_lease = None;
        task.available_at = None;
        task.parked = false;
        task.news = false;
    }
    task.lease_no = row.lease_no as u32;
    task.expiries = row.expiries as u32;
    task.lease = match (&row.worker, row.locked_until) {
        (Some(worker), Some(until)) => Some(Lease {
            number: row.lease_no as u32,
            random: row.lease_random.clone().unwrap_or_default(),
            worker: worker.clone(),
            credential: row.credential.clone().unwrap_or_default(),
            until,
            duration_ms: row.lock_ms.unwrap_or_default(),
        }),
        _ => None,
    };
    task
}

pub(super) fn parse<T: serde::de::DeserializeOwned>(table: &'static str, id: &str, text: &str) -> Result<T> {
    serde_json::from_str(text).map_err(|error| Error::Corrupt {
        table,
        id: format!("{id}: {error}"),
    })
}

/// The cache of one writer.
#[derive(Default)]
pub(super) struct Trees {
    trees: HashMap<String, Loaded>,
    tick: u64,
    /// Of the payloads of all trees.
    bytes: usize,
}

impl Trees {
    /// Takes a tree out, true or not: on SQLite nobody else can have changed it.
    pub(super) fn remove(&mut self, root: &str) -> Option<Loaded> {
        let loaded = self.trees.remove(root)?;
        self.bytes -= loaded.tree.payloads.bytes();
        Some(loaded)
    }

    /// Takes a tree out for a batch, if it is cached and still true.
    pub(super) fn take(&mut self, root: &RootRow) -> Option<Loaded> {
        let loaded = self.remove(&root.id)?;
        (loaded.root.version == root.version).then_some(loaded)
    }

    /// Puts it back after the commit. A finished tree is not worth keeping.
    pub(super) fn put(&mut self, mut loaded: Loaded) {
        if loaded.root.ended_at.is_some() {
            return;
        }
        self.tick += 1;
        loaded.used = self.tick;
        loaded.fresh = false;
        self.remove(&loaded.root.id);
        self.bytes += loaded.tree.payloads.bytes();
        self.trees.insert(loaded.root.id.clone(), loaded);
        if self.trees.len() > MOST_TREES {
            let line = self.tick.saturating_sub(MOST_TREES as u64 / 2);
            self.trees.retain(|_, tree| tree.used > line);
            self.bytes = self.trees.values().map(|tree| tree.tree.payloads.bytes()).sum();
        }
        if self.bytes > MOST_BYTES {
            self.forget_payloads();
        }
    }

    /// Frees half, the least recently used first.
    fn forget_payloads(&mut self) {
        let mut trees: Vec<&mut Loaded> = self.trees.values_mut().collect();
        trees.sort_by_key(|tree| tree.used);
        for tree in trees {
            if self.bytes <= MOST_BYTES / 2 {
                return;
            }
            self.bytes -= tree.tree.payloads.bytes();
            tree.tree.payloads = Payloads::default();
        }
    }
}

/// Loads instances that a batch will read.
pub(super) async fn load_instances(
    conn: &mut Conn,
    trees: &mut HashMap<String, Loaded>,
    ids: &HashSet<InstanceId>,
) -> Result<()> {
    let missing: Vec<Key> = ids
        .iter()
        .filter(|id| {
            trees
                .get(id.root())
                .is_some_and(|loaded| !loaded.tree.instances.contains_key(id))
        })
        .map(|id| Key::new(id.root(), id.as_str()))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    for row in instances::get_many(conn, &missing).await? {
        let instance: Instance = parse("instances", &row.id, &row.snapshot)?;
        if let Some(loaded) = trees.get_mut(&row.root) {
            loaded
                .tree
                .instances
                .insert(instance.id.clone(), Arc::new(instance));
        }
    }
    Ok(())
}

/// Loads tasks with their steps. With `refresh` the rows of cached ones are locked and read again too, as
/// another engine may have leased them.
pub(super) async fn load_tasks(
    tx: &mut Tx,
    trees: &mut HashMap<String, Loaded>,
    ids: &HashSet<TaskId>,
    refresh: bool,
) -> Result<()> {
    let known = |id: &TaskId| {
        trees
            .get(id.root())
            .is_some_and(|loaded| loaded.tree.tasks.contains_key(id))
    };
    let without_steps: Vec<Key> = ids
        .iter()
        .filter(|id| trees.contains_key(id.root()) && !known(id))
        .map(|id| Key::new(id.root(), id.as_str()))
        .collect();
    let keys: Vec<Key> = if refresh {
        ids.iter()
            .filter(|id| trees.contains_key(id.root()))
            .map(|id| Key::new(id.root(), id.as_str()))
            .collect()
    } else {
        without_steps.clone()
    };
    if keys.is_empty() {
        return Ok(());
    }
    for row in external_tasks::get_many(tx, &keys).await? {
        if let Some(loaded) = trees.get_mut(&row.root) {
            loaded.take_row(&row)?;
        }
    }
    if without_steps.is_empty() {
        return Ok(());
    }
    let mut by_task: HashMap<TaskId, Vec<Arc<Step>>> = HashMap::new();
    for row in steps::list_for_tasks(tx, &without_steps).await? {
        let step: Step = parse("steps", &row.task, &row.body)?;
        by_task.entry(step.task.clone()).or_default().push(Arc::new(step));
    }
    for (id, mut steps) in by_task {
        steps.sort_by_key(|step| (step.attempt, step.sequence));
        let tree = trees.get_mut(id.root()).map(|loaded| &mut loaded.tree);
        if let Some(file) = tree.and_then(|tree| tree.tasks.get_mut(&id)) {
            Arc::make_mut(file).steps = steps;
        }
    }
    Ok(())
}

/// Loads one instance of a tree, if it exists.
pub(super) async fn load_instance(conn: &mut Conn, loaded: &mut Loaded, id: &InstanceId) -> Result<()> {
    lend(loaded, async |batch| {
        load_instances(conn, batch, &HashSet::from([id.clone()])).await
    })
    .await
}

/// Loads one task of a tree with its steps, if it exists.
pub(super) async fn load_task(tx: &mut Tx, loaded: &mut Loaded, id: &TaskId) -> Result<()> {
    lend(loaded, async |batch| {
        load_tasks(tx, batch, &HashSet::from([id.clone()]), false).await
    })
    .await
}

/// Loads every instance and task of a tree that is not over.
pub(super) async fn load_open(tx: &mut Tx, loaded: &mut Loaded, refresh: bool) -> Result<()> {
    let root = loaded.root.id.clone();
    let open = instances::list_tree(tx, &root)
        .await?
        .into_iter()
        .filter(|row| row.ended_at.is_none());
    let instances: HashSet<InstanceId> = open.map(|row| InstanceId(row.id)).collect();
    let open = external_tasks::list_open(tx, &root).await?;
    let tasks: HashSet<TaskId> = open.into_iter().map(|row| TaskId(row.id)).collect();
    lend(loaded, async |batch| {
        load_instances(tx, batch, &instances).await?;
        load_tasks(tx, batch, &tasks, refresh).await
    })
    .await
}

/// Lends a tree to a loader that works on a batch.
async fn lend(
    loaded: &mut Loaded,
    load: impl AsyncFnOnce(&mut HashMap<String, Loaded>) -> Result<()>,
) -> Result<()> {
    let (root, key, fresh) = (loaded.root.clone(), loaded.key.clone(), loaded.fresh);
    let id = root.id.clone();
    let lent = std::mem::replace(loaded, Loaded::new(root, key, fresh));
    let mut batch = HashMap::from([(id.clone(), lent)]);
    let result = load(&mut batch).await;
    if let Some(lent) = batch.remove(&id) {
        *loaded = lent;
    }
    result
}

/// A decrypted payload.
pub type Payload = (String, Value);

/// Loads payloads of a tree by digest, whoever owns them; answers one that is not there.
pub(super) async fn load_payloads(
    conn: &mut Conn,
    loaded: &mut Loaded,
    digests: &[String],
) -> Result<Option<String>> {
    for row in payloads::find_many(conn, &loaded.root.id, digests).await? {
        let (digest, value) = decrypt(loaded.key.as_ref(), &row)?;
        loaded.tree.payloads.insert(digest, value);
    }
    let lost = |digest: &&String| !loaded.tree.payloads.contains(digest);
    Ok(digests.iter().find(lost).cloned())
}

/// Reads payloads outside the writer, for answers.
///
/// # Errors
/// The store's; `Corrupt` when the bytes cannot be decrypted.
pub async fn read_payloads(
    shared: &Shared,
    conn: &mut Conn,
    keys: &[PayloadKey],
) -> Result<HashMap<String, Value>> {
    let mut values = HashMap::new();
    let mut data_keys: HashMap<String, Option<DataKey>> = HashMap::new();
    for row in payloads::get_many(conn, keys).await? {
        if !data_keys.contains_key(&row.root) {
            let root = legation_store::roots::get(conn, &row.root).await?;
            let key = root.map(|root| unwrap_key(shared, &root)).transpose()?.flatten();
            data_keys.insert(row.root.clone(), key);
        }
        let key = data_keys.get(&row.root).and_then(Option::as_ref);
        let (digest, value) = decrypt(key, &row)?;
        values.insert(digest, value);
    }
    Ok(values)
}

/// The data key of a root.
pub(super) fn unwrap_key(shared: &Shared, root: &RootRow) -> Result<Option<DataKey>> {
    match &root.data_key {
        None => Ok(None),
        Some(wrapped) => shared
            .master
            .unwrap(&root.id, wrapped)
            .map(Some)
            .map_err(|error| Error::Corrupt {
                table: "roots",
                id: format!("{}: {error}", root.id),
            }),
    }
}

/// Binds payload bytes to their place.
pub(super) fn place(root: &str, owner: &str, digest: &str) -> String {
    debug_assert_eq!(root, root_of(owner));
    format!("{owner}/{digest}")
}

fn decrypt(key: Option<&DataKey>, row: &PayloadRow) -> Result<Payload> {
    let corrupt = |what: String| Error::Corrupt {
        table: "payloads",
        id: format!("{}/{}: {what}", row.owner, row.digest),
    };
    let plain = match (key, &row.nonce) {
        (Some(key), Some(nonce)) => key
            .decrypt(nonce, &row.body, &place(&row.root, &row.owner, &row.digest))
            .map_err(|error| corrupt(error.to_string()))?,
        (None, Some(_)) => return Err(corrupt("its root has no data key".to_owned())),
        (_, None) => row.body.clone(),
    };
    let text = String::from_utf8(plain).map_err(|error| corrupt(error.to_string()))?;
    let value = Value::parse(&text).map_err(|error| corrupt(error.to_string()))?;
    Ok((row.digest.clone(), value))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree(id: String, text: &str) -> Loaded {
        let root = RootRow {
            id,
            project: "p".to_owned(),
            version: 0,
            stopping: None,
            budget: None,
            key_id: None,
            data_key: None,
            created_at: 0,
            ended_at: None,
        };
        let mut loaded = Loaded::new(root, None, false);
        loaded
            .tree
            .payloads
            .insert("digest".to_owned(), Value::from(text));
        loaded
    }

    #[test]
    fn payloads_in_memory_are_bounded_and_the_latest_stay() {
        let mut trees = Trees::default();
        let text = "x".repeat(1024 * 1024);
        for number in 0..300 {
            trees.put(tree(format!("r{number}"), &text));
            assert!(trees.bytes <= MOST_BYTES);
        }
        assert!(
            trees
                .remove("r299")
                .expect("kept")
                .tree
                .payloads
                .contains("digest")
        );
        assert!(!trees.remove("r0").expect("kept").tree.payloads.contains("digest"));
        for number in 1..299 {
            trees.remove(&format!("r{number}"));
        }
        assert_eq!(trees.bytes, 0);
    }
}
