//! Principals: the people, workers and services that act in a project.

use crate::conn::{Conn, Tx};
use crate::dialect::{Sql, args};
use crate::sqlite::from_sqlite;
use crate::{Error, Result};

const COLUMNS: &str = "project, id, kind, name, groups, roles, created_at";

/// Someone who acts.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct PrincipalRow {
    /// The project.
    pub project: String,
    /// Its id.
    pub id: String,
    /// `person`, `worker` or `service`.
    pub kind: String,
    /// Unique within project and kind.
    pub name: String,
    /// JSON array of strings.
    pub groups: String,
    /// JSON array of strings.
    pub roles: String,
    /// Epoch milliseconds.
    pub created_at: i64,
}

from_sqlite!(PrincipalRow: project, id, kind, name, groups, roles, created_at);

/// Makes a principal.
///
/// # Errors
/// [`Error::Conflict`] if the id or the name is taken.
pub async fn insert(tx: &mut Tx, row: &PrincipalRow) -> Result<()> {
    static INSERT: Sql = Sql::new(
        COLUMNS,
        "INSERT INTO principals ({columns}) VALUES ($1, $2, $3, $4, $5, $6, $7)",
    );
    let values = args![
        &row.project,
        &row.id,
        &row.kind,
        &row.name,
        &row.groups,
        &row.roles,
        row.created_at
    ];
    tx.execute(&INSERT, &values).await?;
    Ok(())
}

/// Changes groups and roles.
///
/// # Errors
/// [`Error::Conflict`] if it does not exist.
pub async fn update(tx: &mut Tx, row: &PrincipalRow) -> Result<()> {
    static UPDATE: Sql = Sql::new(
        COLUMNS,
        "UPDATE principals SET groups = $3, roles = $4 WHERE project = $1 AND id = $2",
    );
    if tx
        .execute(&UPDATE, &args![&row.project, &row.id, &row.groups, &row.roles])
        .await?
        != 1
    {
        return Err(Error::conflict("principals"));
    }
    Ok(())
}

/// One principal.
pub async fn get(conn: &mut Conn, project: &str, id: &str) -> Result<Option<PrincipalRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM principals WHERE project = $1 AND id = $2",
    );
    conn.first(&GET, &args![project, id]).await
}

/// One principal by its name.
pub async fn find(conn: &mut Conn, project: &str, kind: &str, name: &str) -> Result<Option<PrincipalRow>> {
    static FIND: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM principals WHERE project = $1 AND kind = $2 AND name = $3",
    );
    conn.first(&FIND, &args![project, kind, name]).await
}

/// All principals of a project, by kind and name.
pub async fn list(conn: &mut Conn, project: &str) -> Result<Vec<PrincipalRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM principals WHERE project = $1 ORDER BY kind, name",
    );
    conn.fetch(&LIST, &args![project]).await
}
