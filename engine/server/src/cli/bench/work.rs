//! The workers: each leases up to so many tasks by long poll and completes them at once, until it is killed. Every end
//! is a line on stdout: `<instance> <micros>`.

use std::io::Write;

use futures::future::try_join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::documents::TOPIC;
use super::http::{Connection, Target};
use super::times::micros;

#[derive(Deserialize)]
struct Fetched {
    tasks: Vec<Leased>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Leased {
    id: String,
    instance_id: String,
}

pub async fn run(target: &Target, workers: usize, most: usize) -> anyhow::Result<()> {
    try_join_all((0..workers).map(|number| work(target, number, most))).await?;
    Ok(())
}

async fn work(target: &Target, number: usize, most: usize) -> anyhow::Result<()> {
    let worker = format!("bench-{number}");
    let fetch = format!(
        r#"{{"workerId":"{worker}","topics":["{TOPIC}"],"lockDuration":30000,"maxTasks":{most},"longPollMs":30000}}"#
    );
    let complete = format!(r#"{{"workerId":"{worker}","variables":{{"done":"yes"}}}}"#);
    let mut fetcher = Connection::open(target).await?;
    let mut completers = Vec::new();
    for _ in 0..most {
        completers.push(Connection::open(target).await?);
    }
    loop {
        let fetched: Fetched = fetcher.post("/v1/external-tasks/fetch-and-lock", &fetch).await?;
        let completing = completers
            .iter_mut()
            .zip(&fetched.tasks)
            .map(|(connection, task)| async {
                let path = format!("/v1/external-tasks/{}/complete", task.id);
                connection.post::<IgnoredAny>(&path, &complete).await?;
                anyhow::Ok(format!("{} {}\n", task.instance_id, micros()))
            });
        let lines = try_join_all(completing).await?.concat();
        std::io::stdout().write_all(lines.as_bytes())?;
    }
}
