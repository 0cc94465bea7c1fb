//! What statistics of a process version are made of: its newest instances with their first commands, what is active,
//! and what is stuck. Every function reads a bounded part: of the newest rows of an index, however many there are.

use crate::Result;
use crate::conn::Conn;
use crate::dialect::{Bulk, Sql, args};
use crate::instances::{self, InstanceRow};
use crate::keys::{Key, key_rows};
use crate::sqlite::from_sqlite;

/// Rows of an index that are looked through for those of a version.
const SCANNED: i64 = 5_000;

/// The commands of one instance that are read, from its first.
const MOST_COMMANDS: i64 = 200;

/// The version of a process.
#[derive(Clone, Debug)]
pub struct Version<'a> {
    /// The project.
    pub project: &'a str,
    /// The process.
    pub process: &'a str,
    /// The version.
    pub version: i64,
}

/// An instance that was looked at.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Recent {
    /// The tree.
    pub root: String,
    /// The instance.
    pub id: String,
    /// Epoch milliseconds.
    pub started_at: i64,
}

from_sqlite!(Recent: root, id, started_at);

/// One command of an instance.
#[derive(Clone, Debug, PartialEq, Eq, sqlx::FromRow)]
pub struct Happened {
    /// The instance.
    pub instance: String,
    /// Epoch milliseconds.
    pub at: i64,
    /// JSON: the events.
    pub events: String,
}

from_sqlite!(Happened: instance, at, events);

/// The newest instances of a version, newest first, at most `limit`.
pub async fn newest(conn: &mut Conn, of: &Version<'_>, limit: i64) -> Result<Vec<Recent>> {
    static NEWEST: Sql = Sql::new(
        "",
        "SELECT x.root, x.id, x.started_at FROM (
             SELECT root, id, version, started_at FROM instances WHERE project = $1 AND process = $2
             ORDER BY started_at DESC, root DESC, id DESC LIMIT $3
         ) AS x WHERE x.version = $4 ORDER BY x.started_at DESC, x.root DESC, x.id DESC LIMIT $5",
    );
    conn.fetch(
        &NEWEST,
        &args![of.project, of.process, SCANNED, of.version, limit],
    )
    .await
}

/// What these instances did: each one's first commands, in order.
pub async fn happened(conn: &mut Conn, keys: &[Key]) -> Result<Vec<Happened>> {
    static HAPPENED: Bulk = Bulk::new(
        "",
        "WITH v(root, instance, most) AS ({rows})
         SELECT h.instance AS instance, h.at AS at, h.events AS events FROM v CROSS JOIN history AS h
         WHERE h.root = v.root AND h.instance = v.instance AND h.revision <= v.most
         ORDER BY h.root, h.instance, h.revision",
    );
    let mut rows = key_rows(keys);
    for row in &mut rows {
        row.push(MOST_COMMANDS.into());
    }
    conn.bulk_fetch(&HAPPENED, &rows).await
}

/// Instances of a version that have not ended, with their snapshots, the newest `limit`; and whether there may be more.
pub async fn active(conn: &mut Conn, of: &Version<'_>, limit: i64) -> Result<(Vec<InstanceRow>, bool)> {
    // A literal for each status, so that the partial index is seen to fit.
    static RUNNING: Sql = Sql::new(
        "",
        "SELECT x.root, x.id, x.process, x.version FROM (
             SELECT root, id, process, version, started_at FROM instances
             WHERE project = $1 AND status = 'RUNNING' AND status <> 'COMPLETED'
             ORDER BY started_at DESC, root DESC, id DESC LIMIT $2
         ) AS x ORDER BY x.started_at DESC, x.root DESC, x.id DESC",
    );
    static ENDING: Sql = Sql::new(
        "",
        "SELECT x.root, x.id, x.process, x.version FROM (
             SELECT root, id, process, version, started_at FROM instances
             WHERE project = $1 AND status = 'CANCELLING' AND status <> 'COMPLETED'
             ORDER BY started_at DESC, root DESC, id DESC LIMIT $2
         ) AS x ORDER BY x.started_at DESC, x.root DESC, x.id DESC",
    );
    let mut keys = Vec::new();
    let mut more = false;
    for sql in [&RUNNING, &ENDING] {
        let rows: Vec<(String, String, String, i64)> = conn.fetch(sql, &args![of.project, SCANNED]).await?;
        more |= rows.len() as i64 == SCANNED;
        let own = rows
            .into_iter()
            .filter(|row| row.2 == of.process && row.3 == of.version);
        keys.extend(own.map(|row| Key::new(row.0, row.1)));
    }
    more |= keys.len() as i64 > limit;
    keys.truncate(usize::try_from(limit).unwrap_or_default());
    Ok((instances::get_many(conn, &keys).await?, more))
}

pub(crate) static INCIDENTS: Sql = Sql::new(
    "",
    "SELECT x.node, COUNT(*) FROM (
         SELECT root, instance, node FROM incidents
         WHERE project = $1 AND state = 'OPEN' AND kind = 'incident' AND node IS NOT NULL
         ORDER BY created_at DESC LIMIT $2
     ) AS x
     JOIN instances AS t ON t.root = x.root AND t.id = x.instance
     WHERE t.process = $3 AND t.version = $4 GROUP BY x.node ORDER BY x.node",
);

/// Open incidents of a version by node.
pub async fn incidents(conn: &mut Conn, of: &Version<'_>) -> Result<Vec<(String, i64)>> {
    conn.fetch(&INCIDENTS, &args![of.project, SCANNED, of.process, of.version])
        .await
}
