//! A stage: a folder with the refund example, an engine on one of the databases, and the workers of the story.

use std::path::{Path, PathBuf};
use std::process::Command;

use legation_store::Dialect;
use legation_store::testing::TestDb;
use serde_json::Value;
use tempfile::TempDir;

use super::binaries::{binary, workspace};
use super::client::Client;
use super::processes::{Process, free_port};
use super::wait::until;

/// How the engine is started, where a test wants it otherwise.
#[derive(Default)]
pub struct Start {
    /// Words before the engine's own command: a namespace, another clock.
    pub within: Vec<String>,
    pub env: Vec<(String, String)>,
    /// Another database than the stage's own.
    pub database: Option<String>,
}

/// See the module's words. Dropping it ends everything on it.
pub struct Stage {
    /// What must end before the folder and the database go.
    processes: Vec<Process>,
    pub url: String,
    port: u16,
    folder: TempDir,
    database: Option<TestDb>,
}

impl Stage {
    /// A folder with the example and an empty database; nothing runs.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub async fn empty(dialect: Dialect) -> Self {
        let folder = TempDir::with_prefix("legation-e2e-").expect("a temporary folder");
        copy(&workspace().join("examples/refund"), folder.path());
        std::fs::create_dir_all(folder.path().join("logs")).expect("the folder can be written");
        let database = match dialect {
            Dialect::Sqlite => None,
            Dialect::Postgres => Some(TestDb::new(dialect).await),
        };
        let port = free_port();
        Self {
            processes: Vec::new(),
            url: format!("http://127.0.0.1:{port}"),
            port,
            folder,
            database,
        }
    }

    /// With a running engine that has deployed the example.
    pub async fn new(dialect: Dialect) -> (Self, Process) {
        let stage = Self::empty(dialect).await;
        let engine = stage.engine(&Start::default());
        stage.is_up().await;
        (stage, engine)
    }

    /// Starts the engine; a killed one is followed by another on the same port and data.
    pub fn engine(&self, start: &Start) -> Process {
        let mut words = start.within.clone();
        words.push(binary("legation").display().to_string());
        words.extend(["dev", ".", "--no-agent", "--port"].map(str::to_owned));
        words.push(self.port.to_string());
        let database = start
            .database
            .clone()
            .or_else(|| self.database.as_ref().map(|database| database.url.clone()));
        if let Some(url) = database {
            words.extend(["--database".to_owned(), url]);
        }
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.path());
        command.env("LEGATION_CRASH_FILE", self.crash_file());
        command.envs(start.env.iter().map(|(name, value)| (name, value)));
        Process::start("engine", &mut command, &self.logs())
    }

    /// A second engine on the same database, with the keys of the first.
    pub fn second_engine(&self) -> (Process, String) {
        let port = free_port();
        let data = self.path().join(".legation-2");
        std::fs::create_dir_all(&data).expect("the folder can be written");
        for name in ["master.key", "dev.key", "worker.key", "approver.key"] {
            std::fs::copy(self.path().join(".legation").join(name), data.join(name))
                .expect("a key can be copied");
        }
        let mut command = Command::new(binary("legation"));
        command
            .args(["dev", ".", "--no-agent", "--port", &port.to_string()])
            .current_dir(self.path());
        command.env("LEGATION_DATA", &data);
        command.args(["--database", &self.database.as_ref().expect("PostgreSQL").url]);
        (
            Process::start("engine-2", &mut command, &self.logs()),
            format!("http://127.0.0.1:{port}"),
        )
    }

    /// Waits until the engine answers and has deployed the example.
    pub async fn is_up(&self) {
        until("the engine to be up", async || {
            let key = std::fs::read_to_string(self.path().join(".legation/dev.key")).ok()?;
            let client = Client::new(&self.url, key.trim());
            let answer = client.try_call("GET", "/v1/processes", None, None).await?;
            let deployed = answer.body["processes"].as_array()?;
            let has = |name: &str| deployed.iter().any(|process| process["key"] == name);
            (has("complaint") && has("large_payout") && has("refund_payout")).then_some(())
        })
        .await;
    }

    /// A caller: `dev`, `worker` or `approver`.
    #[must_use]
    pub fn client(&self, who: &str) -> Client {
        Client::new(&self.url, &self.key(who))
    }

    /// The key of a principal.
    ///
    /// # Panics
    /// When the engine has not written it yet.
    #[must_use]
    pub fn key(&self, who: &str) -> String {
        let file = self.path().join(".legation").join(format!("{who}.key"));
        std::fs::read_to_string(file)
            .expect("the engine wrote its keys")
            .trim()
            .to_owned()
    }

    /// The agent worker with the scripted model and the CRM as its tool server. Its leases last two seconds.
    pub fn agent(&self, url: &str) -> Process {
        let mut command = Command::new(binary("legation-agent"));
        command.args(["--lock-duration", "2000"]).current_dir(self.path());
        command
            .env("LEGATION_URL", url)
            .env("LEGATION_KEY", self.key("worker"))
            .env("FAKE_KEY", "fake-key-0123456789")
            .env_remove("LEGATION_MODEL");
        Process::start("agent", &mut command, &self.logs())
    }

    /// A worker in Node: `payments.mjs` or `notify.mjs`.
    pub fn node(&self, script: &str, url: &str) -> Process {
        let mut command = Command::new("node");
        command.arg(script).current_dir(self.path());
        command
            .env("LEGATION_URL", url)
            .env("LEGATION_KEY", self.key("worker"));
        Process::start(script.trim_end_matches(".mjs"), &mut command, &self.logs())
    }

    /// Keeps a process until the end.
    pub fn keep(&mut self, process: Process) {
        self.processes.push(process);
    }

    /// The payments of the ledger, each a line of JSON.
    #[must_use]
    pub fn payments(&self) -> Vec<Value> {
        self.lines("payments.jsonl")
    }

    /// The tickets of the CRM.
    #[must_use]
    pub fn tickets(&self) -> Vec<Value> {
        self.lines("tickets.jsonl")
    }

    fn lines(&self, name: &str) -> Vec<Value> {
        let text = std::fs::read_to_string(self.path().join(".legation").join(name)).unwrap_or_default();
        text.lines()
            .map(|line| serde_json::from_str(line).expect("a line of JSON"))
            .collect()
    }

    /// The engine kills itself the next time it comes to this moment.
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn crash_at(&self, moment: &str) {
        std::fs::write(self.crash_file(), moment).expect("the crash file can be written");
    }

    fn crash_file(&self) -> PathBuf {
        self.path().join("crash")
    }

    /// The folder of the project.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    pub(super) fn logs(&self) -> PathBuf {
        self.path().join("logs")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        self.processes.clear();
        if !std::thread::panicking() {
            return;
        }
        for entry in std::fs::read_dir(self.logs()).into_iter().flatten().flatten() {
            let text = std::fs::read_to_string(entry.path()).unwrap_or_default();
            let lines: Vec<&str> = text.lines().collect();
            let tail = lines[lines.len().saturating_sub(30)..].join("\n");
            eprintln!("--- {}\n{tail}", entry.file_name().display());
        }
    }
}

/// The example without what a run of it left.
fn copy(from: &Path, to: &Path) {
    for entry in std::fs::read_dir(from).expect("the example").flatten() {
        let (source, target) = (entry.path(), to.join(entry.file_name()));
        if entry.file_name() == ".legation" {
            continue;
        }
        if source.is_dir() {
            std::fs::create_dir_all(&target).expect("the folder can be written");
            copy(&source, &target);
        } else {
            std::fs::copy(&source, &target).expect("a file can be copied");
        }
    }
}
