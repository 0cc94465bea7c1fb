//! Leasing tasks to a fetch: it takes what nobody else holds, waits for nothing, and needs no root.

use super::{COLUMNS, ExternalTaskRow};
use crate::Result;
use crate::conn::Tx;
use crate::dialect::{Bulk, Dialect, Sql, args};

/// What one waiting fetch asks for.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    /// The project.
    pub project: String,
    /// The topics, all alike.
    pub topics: Vec<String>,
    /// The worker's own name.
    pub worker: String,
    /// The key that it calls with.
    pub credential: Option<String>,
    /// The time, epoch milliseconds.
    pub now: i64,
    /// The length of a lease, milliseconds.
    pub lock_ms: i64,
    /// At most so many tasks.
    pub max: i64,
    /// The random parts of the lease ids, one for each possible lease.
    pub randoms: Vec<String>,
}

/// Leases up to `max` tasks, by priority, then place, and gives them in that order as they are now. A lease that
/// had expired counts in `expiries`; the fifth in a row makes the task unclaimable and due to be declared lost one
/// lease after its end. Tasks that someone else is just writing are skipped.
pub async fn claim(tx: &mut Tx, request: &ClaimRequest) -> Result<Vec<ExternalTaskRow>> {
    let most = request.max.min(request.randoms.len() as i64);
    if most <= 0 || request.topics.is_empty() {
        return Ok(Vec::new());
    }
    let mut leased = match tx.dialect() {
        Dialect::Sqlite => claim_sqlite(tx, request, most).await?,
        Dialect::Postgres => claim_postgres(tx, request, most).await?,
    };
    leased.sort_by(|a, b| (b.priority, a.position, &a.id).cmp(&(a.priority, b.position, &b.id)));
    Ok(leased)
}

/// SQLite has one writer, so what the first statement saw is still true in the second; it has no LATERAL, so the topics
/// are asked one by one.
async fn claim_sqlite(tx: &mut Tx, request: &ClaimRequest, most: i64) -> Result<Vec<ExternalTaskRow>> {
    static FIND: Sql = Sql::new(
        "",
        "SELECT root, id, lease_no, priority, position FROM external_tasks
         WHERE project = $1 AND topic = $2 AND claimable_at IS NOT NULL AND claimable_at <= $3 AND expiries < 5
         ORDER BY priority DESC, position LIMIT $4",
    );
    static LEASE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, id, lease_no, random, worker, credential, now, lock_ms) AS ({rows})
         UPDATE external_tasks AS t
         SET lease_no = t.lease_no + 1, lease_random = v.random, worker = v.worker, credential = v.credential,
             locked_at = v.now, locked_until = v.now + v.lock_ms, lock_ms = v.lock_ms,
             expiries = t.expiries + (t.worker IS NOT NULL),
             claimable_at = CASE WHEN t.worker IS NULL OR t.expiries < 4 THEN v.now + v.lock_ms END,
             lapse_at = CASE WHEN t.worker IS NOT NULL AND t.expiries >= 4 THEN v.now + 2 * v.lock_ms END,
             revision = t.revision + 1
         FROM v
         WHERE t.root = v.root AND t.id = v.id AND t.lease_no = v.lease_no
           AND t.claimable_at IS NOT NULL AND t.claimable_at <= v.now AND t.expiries < 5
         RETURNING {columns}",
    );
    let mut found: Vec<(String, String, i64, i64, i64)> = Vec::new();
    for topic in &request.topics {
        found.append(
            &mut tx
                .fetch(&FIND, &args![&request.project, topic, request.now, most])
                .await?,
        );
    }
    if request.topics.len() > 1 {
        found.sort_by_key(|task| (std::cmp::Reverse(task.3), task.4));
        found.truncate(most as usize);
    }
    let rows: Vec<_> = found
        .iter()
        .zip(&request.randoms)
        .map(|((root, id, lease_no, ..), random)| {
            let (worker, credential) = (&request.worker, &request.credential);
            args![
                root,
                id,
                *lease_no,
                random,
                worker,
                credential,
                request.now,
                request.lock_ms
            ]
            .to_vec()
        })
        .collect();
    tx.bulk_fetch(&LEASE, &rows).await
}

/// MATERIALIZED, because a sub-query may run twice and lease one task to two; the outer statement repeats the
/// whole condition and compares the lease number.
async fn claim_postgres(tx: &mut Tx, request: &ClaimRequest, most: i64) -> Result<Vec<ExternalTaskRow>> {
    static LEASE: Sql = Sql::new(
        COLUMNS,
        "WITH found AS MATERIALIZED (
             SELECT task.root, task.id, task.lease_no, task.priority, task.position
             FROM unnest($2::text[]) AS wanted(topic)
             CROSS JOIN LATERAL (
                 SELECT root, id, lease_no, priority, position FROM external_tasks
                 WHERE project = $1 AND topic = wanted.topic
                   AND claimable_at IS NOT NULL AND claimable_at <= $3 AND expiries < 5
                 ORDER BY priority DESC, position LIMIT $4
                 FOR UPDATE SKIP LOCKED
             ) AS task
         ), v AS MATERIALIZED (
             SELECT root, id, lease_no, row_number() OVER (ORDER BY priority DESC, position) AS place FROM found
             ORDER BY priority DESC, position LIMIT $4
         )
         UPDATE external_tasks AS t
         SET lease_no = t.lease_no + 1, lease_random = ($5::text[])[v.place], worker = $6, credential = $7,
             locked_at = $3, locked_until = $3 + $8, lock_ms = $8,
             expiries = t.expiries + CASE WHEN t.worker IS NULL THEN 0 ELSE 1 END,
             claimable_at = CASE WHEN t.worker IS NULL OR t.expiries < 4 THEN $3 + $8 END,
             lapse_at = CASE WHEN t.worker IS NOT NULL AND t.expiries >= 4 THEN $3 + 2 * $8 END,
             revision = t.revision + 1
         FROM v
         WHERE t.root = v.root AND t.id = v.id AND t.lease_no = v.lease_no
           AND t.claimable_at IS NOT NULL AND t.claimable_at <= $3 AND t.expiries < 5
         RETURNING {t.columns}",
    );
    let (topics, randoms) = (request.topics.as_slice(), request.randoms.as_slice());
    let values = args![
        &request.project,
        topics,
        request.now,
        most,
        randoms,
        &request.worker,
        &request.credential,
        request.lock_ms,
    ];
    tx.fetch(&LEASE, &values).await
}

/// What a fetch whose commit is unknown took after all: the tasks that stand under one of the random parts it drew.
/// Locks them, in the order of the claim.
pub async fn find_claimed(tx: &mut Tx, request: &ClaimRequest) -> Result<Vec<ExternalTaskRow>> {
    static FIND: Sql = Sql::new(
        COLUMNS,
        "SELECT {t.columns} FROM external_tasks AS t
         WHERE t.project = $1 AND t.topic IN {texts:2} AND NOT t.retired AND t.worker = $3
           AND t.lease_random IN {texts:4}
         ORDER BY t.priority DESC, t.position, t.id {for_update}",
    );
    let (topics, randoms) = (request.topics.as_slice(), request.randoms.as_slice());
    tx.fetch(&FIND, &args![&request.project, topics, &request.worker, randoms])
        .await
}
