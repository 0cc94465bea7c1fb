//! External tasks: the queue, the leases, and the task's own state as `body`. Claiming is in `claims`.

mod claims;
mod leases;

use std::ops::RangeInclusive;

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::filter::Filter;
use crate::keys::{Key, Place, key_rows};
use crate::sqlite::from_sqlite;

pub use claims::{ClaimRequest, claim, find_claimed};
pub use leases::locked_at;

const COLUMNS: &str = "root, id, project, instance, node, topic, agent, priority, position, lease_no, lease_random, \
                       worker, credential, locked_until, lock_ms, claimable_at, expiries, lapse_at, attempt, \
                       retired, outcome, created_at, ended_at, traceparent, revision, body";

/// Everything but the body.
const LIST_COLUMNS: &str = "root, id, project, instance, node, topic, agent, priority, position, lease_no, \
                            lease_random, worker, credential, locked_until, lock_ms, claimable_at, expiries, \
                            lapse_at, attempt, retired, outcome, created_at, ended_at, traceparent, revision";

/// A task for a worker.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct ExternalTaskRow {
    /// The tree.
    pub root: String,
    /// `<instance>.t3`.
    pub id: String,
    /// The project.
    pub project: String,
    /// The instance that waits for it.
    pub instance: String,
    /// The node of the process.
    pub node: String,
    /// What workers ask for.
    pub topic: String,
    /// An agent's task: its result is a text or an object, and it has a journal.
    pub agent: bool,
    /// Higher goes first.
    pub priority: i64,
    /// The place in the queue; a resumed task keeps it.
    pub position: i64,
    /// The number of the last lease; 0 before the first.
    pub lease_no: i64,
    /// The random part of the last lease's id.
    pub lease_random: Option<String>,
    /// Who has the lease, even when it has expired; `None` when there was none or it was given back.
    pub worker: Option<String>,
    /// The key that the lease was taken with.
    pub credential: Option<String>,
    /// When the lease ends, epoch milliseconds.
    pub locked_until: Option<i64>,
    /// The length of the lease, milliseconds.
    pub lock_ms: Option<i64>,
    /// From when a fetch may lease it, epoch milliseconds: at once, after a back-off, or when the lease that
    /// stands expires. `None`: not at all (parked, retired, under an incident, a started write without a key).
    pub claimable_at: Option<i64>,
    /// Leases that expired in a row without a settled step. At 5 it is no longer claimable.
    pub expiries: i64,
    /// When the command that declares the lease lost is due, epoch milliseconds.
    pub lapse_at: Option<i64>,
    /// The attempt, from 1.
    pub attempt: i64,
    /// It is over.
    pub retired: bool,
    /// How it ended.
    pub outcome: Option<String>,
    /// Epoch milliseconds.
    pub created_at: i64,
    /// Epoch milliseconds.
    pub ended_at: Option<i64>,
    /// W3C trace context.
    pub traceparent: Option<String>,
    /// Counts the writes to this row, claims and heartbeats included.
    pub revision: i64,
    /// JSON: the kernel's state. Empty in rows out of a list.
    #[sqlx(default)]
    pub body: String,
}

from_sqlite!(ExternalTaskRow: root, id, project, instance, node, topic, agent, priority, position, lease_no, lease_random, worker, credential, locked_until, lock_ms, claimable_at, expiries, lapse_at, attempt, retired, outcome, created_at, ended_at, traceparent, revision; body);

/// A heartbeat's new lease times.
#[derive(Clone, Debug)]
pub struct LeaseUpdate {
    /// The task.
    pub key: Key,
    /// The lease that it is for: another one changes nothing.
    pub lease_no: i64,
    /// Epoch milliseconds.
    pub locked_until: i64,
    /// Milliseconds.
    pub lock_ms: i64,
    /// As in [`ExternalTaskRow::claimable_at`].
    pub claimable_at: Option<i64>,
    /// As in [`ExternalTaskRow::lapse_at`].
    pub lapse_at: Option<i64>,
}

/// Which tasks to list. Without an instance only open ones are listed.
#[derive(Clone, Debug, Default)]
pub struct ExternalTaskFilter {
    /// The project.
    pub project: String,
    /// Only of this instance, open or not.
    pub instance: Option<Key>,
    /// Only of this topic.
    pub topic: Option<String>,
    /// Only leased to this worker.
    pub worker: Option<String>,
    /// After the last row of the page before.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: i64,
}

