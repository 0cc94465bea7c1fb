//! The journal: the steps of every task, appended or settled.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::history::WriterRow;
use crate::keys::Key;
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, task, attempt, sequence, instance, kind, state, tool_ref, settled, request_digest, \
                       effective_digest, grant_lease, reused_from, child, late_result, resolved_by, writer, \
                       batch_no, started_at, ended_at, body";

/// A step of a task's journal.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct StepRow {
    /// The tree.
    pub root: String,
    /// The external task's id.
    pub task: String,
    /// The attempt, from 1.
    pub attempt: i64,
    /// The place in the attempt.
    pub sequence: i64,
    /// The task's instance.
    pub instance: String,
    /// MODEL, TOOL, DELEGATION, CHECKPOINT, WAIT.
    pub kind: String,
    /// STARTED, PROPOSED, APPROVED, REJECTED, COMPLETED, FAILED, REFUSED, OUTCOME_UNKNOWN, WITHDRAWN.
    pub state: String,
    /// `server/tool`, `model:<name>`, a process.
    pub tool_ref: Option<String>,
    /// The place in the task's order of completion.
    pub settled: Option<i64>,
    /// Digest of what was asked: the step's identity (I7).
    pub request_digest: String,
    /// Digest of what is approved and run.
    pub effective_digest: Option<String>,
    /// The number of the lease that was granted the step last.
    pub grant_lease: Option<i64>,
    /// The sequence of the earlier attempt whose result was taken (D40).
    pub reused_from: Option<i64>,
    /// The child instance that it started.
    pub child: Option<String>,
    /// JSON: a result that came after the outcome was declared unknown.
    pub late_result: Option<String>,
    /// Who settled it by hand.
    pub resolved_by: Option<String>,
    /// The writer of the last change.
    pub writer: String,
    /// That writer's batch of the last change.
    pub batch_no: i64,
    /// Epoch milliseconds.
    pub started_at: i64,
    /// Epoch milliseconds.
    pub ended_at: Option<i64>,
    /// JSON: the kernel's state of the step.
    pub body: String,
}

from_sqlite!(StepRow: root, task, attempt, sequence, instance, kind, state, tool_ref, settled, request_digest, effective_digest, grant_lease, reused_from, child, late_result, resolved_by, writer, batch_no, started_at, ended_at, body);

impl StepRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.task,
            self.attempt,
            self.sequence,
            &self.instance,
            &self.kind,
            &self.state,
            &self.tool_ref,
            self.settled,
            &self.request_digest,
            &self.effective_digest,
            self.grant_lease,
            self.reused_from,
            &self.child,
            &self.late_result,
            &self.resolved_by,
            &self.writer,
            self.batch_no,
            self.started_at,
            self.ended_at,
            &self.body,
        ]
        .to_vec()
    }
}

/// Writes steps, new ones and changed ones, under the root's lock. One step at most once in `rows`.
pub async fn upsert(tx: &mut Tx, rows: &[StepRow]) -> Result<()> {
    static UPSERT: Bulk = Bulk::new(
        COLUMNS,
        "INSERT INTO steps ({columns}) {rows}
         ON CONFLICT (root, task, attempt, sequence) DO UPDATE
         SET kind = excluded.kind, state = excluded.state, tool_ref = excluded.tool_ref,
             settled = excluded.settled, request_digest = excluded.request_digest,
             effective_digest = excluded.effective_digest, grant_lease = excluded.grant_lease,
             reused_from = excluded.reused_from, child = excluded.child, late_result = excluded.late_result,
             resolved_by = excluded.resolved_by, writer = excluded.writer, batch_no = excluded.batch_no,
             started_at = excluded.started_at, ended_at = excluded.ended_at, body = excluded.body",
    );
    let rows: Vec<_> = rows.iter().map(StepRow::args).collect();
    tx.put("steps", &UPSERT, &rows).await
}

/// One page of a task's steps, all attempts or one, in order, after (attempt, sequence).
pub async fn list(
    conn: &mut Conn,
    root: &str,
    task: &str,
    attempt: Option<i64>,
    after: (i64, i64),
    limit: i64,
) -> Result<Vec<StepRow>> {
    static ALL: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM steps
         WHERE root = $1 AND task = $2 AND (attempt, sequence) > ($3, $4)
         ORDER BY attempt, sequence LIMIT $5",
    );
    static ONE: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM steps
         WHERE root = $1 AND task = $2 AND (attempt, sequence) > ($3, $4) AND attempt = $6
         ORDER BY attempt, sequence LIMIT $5",
    );
    match attempt {
        None => {
            conn.fetch(&ALL, &args![root, task, after.0, after.1, limit])
                .await
        }
        Some(attempt) => {
            conn.fetch(&ONE, &args![root, task, after.0, after.1, limit, attempt])
                .await
        }
    }
}

/// All steps of many tasks, by task, attempt and sequence.
pub async fn list_for_tasks(conn: &mut Conn, tasks: &[Key]) -> Result<Vec<StepRow>> {
    static LIST: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, task) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN steps AS t WHERE t.root = v.root AND t.task = v.task",
    );
    let mut steps: Vec<StepRow> = conn.bulk_fetch(&LIST, &crate::keys::key_rows(tasks)).await?;
    steps.sort_by(|a, b| {
        (&a.root, &a.task, a.attempt, a.sequence).cmp(&(&b.root, &b.task, b.attempt, b.sequence))
    });
    Ok(steps)
}

/// One page of the steps of all of an instance's tasks, by task, attempt and sequence, after such a place.
pub async fn list_for_instance(
    conn: &mut Conn,
    instance: &Key,
    after: (&str, i64, i64),
    limit: i64,
) -> Result<Vec<StepRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM steps
         WHERE root = $1 AND instance = $2 AND (task, attempt, sequence) > ($3, $4, $5)
         ORDER BY task, attempt, sequence LIMIT $6",
    );
    let (task, attempt, sequence) = after;
    conn.fetch(
        &LIST,
        &args![&instance.root, &instance.id, task, attempt, sequence, limit],
    )
    .await
}

/// All writers whose changes of steps are the last ones, and how far each got. Jumps from writer to writer in the index.
pub async fn writers(conn: &mut Conn) -> Result<Vec<WriterRow>> {
    static WRITERS: Sql = Sql::new(
        COLUMNS,
        "WITH RECURSIVE known(writer) AS (
             SELECT MIN(writer) FROM steps
             UNION ALL
             SELECT (SELECT MIN(steps.writer) FROM steps WHERE steps.writer > known.writer) FROM known
             WHERE known.writer IS NOT NULL
         )
         SELECT known.writer AS writer,
                (SELECT MAX(steps.batch_no) FROM steps WHERE steps.writer = known.writer) AS batch_no
         FROM known WHERE known.writer IS NOT NULL ORDER BY known.writer",
    );
    conn.fetch(&WRITERS, &[]).await
}

/// The steps whose last change a writer made after `batch_no`, by batch: the feed's part of the journal.
/// The last batch may be cut off: ask again from the one before it, or with a higher limit.
pub async fn after(conn: &mut Conn, writer: &str, batch_no: i64, limit: i64) -> Result<Vec<StepRow>> {
    static AFTER: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM steps WHERE writer = $1 AND batch_no > $2
         ORDER BY batch_no, root, task, attempt, sequence LIMIT $3",
    );
    conn.fetch(&AFTER, &args![writer, batch_no, limit]).await
}
