//! Idempotency keys of callers: reserved before the work, kept with the answer.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "project, principal, operation, key, body_hash, status, answer, created_at";

/// A key and, once the work is done, its answer.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct IdempotencyRow {
    /// The project.
    pub project: String,
    /// Who calls.
    pub principal: String,
    /// What is called.
    pub operation: String,
    /// The caller's key.
    pub key: String,
    /// Hash of the body: another body under the same key is refused (409).
    pub body_hash: String,
    /// The HTTP status of the answer; `None` only within the transaction that does the work.
    pub status: Option<i64>,
    /// The body of the answer.
    pub answer: Option<String>,
    /// Epoch milliseconds.
    pub created_at: i64,
}

from_sqlite!(IdempotencyRow: project, principal, operation, key, body_hash, status, answer, created_at);

impl IdempotencyRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.project,
            &self.principal,
            &self.operation,
            &self.key,
            &self.body_hash,
            self.status,
            &self.answer,
            self.created_at,
        ]
        .to_vec()
    }

    fn key(&self) -> (&str, &str, &str, &str) {
        (&self.project, &self.principal, &self.operation, &self.key)
    }
}

/// Reserves keys, sorted, and gives the rows of those that were there already: their work is not to be done again.
/// On PostgreSQL it waits for a transaction that is just reserving the same key.
pub async fn reserve(tx: &mut Tx, rows: &[IdempotencyRow]) -> Result<Vec<IdempotencyRow>> {
    static RESERVE: Bulk = Bulk::new(
        COLUMNS,
        "INSERT INTO idempotency ({columns}) {rows}
         ON CONFLICT (project, principal, operation, key) DO NOTHING RETURNING {columns}",
    );
    static GET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(project, principal, operation, key) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN idempotency AS t
         WHERE t.project = v.project AND t.principal = v.principal AND t.operation = v.operation
           AND t.key = v.key",
    );
    let mut sorted: Vec<&IdempotencyRow> = rows.iter().collect();
    sorted.sort_by(|a, b| a.key().cmp(&b.key()));
    let values: Vec<_> = sorted.iter().map(|row| row.args()).collect();
    let new: Vec<IdempotencyRow> = tx.bulk_fetch(&RESERVE, &values).await?;
    if new.len() == rows.len() {
        return Ok(Vec::new());
    }
    let is_old = |row: &&&IdempotencyRow| !new.iter().any(|new| new.key() == row.key());
    let old: Vec<_> = sorted
        .iter()
        .filter(is_old)
        .map(|row| args![&row.project, &row.principal, &row.operation, &row.key].to_vec())
        .collect();
    tx.bulk_fetch(&GET, &old).await
}

/// Writes the answers of reserved keys.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if one is not reserved or has an answer.
pub async fn finish(tx: &mut Tx, rows: &[IdempotencyRow]) -> Result<()> {
    static FINISH: Bulk = Bulk::new(
        COLUMNS,
        "WITH v({columns}) AS ({rows})
         UPDATE idempotency AS t SET status = v.status, answer = v.answer
         FROM v
         WHERE t.project = v.project AND t.principal = v.principal AND t.operation = v.operation
           AND t.key = v.key AND t.status IS NULL",
    );
    let values: Vec<_> = rows.iter().map(IdempotencyRow::args).collect();
    tx.put_all("idempotency", &FINISH, &values).await
}

/// Gives a reserved key up again, when its work was refused after all.
pub async fn release(tx: &mut Tx, rows: &[IdempotencyRow]) -> Result<u64> {
    static RELEASE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(project, principal, operation, key) AS ({rows})
         DELETE FROM idempotency
         WHERE (project, principal, operation, key) IN (SELECT project, principal, operation, key FROM v)
           AND status IS NULL",
    );
    let values: Vec<_> = rows
        .iter()
        .map(|row| args![&row.project, &row.principal, &row.operation, &row.key].to_vec())
        .collect();
    tx.bulk(&RELEASE, &values).await
}

/// One key.
pub async fn get(
    conn: &mut Conn,
    project: &str,
    principal: &str,
    operation: &str,
    key: &str,
) -> Result<Option<IdempotencyRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM idempotency
         WHERE project = $1 AND principal = $2 AND operation = $3 AND key = $4",
    );
    conn.first(&GET, &args![project, principal, operation, key]).await
}

/// Forgets keys from before `time`, at most `limit`, and counts them.
pub async fn delete_older_than(tx: &mut Tx, time: i64, limit: i64) -> Result<u64> {
    static DELETE: Sql = Sql::new(
        COLUMNS,
        "DELETE FROM idempotency WHERE (project, principal, operation, key) IN (
             SELECT project, principal, operation, key FROM idempotency WHERE created_at < $1
             ORDER BY created_at LIMIT $2)",
    );
    tx.execute(&DELETE, &args![time, limit]).await
}
