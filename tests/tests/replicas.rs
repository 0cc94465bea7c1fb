//! Several engines on one PostgreSQL, without a leader: they hear of each other's work, lease nothing twice, and end
//! what a dead one began.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use legation_store::Dialect;
use legation_tests::e2e::{Client, Process, Stage, until};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const JOB: &str = "
metadata: { key: job, variables: {} }
flow:
  nodes:
    - { id: first, type: engine-task, service: job.work }
    - { id: second, type: engine-task, service: job.work }
    - { id: done, type: end }
";

struct Scene {
    stage: Stage,
    second: Process,
    urls: [String; 2],
}

impl Scene {
    async fn new() -> Self {
        let (mut stage, engine) = Stage::new(Dialect::Postgres).await;
        stage.keep(engine);
        let (second, url) = stage.second_engine();
        let there = Client::new(&url, &stage.key("dev"));
        until("the second engine", async || {
            let answer = there.try_call("GET", "/v1/processes", None, None).await?;
            (answer.status == 200).then_some(())
        })
        .await;
        stage
            .client("dev")
            .deploy(&[("processes/job.process.yaml", JOB)])
            .await;
        let urls = [stage.url.clone(), url];
        Self { stage, second, urls }
    }

    fn clients(&self, who: &str) -> Vec<Client> {
        let key = self.stage.key(who);
        self.urls.iter().map(|url| Client::new(url, &key)).collect()
    }
}

/// Every lease that any worker was given: lease by bare task id.
type Leases = Arc<Mutex<BTreeMap<String, Vec<String>>>>;

fn fetch(worker: &str, long_poll_ms: u64) -> Value {
    json!({ "workerId": worker, "topics": ["job.work"], "lockDuration": 3_000, "maxTasks": 4,
        "longPollMs": long_poll_ms })
}

/// A worker that goes to the next engine with every call, and to another one when one is away.
fn worker(name: String, engines: Vec<Client>, leases: Leases) -> JoinHandle<()> {
    tokio::spawn(async move {
        let ask = fetch(&name, 500);
        for engine in engines.iter().cycle() {
            let path = "/v1/external-tasks/fetch-and-lock";
            let Some(fetched) = engine.try_call("POST", path, Some(&ask), None).await else {
                tokio::task::yield_now().await;
                continue;
            };
            for task in fetched.body["tasks"].as_array().into_iter().flatten() {
                let lease = task["id"].as_str().expect("an id").to_owned();
                let bare = lease.split('~').next().expect("a task").to_owned();
                leases
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .entry(bare)
                    .or_default()
                    .push(lease.clone());
                complete(&name, &lease, &engines).await;
            }
        }
    })
}

/// Completes at whichever engine answers: the answer of the first call may be lost with its engine.
async fn complete(name: &str, lease: &str, engines: &[Client]) {
    let path = format!("/v1/external-tasks/{lease}/complete");
    let body = json!({ "workerId": name, "variables": {} });
    for engine in engines.iter().rev().cycle().take(20) {
        match engine.try_call("POST", &path, Some(&body), None).await {
            None => tokio::task::yield_now().await,
            Some(answer) if answer.status == 503 || answer.status == 429 => {}
            Some(_) => return,
        }
    }
}

/// Starts instances at the engines in turn; each start is repeated under its own key until one engine took it.
async fn start(engines: &[Client], from: usize, to: usize) -> Vec<String> {
    let body = json!({ "process": "job", "variables": {} });
    let mut ids = Vec::new();
    for number in from..to {
        let key = format!("start-{number}");
        let mut turn = number;
        let id = until("an instance to be started", async || {
            turn += 1;
            let engine = &engines[turn % engines.len()];
            let answer = engine
                .try_call("POST", "/v1/instances", Some(&body), Some(&key))
                .await?;
            (answer.status == 201).then(|| answer.body["id"].as_str().map(str::to_owned))?
        })
        .await;
        ids.push(id);
    }
    ids
}

