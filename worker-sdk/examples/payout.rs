//! The payments worker of the refund example, with the SDK: the same work as `payments.mjs` and `payments.py`.

use std::fs::{OpenOptions, read_to_string};
use std::io::Write;
use std::path::{Path, PathBuf};

use anyhow::Context;
use legation_worker::{CancellationToken, Client, Task, TaskError, Worker};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// Amounts stay as they were written: no digit is lost on the way.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Payout {
    order_id: String,
    amount: Box<RawValue>,
    currency: String,
}

#[derive(Serialize)]
struct Paid {
    payout_id: String,
}

/// One line of the ledger, as the other payments workers write it.
#[derive(Serialize)]
struct Line<'a> {
    #[serde(rename = "idempotencyKey")]
    idempotency_key: &'a str,
    payout_id: &'a str,
    #[serde(rename = "orderId")]
    order_id: &'a str,
    amount: &'a RawValue,
    currency: &'a str,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let given = |name: &str| std::env::var(name).ok().filter(|value| !value.trim().is_empty());
    let written = |name: &str| read_to_string(format!(".legation/{name}"));
    let setting = |name: &str, default: &str| given(name).unwrap_or_else(|| default.to_owned());
    let url = given("LEGATION_URL").or_else(|| written("url").ok());
    let url = url.as_deref().map_or("http://127.0.0.1:8700", str::trim);
    let key = given("LEGATION_KEY")
        .map_or_else(|| written("worker.key"), Ok)
        .context("no key: set LEGATION_KEY, or start beside the engine's .legation folder")?;
    let topic = setting("TOPIC", "payments.payout");
    let ledger = PathBuf::from(setting("LEDGER", ".legation/payments.jsonl"));
    let worker_id = format!("payments-rs-{}", std::process::id());

    let shutdown = CancellationToken::new();
    let on_signal = shutdown.clone();
    let signals = async move {
        let _ = tokio::signal::ctrl_c().await;
        on_signal.cancel();
        std::future::pending::<()>().await;
    };
    println!("{worker_id} waits for {topic} at {url}");
    let worker = Worker::new(Client::new(url, &key)?, worker_id)
        .concurrency(1)
        .topic(topic, move |task: Task<Payout>| {
            let ledger = ledger.clone();
            async move {
                let payout_id = pay(&ledger, &task.idempotency_key, &task.variables)?;
                Ok::<_, TaskError>(Paid { payout_id })
            }
        })
        .run(shutdown);
    tokio::select! {
        ended = worker => ended?,
        () = signals => {}
    }
    Ok(())
}

/// The ledger stands for a payment provider: it knows a key that it has paid, and does not pay it again.
fn pay(ledger: &Path, idempotency_key: &str, payout: &Payout) -> std::io::Result<String> {
    let payout_id = format!("P-{}", idempotency_key.get(..8).unwrap_or(idempotency_key));
    let paid = read_to_string(ledger).unwrap_or_default();
    if paid
        .lines()
        .any(|line| line.contains(&format!("\"{idempotency_key}\"")))
    {
        return Ok(payout_id);
    }
    let Payout {
        order_id,
        amount,
        currency,
    } = payout;
    let line = Line {
        idempotency_key,
        payout_id: &payout_id,
        order_id,
        amount,
        currency,
    };
    if let Some(folder) = ledger.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = OpenOptions::new().create(true).append(true).open(ledger)?;
    writeln!(file, "{}", serde_json::to_string(&line)?)?;
    println!("paid {amount} {currency} for order {order_id}: {payout_id}");
    Ok(payout_id)
}
