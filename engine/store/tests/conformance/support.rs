//! Rows to begin with. A test changes what it is about.

use legation_store::external_tasks::{ClaimRequest, ExternalTaskRow};
use legation_store::history::HistoryRow;
use legation_store::incidents::IncidentRow;
use legation_store::instances::InstanceRow;
use legation_store::mailbox::MailboxRow;
use legation_store::roots::RootRow;
use legation_store::steps::StepRow;
use legation_store::tasks::TaskRow;
use legation_store::testing::TestDb;
use legation_store::timers::TimerRow;
use legation_store::{Error, Read, Result, Tx};

pub async fn begin(test: &TestDb) -> Tx {
    test.db.begin_write().await.unwrap()
}

pub async fn read(test: &TestDb) -> Read {
    test.db.read().await.unwrap()
}

/// The error of a write: its own, or, as writes are gathered, that of the commit.
pub async fn refused(tx: Tx, written: Result<()>) -> Error {
    let Err(error) = async {
        written?;
        tx.commit().await
    }
    .await
    else {
        panic!("the write was not refused")
    };
    error
}

/// Text that tempts a database: a NUL escape, quotes, several scripts.
pub const ODD: &str = r#"{"a":"\u0000 'x' \"y\" $1 ? {rows} 日本 🦀"}"#;

pub fn root(id: &str) -> RootRow {
    RootRow {
        id: id.to_owned(),
        project: "default".to_owned(),
        version: 1,
        stopping: None,
        budget: None,
        key_id: Some("k1".to_owned()),
        data_key: Some(vec![0, 1, 255]),
        created_at: 1_000,
        ended_at: None,
    }
}

pub fn instance(root: &str, id: &str) -> InstanceRow {
    InstanceRow {
        root: root.to_owned(),
        id: id.to_owned(),
        project: "default".to_owned(),
        process: "refund".to_owned(),
        version: 3,
        status: "RUNNING".to_owned(),
        suspended: false,
        business_key: None,
        parent: None,
        parent_task: None,
        parent_attempt: None,
        parent_sequence: None,
        depth: 0,
        initiator: Some("alice".to_owned()),
        started_by: r#"{"kind":"api"}"#.to_owned(),
        labels: "{}".to_owned(),
        error_code: None,
        incidents: 0,
        started_at: 1_000,
        ended_at: None,
        updated_at: 1_000,
        revision: 1,
        format: 1,
        snapshot: ODD.to_owned(),
    }
}

/// A child that the step 4 of the parent's task `t3` started.
pub fn child(root: &str, id: &str) -> InstanceRow {
    InstanceRow {
        parent: Some(root.to_owned()),
        parent_task: Some(format!("{root}.t3")),
        parent_attempt: Some(1),
        parent_sequence: Some(4),
        depth: 1,
        ..instance(root, id)
    }
}

pub fn external_task(root: &str, id: &str) -> ExternalTaskRow {
    ExternalTaskRow {
        root: root.to_owned(),
        id: id.to_owned(),
        project: "default".to_owned(),
        instance: root.to_owned(),
        node: "pay".to_owned(),
        topic: "payments".to_owned(),
        agent: false,
        priority: 0,
        position: 1_000,
        lease_no: 0,
        lease_random: None,
        worker: None,
        credential: None,
        locked_until: None,
        lock_ms: None,
        claimable_at: Some(1_000),
        expiries: 0,
        lapse_at: None,
        attempt: 1,
        retired: false,
        outcome: None,
        created_at: 1_000,
        ended_at: None,
        traceparent: None,
        revision: 1,
        body: ODD.to_owned(),
    }
}

pub fn claim(worker: &str, now: i64, max: i64) -> ClaimRequest {
    ClaimRequest {
        project: "default".to_owned(),
        topics: vec!["payments".to_owned()],
        worker: worker.to_owned(),
        credential: Some("key".to_owned()),
        now,
        lock_ms: 10_000,
        max,
        randoms: (0..max).map(|number| format!("{worker}{now}r{number}")).collect(),
    }
}

pub fn step(root: &str, task: &str, sequence: i64) -> StepRow {
    StepRow {
        root: root.to_owned(),
        task: task.to_owned(),
        attempt: 1,
        sequence,
        instance: root.to_owned(),
        kind: "TOOL".to_owned(),
        state: "STARTED".to_owned(),
        tool_ref: Some("crm/find".to_owned()),
        settled: None,
        request_digest: "r".to_owned(),
        effective_digest: Some("e".to_owned()),
        grant_lease: Some(1),
        reused_from: None,
        child: None,
        late_result: None,
        resolved_by: None,
        writer: "w1".to_owned(),
        batch_no: 1,
        started_at: 1_000,
        ended_at: None,
        body: ODD.to_owned(),
    }
}

pub fn history(root: &str, revision: i64, command: &str, batch_no: i64) -> HistoryRow {
    HistoryRow {
        root: root.to_owned(),
        instance: root.to_owned(),
        revision,
        command_id: command.to_owned(),
        writer: "w1".to_owned(),
        batch_no,
        at: 1_000,
        format: 1,
        actor: None,
        events: ODD.to_owned(),
    }
}

pub fn letter(root: &str, id: &str, key: &str) -> MailboxRow {
    MailboxRow {
        root: root.to_owned(),
        id: id.to_owned(),
        project: "default".to_owned(),
        kind: "CHILD_DONE".to_owned(),
        key: key.to_owned(),
        due_at: Some(1_000),
        tries: 0,
        body: ODD.to_owned(),
    }
}

pub fn timer(root: &str, id: &str, due_at: i64) -> TimerRow {
    TimerRow {
        root: root.to_owned(),
        id: id.to_owned(),
        project: "default".to_owned(),
        instance: root.to_owned(),
        node: Some("wait".to_owned()),
        kind: "TIMER".to_owned(),
        due_at,
        held: false,
        body: ODD.to_owned(),
    }
}

pub fn approval(root: &str, id: &str, sequence: i64) -> TaskRow {
    TaskRow {
        root: root.to_owned(),
        id: id.to_owned(),
        project: "default".to_owned(),
        instance: root.to_owned(),
        node: "answer".to_owned(),
        kind: "approval".to_owned(),
        state: "OPEN".to_owned(),
        groups: r#"["finance"]"#.to_owned(),
        users: "[]".to_owned(),
        external_task: Some(format!("{root}.t3")),
        attempt: Some(1),
        sequence: Some(sequence),
        digest: Some("d".to_owned()),
        due_at: None,
        created_at: 1_000,
        ended_at: None,
        decided_by: None,
        outcome: None,
        comment: None,
        body: ODD.to_owned(),
    }
}

pub fn incident(root: &str, id: &str, created_at: i64) -> IncidentRow {
    IncidentRow {
        root: root.to_owned(),
        id: id.to_owned(),
        project: "default".to_owned(),
        instance: root.to_owned(),
        node: Some("pay".to_owned()),
        external_task: Some(format!("{root}.t3")),
        sequence: Some(2),
        kind: "incident".to_owned(),
        code: "LEASES_EXPIRED".to_owned(),
        message: "five leases in a row expired".to_owned(),
        state: "OPEN".to_owned(),
        created_at,
        resolved_at: None,
        resolved_by: None,
        resolution: None,
        body: ODD.to_owned(),
    }
}
