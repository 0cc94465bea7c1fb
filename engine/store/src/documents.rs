//! Deployed documents beside processes (tools, servers, …), every version.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "project, kind, key, version, digest, source, body, created_at";

/// One version of a document.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct DocumentRow {
    /// The project.
    pub project: String,
    /// What it is: `server`, `tool`, …
    pub kind: String,
    /// Its key within the kind.
    pub key: String,
    /// From 1.
    pub version: i64,
    /// Digest of the body: the same again is no new version.
    pub digest: String,
    /// What was deployed.
    pub source: String,
    /// JSON: the frozen document.
    pub body: String,
    /// Epoch milliseconds.
    pub created_at: i64,
}

from_sqlite!(DocumentRow: project, kind, key, version, digest, source, body, created_at);

impl DocumentRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.project,
            &self.kind,
            &self.key,
            self.version,
            &self.digest,
            &self.source,
            &self.body,
            self.created_at,
        ]
        .to_vec()
    }
}

/// Writes new versions.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if someone else just made one of them.
pub async fn insert(tx: &mut Tx, rows: &[DocumentRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO documents ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(DocumentRow::args).collect();
    tx.bulk(&INSERT, &rows).await?;
    Ok(())
}

/// The last version of a document.
pub async fn latest(conn: &mut Conn, project: &str, kind: &str, key: &str) -> Result<Option<DocumentRow>> {
    static LATEST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM documents WHERE project = $1 AND kind = $2 AND key = $3
         ORDER BY version DESC LIMIT 1",
    );
    conn.first(&LATEST, &args![project, kind, key]).await
}

/// One version of a document.
pub async fn get(
    conn: &mut Conn,
    project: &str,
    kind: &str,
    key: &str,
    version: i64,
) -> Result<Option<DocumentRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM documents WHERE project = $1 AND kind = $2 AND key = $3 AND version = $4",
    );
    conn.first(&GET, &args![project, kind, key, version]).await
}

/// The last version of every document of a project, by kind and key.
pub async fn list(conn: &mut Conn, project: &str) -> Result<Vec<DocumentRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {t.columns} FROM documents AS t
         WHERE t.project = $1 AND t.version = (
             SELECT MAX(version) FROM documents AS d
             WHERE d.project = t.project AND d.kind = t.kind AND d.key = t.key)
         ORDER BY t.kind, t.key",
    );
    conn.fetch(&LIST, &args![project]).await
}

/// All versions of a document, the last first.
pub async fn versions(conn: &mut Conn, project: &str, kind: &str, key: &str) -> Result<Vec<DocumentRow>> {
    static VERSIONS: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM documents WHERE project = $1 AND kind = $2 AND key = $3 ORDER BY version DESC",
    );
    conn.fetch(&VERSIONS, &args![project, kind, key]).await
}
