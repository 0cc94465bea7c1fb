//! The engine under test: the real kernel, journal, writer and store on a runtime of its own, which is thrown away
//! when the engine dies. Time stands still and nothing runs between two calls of [`Engine::run`].

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use legation_language::documents::{FrozenProcess, Nothing, Options, freeze};
use legation_server::app::{App, Parts};
use legation_server::chance::Chance;
use legation_server::cipher::Master;
use legation_server::clock::Clock;
use legation_store::definitions::DefinitionRow;
use legation_store::testing::TestDb;
use legation_store::{Db, Dialect, Key, definitions, external_tasks, mailbox, timers};
use tokio::runtime::{Builder, Runtime};

use super::faults::Fates;
use super::world::FILES;

pub const PROJECT: &str = "p";

/// How long anything may take in real time before the engine counts as stuck (I10).
const PATIENCE: Duration = Duration::from_secs(30);

/// A database of one run.
pub enum Place {
    File(PathBuf),
    Postgres(Box<TestDb>),
}

impl Place {
    /// An empty database with the world's processes.
    pub fn new(dialect: Dialect) -> Self {
        let runtime = runtime();
        match dialect {
            Dialect::Sqlite => {
                let folder = folder();
                std::fs::write(folder.join("legation.db"), template()).expect("the database is written");
                Self::File(folder)
            }
            Dialect::Postgres => {
                let test = Box::new(runtime.block_on(TestDb::new(dialect)));
                runtime.block_on(fill(&test.url));
                Self::Postgres(test)
            }
        }
    }

    fn url(&self) -> String {
        match self {
            Self::File(folder) => format!("sqlite:{}", folder.join("legation.db").display()),
            Self::Postgres(test) => test.url.clone(),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Self::File(folder) = self {
            let _ = std::fs::remove_dir_all(folder);
        }
    }
}

/// The bytes of a SQLite file with the world's processes, made once.
fn template() -> &'static [u8] {
    static TEMPLATE: OnceLock<Vec<u8>> = OnceLock::new();
    TEMPLATE.get_or_init(|| {
        let place = Place::File(folder());
        runtime().block_on(fill(&place.url()));
        let Place::File(folder) = &place else {
            return Vec::new();
        };
        std::fs::read(folder.join("legation.db")).expect("the database can be read")
    })
}

async fn fill(url: &str) {
    let db = Db::open(url).await.expect("the database opens");
    db.migrate().await.expect("the migrations run");
    let mut tx = db.begin_write().await.expect("a transaction");
    definitions::insert(&mut tx, frozen())
        .await
        .expect("definitions are written");
    tx.commit().await.expect("a commit");
    db.close().await;
}

/// In memory where there is such a place: nothing here tests the disk.
fn folder() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let shm = PathBuf::from("/dev/shm");
    let base = if shm.is_dir() { shm } else { std::env::temp_dir() };
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let folder = base.join(format!("legation_sim_{}_{number}", std::process::id()));
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).expect("a folder for the database");
    folder
}

fn runtime() -> Runtime {
    Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
}

/// One life after another of the engines on one database.
pub struct Engine {
    place: Place,
    seed: u64,
    lives: u64,
    /// Two on PostgreSQL, where several may share a database.
    count: usize,
    pub clock: Clock,
    pub fates: Arc<Fates>,
    life: Option<(Runtime, Vec<App>)>,
}

impl Engine {
    pub fn new(place: Place, seed: u64, count: usize) -> Self {
        let clock = Clock::fake(1_700_000_000_000);
        let mut engine = Self {
            place,
            seed,
            lives: 0,
            count,
            clock,
            fates: Arc::default(),
            life: None,
        };
        engine.begin();
        engine
    }

    fn begin(&mut self) {
        self.fates.revive();
        let runtime = runtime();
        let mut apps = Vec::new();
        for _ in 0..self.count {
            self.lives += 1;
            let seed = self.seed.wrapping_mul(1_000_003).wrapping_add(self.lives);
            let app = runtime.block_on(async {
                let db = Db::open(&self.place.url()).await.expect("the database opens");
                let mut parts =
                    Parts::new(db, self.clock.clone(), Chance::seeded(seed), Master::new([7; 32]));
                parts.faults = Some(self.fates.clone());
                // Few transitions a command: the rest follows as commands of its own, which may be lost like any.
                parts.budget = [1, 3, 1_000][(self.seed % 3) as usize];
                App::start(parts)
            });
            apps.push(app);
        }
        self.life = Some((runtime, apps));
    }

