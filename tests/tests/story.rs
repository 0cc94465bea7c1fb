//! The story of the refund example on real parts: the engine, the agent worker with a scripted model, the CRM as an
//! MCP server, the payments worker and the notifier in plain fetch (D1, D12–D18, D45–D47, D66).

use legation_store::Dialect;
use legation_tests::e2e::{Client, Stage, until};
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

fn complaint(customer: &str, order: &str, amount: u32) -> Value {
    json!({ "customerId": customer, "orderId": order, "amount": amount, "message": "It is broken." })
}

fn kinds(journal: &[Value]) -> Vec<String> {
    journal
        .iter()
        .map(|step| {
            format!(
                "{} {}",
                step["kind"].as_str().unwrap_or("?"),
                step["state"].as_str().unwrap_or("?")
            )
        })
        .collect()
}

/// D12–D17: looked up through MCP, delegated, paid once, answered, told.
async fn a_small_refund_is_paid_and_the_customer_is_told(dialect: Dialect) {
    let stage = stage(dialect).await;
    let dev = stage.client("dev");
    let id = dev.start("complaint", complaint("C-1001", "5531", 89)).await;
    let ended = dev.ended(&id).await;
    assert_eq!(ended["status"], "COMPLETED", "{ended}");
    let paid = stage.payments();
    assert_eq!(paid.len(), 1, "{paid:?}");
    let answer = ended["outputs"]["answer"].as_str().expect("an answer");
    assert!(
        answer.contains(paid[0]["payout_id"].as_str().expect("a payout")),
        "{answer}"
    );
    let journal = dev.journal(&id).await;
    let steps = [
        "MODEL COMPLETED",
        "TOOL COMPLETED",
        "MODEL COMPLETED",
        "DELEGATION COMPLETED",
        "MODEL COMPLETED",
    ];
    assert_eq!(kinds(&journal), steps);
    lineage_names_the_child(&dev, &id, "refund_payout").await;
}

/// D18, D45–D47: no child before a person outside the project's workers approves the exact inputs.
async fn a_large_refund_waits_for_finance(dialect: Dialect) {
    let stage = stage(dialect).await;
    let (dev, approver) = (stage.client("dev"), stage.client("approver"));
    let id = dev.start("complaint", complaint("C-1002", "7702", 1200)).await;
    let task = approver.approval(&id).await;
    assert!(
        dev.instances("large_payout").await.is_empty(),
        "no child before the approval"
    );
    assert!(stage.payments().is_empty());
    let refused = dev.decide(&task, "approved").await;
    assert_eq!(refused.status, 403, "dev is in no approver group: {refused:?}");
    let digest = &approver
        .get(&format!("/v1/tasks/{}", task["id"].as_str().expect("an id")))
        .await["approval"]["digest"];
    let decision = format!("/v1/tasks/{}/decision", task["id"].as_str().expect("an id"));
    let by_worker = json!({ "outcome": "approved", "digest": digest });
    let refused = stage
        .client("worker")
        .try_call("POST", &decision, Some(&by_worker), None)
        .await
        .expect("an answer");
    assert_eq!(
        refused.status, 403,
        "D45, B21: a worker never decides: {refused:?}"
    );
    let stale = json!({ "outcome": "approved", "digest": "0".repeat(64) });
    let refused = approver
        .try_call("POST", &decision, Some(&stale), None)
        .await
        .expect("an answer");
    assert_eq!(
        (refused.status, &refused.body["code"]),
        (409, &json!("APPROVAL_CHANGED")),
        "D46, B21"
    );
    assert!(dev.instances("large_payout").await.is_empty());
    let decided = approver.decide(&task, "approved").await;
    assert_eq!(decided.status, 200, "{decided:?}");
    assert_eq!(dev.ended(&id).await["status"], "COMPLETED");
    assert_eq!(stage.payments().len(), 1);
    lineage_names_the_child(&dev, &id, "large_payout").await;
}

/// D46: a rejection is an answer that the model reads; nothing is paid.
async fn a_rejected_refund_becomes_a_ticket(dialect: Dialect) {
    let stage = stage(dialect).await;
    let (dev, approver) = (stage.client("dev"), stage.client("approver"));
    let id = dev.start("complaint", complaint("C-1002", "7702", 1200)).await;
    let task = approver.approval(&id).await;
    assert_eq!(approver.decide(&task, "rejected").await.status, 200);
    assert_eq!(dev.ended(&id).await["status"], "COMPLETED");
    assert!(stage.payments().is_empty());
    assert!(dev.instances("large_payout").await.is_empty());
    assert_eq!(stage.tickets().len(), 1);
}

/// Two engines share one database: workers of either serve both, and a poll at one hears of work from the other.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_engines_on_one_database_tell_one_story() {
    let (mut stage, engine) = Stage::new(Dialect::Postgres).await;
    stage.keep(engine);
    let (second, url) = stage.second_engine();
    stage.keep(second);
    let (here, there) = (stage.client("dev"), Client::new(&url, &stage.key("dev")));
    until("the second engine", async || {
        there.try_call("GET", "/v1/processes", None, None).await
    })
    .await;
    stage.keep(stage.node("payments.mjs", &stage.url));
    stage.keep(stage.node("notify.mjs", &url));
    stage.keep(stage.agent(&url));
    let mut ids = Vec::new();
    for client in [&here, &there, &here, &there] {
        ids.push(client.start("complaint", complaint("C-1001", "5531", 89)).await);
    }
    for id in &ids {
        assert_eq!(here.ended(id).await["status"], "COMPLETED");
        assert_eq!(
            there.get(&format!("/v1/instances/{id}")).await["status"],
            "COMPLETED"
        );
    }
    assert_eq!(stage.payments().len(), ids.len());
}

async fn lineage_names_the_child(dev: &Client, id: &str, process: &str) {
    let lineage = dev.get(&format!("/v1/instances/{id}/lineage")).await;
    assert!(
        lineage.to_string().contains(&format!("\"{process}\"")),
        "{lineage}"
    );
}

on_both_databases!(
    a_small_refund_is_paid_and_the_customer_is_told,
    a_large_refund_waits_for_finance,
    a_rejected_refund_becomes_a_ticket,
);
