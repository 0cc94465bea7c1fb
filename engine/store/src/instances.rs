//! Instances: what is listed and searched as columns, the kernel's state as `snapshot`.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::filter::Filter;
use crate::keys::{Key, Place, key_rows};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, id, project, process, version, status, suspended, business_key, parent, parent_task, \
                       parent_attempt, parent_sequence, depth, initiator, started_by, labels, error_code, \
                       incidents, started_at, ended_at, updated_at, revision, format, snapshot";

/// Everything but the snapshot.
const LIST_COLUMNS: &str = "root, id, project, process, version, status, suspended, business_key, parent, \
                            parent_task, parent_attempt, parent_sequence, depth, initiator, started_by, labels, \
                            error_code, incidents, started_at, ended_at, updated_at, revision, format";

/// A running or finished process.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct InstanceRow {
    /// The root instance of its tree; its own id if it is one.
    pub root: String,
    /// `<root>` or `<root>.i4`.
    pub id: String,
    /// The project.
    pub project: String,
    /// The process's key.
    pub process: String,
    /// The version of its definition.
    pub version: i64,
    /// RUNNING, CANCELLING, COMPENSATING, COMPLETED, FAILED, CANCELLED.
    pub status: String,
    /// No token moves and no lease is given.
    pub suspended: bool,
    /// The user's own name for it.
    pub business_key: Option<String>,
    /// The instance that started it, in this tree or another.
    pub parent: Option<String>,
    /// The task whose step started it.
    pub parent_task: Option<String>,
    /// That step's attempt.
    pub parent_attempt: Option<i64>,
    /// That step's sequence. One child a step: a second is a conflict (I8).
    pub parent_sequence: Option<i64>,
    /// Levels below the first instance of its lineage.
    pub depth: i64,
    /// The principal on whose behalf it runs.
    pub initiator: Option<String>,
    /// JSON: what started it.
    pub started_by: String,
    /// JSON object.
    pub labels: String,
    /// Why it failed.
    pub error_code: Option<String>,
    /// How many incidents are open.
    pub incidents: i64,
    /// Epoch milliseconds.
    pub started_at: i64,
    /// Epoch milliseconds.
    pub ended_at: Option<i64>,
    /// Epoch milliseconds.
    pub updated_at: i64,
    /// That of the last history row.
    pub revision: i64,
    /// The snapshot's format.
    pub format: i64,
    /// JSON: the kernel's state. Empty in rows out of a list.
    #[sqlx(default)]
    pub snapshot: String,
}

from_sqlite!(InstanceRow: root, id, project, process, version, status, suspended, business_key, parent, parent_task, parent_attempt, parent_sequence, depth, initiator, started_by, labels, error_code, incidents, started_at, ended_at, updated_at, revision, format; snapshot);

/// A changed instance: `row` with its new revision, and the revision that was loaded.
#[derive(Clone, Debug)]
pub struct InstanceUpdate {
    /// The whole new row.
    pub row: InstanceRow,
    /// The revision that the stored row must still have.
    pub loaded: i64,
}

/// Which instances of a project to list.
#[derive(Clone, Debug, Default)]
pub struct InstanceFilter {
    /// The project.
    pub project: String,
    /// Only of this process.
    pub process: Option<String>,
    /// Only in this status.
    pub status: Option<String>,
    /// Only with this business key.
    pub business_key: Option<String>,
    /// Only those whose parent is this instance.
    pub parent: Option<Key>,
    /// Only root instances.
    pub roots_only: bool,
    /// Started at this time or later, epoch milliseconds.
    pub started_from: Option<i64>,
    /// Started before this time, epoch milliseconds.
    pub started_before: Option<i64>,
    /// After the last row of the page before.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: i64,
}

impl InstanceRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.id,
            &self.project,
            &self.process,
            self.version,
            &self.status,
            self.suspended,
            &self.business_key,
            &self.parent,
            &self.parent_task,
            self.parent_attempt,
            self.parent_sequence,
            self.depth,
            &self.initiator,
            &self.started_by,
            &self.labels,
            &self.error_code,
            self.incidents,
            self.started_at,
            self.ended_at,
            self.updated_at,
            self.revision,
            self.format,
            &self.snapshot,
        ]
        .to_vec()
    }

    /// Where the page after this row begins.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            at: self.started_at,
            root: self.root.clone(),
            id: self.id.clone(),
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(&self.root, &self.id)
    }
}

