//! Bad days of whole processes: a database that dies and comes back (B16), a full disk (B17), calls that race (B22),
//! a clock that jumps an hour (B24).

use std::path::PathBuf;

use legation_store::Dialect;
use legation_store::testing::OwnPostgres;
use legation_tests::e2e::{Client, Gate, Hold, Stage, Start, until};
use legation_tests::on_both_databases;
use serde_json::{Value, json};

const JOB: &str = "
metadata: { key: job, variables: { note: { type: string } } }
flow:
  nodes:
    - { id: work, type: engine-task, service: job.work, next: done }
    - { id: done, type: end }
";

/// Work that times out about when it is completed.
const HURRY: &str = "
metadata: { key: hurry, variables: {} }
flow:
  nodes:
    - { id: work, type: engine-task, service: hurry.work, on_timeout: { after: 0.04s, then: late }, next: done }
    - { id: late, type: end, error: TOO_LATE }
    - { id: done, type: end }
";

const PAUSE: &str = "
metadata: { key: pause, variables: {} }
flow:
  nodes:
    - { id: pause, type: timer, after: 10m }
    - { id: done, type: end }
";

async fn deploy(dev: &Client, files: &[(&str, &str)]) {
    let files: serde_json::Map<String, Value> = files
        .iter()
        .map(|(name, text)| (format!("processes/{name}.process.yaml"), json!(text)))
        .collect();
    let answer = dev.post("/v1/deployments", json!({ "files": files })).await;
    assert_eq!(answer["problems"], json!([]), "{answer}");
}

async fn fetch(worker: &Client, topic: &str) -> String {
    until("work to fetch", async || fetch_once(worker, topic).await).await
}

async fn fetch_once(worker: &Client, topic: &str) -> Option<String> {
    let ask =
        json!({ "workerId": "w", "topics": [topic], "lockDuration": 30_000, "maxTasks": 1, "longPollMs": 0 });
    let answer = worker.post("/v1/external-tasks/fetch-and-lock", ask).await;
    answer["tasks"][0]["id"].as_str().map(str::to_owned)
}

fn complete(task: &str) -> (String, Value) {
    (
        format!("/v1/external-tasks/{task}/complete"),
        json!({ "workerId": "w", "variables": {} }),
    )
}

/// B16: what was asked meanwhile is refused or waits, what was answered is kept, and the story goes on by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b16_the_database_is_killed_and_comes_back() {
    let mut own = tokio::task::spawn_blocking(OwnPostgres::start)
        .await
        .expect("a server");
    let mut stage = Stage::empty(Dialect::Sqlite).await;
    stage.keep(stage.engine(&Start {
        database: Some(own.url()),
        ..Start::default()
    }));
    stage.is_up().await;
    let gate = Gate::before(&stage.url).await;
    for worker in [
        stage.agent(&stage.url),
        stage.node("notify.mjs", &stage.url),
        stage.node("payments.mjs", &gate.url),
    ] {
        stage.keep(worker);
    }
    let dev = stage.client("dev");
    let story =
        json!({ "customerId": "C-1001", "orderId": "5531", "amount": 89, "message": "It is broken." });
    gate.hold(Hold::Before, |path, _| path.ends_with("/complete"));
    let id = dev.start("complaint", story.clone()).await;
    gate.held().await;

    own.kill();
    let ask = json!({ "process": "complaint", "variables": story });
    let refused = dev
        .try_call("POST", "/v1/instances", Some(&ask), Some("again"))
        .await
        .expect("an answer");
    assert_eq!(refused.status, 503, "{refused:?}");
    let ready = dev
        .try_call("GET", "/health/ready", None, None)
        .await
        .expect("an answer");
    assert_eq!(ready.status, 503, "{ready:?}");

    let own = tokio::task::spawn_blocking(move || {
        own.start_again();
        own
    });
    let own = own.await.expect("a server");
    gate.release();
    assert_eq!(dev.ended(&id).await["status"], "COMPLETED");
    let started = until("the same start to be taken", async || {
        let answer = dev
            .try_call("POST", "/v1/instances", Some(&ask), Some("again"))
            .await?;
        (answer.status == 201).then_some(answer.body)
    })
    .await;
    assert_eq!(
        dev.ended(started["id"].as_str().expect("an id")).await["status"],
        "COMPLETED"
    );
    assert_eq!(stage.payments().len(), 2);
    drop(stage);
    drop(own);
}

