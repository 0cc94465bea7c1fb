//! Timers: what an instance waits for that only the clock brings.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::keys::{Key, key_rows};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, id, project, instance, node, kind, due_at, held, body";

/// A timer.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct TimerRow {
    /// The tree.
    pub root: String,
    /// `<instance>.m6`.
    pub id: String,
    /// The project.
    pub project: String,
    /// The instance.
    pub instance: String,
    /// The node of the process.
    pub node: Option<String>,
    /// What it does when it fires.
    pub kind: String,
    /// Epoch milliseconds.
    pub due_at: i64,
    /// Its instance is suspended: it does not fire.
    pub held: bool,
    /// JSON.
    pub body: String,
}

from_sqlite!(TimerRow: root, id, project, instance, node, kind, due_at, held, body);

impl TimerRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.id,
            &self.project,
            &self.instance,
            &self.node,
            &self.kind,
            self.due_at,
            self.held,
            &self.body,
        ]
        .to_vec()
    }
}

/// Sets timers.
pub async fn insert(tx: &mut Tx, rows: &[TimerRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO timers ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(TimerRow::args).collect();
    tx.put("timers", &INSERT, &rows).await
}

/// Drops timers. Unknown ones are gone already.
pub async fn delete(tx: &mut Tx, keys: &[Key]) -> Result<()> {
    static DELETE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows}) DELETE FROM timers WHERE {roots} AND (root, id) IN (SELECT root, id FROM v)",
    );
    tx.put("timers", &DELETE, &key_rows(keys)).await
}

/// What is due by now, the longest due first. Nothing is taken: that happens under the root's lock.
pub async fn due(conn: &mut Conn, now: i64, limit: i64) -> Result<Vec<TimerRow>> {
    static DUE: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM timers WHERE NOT held AND due_at <= $1 ORDER BY due_at, root, id LIMIT $2",
    );
    conn.fetch(&DUE, &args![now, limit]).await
}

/// When the next one is due, epoch milliseconds.
pub async fn next_due(conn: &mut Conn) -> Result<Option<i64>> {
    static NEXT: Sql = Sql::new("", "SELECT MIN(due_at) FROM timers WHERE NOT held");
    let row: Option<(Option<i64>,)> = conn.first(&NEXT, &[]).await?;
    Ok(row.and_then(|row| row.0))
}

/// Removes timers and gives those that were still there: only these fire. In no order.
pub async fn take(tx: &mut Tx, keys: &[Key]) -> Result<Vec<TimerRow>> {
    static TAKE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         DELETE FROM timers WHERE {roots} AND (root, id) IN (SELECT root, id FROM v) RETURNING {columns}",
    );
    tx.bulk_fetch(&TAKE, &key_rows(keys)).await
}

/// As [`take`], but leaves those that are held: one that was sent before it was held does not fire after all.
pub async fn take_due(tx: &mut Tx, keys: &[Key]) -> Result<Vec<TimerRow>> {
    static TAKE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         DELETE FROM timers WHERE {roots} AND (root, id) IN (SELECT root, id FROM v) AND NOT held
         RETURNING {columns}",
    );
    tx.bulk_fetch(&TAKE, &key_rows(keys)).await
}

/// Holds an instance's timers (`true`) or lets them go on, and counts them.
pub async fn set_held(tx: &mut Tx, root: &str, instance: &str, held: bool) -> Result<u64> {
    static HOLD: Sql = Sql::new(
        COLUMNS,
        "UPDATE timers SET held = $3 WHERE root = $1 AND instance = $2",
    );
    tx.execute(&HOLD, &args![root, instance, held]).await
}

/// An instance's timers, by time.
pub async fn list(conn: &mut Conn, root: &str, instance: &str) -> Result<Vec<TimerRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM timers WHERE root = $1 AND instance = $2 ORDER BY due_at, id",
    );
    conn.fetch(&LIST, &args![root, instance]).await
}
