//! How many instances have which status. Nothing here reads further than it is told: past `most` it stops counting,
//! so that a project with a million finished instances answers as fast as a new one.

use crate::Result;
use crate::conn::Conn;
use crate::dialect::Arg;
use crate::filter::Filter;

/// Statuses other than COMPLETED, which have an index.
const INDEXED: [&str; 5] = ["RUNNING", "CANCELLING", "COMPENSATING", "FAILED", "CANCELLED"];

/// Rows that are read one by one when COMPLETED cannot be had as a difference.
const FEW: i64 = 2_000;

/// Which instances of a project to count.
#[derive(Clone, Debug, Default)]
pub struct CountFilter {
    /// The project.
    pub project: String,
    /// Only of this process.
    pub process: Option<String>,
    /// Started at this time or later, epoch milliseconds.
    pub started_from: Option<i64>,
    /// Started before this time, epoch milliseconds.
    pub started_before: Option<i64>,
    /// Entries of an index that are read for one status.
    pub most: i64,
}

/// How many instances have a status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StatusCount {
    /// The status.
    pub status: &'static str,
    /// So many.
    pub count: i64,
    /// Counting stopped there: there may be more.
    pub at_least: bool,
}

/// Instances by status, running first, COMPLETED last. Statuses without any are left out.
pub async fn by_status(conn: &mut Conn, filter: &CountFilter) -> Result<Vec<StatusCount>> {
    let mut counts = Vec::new();
    for status in INDEXED {
        let (scanned, count) = with_status(conn, filter, status).await?;
        counts.push(StatusCount {
            status,
            count,
            at_least: scanned >= filter.most,
        });
    }
    counts.push(completed(conn, filter, &counts).await?);
    counts.retain(|count| count.count > 0 || count.at_least);
    Ok(counts)
}

/// Entries read, and those of the process asked for.
async fn with_status(conn: &mut Conn, filter: &CountFilter, status: &'static str) -> Result<(i64, i64)> {
    let mut query = match filter.process {
        // The index on status does not have the process: rows are read, newest first.
        Some(_) => Filter::new(
            "",
            "SELECT COUNT(*), COUNT(CASE WHEN x.process = $2 THEN 1 END)
             FROM (SELECT t.process AS process FROM instances AS t WHERE t.project = $1",
            &[Arg::from(&filter.project), Arg::from(&filter.process)],
        ),
        None => Filter::new(
            "",
            "SELECT COUNT(*), COUNT(*) FROM (SELECT 1 AS one FROM instances AS t WHERE t.project = $1",
            &[Arg::from(&filter.project)],
        ),
    };
    query.and("t.status = ?", status);
    query.and_fixed("t.status <> 'COMPLETED'");
    started(&mut query, filter);
    if filter.process.is_some() {
        query.text.push_str(" ORDER BY t.started_at DESC");
    }
    end(&mut query, filter.most);
    Ok(conn.list(query).await?.into_iter().next().unwrap_or_default())
}

/// All that started less those of other statuses: both are counted in indexes, without a look at the rows.
async fn completed(conn: &mut Conn, filter: &CountFilter, others: &[StatusCount]) -> Result<StatusCount> {
    let count = |count: i64, at_least: bool| StatusCount {
        status: "COMPLETED",
        count,
        at_least,
    };
    if others.iter().any(|other| other.at_least) {
        let found = completed_of_newest(conn, filter).await?;
        return Ok(count(found.1, found.0 >= FEW));
    }
    let others: i64 = others.iter().map(|other| other.count).sum();
    let mut query = Filter::new(
        "",
        "SELECT COUNT(*) FROM (SELECT 1 AS one FROM instances AS t WHERE t.project = $1",
        &[Arg::from(&filter.project)],
    );
    query.and_some("t.process = ?", filter.process.as_deref());
    started(&mut query, filter);
    let most = filter.most + others;
    end(&mut query, most);
    let all: Option<(i64,)> = conn.list(query).await?.into_iter().next();
    let all = all.map_or(0, |all| all.0);
    // Between the statements one may have ended, so the difference is not below nothing.
    Ok(count((all - others).max(0), all >= most))
}

async fn completed_of_newest(conn: &mut Conn, filter: &CountFilter) -> Result<(i64, i64)> {
    let mut query = Filter::new(
        "",
        "SELECT COUNT(*), COUNT(CASE WHEN x.status = 'COMPLETED' THEN 1 END)
         FROM (SELECT t.status AS status FROM instances AS t WHERE t.project = $1",
        &[Arg::from(&filter.project)],
    );
    query.and_some("t.process = ?", filter.process.as_deref());
    started(&mut query, filter);
    query.text.push_str(" ORDER BY t.started_at DESC");
    end(&mut query, FEW);
    Ok(conn.list(query).await?.into_iter().next().unwrap_or_default())
}

fn started(query: &mut Filter<'_>, filter: &CountFilter) {
    query.and_some("t.started_at >= ?", filter.started_from);
    query.and_some("t.started_at < ?", filter.started_before);
}

fn end(query: &mut Filter<'_>, most: i64) {
    query.args.push(Arg::from(most));
    let number = query.args.len();
    query.text.push_str(&format!(" LIMIT ${number}) AS x"));
}