/// How much open work a topic has.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct TopicRow {
    /// The project.
    pub project: String,
    /// The topic.
    pub topic: String,
    /// Open tasks: waiting, leased or parked.
    pub open: i64,
    /// Tasks that a fetch could lease now.
    pub waiting: i64,
    /// When the oldest of those that a fetch could lease now was created, epoch milliseconds.
    pub oldest: Option<i64>,
}

from_sqlite!(TopicRow: project, topic, open, waiting, oldest);

impl ExternalTaskRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.id,
            &self.project,
            &self.instance,
            &self.node,
            &self.topic,
            self.agent,
            self.priority,
            self.position,
            self.lease_no,
            &self.lease_random,
            &self.worker,
            &self.credential,
            self.locked_until,
            self.lock_ms,
            self.claimable_at,
            self.expiries,
            self.lapse_at,
            self.attempt,
            self.retired,
            &self.outcome,
            self.created_at,
            self.ended_at,
            &self.traceparent,
            self.revision,
            &self.body,
        ]
        .to_vec()
    }

    /// Where the page after this row begins.
    #[must_use]
    pub fn place(&self) -> Place {
        Place {
            at: self.created_at,
            root: self.root.clone(),
            id: self.id.clone(),
        }
    }

    /// Its key.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(&self.root, &self.id)
    }
}

/// Writes new tasks.
pub async fn insert(tx: &mut Tx, rows: &[ExternalTaskRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO external_tasks ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(ExternalTaskRow::args).collect();
    tx.put("external_tasks", &INSERT, &rows).await
}

/// Writes whole tasks back and counts `revision` up by one. `revision` in the rows is the one that was loaded; a
/// claim or heartbeat in between has moved it on.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if one of them was changed by someone else.
pub async fn update(tx: &mut Tx, rows: &[ExternalTaskRow]) -> Result<()> {
    static UPDATE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v({columns}) AS ({rows})
         UPDATE external_tasks AS t
         SET priority = v.priority, position = v.position, lease_no = v.lease_no, lease_random = v.lease_random,
             worker = v.worker, credential = v.credential, locked_until = v.locked_until, lock_ms = v.lock_ms,
             claimable_at = v.claimable_at, expiries = v.expiries, lapse_at = v.lapse_at, attempt = v.attempt,
             retired = v.retired, outcome = v.outcome, ended_at = v.ended_at, traceparent = v.traceparent,
             revision = t.revision + 1, body = v.body
         FROM v
         WHERE t.root = v.root AND t.id = v.id AND t.revision = v.revision AND t.lease_no <= v.lease_no",
    );
    let values: Vec<_> = rows.iter().map(ExternalTaskRow::args).collect();
    tx.put_all("external_tasks", &UPDATE, &values).await
}

/// Writes new lease times, each only if the lease is still the same, and counts `revision` up. Gives the keys of
/// those that were written.
pub async fn update_leases(tx: &mut Tx, rows: &[LeaseUpdate]) -> Result<Vec<Key>> {
    static UPDATE: Bulk = Bulk::new(
        "",
        "WITH v(root, id, lease_no, locked_until, lock_ms, claimable_at, lapse_at) AS ({rows})
         UPDATE external_tasks
         SET locked_until = v.locked_until, lock_ms = v.lock_ms, claimable_at = v.claimable_at,
             lapse_at = v.lapse_at, revision = external_tasks.revision + 1
         FROM v
         WHERE external_tasks.root = v.root AND external_tasks.id = v.id AND external_tasks.lease_no = v.lease_no
           AND external_tasks.worker IS NOT NULL AND NOT external_tasks.retired
         RETURNING external_tasks.root, external_tasks.id",
    );
    let values: Vec<_> = rows
        .iter()
        .map(|row| {
            args![
                &row.key.root,
                &row.key.id,
                row.lease_no,
                row.locked_until,
                row.lock_ms,
                row.claimable_at,
                row.lapse_at,
            ]
            .to_vec()
        })
        .collect();
    tx.bulk_fetch(&UPDATE, &values).await
}

/// One task.
pub async fn get(conn: &mut Conn, root: &str, id: &str) -> Result<Option<ExternalTaskRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM external_tasks WHERE root = $1 AND id = $2",
    );
    conn.first(&GET, &args![root, id]).await
}

/// Many tasks, locked against a fetch until the end of the transaction, in no order. Unknown ones are missing.
pub async fn get_many(tx: &mut Tx, keys: &[Key]) -> Result<Vec<ExternalTaskRow>> {
    static GET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN external_tasks AS t
         WHERE t.root = v.root AND t.id = v.id {for_update}",
    );
    tx.bulk_fetch(&GET, &key_rows(keys)).await
}

