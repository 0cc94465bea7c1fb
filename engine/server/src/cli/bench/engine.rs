//! The engine that is measured: this program again, `serve` on a free port, with a database of its own. Gone with
//! everything it wrote when the value is dropped.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use legation_store::scratch::Scratch;
use tokio::process::{Child, Command};

use super::http::{Connection, Target};
use crate::chance::Chance;

/// How long it may take to answer after its start.
const START: Duration = Duration::from_secs(30);

/// Where measured data goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    Sqlite,
    /// A server's address.
    Postgres(String),
}

/// A folder that is gone when the value is.
pub struct Folder(PathBuf);

impl Folder {
    /// # Errors
    /// When there is no place for temporary files.
    pub fn new(chance: &Chance) -> anyhow::Result<Self> {
        let path = std::env::temp_dir().join(format!("legation-bench-{}", chance.token()));
        std::fs::create_dir_all(&path).with_context(|| format!("{} cannot be made", path.display()))?;
        Ok(Self(path))
    }

    pub fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        // What cannot be deleted stays in the folder for temporary files.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A running engine.
pub struct Engine {
    child: Child,
    pub pid: u32,
    pub target: Target,
    /// A file with the key of `target`, for the other processes.
    pub key_file: PathBuf,
    /// Start to first answer, ms.
    pub start_ms: f64,
    scratch: Option<Scratch>,
    /// Deleted after the engine has ended.
    folder: Folder,
}

impl Engine {
    /// # Errors
    /// When it does not answer; its log says why.
    pub async fn start(place: &Place, sync_delay_ms: Option<u32>) -> anyhow::Result<Self> {
        let chance = Chance::system();
        let folder = Folder::new(&chance)?;
        let scratch = match place {
            Place::Sqlite => None,
            Place::Postgres(server) => {
                let name = format!("legation_bench_{}_{}", std::process::id(), chance.percent());
                let made = Scratch::create(server, &name, sync_delay_ms).await;
                Some(made.context("no database could be made on that server")?)
            }
        };
        let database = match &scratch {
            Some(scratch) => scratch.url().to_owned(),
            None => format!("sqlite:{}", folder.path().join("legation.db").display()),
        };
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let key_file = folder.path().join("admin.key");
        let log = folder.path().join("engine.log");
        let mut key = [0; 32];
        chance.fill(&mut key);
        let mut command = Command::new(std::env::current_exe()?);
        command
            .arg("serve")
            .arg("--listen")
            .arg(format!("127.0.0.1:{port}"))
            .arg("--bootstrap-admin-key-file")
            .arg(&key_file)
            .env("LEGATION_DATABASE_URL", &database)
            .env("LEGATION_MASTER_KEY", crate::chance::hex(&key))
            .env_remove("LEGATION_MASTER_KEY_FILE")
            .env("RUST_LOG", "warn")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(std::fs::File::create(&log)?)
            .kill_on_drop(true);
        if let (Some(ms), Place::Sqlite) = (sync_delay_ms, place) {
            command.args(["--sync-delay-ms", &ms.to_string()]);
        }
        let began = Instant::now();
        let mut child = command.spawn().context("the engine cannot be started")?;
        let pid = child.id().context("the engine ended at once")?;
        let target = Target::new(&format!("http://127.0.0.1:{port}"), "")?;
        while !answers(&target).await {
            if child.try_wait()?.is_some() || began.elapsed() > START {
                bail!("the engine did not answer:\n{}", std::fs::read_to_string(&log)?);
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        let start_ms = began.elapsed().as_secs_f64() * 1_000.0;
        let key = std::fs::read_to_string(&key_file).context("the engine made no key")?;
        let target = Target::new(&target.url(), &key)?;
        Ok(Self {
            child,
            pid,
            target,
            key_file,
            start_ms,
            scratch,
            folder,
        })
    }

    /// The processes of its database, without the engine's own.
    pub fn database_pids(&self) -> Vec<u32> {
        let scratch = self.scratch.as_ref();
        scratch.map_or_else(Vec::new, |scratch| {
            super::usage::postgres_backends(scratch.name())
        })
    }

    /// Stops it and drops its database; what it logged as a warning or worse is an error, since the numbers then say
    /// nothing.
    ///
    /// # Errors
    /// See above.
    pub async fn stop(mut self) -> anyhow::Result<()> {
        let pid = nix::unistd::Pid::from_raw(i32::try_from(self.pid)?);
        let asked = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        let ended = match asked {
            Ok(()) => tokio::time::timeout(Duration::from_secs(10), self.child.wait())
                .await
                .is_ok(),
            Err(_) => false,
        };
        if !ended {
            self.child.kill().await?;
        }
        if let Some(scratch) = self.scratch.take() {
            scratch.drop_it().await?;
        }
        let log = std::fs::read_to_string(self.folder.path().join("engine.log"))?;
        let errors: Vec<&str> = log
            .lines()
            .filter(|line| line.contains("\"ERROR\""))
            .take(5)
            .collect();
        anyhow::ensure!(
            errors.is_empty(),
            "the engine logged errors:\n{}",
            errors.join("\n")
        );
        Ok(())
    }
}

async fn answers(target: &Target) -> bool {
    let Ok(mut connection) = Connection::open(target).await else {
        return false;
    };
    matches!(connection.get("/health/ready").await, Ok(200))
}
