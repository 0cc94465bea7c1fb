//! How instances end: large trees in slices, incidents with what they hold, results that are refused before they can
//! stick.

use legation_kernel::commands::{Answer, Command, IncidentTarget};
use legation_kernel::ids::InstanceId;
use legation_kernel::instance::Status;
use legation_server::writer::{self, Failure};
use legation_store::mailbox::{self, MailboxRow};
use legation_store::testing::TestDb;
use legation_store::{for_each_db, incidents, instances};

use crate::CHILD;
use crate::durable::{PAUSE, failed};
use crate::support::{Engine, text};

const MAPPED: &str = "
metadata: { key: mapped, variables: {} }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay, outputs: { receipt: result.receipt } }
    - { id: done, type: end }
";

/// Core §3: a result of which an output cannot be made closes nothing, and is mended under the same lease.
async fn a_result_that_lacks_a_name_is_refused_and_mended_under_the_same_lease(test: &TestDb) {
    let engine = Engine::new(test, &[("mapped.process.yaml", MAPPED)]).await;
    let id = engine.start("mapped", &[]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await;
    let refused = engine.complete(&leased[0], &[("recipt", text("r-1"))]).await;
    let Err(Failure::Rejected(refusal)) = refused else {
        panic!("{refused:?}")
    };
    assert_eq!(
        (refusal.code, refusal.argument.as_deref()),
        ("OUTPUT_INVALID", Some("receipt"))
    );
    assert!(
        refusal.message.contains("given were recipt"),
        "{}",
        refusal.message
    );
    assert_eq!(engine.row(&id).await.incidents, 0);
    engine
        .complete(&leased[0], &[("receipt", text("r-1"))])
        .await
        .unwrap();
    assert_eq!(engine.status(&id).await, "COMPLETED");
}

const CALLER: &str = "
metadata: { key: caller, variables: {} }
flow:
  nodes:
    - { id: wait, type: engine-task, service: pay }
    - { id: call, type: call-process, process: child, on_error: [ { code: CHILD_START_REFUSED, then: sorry } ], next: done }
    - { id: sorry, type: engine-task, service: sorry, next: done }
    - { id: done, type: end }
";

/// language.md, `call-process`: a process that is gone is the node's error, and no refusal of whoever came by.
async fn a_called_process_that_is_gone_is_an_error_of_the_node(test: &TestDb) {
    let files = [("child.process.yaml", CHILD), ("caller.process.yaml", CALLER)];
    let engine = Engine::lacking(test, &files, "child").await;
    let id = engine.start("caller", &[]).await.unwrap();
    let leased = engine.fetch("pay", 1, 0).await;
    engine.complete(&leased[0], &[]).await.unwrap();
    assert_eq!(engine.fetch("sorry", 1, 0).await.len(), 1);
    assert_eq!(engine.status(&id).await, "RUNNING");
}

/// Core §2, I5: a row that nobody can read counts its tries like any other, is held by an incident of the instance
/// that it is for, and that ends with the instance.
async fn a_mailbox_row_that_nobody_can_read_becomes_an_incident_of_its_instance(test: &TestDb) {
    let engine = Engine::new(test, &[("pause.process.yaml", PAUSE)]).await;
    let root = engine.start("pause", &[]).await.unwrap();
    let mail = MailboxRow {
        root: root.clone(),
        id: "CHILD_DONE:odd".to_owned(),
        project: "p".to_owned(),
        kind: "CHILD_DONE".to_owned(),
        key: format!("{root}.i7"),
        due_at: Some(engine.app.clock().now()),
        tries: 0,
        body: "{\"FromAnotherTime\":1}".to_owned(),
    };
    let mut tx = engine.app.db().begin_write().await.unwrap();
    mailbox::insert(&mut tx, &[mail]).await.unwrap();
    tx.commit().await.unwrap();

    let incident = failed(&engine).await;
    assert_eq!(
        (incident.code.as_str(), incident.instance.as_str()),
        (writer::FAILED, root.as_str())
    );
    assert_eq!(
        engine.row(&root).await.incidents,
        1,
        "it is listed with its instance"
    );
    let mut read = engine.app.db().read().await.unwrap();
    let row = mailbox::get(&mut read, &root, "CHILD_DONE:odd")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.tries, row.due_at), (5, None), "it is not tried any more");
    drop(read);

    let over = writer::run_again(engine.app.shared(), incident.clone(), "operator").await;
    assert!(!over.unwrap(), "the instance closes it");
    let target = IncidentTarget {
        id: incident.id.clone(),
        instance: InstanceId(root.clone()),
        task: None,
        attempt: None,
        sequence: None,
        notice: false,
    };
    engine
        .app
        .run(&engine.sender(), Command::RetryIncident { target })
        .await
        .unwrap();
    let again = failed(&engine).await;
    assert_ne!(again.id, incident.id, "the cause was not removed");
    engine.app.run(&engine.sender(), cancel(&root)).await.unwrap();
    let mut read = engine.app.db().read().await.unwrap();
    let open = incidents::list_open(&mut read, &root).await.unwrap();
    assert!(open.is_empty(), "what is over has no incident: {open:?}");
}

