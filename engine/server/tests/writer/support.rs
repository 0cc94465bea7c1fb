//! An engine on a database of its own, with a fake clock.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use legation_kernel::commands::{Answer, Command, Completion, StartInstance};
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::task::Caller;
use legation_language::Value;
use legation_language::documents::{Nothing, Options, freeze};
use legation_server::app::{App, Parts, Sender};
use legation_server::chance::Chance;
use legation_server::cipher::Master;
use legation_server::clock::Clock;
use legation_server::writer::{Claimed, Failure, Faults, FetchRequest, Lost, Moment};
use legation_store::definitions::DefinitionRow;
use legation_store::instances::{self, InstanceRow};
use legation_store::testing::TestDb;
use legation_store::{Db, definitions};

pub struct Engine {
    pub app: App,
    url: String,
    clock: Clock,
}

pub fn text(text: &str) -> Value {
    Value::from(text)
}

impl Engine {
    pub async fn new(test: &TestDb, files: &[(&str, &str)]) -> Self {
        Self::with(test, files, Clock::fake(1_700_000_000_000), None).await
    }

    /// One whose database lacks a process that others call.
    pub async fn lacking(test: &TestDb, files: &[(&str, &str)], process: &str) -> Self {
        deploy(&test.db, files, Some(process)).await;
        Self::with(test, &[], Clock::fake(1_700_000_000_000), None).await
    }

    /// One with a clock of its own.
    pub async fn with_clock(test: &TestDb, files: &[(&str, &str)], clock: Clock) -> Self {
        Self::with(test, files, clock, None).await
    }

    /// One whose commits are broken by a test.
    pub async fn with_faults(test: &TestDb, files: &[(&str, &str)], faults: Arc<dyn Faults>) -> Self {
        Self::with(test, files, Clock::fake(1_700_000_000_000), Some(faults)).await
    }

    async fn with(
        test: &TestDb,
        files: &[(&str, &str)],
        clock: Clock,
        faults: Option<Arc<dyn Faults>>,
    ) -> Self {
        deploy(&test.db, files, None).await;
        let app = start(&test.url, clock.clone(), faults).await;
        Self {
            app,
            url: test.url.clone(),
            clock,
        }
    }

    /// Another engine on the same database, with a clock that is so much ahead.
    pub async fn beside(&self, ahead_ms: i64) -> Self {
        let clock = Clock::fake(self.clock.now() + ahead_ms);
        let app = start(&self.url, clock.clone(), None).await;
        Self {
            app,
            url: self.url.clone(),
            clock,
        }
    }

    /// Stops the engine and starts another on the same database.
    pub async fn restart(&mut self) {
        self.app.stop(Duration::from_secs(10)).await;
        self.app = start(&self.url, self.clock.clone(), None).await;
    }

    /// Another engine on the same database that dies, as `kill -9` does, of its first commit after so many.
    pub async fn dies_after(&self, commits: usize) {
        let (url, clock) = (self.url.clone(), self.clock.clone());
        let life = tokio::task::spawn_blocking(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .expect("a runtime");
            let deadly = Arc::new(Deadly::after(commits));
            let died = runtime.block_on(async {
                let app = start(&url, clock, Some(deadly.clone())).await;
                let died = tokio::time::timeout(Duration::from_secs(20), deadly.died.notified()).await;
                drop(app);
                died
            });
            runtime.shutdown_background();
            died
        });
        let died = life.await.expect("a thread");
        assert!(died.is_ok(), "it found nothing that it dies of");
    }

    pub fn sender(&self) -> Sender {
        Sender {
            project: "p".to_owned(),
            actor: "tester".to_owned(),
            traceparent: None,
        }
    }

    pub async fn start(&self, process: &str, variables: &[(&str, Value)]) -> Result<String, Failure> {
        self.start_with(process, None, variables).await
    }

    pub async fn start_with_key(
        &self,
        process: &str,
        key: &str,
        variables: &[(&str, Value)],
    ) -> Result<String, Failure> {
        self.start_with(process, Some(key.to_owned()), variables).await
    }

    async fn start_with(
        &self,
        process: &str,
        business_key: Option<String>,
        variables: &[(&str, Value)],
    ) -> Result<String, Failure> {
        let id = InstanceId(self.app.chance().root_id(self.app.clock().now()));
        let start = StartInstance {
            id: id.clone(),
            project: "p".to_owned(),
            process: process.to_owned(),
            version: 1,
            business_key,
            labels: BTreeMap::new(),
            variables: variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), value.clone()))
                .collect(),
        };
        self.app
            .run(&self.sender(), Command::Start(Box::new(start)))
            .await?;
        Ok(id.0)
    }

    pub async fn fetch(&self, topic: &str, max: u32, wait_ms: i64) -> Vec<Claimed> {
        self.app
            .fetch(request(topic, max), wait_ms)
            .await
            .expect("a fetch is answered")
    }

    #[expect(
        clippy::disallowed_methods,
        reason = "the poll's answer is awaited by the test"
    )]
    pub fn poll(&self, topic: &str, wait_ms: i64) -> tokio::task::JoinHandle<Vec<Claimed>> {
        let (app, request) = (self.app.clone(), request(topic, 1));
        tokio::spawn(async move { app.fetch(request, wait_ms).await.expect("a poll is answered") })
    }

    pub async fn complete(&self, claimed: &Claimed, variables: &[(&str, Value)]) -> Result<Answer, Failure> {
        let caller = caller(claimed, self.app.clock().now());
        let variables = variables
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.clone()))
            .collect();
        let command = Command::Complete {
            task: TaskId(claimed.row.id.clone()),
            caller,
            completion: Completion::Variables(variables),
        };
        self.app.run(&self.sender(), command).await
    }

    pub async fn row(&self, id: &str) -> InstanceRow {
        let mut read = self.app.db().read().await.expect("a connection");
        let root = legation_kernel::ids::root_of(id);
        instances::get(&mut read, root, id)
            .await
            .expect("a query")
            .expect("it exists")
    }

    pub async fn status(&self, id: &str) -> String {
        self.row(id).await.status
    }

    /// Waits until the instance's row is as wanted.
    pub async fn until(&self, id: &str, wanted: impl Fn(&InstanceRow) -> bool) {
        let mut committed = self.app.shared().wake.committed.subscribe();
        let waited = tokio::time::timeout(Duration::from_secs(20), async {
            while !wanted(&self.row(id).await) {
                let _ = tokio::time::timeout(Duration::from_millis(200), committed.changed()).await;
            }
        });
        assert!(waited.await.is_ok(), "{:?}", self.row(id).await);
    }
}

