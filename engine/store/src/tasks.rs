//! Tasks of people: human tasks and approvals, and who may act on them.

use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::filter::Filter;
use crate::keys::{Key, Place, key_rows};
use crate::sqlite::from_sqlite;
use crate::{Error, Result};

const COLUMNS: &str = "root, id, project, instance, node, kind, state, groups, users, external_task, attempt, \
                       sequence, digest, due_at, created_at, ended_at, decided_by, outcome, comment, body";

/// A task for a person.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct TaskRow {
    /// The tree.
    pub root: String,
    /// `<instance>.h5`.
    pub id: String,
    /// The project.
    pub project: String,
    /// The instance.
    pub instance: String,
    /// The node of the process.
    pub node: String,
    /// `approval` or `human`.
    pub kind: String,
    /// The kernel's word for where it stands. It is open while `ended_at` is not set.
    pub state: String,
    /// JSON array of the groups that may act.
    pub groups: String,
    /// JSON array of the users who may act.
    pub users: String,
    /// The task of the step that an approval is about.
    pub external_task: Option<String>,
    /// That step's attempt.
    pub attempt: Option<i64>,
    /// That step's sequence. One live approval a step: a second is a conflict.
    pub sequence: Option<i64>,
    /// Digest of what is to be approved.
    pub digest: Option<String>,
    /// Epoch milliseconds.
    pub due_at: Option<i64>,
    /// Epoch milliseconds.
    pub created_at: i64,
    /// Epoch milliseconds.
    pub ended_at: Option<i64>,
    /// The principal who decided.
    pub decided_by: Option<String>,
    /// What was decided.
    pub outcome: Option<String>,
    /// What the person wrote.
    pub comment: Option<String>,
    /// JSON.
    pub body: String,
}

from_sqlite!(TaskRow: root, id, project, instance, node, kind, state, groups, users, external_task, attempt, sequence, digest, due_at, created_at, ended_at, decided_by, outcome, comment, body);

/// Which tasks of a project to list.
#[derive(Clone, Debug, Default)]
pub struct TaskFilter {
    /// The project.
    pub project: String,
    /// Only open tasks that one of these may act on: `user:<name>`, `group:<name>`.
    pub candidates: Option<Vec<String>>,
    /// `approval` or `human`.
    pub kind: Option<String>,
    /// Only in this state.
    pub state: Option<String>,
    /// Only open ones.
    pub open_only: bool,
    /// Only of this instance.
    pub instance: Option<Key>,
    /// After the last row of the page before.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: i64,
}

impl TaskRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.id,
            &self.project,
            &self.instance,
            &self.node,
            &self.kind,
            &self.state,
            &self.groups,
            &self.users,
            &self.external_task,
            self.attempt,
            self.sequence,
            &self.digest,
            self.due_at,
            self.created_at,
            self.ended_at,
            &self.decided_by,
            &self.outcome,
            &self.comment,
            &self.body,
        ]
        .to_vec()
    }

    /// Where the page after this row begins.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            at: self.created_at,
            root: self.root.clone(),
            id: self.id.clone(),
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(&self.root, &self.id)
    }

    /// `user:<name>` and `group:<name>` of those who may act.
    fn candidates(&self) -> Result<Vec<String>> {
        let mut all = Vec::new();
        for (prefix, json) in [("group", &self.groups), ("user", &self.users)] {
            let names: Vec<String> = serde_json::from_str(json).map_err(|_| Error::Corrupt {
                table: "tasks",
                id: self.id.clone(),
            })?;
            all.extend(names.into_iter().map(|name| format!("{prefix}:{name}")));
        }
        Ok(all)
    }
}