/// Writes new instances.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if one exists, or if the step that starts one has a child already (I8).
pub async fn insert(tx: &mut Tx, rows: &[InstanceRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO instances ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(InstanceRow::args).collect();
    tx.put("instances", &INSERT, &rows).await
}

/// Writes instances back, each only if its revision is still the loaded one.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if one of them was changed by someone else.
pub async fn update(tx: &mut Tx, rows: &[InstanceUpdate]) -> Result<()> {
    static UPDATE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v({columns}, loaded) AS ({rows})
         UPDATE instances AS t
         SET version = v.version, status = v.status, suspended = v.suspended, business_key = v.business_key,
             labels = v.labels, error_code = v.error_code, incidents = v.incidents, ended_at = v.ended_at,
             updated_at = v.updated_at, revision = v.revision, format = v.format, snapshot = v.snapshot
         FROM v
         WHERE t.root = v.root AND t.id = v.id AND t.revision = v.loaded",
    );
    let values: Vec<_> = rows
        .iter()
        .map(|update| {
            let mut args = update.row.args();
            args.push(Arg::from(update.loaded));
            args
        })
        .collect();
    tx.put_all("instances", &UPDATE, &values).await
}

/// One instance, with its snapshot.
pub async fn get(conn: &mut Conn, root: &str, id: &str) -> Result<Option<InstanceRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM instances WHERE root = $1 AND id = $2",
    );
    conn.first(&GET, &args![root, id]).await
}

/// Many instances, with their snapshots, in no order. Unknown ones are missing.
pub async fn get_many(conn: &mut Conn, keys: &[Key]) -> Result<Vec<InstanceRow>> {
    static GET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN instances AS t WHERE t.root = v.root AND t.id = v.id",
    );
    conn.bulk_fetch(&GET, &key_rows(keys)).await
}

/// All instances of a tree, without snapshots, oldest first.
pub async fn list_tree(conn: &mut Conn, root: &str) -> Result<Vec<InstanceRow>> {
    static LIST: Sql = Sql::new(
        LIST_COLUMNS,
        "SELECT {columns} FROM instances WHERE root = $1 ORDER BY depth, started_at, id",
    );
    conn.fetch(&LIST, &args![root]).await
}

/// One page of a project's instances, newest first, without snapshots.
pub async fn list(conn: &mut Conn, filter: &InstanceFilter) -> Result<Vec<InstanceRow>> {
    conn.list(query(filter)).await
}

pub(crate) fn query(filter: &InstanceFilter) -> Filter<'_> {
    let mut query = Filter::new(
        LIST_COLUMNS,
        "SELECT {t.columns} FROM instances AS t WHERE t.project = $1",
        &args![&filter.project],
    );
    query.and_some("t.process = ?", filter.process.as_deref());
    match filter.status.as_deref() {
        // A literal, so that the partial index on everything else is seen to fit.
        Some("COMPLETED") => query.and_fixed("t.status = 'COMPLETED'"),
        Some(status) => {
            query.and("t.status = ?", status);
            query.and_fixed("t.status <> 'COMPLETED'");
        }
        None => {}
    }
    query.and_some("t.business_key = ?", filter.business_key.as_deref());
    if let Some(parent) = &filter.parent {
        query.of_instance("t.parent = ?", parent);
    }
    if filter.roots_only {
        query.and_fixed("t.root = t.id");
    }
    query.and_some("t.started_at >= ?", filter.started_from);
    query.and_some("t.started_at < ?", filter.started_before);
    query.page("started_at", filter.after.as_ref(), filter.limit);
    query
}

/// How many instances of a project are in each status.
pub async fn count_by_status(conn: &mut Conn, project: &str) -> Result<Vec<(String, i64)>> {
    // Those that are not completed are few and have an index; the rest is the difference.
    static OPEN: Sql = Sql::new(
        "",
        "SELECT status, COUNT(*) FROM instances
         WHERE project = $1 AND status <> 'COMPLETED' GROUP BY status ORDER BY status",
    );
    static ALL: Sql = Sql::new("", "SELECT COUNT(*) FROM instances WHERE project = $1");
    let mut counts: Vec<(String, i64)> = conn.fetch(&OPEN, &args![project]).await?;
    let all: Option<(i64,)> = conn.first(&ALL, &args![project]).await?;
    let others: i64 = counts.iter().map(|count| count.1).sum();
    let completed = all.map_or(0, |all| all.0) - others;
    if completed > 0 {
        counts.push(("COMPLETED".to_owned(), completed));
    }
    Ok(counts)
}
