//! Deployed processes, frozen, every version.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "project, key, version, digest, body, source, created_at, created_by";

/// One version of a process.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct DefinitionRow {
    /// The project.
    pub project: String,
    /// The process's key.
    pub key: String,
    /// From 1.
    pub version: i64,
    /// Digest of the frozen body: the same again is no new version.
    pub digest: String,
    /// JSON: the frozen process.
    pub body: String,
    /// What was deployed.
    pub source: String,
    /// Epoch milliseconds.
    pub created_at: i64,
    /// The principal who deployed it.
    pub created_by: String,
}

from_sqlite!(DefinitionRow: project, key, version, digest, body, source, created_at, created_by);

impl DefinitionRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.project,
            &self.key,
            self.version,
            &self.digest,
            &self.body,
            &self.source,
            self.created_at,
            &self.created_by,
        ]
        .to_vec()
    }
}

/// Writes new versions.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if someone else just made one of them.
pub async fn insert(tx: &mut Tx, rows: &[DefinitionRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO definitions ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(DefinitionRow::args).collect();
    tx.bulk(&INSERT, &rows).await?;
    Ok(())
}

/// The last version of a process.
pub async fn latest(conn: &mut Conn, project: &str, key: &str) -> Result<Option<DefinitionRow>> {
    static LATEST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM definitions WHERE project = $1 AND key = $2 ORDER BY version DESC LIMIT 1",
    );
    conn.first(&LATEST, &args![project, key]).await
}

/// One version of a process.
pub async fn get(conn: &mut Conn, project: &str, key: &str, version: i64) -> Result<Option<DefinitionRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM definitions WHERE project = $1 AND key = $2 AND version = $3",
    );
    conn.first(&GET, &args![project, key, version]).await
}

/// The last version of every process of a project, by key.
pub async fn list(conn: &mut Conn, project: &str) -> Result<Vec<DefinitionRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {t.columns} FROM definitions AS t
         WHERE t.project = $1 AND t.version = (
             SELECT MAX(version) FROM definitions AS d WHERE d.project = t.project AND d.key = t.key)
         ORDER BY t.key",
    );
    conn.fetch(&LIST, &args![project]).await
}

/// All versions of a process, the last first.
pub async fn versions(conn: &mut Conn, project: &str, key: &str) -> Result<Vec<DefinitionRow>> {
    static VERSIONS: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM definitions WHERE project = $1 AND key = $2 ORDER BY version DESC",
    );
    conn.fetch(&VERSIONS, &args![project, key]).await
}