async fn how_many(client: &Client, status: &str) -> usize {
    let (mut count, mut after) = (0, String::new());
    loop {
        let path = format!("/v1/instances?process=job&status={status}&limit=100{after}");
        let page = client.get(&path).await;
        count += page["instances"].as_array().expect("a list").len();
        let Some(next) = page["next"].as_str() else {
            return count;
        };
        after = format!("&after={next}");
    }
}

async fn all_completed(client: &Client, count: usize) {
    until(&format!("all {count} instances to end"), async || {
        (how_many(client, "RUNNING").await == 0).then_some(())
    })
    .await;
    assert_eq!(how_many(client, "COMPLETED").await, count);
}

/// D31, D68: a worker that waits at one engine hears of work of the other within a second.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_at_one_engine_gets_work_of_the_other_within_a_second() {
    let scene = Scene::new().await;
    let (dev, workers) = (scene.clients("dev"), scene.clients("worker"));
    for round in 0..6 {
        let (here, there) = (round % 2, 1 - round % 2);
        let name = format!("w{round}");
        let (client, ask) = (workers[there].clone(), fetch(&name, 20_000));
        let polling = tokio::spawn(async move {
            let got = client.post("/v1/external-tasks/fetch-and-lock", ask).await;
            (got, Instant::now())
        });
        until("the worker to wait", async || {
            let listed = dev[there].get("/v1/workers").await;
            listed.to_string().contains(&format!("\"{name}\"")).then_some(())
        })
        .await;
        let started = Instant::now();
        dev[here].start("job", json!({})).await;
        let (got, at) = polling.await.expect("a poll ends");
        let lease = got["tasks"][0]["id"].as_str().expect("work");
        let waited = at.saturating_duration_since(started);
        assert!(waited < Duration::from_secs(1), "round {round}: {waited:?}");
        // Its second node is work as well; the next round must not find it.
        complete(&name, lease, &workers).await;
        let next = workers[there]
            .post("/v1/external-tasks/fetch-and-lock", fetch(&name, 20_000))
            .await;
        complete(&name, next["tasks"][0]["id"].as_str().expect("work"), &workers).await;
    }
    all_completed(&dev[0], 6).await;
}

/// D31, I7: 300 instances, 600 tasks, four workers at two engines: every task is leased once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_task_of_three_hundred_instances_is_leased_twice() {
    let scene = Scene::new().await;
    let leases = Leases::default();
    let workers: Vec<JoinHandle<()>> = (0..4)
        .map(|number| worker(format!("w{number}"), scene.clients("worker"), Arc::clone(&leases)))
        .collect();
    let dev = scene.clients("dev");
    let (here, there) = tokio::join!(start(&dev, 0, 150), start(&dev, 150, 300));
    assert_eq!(here.len() + there.len(), 300);
    all_completed(&dev[1], 300).await;
    workers.iter().for_each(JoinHandle::abort);
    let leases = leases.lock().unwrap_or_else(PoisonError::into_inner);
    assert_eq!(leases.len(), 600);
    let twice: Vec<_> = leases.iter().filter(|(_, leases)| leases.len() > 1).collect();
    assert!(twice.is_empty(), "{twice:?}");
}

/// B15: one of two engines is killed in the middle of it. Every start counts once, and everything ends.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_engine_is_killed_midway_and_everything_ends() {
    let scene = Scene::new().await;
    let leases = Leases::default();
    let workers: Vec<JoinHandle<()>> = (0..4)
        .map(|number| worker(format!("w{number}"), scene.clients("worker"), Arc::clone(&leases)))
        .collect();
    let dev = scene.clients("dev");
    let starting = tokio::join!(start(&dev, 0, 60), start(&dev, 60, 120), async {
        until("a third of the work to be leased", async || {
            let leased = leases.lock().unwrap_or_else(PoisonError::into_inner).len();
            (leased > 60).then_some(())
        })
        .await;
        scene.second.kill();
    });
    let mut ids = [starting.0, starting.1].concat();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), 120, "each start is an instance of its own");
    all_completed(&dev[0], 120).await;
    workers.iter().for_each(JoinHandle::abort);
    let incidents = dev[0].get("/v1/incidents").await;
    assert_eq!(incidents["incidents"], json!([]), "{incidents}");
}
