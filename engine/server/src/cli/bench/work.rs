//! The workers: each leases up to so many tasks by long poll and completes them at once, until it is killed. Every end
//! is a line on stdout: `<instance> <micros>`, after a first line that says that they are connected.

use std::io::Write;

use futures::future::try_join_all;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::READY;
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
    let mut ready = Vec::new();
    for number in 0..workers {
        ready.push(Worker::new(target, number, most).await?);
    }
    println!("{READY}");
    try_join_all(ready.into_iter().map(Worker::run)).await?;
    Ok(())
}

struct Worker {
    fetch: String,
    complete: String,
    fetcher: Connection,
    completers: Vec<Connection>,
}

impl Worker {
    async fn new(target: &Target, number: usize, most: usize) -> anyhow::Result<Self> {
        let worker = format!("bench-{number}");
        let mut completers = Vec::new();
        for _ in 0..most {
            completers.push(Connection::open(target).await?);
        }
        Ok(Self {
            fetch: format!(
                r#"{{"workerId":"{worker}","topics":["{TOPIC}"],"lockDuration":30000,"maxTasks":{most},"longPollMs":30000}}"#
            ),
            complete: format!(r#"{{"workerId":"{worker}","variables":{{"done":"yes"}}}}"#),
            fetcher: Connection::open(target).await?,
            completers,
        })
    }

    async fn run(mut self) -> anyhow::Result<()> {
        let complete = &self.complete;
        loop {
            let path = "/v1/external-tasks/fetch-and-lock";
            let fetched: Fetched = self.fetcher.post(path, &self.fetch).await?;
            let completing = self
                .completers
                .iter_mut()
                .zip(&fetched.tasks)
                .map(|(connection, task)| async {
                    let path = format!("/v1/external-tasks/{}/complete", task.id);
                    connection.post::<IgnoredAny>(&path, complete).await?;
                    anyhow::Ok(format!("{} {}\n", task.instance_id, micros()))
                });
            let lines = try_join_all(completing).await?.concat();
            std::io::stdout().write_all(lines.as_bytes())?;
        }
    }
}
