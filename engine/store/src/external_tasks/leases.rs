//! What is kept of leases after their end.

use crate::Result;
use crate::conn::Conn;
use crate::dialect::{Sql, args};

/// When the last lease of each task of an instance began, by the task's id, epoch milliseconds. Tasks that were
/// never leased are missing.
pub async fn locked_at(conn: &mut Conn, root: &str, instance: &str) -> Result<Vec<(String, i64)>> {
    static LIST: Sql = Sql::new(
        "",
        "SELECT id, locked_at FROM external_tasks
         WHERE root = $1 AND instance = $2 AND locked_at IS NOT NULL ORDER BY id",
    );
    conn.fetch(&LIST, &args![root, instance]).await
}
