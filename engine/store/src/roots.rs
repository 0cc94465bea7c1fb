//! One row per tree of instances: its lock, its budget, its data key.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "id, project, version, stopping, budget, key_id, data_key, created_at, ended_at";

/// A tree of instances.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct RootRow {
    /// The root instance's id.
    pub id: String,
    /// The project.
    pub project: String,
    /// Counts the commits that changed the tree: a cached tree of the same version is still true.
    pub version: i64,
    /// JSON: why the whole tree is being stopped.
    pub stopping: Option<String>,
    /// JSON: what the tree may spend.
    pub budget: Option<String>,
    /// The master key that wraps `data_key`.
    pub key_id: Option<String>,
    /// The tree's own key, wrapped. Dropping it erases every payload of the tree.
    pub data_key: Option<Vec<u8>>,
    /// Epoch milliseconds.
    pub created_at: i64,
    /// When the root instance ended, epoch milliseconds.
    pub ended_at: Option<i64>,
}

from_sqlite!(RootRow: id, project, version, stopping, budget, key_id, data_key, created_at, ended_at);

impl RootRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.id,
            &self.project,
            self.version,
            &self.stopping,
            &self.budget,
            &self.key_id,
            &self.data_key,
            self.created_at,
            self.ended_at,
        ]
        .to_vec()
    }
}

/// Makes new trees. They are locked by it.
pub async fn insert(tx: &mut Tx, rows: &[RootRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO roots ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(RootRow::args).collect();
    tx.put("roots", &INSERT, &rows).await
}

/// Locks the trees that are free, in one statement, in id order, and gives their rows in that order. One that is
/// missing in the answer is unknown or held by another writer: its commands go back to the queue.
pub async fn lock(tx: &mut Tx, ids: &[String]) -> Result<Vec<RootRow>> {
    static LOCK: Sql = Sql::pair(
        COLUMNS,
        "SELECT {columns} FROM roots WHERE id IN {texts:1} ORDER BY id",
        "SELECT {columns} FROM roots WHERE id = ANY($1) ORDER BY id FOR UPDATE SKIP LOCKED",
    );
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    tx.fetch(&LOCK, &args![ids]).await
}

/// Locks one tree, waiting for whoever holds it: for a command that was turned away three times and runs alone.
pub async fn lock_waiting(tx: &mut Tx, id: &str) -> Result<Option<RootRow>> {
    static LOCK: Sql = Sql::new(
        COLUMNS,
        "SELECT {t.columns} FROM roots AS t WHERE t.id = $1 {for_update}",
    );
    tx.first(&LOCK, &args![id]).await
}

/// Writes the trees back and counts `version` up by one. `version` in the rows is the one that was loaded.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if one of them has another version or does not exist.
pub async fn update(tx: &mut Tx, rows: &[RootRow]) -> Result<()> {
    static UPDATE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v({columns}) AS ({rows})
         UPDATE roots AS t
         SET version = t.version + 1, stopping = v.stopping, budget = v.budget, key_id = v.key_id,
             data_key = v.data_key, ended_at = v.ended_at
         FROM v
         WHERE t.id = v.id AND t.version = v.version",
    );
    let values: Vec<_> = rows.iter().map(RootRow::args).collect();
    tx.put_all("roots", &UPDATE, &values).await
}

/// One tree.
pub async fn get(conn: &mut Conn, id: &str) -> Result<Option<RootRow>> {
    static GET: Sql = Sql::new(COLUMNS, "SELECT {columns} FROM roots WHERE id = $1");
    conn.first(&GET, &args![id]).await
}
