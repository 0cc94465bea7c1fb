//! API keys: only hashes are stored.

use crate::conn::{Conn, Tx};
use crate::dialect::{Bulk, Sql, args};
use crate::sqlite::from_sqlite;
use crate::{Error, Result};

const COLUMNS: &str = "id, project, principal, hash, prefix, label, topics, created_at, expires_at, revoked_at, \
                       last_used_at";

/// A key.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ApiKeyRow {
    /// Its id.
    pub id: String,
    /// The project.
    pub project: String,
    /// Whose key it is.
    pub principal: String,
    /// SHA-256 of the key, hex. Unique.
    pub hash: String,
    /// The first characters, by which people recognise it.
    pub prefix: String,
    /// What it is for.
    pub label: Option<String>,
    /// JSON array: the topics it may fetch; `None`: all.
    pub topics: Option<String>,
    /// Epoch milliseconds.
    pub created_at: i64,
    /// Epoch milliseconds.
    pub expires_at: Option<i64>,
    /// Epoch milliseconds.
    pub revoked_at: Option<i64>,
    /// Epoch milliseconds, not exact.
    pub last_used_at: Option<i64>,
}

from_sqlite!(ApiKeyRow: id, project, principal, hash, prefix, label, topics, created_at, expires_at, revoked_at, last_used_at);

/// Writes a new key.
///
/// # Errors
/// [`Error::Conflict`] if the id or the hash exists.
pub async fn insert(tx: &mut Tx, row: &ApiKeyRow) -> Result<()> {
    static INSERT: Sql = Sql::new(
        COLUMNS,
        "INSERT INTO api_keys ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)",
    );
    let values = args![
        &row.id,
        &row.project,
        &row.principal,
        &row.hash,
        &row.prefix,
        &row.label,
        &row.topics,
        row.created_at,
        row.expires_at,
        row.revoked_at,
        row.last_used_at,
    ];
    tx.execute(&INSERT, &values).await?;
    Ok(())
}

/// The key with this hash, revoked and expired ones too.
pub async fn find(conn: &mut Conn, hash: &str) -> Result<Option<ApiKeyRow>> {
    static FIND: Sql = Sql::new(COLUMNS, "SELECT {columns} FROM api_keys WHERE hash = $1");
    conn.first(&FIND, &args![hash]).await
}

/// One key of a project.
pub async fn get(conn: &mut Conn, project: &str, id: &str) -> Result<Option<ApiKeyRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM api_keys WHERE id = $2 AND project = $1",
    );
    conn.first(&GET, &args![project, id]).await
}

/// All keys of a project, the newest first.
pub async fn list(conn: &mut Conn, project: &str) -> Result<Vec<ApiKeyRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM api_keys WHERE project = $1 ORDER BY created_at DESC, id",
    );
    conn.fetch(&LIST, &args![project]).await
}

/// Revokes a key for good.
///
/// # Errors
/// [`Error::Conflict`] if it does not exist in the project or is revoked.
pub async fn revoke(tx: &mut Tx, project: &str, id: &str, now: i64) -> Result<()> {
    static REVOKE: Sql = Sql::new(
        COLUMNS,
        "UPDATE api_keys SET revoked_at = $3 WHERE id = $2 AND project = $1 AND revoked_at IS NULL",
    );
    if tx.execute(&REVOKE, &args![project, id, now]).await? != 1 {
        return Err(Error::conflict("api_keys"));
    }
    Ok(())
}

/// Notes when keys (id, epoch milliseconds) were last used.
pub async fn touch(tx: &mut Tx, uses: &[(String, i64)]) -> Result<u64> {
    static TOUCH: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(id, at) AS ({rows}) UPDATE api_keys AS t SET last_used_at = v.at FROM v WHERE t.id = v.id",
    );
    let rows: Vec<_> = uses.iter().map(|(id, at)| args![id, *at].to_vec()).collect();
    tx.bulk(&TOUCH, &rows).await
}
