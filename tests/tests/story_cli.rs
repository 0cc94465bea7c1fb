//! The large refund as a person at a terminal lives it: approve, timeline, journal, lineage (D14, D18, D45, D47).

use legation_store::Dialect;
use legation_tests::e2e::{Stage, until};
use legation_tests::on_both_databases;
use serde_json::{Value, json};

async fn stage(dialect: Dialect) -> Stage {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    for worker in ["payments.mjs", "notify.mjs"] {
        stage.keep(stage.node(worker, &stage.url));
    }
    stage.keep(stage.agent(&stage.url));
    stage
}

async fn complain(stage: &Stage) -> String {
    let complaint = [
        "run",
        "complaint",
        "--var",
        "customerId=C-1002",
        "--var",
        "orderId=7702",
        "--var",
        "amount=1200",
        "--var",
        "message=It is broken.",
        "--json",
        "--no-wait",
    ];
    let started: Value = serde_json::from_str(&stage.cli(&complaint).await).expect("JSON");
    started["id"].as_str().expect("an id").to_owned()
}

/// The approval as `legation tasks` lists it, once it is there.
async fn asked(stage: &Stage) -> String {
    let tasks = ["tasks", "--as", "approver", "--kind", "approval", "--json"];
    until("an approval to be listed", async || {
        let listed: Value = serde_json::from_str(&stage.cli(&tasks).await).expect("JSON");
        listed["tasks"][0]["id"].as_str().map(str::to_owned)
    })
    .await
}

/// D18, D45–D47: the command that the demo prints approves; what it shows afterwards is the whole story.
async fn the_printed_command_approves_and_the_story_can_be_read(dialect: Dialect) {
    let stage = stage(dialect).await;
    let id = complain(&stage).await;
    let approval = asked(&stage).await;

    let explained = stage.cli(&["explain", &id]).await;
    assert!(
        explained.contains("finance"),
        "who could move it (D45): {explained}"
    );
    let (went, refused) = stage.try_cli(&["approve", &approval, "--yes"]).await;
    assert!(
        !went && refused.contains("NOT_A_CANDIDATE"),
        "dev is not in finance: {refused}"
    );

    let (went, hint) = stage.try_cli(&["complete", &approval, "--as", "approver"]).await;
    assert!(
        !went && hint.contains(&format!("legation approve {approval}")),
        "an approval is not completed: {hint}"
    );

    let (went, approved) = stage
        .try_cli(&["approve", &approval, "--as", "approver", "--yes"])
        .await;
    assert!(
        went && approved.contains("1200"),
        "the exact inputs (D46): {approved}"
    );
    let dev = stage.client("dev");
    assert_eq!(dev.ended(&id).await["status"], "COMPLETED");
    let (went, again) = stage
        .try_cli(&["approve", &approval, "--as", "approver", "--yes"])
        .await;
    assert!(!went, "decided once: {again}");

    let shown = stage.cli(&["show", &id]).await;
    for part in [
        "COMPLETED",
        "triage",
        "crm/get_customer",
        "large_payout",
        "notify_customer",
    ] {
        assert!(
            shown.contains(part),
            "no {part} in timeline and journal:\n{shown}"
        );
    }
    let drawn = stage.cli(&["lineage", &id]).await;
    let lines: Vec<&str> = drawn.lines().filter(|line| !line.trim().is_empty()).collect();
    assert!(lines[0].contains(&format!("complaint {id}")), "{drawn}");
    assert!(
        lines[1].contains("└─ large_payout") && lines[1].contains("started by agent triage, step 1."),
        "D12, D47: {drawn}"
    );

    let tree: Value = serde_json::from_str(&stage.cli(&["lineage", &id, "--json"]).await).expect("JSON");
    let child = &tree["instance"]["children"][0];
    let by = &child["startedByAgent"];
    assert_eq!(by["nodeId"], "triage");
    for name in ["model", "promptVersion", "taskId", "sequence"] {
        assert!(!by[name].is_null(), "D12: no {name} in {by}");
    }
    let seen = dev
        .get(&format!("/v1/instances/{}", child["id"].as_str().expect("an id")))
        .await;
    assert_eq!(
        (&seen["parentId"], &seen["rootId"], &seen["depth"]),
        (&json!(id), &json!(id), &json!(1)),
        "D14, D47: {seen}"
    );
}

/// D16, D45: a person says no with a comment; the model reads it, and the ticket that it opens quotes it.
async fn a_comment_of_a_rejection_reaches_the_model(dialect: Dialect) {
    let stage = stage(dialect).await;
    let id = complain(&stage).await;
    let approval = asked(&stage).await;
    let (went, said) = stage
        .try_cli(&["reject", &approval, "--as", "approver", "--yes"])
        .await;
    assert!(
        !went && said.contains("--comment"),
        "a rejection needs a comment: {said}"
    );
    let comment = "the order was returned last week";
    stage
        .cli(&[
            "reject",
            &approval,
            "--as",
            "approver",
            "--yes",
            "--comment",
            comment,
        ])
        .await;
    assert_eq!(stage.client("dev").ended(&id).await["status"], "COMPLETED");
    let tickets = stage.tickets();
    let body = tickets[0]["body"].as_str().expect("a body");
    assert!(body.contains(comment), "the model read the comment: {body}");
    assert!(stage.payments().is_empty());
    let shown = stage.cli(&["show", &id]).await;
    assert!(shown.contains("REJECTED") && shown.contains(comment), "{shown}");
}

/// What `run --record` writes is a script that the agent worker plays, and the run goes the same way again.
async fn a_recorded_run_is_played_again(dialect: Dialect) {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    for worker in ["payments.mjs", "notify.mjs"] {
        stage.keep(stage.node(worker, &stage.url));
    }
    let complaint = [
        "run",
        "complaint",
        "--var",
        "customerId=C-1001",
        "--var",
        "orderId=5531",
        "--var",
        "amount=89",
        "--var",
        "message=Is it ${broken}? (yes)",
    ];
    let agent = stage.agent(&stage.url);
    let first = stage
        .cli(&[&complaint[..], &["--record", "again.yaml"]].concat())
        .await;
    drop(agent);
    let (went, refused) = stage
        .try_cli(&[&complaint[..], &["--record", "again.yaml"]].concat())
        .await;
    assert!(!went && refused.contains("the file exists"), "{refused}");

    std::fs::rename(
        stage.path().join("again.yaml"),
        stage.path().join("scripted.yaml"),
    )
    .expect("the record");
    stage.keep(stage.agent(&stage.url));
    assert_eq!(stage.cli(&complaint).await, first);
}

on_both_databases!(
    a_recorded_run_is_played_again,
    the_printed_command_approves_and_the_story_can_be_read,
    a_comment_of_a_rejection_reaches_the_model,
);
