//! Incidents, which hold an instance until someone acts, and notices, which only say something.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::filter::Filter;
use crate::keys::{Key, Place};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, id, project, instance, node, external_task, sequence, kind, code, message, state, \
                       created_at, resolved_at, resolved_by, resolution, body";

/// An incident or a notice.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct IncidentRow {
    /// The tree.
    pub root: String,
    /// `<instance>.n7`.
    pub id: String,
    /// The project.
    pub project: String,
    /// The instance.
    pub instance: String,
    /// The node of the process.
    pub node: Option<String>,
    /// The external task.
    pub external_task: Option<String>,
    /// The step.
    pub sequence: Option<i64>,
    /// `incident` or `notice`.
    pub kind: String,
    /// A stable UPPER_SNAKE code.
    pub code: String,
    /// What happened.
    pub message: String,
    /// OPEN or RESOLVED.
    pub state: String,
    /// Epoch milliseconds.
    pub created_at: i64,
    /// Epoch milliseconds.
    pub resolved_at: Option<i64>,
    /// The principal who resolved it.
    pub resolved_by: Option<String>,
    /// JSON: how.
    pub resolution: Option<String>,
    /// JSON.
    pub body: String,
}

from_sqlite!(IncidentRow: root, id, project, instance, node, external_task, sequence, kind, code, message, state, created_at, resolved_at, resolved_by, resolution, body);

/// Which incidents of a project to list.
#[derive(Clone, Debug, Default)]
pub struct IncidentFilter {
    /// The project.
    pub project: String,
    /// `incident` or `notice`.
    pub kind: Option<String>,
    /// OPEN or RESOLVED.
    pub state: Option<String>,
    /// Only of this instance.
    pub instance: Option<Key>,
    /// Only of instances of this process, whatever their version.
    pub process: Option<String>,
    /// After the last row of the page before.
    pub after: Option<Place>,
    /// At most so many.
    pub limit: i64,
}

impl IncidentRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.id,
            &self.project,
            &self.instance,
            &self.node,
            &self.external_task,
            self.sequence,
            &self.kind,
            &self.code,
            &self.message,
            &self.state,
            self.created_at,
            self.resolved_at,
            &self.resolved_by,
            &self.resolution,
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
}

/// Writes new incidents.
pub async fn insert(tx: &mut Tx, rows: &[IncidentRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(COLUMNS, "INSERT INTO incidents ({columns}) {rows}");
    let rows: Vec<_> = rows.iter().map(IncidentRow::args).collect();
    tx.put("incidents", &INSERT, &rows).await
}

/// Writes open incidents back, under the root's lock.
///
/// # Errors
/// [`Error::Conflict`](crate::Error::Conflict) if one of them does not exist or is resolved already.
pub async fn update(tx: &mut Tx, rows: &[IncidentRow]) -> Result<()> {
    static UPDATE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v({columns}) AS ({rows})
         UPDATE incidents AS t
         SET code = v.code, message = v.message, state = v.state, resolved_at = v.resolved_at,
             resolved_by = v.resolved_by, resolution = v.resolution, body = v.body
         FROM v
         WHERE t.root = v.root AND t.id = v.id AND t.state = 'OPEN'",
    );
    let values: Vec<_> = rows.iter().map(IncidentRow::args).collect();
    tx.put_all("incidents", &UPDATE, &values).await
}

/// One incident.
pub async fn get(conn: &mut Conn, root: &str, id: &str) -> Result<Option<IncidentRow>> {
    static GET: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM incidents WHERE root = $1 AND id = $2",
    );
    conn.first(&GET, &args![root, id]).await
}

/// Everything open in a tree, by id.
pub async fn list_open(conn: &mut Conn, root: &str) -> Result<Vec<IncidentRow>> {
    static LIST: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM incidents WHERE root = $1 AND state = 'OPEN' ORDER BY id",
    );
    conn.fetch(&LIST, &args![root]).await
}

/// One page of a project's incidents, newest first.
pub async fn list(conn: &mut Conn, filter: &IncidentFilter) -> Result<Vec<IncidentRow>> {
    conn.list(query(filter)).await
}

pub(crate) fn query(filter: &IncidentFilter) -> Filter<'_> {
    let mut query = Filter::new(
        COLUMNS,
        "SELECT {t.columns} FROM incidents AS t WHERE t.project = $1",
        &args![&filter.project],
    );
    if let Some(instance) = &filter.instance {
        query.of_instance("t.instance = ?", instance);
    }
    query.and_some("t.kind = ?", filter.kind.as_deref());
    match filter.state.as_deref() {
        // A literal, so that the partial index on open ones is seen to fit.
        Some("OPEN") => query.and_fixed("t.state = 'OPEN'"),
        Some(state) => query.and("t.state = ?", state),
        None => {}
    }
    query.and_some(
        "EXISTS (SELECT 1 FROM instances AS i WHERE i.root = t.root AND i.id = t.instance AND i.process = ?)",
        filter.process.as_deref(),
    );
    query.page("created_at", filter.after.as_ref(), filter.limit);
    query
}
