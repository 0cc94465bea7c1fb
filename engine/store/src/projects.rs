//! Projects: what separates one team's processes, keys and people from another's.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "id, name, created_at";

/// A project.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct ProjectRow {
    /// Its id, as in addresses.
    pub id: String,
    /// Its name.
    pub name: String,
    /// Epoch milliseconds.
    pub created_at: i64,
}

from_sqlite!(ProjectRow: id, name, created_at);

/// Makes a project; says whether it is new.
pub async fn insert(tx: &mut Tx, row: &ProjectRow) -> Result<bool> {
    static INSERT: Sql = Sql::new(
        COLUMNS,
        "INSERT INTO projects ({columns}) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING",
    );
    Ok(tx
        .execute(&INSERT, &args![&row.id, &row.name, row.created_at])
        .await?
        == 1)
}

/// One project.
pub async fn get(conn: &mut Conn, id: &str) -> Result<Option<ProjectRow>> {
    static GET: Sql = Sql::new(COLUMNS, "SELECT {columns} FROM projects WHERE id = $1");
    conn.first(&GET, &args![id]).await
}

/// All projects, by id.
pub async fn list(conn: &mut Conn) -> Result<Vec<ProjectRow>> {
    static LIST: Sql = Sql::new(COLUMNS, "SELECT {columns} FROM projects ORDER BY id");
    conn.fetch(&LIST, &[]).await
}