fn cancel(id: &str) -> Command {
    Command::Cancel {
        instance: InstanceId(id.to_owned()),
        reason: "enough".to_owned(),
    }
}

/// Core §1: of a large tree 200 instances end in the commit of the cancel, nothing below moves from then on, and the
/// rest follows by itself, also after a restart in between.
async fn a_large_tree_ends_in_slices(test: &TestDb) {
    let (mid, top) = (wide("mid", "child", 20), wide("top", "mid", 11));
    let files = [
        ("child.process.yaml", CHILD),
        ("mid.process.yaml", mid.as_str()),
        ("top.process.yaml", top.as_str()),
    ];
    let mut engine = Engine::new(test, &files).await;
    let id = engine.start("top", &[]).await.unwrap();
    let complete = tokio::time::timeout(std::time::Duration::from_secs(20), async {
        let mut committed = engine.app.shared().wake.committed.subscribe();
        let mut read = engine.app.db().read().await.unwrap();
        while instances::list_tree(&mut read, &id).await.unwrap().len() < 1 + 11 + 11 * 20 {
            committed.changed().await.unwrap();
        }
    });
    complete.await.unwrap();
    let mut leased = Vec::new();
    for _ in 0..3 {
        leased.extend(engine.fetch("pay", 50, 0).await);
    }
    let answer = engine.app.run(&engine.sender(), cancel(&id)).await.unwrap();
    let slice = Answer::Ended {
        status: Status::Cancelling,
    };
    assert_eq!(answer, slice);
    assert!(
        engine.fetch("pay", 50, 0).await.is_empty(),
        "no lease from that commit"
    );
    for claimed in &leased {
        let late = engine.complete(claimed, &[]).await;
        assert!(matches!(late, Err(Failure::Rejected(refusal)) if refusal.code == "WORK_RETIRED"));
    }
    engine.restart().await;
    engine.until(&id, |row| row.status == "CANCELLED").await;
    let mut read = engine.app.db().read().await.unwrap();
    let tree = instances::list_tree(&mut read, &id).await.unwrap();
    drop(read);
    assert_eq!(tree.len(), 1 + 11 + 11 * 20);
    assert!(tree.iter().all(|row| row.status == "CANCELLED"));
    let answer = engine.app.run(&engine.sender(), cancel(&id)).await.unwrap();
    let over = Answer::Ended {
        status: Status::Cancelled,
    };
    assert_eq!(answer, over);
}

/// A process that calls another so many times at once.
fn wide(key: &str, called: &str, times: u32) -> String {
    let branches: Vec<String> = (0..times).map(|n| format!("call{n}")).collect();
    let calls: String = branches
        .iter()
        .map(|id| format!("    - {{ id: {id}, type: call-process, process: {called}, next: join }}\n"))
        .collect();
    format!(
        "metadata: {{ key: {key}, variables: {{}} }}\nflow:\n  nodes:\n    - {{ id: fork, type: parallel, branches: [{}] }}\n{calls}    - {{ id: join, type: parallel, join: all }}\n    - {{ id: done, type: end }}\n",
        branches.join(", ")
    )
}

for_each_db!(
    a_result_that_lacks_a_name_is_refused_and_mended_under_the_same_lease,
    a_called_process_that_is_gone_is_an_error_of_the_node,
    a_mailbox_row_that_nobody_can_read_becomes_an_incident_of_its_instance,
    a_large_tree_ends_in_slices,
);