/// Lets so many commits through; at the next one nothing goes on.
struct Deadly {
    left: AtomicUsize,
    died: tokio::sync::Notify,
}

impl Deadly {
    fn after(commits: usize) -> Self {
        Self {
            left: AtomicUsize::new(commits),
            died: tokio::sync::Notify::new(),
        }
    }
}

impl Faults for Deadly {
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>> {
        Box::pin(async move {
            let next = |left: usize| left.checked_sub(1);
            if moment == Moment::BeforeCommit
                && self
                    .left
                    .fetch_update(Ordering::SeqCst, Ordering::SeqCst, next)
                    .is_err()
            {
                self.died.notify_one();
                std::future::pending::<()>().await;
            }
            Ok(())
        })
    }
}

pub fn request(topic: &str, max: u32) -> FetchRequest {
    FetchRequest {
        project: "p".to_owned(),
        topics: vec![topic.to_owned()],
        worker: "w".to_owned(),
        credential: "key".to_owned(),
        lock_ms: 30_000,
        max,
    }
}

/// Who calls under the lease of a claim.
pub fn caller(claimed: &Claimed, now: i64) -> Caller {
    let row = &claimed.row;
    Caller {
        worker: "w".to_owned(),
        credential: "key".to_owned(),
        lease: Some((
            row.lease_no as u32,
            row.lease_random.clone().expect("a lease has a random part"),
        )),
        arrived_at: now,
    }
}

async fn start(url: &str, clock: Clock, faults: Option<Arc<dyn Faults>>) -> App {
    // Each engine has chance of its own: two would draw the same ids.
    static SEED: AtomicU64 = AtomicU64::new(7);
    let chance = Chance::seeded(SEED.fetch_add(1, Ordering::Relaxed));
    let db = Db::open(url).await.expect("the database opens");
    let mut parts = Parts::new(db, clock, chance, Master::new([7; 32]));
    parts.faults = faults.or(parts.faults);
    App::start(parts)
}

async fn deploy(db: &Db, files: &[(&str, &str)], lacking: Option<&str>) {
    if files.is_empty() {
        return;
    }
    let files: BTreeMap<String, String> = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    let frozen = freeze(&files, &Options::default(), &Nothing);
    assert!(!frozen.has_errors(), "{:#?}", frozen.problems);
    let rows: Vec<DefinitionRow> = frozen
        .processes
        .iter()
        .filter(|process| lacking != Some(process.definition.key.as_str()))
        .map(|process| DefinitionRow {
            project: "p".to_owned(),
            key: process.definition.key.clone(),
            version: i64::from(process.definition.version),
            digest: process.digest.clone(),
            body: serde_json::to_string(process.definition.as_ref()).expect("a definition is JSON"),
            source: String::new(),
            created_at: 0,
            created_by: "tester".to_owned(),
        })
        .collect();
    let mut tx = db.begin_write().await.expect("a transaction");
    definitions::insert(&mut tx, &rows)
        .await
        .expect("definitions are written");
    tx.commit().await.expect("a commit");
}
