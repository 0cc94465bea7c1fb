//! `legation workers`: who works, and which topics nobody serves.

use legation_protocol::workers::{TopicView, WorkerView, WorkersAnswer};

use super::client::Client;
use super::{Global, print};

pub async fn run(global: &Global) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let answer = client.get::<WorkersAnswer>("/v1/workers").await?;
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    let workers = answer.body.workers.iter().map(worker).collect();
    print::table(
        &["worker", "principal", "topics", "", "last seen", "leases"],
        workers,
        "no worker was seen",
    );
    if !answer.body.topics.is_empty() {
        say!("");
        let topics = answer.body.topics.iter().map(topic).collect();
        print::table(
            &["topic", "open", "locked", "parked", "workers", "oldest"],
            topics,
            "no topics",
        );
    }
    for topic in &answer.body.unserved_topics {
        tell!("nobody serves {topic}");
    }
    Ok(())
}

fn worker(worker: &WorkerView) -> Vec<String> {
    vec![
        worker.worker_id.clone(),
        worker.principal.clone(),
        worker.topics.join(", "),
        if worker.live { "live" } else { "gone" }.to_owned(),
        print::moment(&worker.last_seen_at),
        worker.leases.to_string(),
    ]
}

fn topic(topic: &TopicView) -> Vec<String> {
    vec![
        topic.topic.clone(),
        topic.open.to_string(),
        topic.locked.to_string(),
        topic.parked.to_string(),
        topic.workers.to_string(),
        topic
            .oldest_open_at
            .as_deref()
            .map(print::moment)
            .unwrap_or_default(),
    ]
}
