//! Workers that have fetched: who serves which topics, and when each was last seen.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "project, worker_id, topics, principal, leases, started_at, last_seen";

/// A worker.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct WorkerRow {
    /// The project.
    pub project: String,
    /// What it calls itself.
    pub worker_id: String,
    /// JSON array of the topics that it asks for.
    pub topics: String,
    /// Whose key it uses.
    pub principal: Option<String>,
    /// The leases it says to hold.
    pub leases: Option<i64>,
    /// When it was first seen, epoch milliseconds.
    pub started_at: i64,
    /// Epoch milliseconds.
    pub last_seen: i64,
}

from_sqlite!(WorkerRow: project, worker_id, topics, principal, leases, started_at, last_seen);

impl WorkerRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.project,
            &self.worker_id,
            &self.topics,
            &self.principal,
            self.leases,
            self.started_at,
            self.last_seen,
        ]
        .to_vec()
    }
}

/// Notes workers, sorted, so that two engines cannot wait for each other. `started_at` of a known one stays.
pub async fn upsert(tx: &mut Tx, rows: &[WorkerRow]) -> Result<()> {
    static UPSERT: Bulk = Bulk::new(
        COLUMNS,
        "INSERT INTO workers ({columns}) {rows}
         ON CONFLICT (project, worker_id) DO UPDATE
         SET topics = excluded.topics, principal = excluded.principal, leases = excluded.leases,
             last_seen = excluded.last_seen",
    );
    let mut sorted: Vec<&WorkerRow> = rows.iter().collect();
    sorted.sort_by_key(|row| (&row.project, &row.worker_id));
    let values: Vec<_> = sorted.iter().map(|row| row.args()).collect();
    tx.bulk(&UPSERT, &values).await?;
    Ok(())
}

/// The workers of a project, by name.
pub async fn list(conn: &mut Conn, project: &str) -> Result<Vec<WorkerRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM workers WHERE project = $1 ORDER BY worker_id",
    );
    conn.fetch(&LIST, &args![project]).await
}

/// Forgets workers that were not seen since `time` and counts them.
pub async fn delete_older_than(tx: &mut Tx, time: i64) -> Result<u64> {
    static DELETE: Sql = Sql::new(COLUMNS, "DELETE FROM workers WHERE last_seen < $1");
    tx.execute(&DELETE, &args![time]).await
}
