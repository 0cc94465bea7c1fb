//! History: one row for each command that changed an instance, with its events. Never changed, never deleted alone.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, instance, revision, command_id, writer, batch_no, at, format, actor, events";

/// What one command did to one instance.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct HistoryRow {
    /// The tree.
    pub root: String,
    /// The instance.
    pub instance: String,
    /// The instance's revision that it made, from 1.
    pub revision: i64,
    /// The command, by which an unknown commit is recognised.
    pub command_id: String,
    /// The writer's incarnation.
    pub writer: String,
    /// That writer's batch, without gaps.
    pub batch_no: i64,
    /// Epoch milliseconds.
    pub at: i64,
    /// The events' format.
    pub format: i64,
    /// JSON: who gave the command.
    pub actor: Option<String>,
    /// JSON: the events.
    pub events: String,
}

from_sqlite!(HistoryRow: root, instance, revision, command_id, writer, batch_no, at, format, actor, events);

/// A writer and the last batch of it that history knows.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct WriterRow {
    /// The writer's incarnation.
    pub writer: String,
    /// Its last batch with a history row.
    pub batch_no: i64,
}

from_sqlite!(WriterRow: writer, batch_no);

impl HistoryRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.instance,
            self.revision,
            &self.command_id,
            &self.writer,
            self.batch_no,
            self.at,
            self.format,
            &self.actor,
            &self.events,
        ]
        .to_vec()
    }
}

/// Appends rows.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if an instance has that revision already.
pub async fn insert(tx: &mut Tx, rows: &[HistoryRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO history ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(HistoryRow::args).collect();
    tx.put("history", &INSERT, &rows).await
}

/// One page of an instance's history, oldest first, after a revision.
pub async fn list(
    conn: &mut Conn,
    root: &str,
    instance: &str,
    after: i64,
    limit: i64,
) -> Result<Vec<HistoryRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM history WHERE root = $1 AND instance = $2 AND revision > $3
         ORDER BY revision LIMIT $4",
    );
    conn.fetch(&LIST, &args![root, instance, after, limit]).await
}

/// What these commands wrote: how a writer finds out which of a batch with an unknown commit were done.
pub async fn find_commands(tx: &mut Tx, ids: &[String]) -> Result<Vec<HistoryRow>> {
    static FIND: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM history WHERE command_id IN {texts:1} ORDER BY root, instance, revision",
    );
    if ids.is_empty() {
        return Ok(Vec::new());
    }
    tx.fetch(&FIND, &args![ids]).await
}

/// A writer's rows after a batch, in order: the feed. Rows of the last batch may be cut off by `limit`.
pub async fn after(conn: &mut Conn, writer: &str, batch_no: i64, limit: i64) -> Result<Vec<HistoryRow>> {
    static AFTER: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM history WHERE writer = $1 AND batch_no > $2
         ORDER BY batch_no, root, instance, revision LIMIT $3",
    );
    conn.fetch(&AFTER, &args![writer, batch_no, limit]).await
}

/// All writers that ever wrote and how far each got. Jumps from writer to writer in the index.
pub async fn writers(conn: &mut Conn) -> Result<Vec<WriterRow>> {
    static WRITERS: Sql = Sql::new(
        COLUMNS,
        "WITH RECURSIVE known(writer) AS (
             SELECT MIN(writer) FROM history
             UNION ALL
             SELECT (SELECT MIN(history.writer) FROM history WHERE history.writer > known.writer) FROM known
             WHERE known.writer IS NOT NULL
         )
         SELECT known.writer AS writer,
                (SELECT MAX(history.batch_no) FROM history WHERE history.writer = known.writer) AS batch_no
         FROM known WHERE known.writer IS NOT NULL ORDER BY known.writer",
    );
    conn.fetch(&WRITERS, &[]).await
}
