//! Warns when a topic has open work and no worker, with the curl line that would take it.

use std::collections::HashMap;
use std::time::Duration;

use legation_protocol::workers::WorkersAnswer;

use super::Project;
use crate::cli::print::Ink;

/// How often the engine is asked.
const LOOK: Duration = Duration::from_secs(1);

/// Looks in a row before it is said: a worker that is just starting is no worker missing.
const PATIENCE: u32 = 3;

/// Never ends.
pub async fn warn(project: &Project) {
    let mut unserved: HashMap<String, u32> = HashMap::new();
    loop {
        tokio::time::sleep(LOOK).await;
        let Ok(answer) = project.client.get::<WorkersAnswer>("/v1/workers").await else {
            continue;
        };
        let topics = answer.body.unserved_topics;
        unserved.retain(|topic, _| topics.contains(topic));
        for topic in topics {
            let looks = unserved.entry(topic.clone()).or_default();
            *looks += 1;
            if *looks == PATIENCE {
                let open = answer
                    .body
                    .topics
                    .iter()
                    .find(|one| one.topic == topic)
                    .map_or(1, |one| one.open);
                say(project, &topic, open);
            }
        }
    }
}

fn say(project: &Project, topic: &str, open: u64) {
    let tasks = if open == 1 {
        "a task waits".to_owned()
    } else {
        format!("{open} tasks wait")
    };
    tell!(
        "{} {tasks} for a worker of the topic {topic}, and there is none. To take one by hand:",
        Ink::stderr().bold("no worker:")
    );
    tell!(
        "  {}",
        curl(
            project.client.url(),
            &project.data.join("worker.key").display().to_string(),
            topic
        )
    );
}

/// The line that leases one task.
pub fn curl(url: &str, key_file: &str, topic: &str) -> String {
    let topic = serde_json::Value::from(topic);
    let body =
        format!(r#"{{"workerId":"me","topics":[{topic}],"lockDuration":60000,"maxTasks":1,"longPollMs":0}}"#);
    format!(
        "curl -s {url}/v1/external-tasks/fetch-and-lock -H \"Authorization: Bearer $(cat {key_file})\" \
         -H 'Content-Type: application/json' -d '{body}'"
    )
}