/// Many tasks as they are now, in no order. Unknown ones are missing.
pub async fn look_many(conn: &mut Conn, keys: &[Key]) -> Result<Vec<ExternalTaskRow>> {
    static GET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN external_tasks AS t WHERE t.root = v.root AND t.id = v.id",
    );
    conn.bulk_fetch(&GET, &key_rows(keys)).await
}

/// Every open task of a tree with its body, locked against a fetch: for cancelling and suspending.
pub async fn list_open(tx: &mut Tx, root: &str) -> Result<Vec<ExternalTaskRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {t.columns} FROM external_tasks AS t WHERE t.root = $1 AND NOT t.retired ORDER BY t.id {for_update}",
    );
    tx.fetch(&LIST, &args![root]).await
}

/// Nothing below this instance is leased any more: it is ending, and their turn comes. Not a change of theirs, so
/// `revision` stays.
pub async fn close_below(tx: &mut Tx, root: &str, instance: &str) -> Result<u64> {
    static CLOSE: Sql = Sql::new(
        "",
        "UPDATE external_tasks SET claimable_at = NULL
         WHERE root = $1 AND instance LIKE $2 AND claimable_at IS NOT NULL AND NOT retired",
    );
    // Ids have no character that LIKE takes for another.
    tx.execute(&CLOSE, &args![root, format!("{instance}.%").as_str()])
        .await
}

/// The `lapse_at` of a lease that is not declared lost until somebody retries what failed.
pub const HELD_LAPSE: i64 = i64::MAX;

/// Gives the command that declares a lease lost another time, if it is due within `from`. Not a change of the task's,
/// so `revision` stays; the next write of the task sets the time anew.
pub async fn move_lapse(tx: &mut Tx, key: &Key, from: RangeInclusive<i64>, to: i64) -> Result<u64> {
    static MOVE: Sql = Sql::new(
        "",
        "UPDATE external_tasks SET lapse_at = $5
         WHERE root = $1 AND id = $2 AND lapse_at IS NOT NULL AND lapse_at BETWEEN $3 AND $4",
    );
    let (first, last) = from.into_inner();
    tx.execute(&MOVE, &args![&key.root, &key.id, first, last, to])
        .await
}

/// Leases that are to be declared lost by now, the longest due first.
pub async fn lapsed(conn: &mut Conn, now: i64, limit: i64) -> Result<Vec<ExternalTaskRow>> {
    static LAPSED: Sql = Sql::new(
        LIST_COLUMNS,
        "SELECT {columns} FROM external_tasks
         WHERE lapse_at IS NOT NULL AND lapse_at <= $1 ORDER BY lapse_at LIMIT $2",
    );
    conn.fetch(&LAPSED, &args![now, limit]).await
}

/// When the next lease is to be declared lost, epoch milliseconds.
pub async fn next_lapse(conn: &mut Conn) -> Result<Option<i64>> {
    static NEXT: Sql = Sql::new(
        "",
        "SELECT MIN(lapse_at) FROM external_tasks WHERE lapse_at IS NOT NULL AND lapse_at < $1",
    );
    let row: Option<(Option<i64>,)> = conn.first(&NEXT, &args![HELD_LAPSE]).await?;
    Ok(row.and_then(|row| row.0))
}

/// The open work of every topic of every project.
pub async fn open_topics(conn: &mut Conn, now: i64) -> Result<Vec<TopicRow>> {
    static TOPICS: Sql = Sql::new(
        "",
        "SELECT project, topic, COUNT(*) AS open,
                COUNT(CASE WHEN claimable_at <= $1 THEN 1 END) AS waiting,
                MIN(CASE WHEN claimable_at <= $1 THEN created_at END) AS oldest
         FROM external_tasks WHERE NOT retired GROUP BY project, topic ORDER BY project, topic",
    );
    conn.fetch(&TOPICS, &args![now]).await
}

/// One page of tasks for operators, newest first, without bodies.
pub async fn list(conn: &mut Conn, filter: &ExternalTaskFilter) -> Result<Vec<ExternalTaskRow>> {
    conn.list(query(filter)).await
}

pub(crate) fn query(filter: &ExternalTaskFilter) -> Filter<'_> {
    let mut query = Filter::new(
        LIST_COLUMNS,
        "SELECT {t.columns} FROM external_tasks AS t WHERE t.project = $1",
        &args![&filter.project],
    );
    match &filter.instance {
        Some(instance) => query.of_instance("t.instance = ?", instance),
        None => query.and_fixed("NOT t.retired"),
    }
    query.and_some("t.topic = ?", filter.topic.as_deref());
    query.and_some("t.worker = ?", filter.worker.as_deref());
    query.page("created_at", filter.after.as_ref(), filter.limit);
    query
}