    /// As `kill -9` does: nothing is finished, nothing is told.
    pub fn kill_and_restart(&mut self) {
        if let Some((runtime, apps)) = self.life.take() {
            runtime.shutdown_background();
            drop(apps);
        }
        self.begin();
    }

    pub fn app(&self, which: usize) -> App {
        let (_, apps) = self.life.as_ref().expect("it lives");
        apps[which % apps.len()].clone()
    }

    /// Runs what `act` does; `None` when the engine died meanwhile. It is started again then.
    pub fn run<T>(&mut self, act: impl AsyncFnOnce() -> T) -> Option<T> {
        let (runtime, _) = self.life.as_ref().expect("it lives");
        let fates = self.fates.clone();
        let done = runtime.block_on(async {
            tokio::select! {
                biased;
                () = fates.died.notified() => None,
                done = tokio::time::timeout(PATIENCE, act()) => {
                    Some(done.unwrap_or_else(|_| panic!("the engine is stuck: no answer within {PATIENCE:?}")))
                }
            }
        });
        if self.fates.is_dead() {
            self.kill_and_restart();
        }
        done
    }

    /// Reads the database.
    pub fn read<T>(&mut self, act: impl AsyncFn(&Db) -> T) -> T {
        let db = self.app(0).db().clone();
        let (runtime, _) = self.life.as_ref().expect("it lives");
        runtime.block_on(act(&db))
    }

    /// Lets the engine do everything that is due now.
    pub fn settle(&mut self) {
        loop {
            let (db, now) = (self.app(0).db().clone(), self.clock.now());
            let waited = async || {
                for _ in 0..5_000 {
                    let due = due(&db, now).await;
                    if due.is_empty() {
                        return due;
                    }
                    tokio::time::sleep(Duration::from_millis(1)).await;
                }
                due(&db, now).await
            };
            if let Some(left) = self.run(waited) {
                assert!(left.is_empty(), "nobody does what is due at {now}: {left:#?}");
                return;
            }
        }
    }

    /// Moves the clock and lets the engine follow.
    pub fn pass(&mut self, ms: i64) {
        self.clock.advance(ms);
        self.settle();
    }
}

/// What is due by now, in words.
async fn due(db: &Db, now: i64) -> Vec<String> {
    let Ok(mut read) = db.read().await else {
        return vec!["the database is away".to_owned()];
    };
    let rows = async {
        let mail = mailbox::due(&mut read, now, 10).await?;
        let fired = timers::due(&mut read, now, 10).await?;
        let lapsed = external_tasks::lapsed(&mut read, now, 10).await?;
        let words = mail.iter().map(|row| format!("{row:?}"));
        let words = words.chain(fired.iter().map(|row| format!("{row:?}")));
        legation_store::Result::Ok(words.chain(lapsed.iter().map(|row| format!("{row:?}"))).collect())
    };
    rows.await.unwrap_or_else(|error| vec![error.to_string()])
}

/// The world's definitions, frozen once.
fn frozen() -> &'static [DefinitionRow] {
    static FROZEN: OnceLock<Vec<DefinitionRow>> = OnceLock::new();
    FROZEN.get_or_init(|| {
        let files: BTreeMap<String, String> = FILES
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        let frozen = freeze(&files, &Options::default(), &Nothing);
        assert!(!frozen.has_errors(), "{:#?}", frozen.problems);
        let row = |process: &FrozenProcess| DefinitionRow {
            project: PROJECT.to_owned(),
            key: process.definition.key.clone(),
            version: i64::from(process.definition.version),
            digest: process.digest.clone(),
            body: serde_json::to_string(process.definition.as_ref()).expect("a definition is JSON"),
            source: String::new(),
            created_at: 0,
            created_by: "tester".to_owned(),
        };
        frozen.processes.iter().map(row).collect()
    })
}

/// A key of the store from an id below a root.
pub fn key(id: &str) -> Key {
    Key::new(legation_kernel::ids::root_of(id), id)
}