/// B17: a disk of 12 MiB fills up. The engine refuses, keeps what it answered, and goes on when there is room.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b17_a_full_disk_refuses_and_loses_nothing() {
    const MOUNT: &str = "mkdir -p full && mount -t tmpfs -o size=12m tmpfs full && \
                         head -c 4000000 /dev/zero > full/filler && exec \"$@\"";
    let mut within: Vec<String> = vec!["unshare".to_owned(), "--mount".to_owned()];
    if !is_root() {
        within.extend(["--user", "--map-root-user"].map(str::to_owned));
    }
    within.extend(["sh", "-c", MOUNT, "sh"].map(str::to_owned));
    let mut stage = Stage::empty(Dialect::Sqlite).await;
    let start = Start {
        within,
        database: Some("sqlite:full/legation.db".to_owned()),
        ..Start::default()
    };
    let engine = stage.engine(&start);
    let id = engine.id();
    stage.keep(engine);
    // Should neither root nor a user namespace be allowed here, the engine's log says so.
    stage.is_up().await;
    let dev = stage.client("dev");
    deploy(&dev, &[("job", JOB)]).await;

    let ask = json!({ "process": "job", "variables": { "note": "x".repeat(200_000) } });
    let mut kept = Vec::new();
    let refused = loop {
        let answer = dev
            .try_call("POST", "/v1/instances", Some(&ask), None)
            .await
            .expect("an answer");
        if answer.status != 201 {
            break answer;
        }
        kept.push(answer.body["id"].as_str().expect("an id").to_owned());
        assert!(kept.len() < 200, "the disk never fills up");
    };
    assert_eq!(refused.status, 503, "{refused:?}");
    assert!(!kept.is_empty());

    let filler = PathBuf::from(format!("/proc/{id}/root")).join(
        stage
            .path()
            .strip_prefix("/")
            .expect("an absolute path")
            .join("full/filler"),
    );
    std::fs::remove_file(filler).expect("room can be made");
    let small = json!({ "process": "job", "variables": { "note": "small" } });
    until("the engine to go on", async || {
        let answer = dev.try_call("POST", "/v1/instances", Some(&small), None).await?;
        (answer.status == 201).then_some(())
    })
    .await;
    for id in &kept {
        let variables = dev.get(&format!("/v1/instances/{id}/variables")).await;
        assert!(
            variables.to_string().len() > 200_000,
            "{id} was answered and is not whole"
        );
    }
    assert_eq!(
        dev.instances("job").await.len(),
        kept.len() + 1,
        "what was refused did not happen"
    );
}

/// Whether this test may mount by itself; others need a user namespace.
fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    std::fs::metadata("/proc/self").is_ok_and(|process| process.uid() == 0)
}

/// B22: of a cancel and a completion exactly one takes effect, and both callers are told which.
async fn b22_a_cancel_and_a_completion_race(dialect: Dialect) {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    let (dev, worker) = (stage.client("dev"), stage.client("worker"));
    deploy(&dev, &[("job", JOB)]).await;
    for _ in 0..15 {
        let id = dev.start("job", json!({ "note": "race" })).await;
        let (path, body) = complete(&fetch(&worker, "job.work").await);
        let cancel = json!({ "reason": "not wanted" });
        let cancel_path = format!("/v1/instances/{id}/cancel");
        let (completed, cancelled) = tokio::join!(
            worker.try_call("POST", &path, Some(&body), None),
            dev.try_call("POST", &cancel_path, Some(&cancel), None),
        );
        let (completed, cancelled) = (completed.expect("an answer"), cancelled.expect("an answer"));
        let status = dev.ended(&id).await["status"]
            .as_str()
            .expect("a status")
            .to_owned();
        assert_eq!(cancelled.body["status"], json!(status), "{cancelled:?}");
        match completed.status {
            200 => assert_eq!(status, "COMPLETED"),
            410 => assert_eq!(
                (status.as_str(), &completed.body["code"]),
                ("CANCELLED", &json!("WORK_RETIRED"))
            ),
            _ => panic!("{completed:?}"),
        }
    }
}

/// B22: the same of a timeout and a completion.
async fn b22_a_timeout_and_a_completion_race(dialect: Dialect) {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    let (dev, worker) = (stage.client("dev"), stage.client("worker"));
    deploy(&dev, &[("hurry", HURRY)]).await;
    // Enough rounds that each wins some; how many depends on the machine.
    for _ in 0..30 {
        let id = dev.start("hurry", json!({})).await;
        let completed = match fetch_once(&worker, "hurry.work").await {
            Some(task) => {
                let (path, body) = complete(&task);
                worker
                    .try_call("POST", &path, Some(&body), None)
                    .await
                    .expect("an answer")
                    .status
            }
            // The timeout was faster than the fetch.
            None => 410,
        };
        let ended = dev.ended(&id).await;
        match completed {
            200 => assert_eq!(ended["status"], "COMPLETED", "{ended}"),
            410 => assert_eq!(ended["error"]["code"], "TOO_LATE", "{ended}"),
            _ => panic!("{completed}"),
        }
    }
}

