//! The mailbox: durable commands to a tree, its own or another's, done when they are due under the tree's lock.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::keys::{Key, key_rows};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, id, project, kind, key, due_at, tries, body";

/// A durable command.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct MailboxRow {
    /// The tree that it is for.
    pub root: String,
    /// `<instance>.m6`, or made of `kind` and `key`.
    pub id: String,
    /// The project.
    pub project: String,
    /// CHILD_DONE, CONTINUE, …
    pub kind: String,
    /// What makes it unique in its tree and kind: a CHILD_DONE has the child's id, so there is one a child (I8).
    pub key: String,
    /// When it is due, epoch milliseconds; `None`: held until it is given a time.
    pub due_at: Option<i64>,
    /// How often it was tried.
    pub tries: i64,
    /// JSON: the command.
    pub body: String,
}

from_sqlite!(MailboxRow: root, id, project, kind, key, due_at, tries, body);

impl MailboxRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.id,
            &self.project,
            &self.kind,
            &self.key,
            self.due_at,
            self.tries,
            &self.body,
        ]
        .to_vec()
    }
}

/// Posts commands. One whose (root, kind, key) or id is there already is dropped.
pub async fn insert(tx: &mut Tx, rows: &[MailboxRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(
        COLUMNS,
        "INSERT INTO mailbox ({columns}) {rows} ON CONFLICT DO NOTHING",
    );
    let rows: Vec<_> = rows.iter().map(MailboxRow::args).collect();
    tx.put("mailbox", &INSERT, &rows).await
}

/// What is due by now, the longest due first. Nothing is taken: that happens under the root's lock.
pub async fn due(conn: &mut Conn, now: i64, limit: i64) -> Result<Vec<MailboxRow>> {
    static DUE: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM mailbox WHERE due_at IS NOT NULL AND due_at <= $1
         ORDER BY due_at, root, id LIMIT $2",
    );
    conn.fetch(&DUE, &args![now, limit]).await
}

/// When the next one is due, epoch milliseconds.
pub async fn next_due(conn: &mut Conn) -> Result<Option<i64>> {
    static NEXT: Sql = Sql::new("", "SELECT MIN(due_at) FROM mailbox WHERE due_at IS NOT NULL");
    let row: Option<(Option<i64>,)> = conn.first(&NEXT, &[]).await?;
    Ok(row.and_then(|row| row.0))
}

/// Removes commands and gives those that were still there: only these are to be done. One that was sent before it was
/// held stays. In no order.
pub async fn take(tx: &mut Tx, keys: &[Key]) -> Result<Vec<MailboxRow>> {
    static TAKE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         DELETE FROM mailbox WHERE {roots} AND (root, id) IN (SELECT root, id FROM v) AND due_at IS NOT NULL
         RETURNING {columns}",
    );
    tx.bulk_fetch(&TAKE, &key_rows(keys)).await
}

/// Counts a try of commands that an engine finds at its start, and gives those that were there and not held. When they
/// are due stays.
pub async fn count_tries(tx: &mut Tx, keys: &[Key]) -> Result<Vec<MailboxRow>> {
    static COUNT: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         UPDATE mailbox SET tries = tries + 1
         WHERE {roots} AND (root, id) IN (SELECT root, id FROM v) AND due_at IS NOT NULL RETURNING {columns}",
    );
    tx.bulk_fetch(&COUNT, &key_rows(keys)).await
}

/// Counts a failed try, in a commit of its own, and makes it due again at `due_at`. `None`: it is not there any more.
pub async fn count_try(tx: &mut Tx, root: &str, id: &str, due_at: Option<i64>) -> Result<Option<i64>> {
    static COUNT: Sql = Sql::new(
        COLUMNS,
        "UPDATE mailbox SET tries = tries + 1, due_at = $3 WHERE root = $1 AND id = $2 RETURNING tries",
    );
    let row: Option<(i64,)> = tx.first(&COUNT, &args![root, id, due_at]).await?;
    Ok(row.map(|row| row.0))
}

/// Gives commands another time, or holds them with `None`. Counts those that were there.
pub async fn reschedule(tx: &mut Tx, keys: &[Key], due_at: Option<i64>) -> Result<u64> {
    static RESCHEDULE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id, due_at) AS ({rows})
         UPDATE mailbox AS t SET due_at = v.due_at FROM v WHERE t.root = v.root AND t.id = v.id",
    );
    let rows: Vec<_> = keys
        .iter()
        .map(|key| args![&key.root, &key.id, due_at].to_vec())
        .collect();
    tx.bulk(&RESCHEDULE, &rows).await
}

/// One command.
pub async fn get(conn: &mut Conn, root: &str, id: &str) -> Result<Option<MailboxRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM mailbox WHERE root = $1 AND id = $2",
    );
    conn.first(&GET, &args![root, id]).await
}

/// Everything that waits for a tree, held or not, by id.
pub async fn list(conn: &mut Conn, root: &str) -> Result<Vec<MailboxRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM mailbox WHERE root = $1 ORDER BY id",
    );
    conn.fetch(&LIST, &args![root]).await
}
