//! The same payments worker in Node, Python and Rust: each pays the refund of the story once (D31, D32, D46b).

use legation_store::Dialect;
use legation_tests::e2e::{Process, Stage};
use legation_tests::on_both_databases;
use serde_json::json;

/// D14, D31, D46b: one worker pays both refunds, each under the task's own key, and the engine gets its `payout_id`.
async fn pays(dialect: Dialect, worker: fn(&Stage) -> Process) {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    stage.keep(worker(&stage));
    let dev = stage.client("dev");
    let order = json!({ "orderId": "5531", "amount": 89.95, "currency": "EUR" });
    let mut ids = Vec::new();
    for process in ["refund_payout", "large_payout"] {
        ids.push(dev.start(process, order.clone()).await);
    }
    let mut told = Vec::new();
    for id in &ids {
        let ended = dev.ended(id).await;
        assert_eq!(ended["status"], "COMPLETED", "{ended}");
        told.push(ended["outputs"]["payout_id"].clone());
    }
    let mut paid = stage.payments();
    paid.sort_by_key(|line| told.iter().position(|payout| *payout == line["payout_id"]));
    assert_eq!(paid.len(), 2, "{paid:?}");
    for (line, payout) in paid.iter().zip(&told) {
        assert_eq!(line["payout_id"], *payout);
        assert_eq!(line["amount"].to_string(), "89.95", "no digit is lost: {line}");
    }
    assert_ne!(paid[0]["idempotencyKey"], paid[1]["idempotencyKey"]);
    let listed = dev.get("/v1/workers").await;
    assert!(
        listed.to_string().contains("payments.payout"),
        "workers are listed with their topics: {listed}"
    );
}

async fn a_worker_in_plain_fetch_pays(dialect: Dialect) {
    pays(dialect, |stage| stage.node("payments.mjs", &stage.url)).await;
}

async fn a_worker_in_python_without_a_package_pays(dialect: Dialect) {
    pays(dialect, |stage| stage.python_payments(&stage.url)).await;
}

async fn a_worker_in_rust_with_the_sdk_pays(dialect: Dialect) {
    pays(dialect, |stage| stage.rust_payments(&stage.url)).await;
}

/// D13, D46b: three languages compete for ten refunds; nothing is paid twice.
async fn workers_of_three_languages_share_the_work(dialect: Dialect) {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    stage.keep(stage.node("payments.mjs", &stage.url));
    stage.keep(stage.python_payments(&stage.url));
    stage.keep(stage.rust_payments(&stage.url));
    let dev = stage.client("dev");
    let order = json!({ "orderId": "5531", "amount": 89, "currency": "EUR" });
    let mut ids = Vec::new();
    for _ in 0..10 {
        ids.push(dev.start("refund_payout", order.clone()).await);
    }
    for id in &ids {
        assert_eq!(dev.ended(id).await["status"], "COMPLETED");
    }
    let mut keys: Vec<String> = stage
        .payments()
        .iter()
        .map(|line| line["idempotencyKey"].to_string())
        .collect();
    keys.sort();
    keys.dedup();
    assert_eq!((keys.len(), stage.payments().len()), (10, 10));
}

on_both_databases!(
    a_worker_in_plain_fetch_pays,
    a_worker_in_python_without_a_package_pays,
    a_worker_in_rust_with_the_sdk_pays,
    workers_of_three_languages_share_the_work,
);