/// B22: a cancel, a timeout and a completion at about the same moment. One of the three is what happened, for everybody.
async fn b22_a_cancel_a_timeout_and_a_completion_race(dialect: Dialect) {
    let (mut stage, engine) = Stage::new(dialect).await;
    stage.keep(engine);
    let (dev, worker) = (stage.client("dev"), stage.client("worker"));
    deploy(&dev, &[("hurry", HURRY)]).await;
    for round in 0..50 {
        let id = dev.start("hurry", json!({})).await;
        let cancel = json!({ "reason": "not wanted" });
        let cancel_path = format!("/v1/instances/{id}/cancel");
        let (completed, cancelled) = tokio::join!(
            async {
                let (path, body) = complete(&fetch_once(&worker, "hurry.work").await?);
                worker.try_call("POST", &path, Some(&body), None).await
            },
            async {
                // Which of them is first changes from round to round: the timeout is due after 40 ms.
                for _ in 0..round % 10 {
                    dev.get(&format!("/v1/instances/{id}")).await;
                }
                dev.try_call("POST", &cancel_path, Some(&cancel), None).await
            },
        );
        let ended = dev.ended(&id).await;
        let cancelled = cancelled.expect("an answer");
        assert_eq!(
            cancelled.body["status"], ended["status"],
            "round {round}: {cancelled:?}"
        );
        // Nothing to fetch any more is an answer as well.
        let completed = completed.map_or(410, |answer| answer.status);
        match ended["status"].as_str().expect("a status") {
            "COMPLETED" => assert_eq!(completed, 200, "round {round}"),
            "CANCELLED" => assert_eq!(completed, 410, "round {round}"),
            "FAILED" => assert_eq!((completed, &ended["error"]["code"]), (410, &json!("TOO_LATE"))),
            other => panic!("round {round}: {other}"),
        }
    }
}

/// B24: the machine's clock jumps an hour forward. Nothing expires and nothing fires early while the engine runs;
/// the next engine takes the new time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn b24_a_clock_that_jumps_an_hour_expires_nothing() {
    let mut stage = Stage::empty(Dialect::Sqlite).await;
    let offset = stage.path().join("offset");
    std::fs::write(&offset, "+0").expect("a file can be written");
    let env = [
        ("LD_PRELOAD", faketime().display().to_string()),
        ("FAKETIME_TIMESTAMP_FILE", offset.display().to_string()),
        ("FAKETIME_NO_CACHE", "1".to_owned()),
        ("FAKETIME_DONT_FAKE_MONOTONIC", "1".to_owned()),
    ];
    let start = Start {
        env: env.map(|(name, value)| (name.to_owned(), value)).to_vec(),
        ..Start::default()
    };
    let engine = stage.engine(&start);
    stage.is_up().await;
    let (dev, worker) = (stage.client("dev"), stage.client("worker"));
    deploy(&dev, &[("job", JOB), ("pause", PAUSE)]).await;
    let job = dev.start("job", json!({ "note": "before" })).await;
    let pause = dev.start("pause", json!({})).await;
    let task = fetch(&worker, "job.work").await;

    std::fs::write(&offset, "+1h").expect("a file can be written");
    // A whole round trip with a commit of its own: the engine has seen the new time by then.
    let later = dev.start("job", json!({ "note": "after" })).await;
    let (path, body) = complete(&task);
    worker.post(&path, body).await;
    assert_eq!(dev.ended(&job).await["status"], "COMPLETED");
    until("the engine to tell of the jump", async || {
        engine.log().contains("the system's time jumped").then_some(())
    })
    .await;
    assert_eq!(
        dev.get(&format!("/v1/instances/{pause}")).await["status"],
        "RUNNING",
        "a timer fired early"
    );
    let (path, body) = complete(&fetch(&worker, "job.work").await);
    worker.post(&path, body).await;
    assert_eq!(dev.ended(&later).await["status"], "COMPLETED");

    engine.kill();
    stage.keep(stage.engine(&start));
    stage.is_up().await;
    assert_eq!(
        dev.ended(&pause).await["status"],
        "COMPLETED",
        "an hour is over for the next engine"
    );
}

fn faketime() -> PathBuf {
    let folders = std::fs::read_dir("/usr/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path());
    let library = |folder: PathBuf| folder.join("faketime/libfaketimeMT.so.1");
    let mut found = folders.map(library).filter(|path| path.exists());
    found
        .next()
        .expect("libfaketime is missing: sudo apt-get install faketime")
}

on_both_databases!(
    b22_a_cancel_and_a_completion_race,
    b22_a_timeout_and_a_completion_race,
    b22_a_cancel_a_timeout_and_a_completion_race,
);