/// Writes new tasks and who may act on them.
///
/// # Errors
/// [`Error::Conflict`] if a step has a live approval already; [`Error::Corrupt`] if `groups` or `users` is no
/// array of strings.
pub async fn insert(tx: &mut Tx, rows: &[TaskRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO tasks ({columns}) {rows}");
    let values: Vec<_> = rows.iter().map(TaskRow::args).collect();
    tx.put("tasks", &INSERT, &values).await?;
    insert_candidates(tx, rows).await
}

/// Writes whole tasks back, under the root's lock. One that has ended loses its candidates.
///
/// # Errors
/// [`Error::Conflict`] if one of them does not exist or had ended already.
pub async fn update(tx: &mut Tx, rows: &[TaskRow]) -> Result<()> {
    static UPDATE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v({columns}) AS ({rows})
         UPDATE tasks AS t
         SET state = v.state, groups = v.groups, users = v.users, digest = v.digest, due_at = v.due_at,
             ended_at = v.ended_at, decided_by = v.decided_by, outcome = v.outcome, comment = v.comment,
             body = v.body
         FROM v
         WHERE t.root = v.root AND t.id = v.id AND t.ended_at IS NULL",
    );
    static FORGET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         DELETE FROM task_candidates WHERE {roots} AND (root, task) IN (SELECT root, id FROM v)",
    );
    let values: Vec<_> = rows.iter().map(TaskRow::args).collect();
    tx.put_all("tasks", &UPDATE, &values).await?;
    let keys: Vec<Key> = rows.iter().map(TaskRow::key).collect();
    tx.put("task_candidates", &FORGET, &key_rows(&keys)).await?;
    insert_candidates(tx, rows).await
}

async fn insert_candidates(tx: &mut Tx, rows: &[TaskRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(
        "project, candidate, root, task",
        "INSERT INTO task_candidates ({columns}) {rows} ON CONFLICT DO NOTHING",
    );
    let mut candidates = Vec::new();
    for row in rows.iter().filter(|row| row.ended_at.is_none()) {
        candidates.extend(row.candidates()?.into_iter().map(|candidate| (row, candidate)));
    }
    let values: Vec<_> = candidates
        .iter()
        .map(|(row, candidate)| args![&row.project, candidate, &row.root, &row.id].to_vec())
        .collect();
    tx.put("task_candidates", &INSERT, &values).await
}

/// One task.
pub async fn get(conn: &mut Conn, root: &str, id: &str) -> Result<Option<TaskRow>> {
    static GET: Sql = Sql::new(COLUMNS, "SELECT {columns} FROM tasks WHERE root = $1 AND id = $2");
    conn.first(&GET, &args![root, id]).await
}

/// Many tasks, in no order. Unknown ones are missing.
pub async fn get_many(conn: &mut Conn, keys: &[Key]) -> Result<Vec<TaskRow>> {
    static GET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN tasks AS t WHERE t.root = v.root AND t.id = v.id",
    );
    conn.bulk_fetch(&GET, &key_rows(keys)).await
}

/// One page of a project's tasks, newest first.
pub async fn list(conn: &mut Conn, filter: &TaskFilter) -> Result<Vec<TaskRow>> {
    conn.list(query(filter)).await
}

pub(crate) fn query(filter: &TaskFilter) -> Filter<'_> {
    let mut query = Filter::new(
        COLUMNS,
        "SELECT {t.columns} FROM tasks AS t WHERE t.project = $1",
        &args![&filter.project],
    );
    if let Some(candidates) = &filter.candidates {
        query.and(
            "(t.root, t.id) IN (SELECT c.root, c.task FROM task_candidates AS c
                                WHERE c.project = $1 AND c.candidate IN {texts})",
            candidates.as_slice(),
        );
    }
    if filter.open_only || filter.candidates.is_some() {
        query.and_fixed("t.ended_at IS NULL");
    }
    query.and_some("t.kind = ?", filter.kind.as_deref());
    query.and_some("t.state = ?", filter.state.as_deref());
    if let Some(instance) = &filter.instance {
        query.of_instance("t.instance = ?", instance);
    }
    query.page("created_at", filter.after.as_ref(), filter.limit);
    query
}
