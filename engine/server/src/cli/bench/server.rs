//! A PostgreSQL server of its own for a measurement, when nobody named one: made from the binaries of this machine in a
//! temporary folder, with the settings it comes with, so that commits are durable. Stopped and deleted afterwards.

use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::engine::Folder;
use crate::chance::Chance;
use crate::cli::Usage;

/// How long it may take to answer.
const START: Duration = Duration::from_secs(30);

/// Servers refuse to run as root: then they run as one of these.
const USERS: [&str; 2] = ["postgres", "nobody"];

pub struct Server {
    child: Child,
    pub url: String,
    _folder: Folder,
}

impl Server {
    /// # Errors
    /// When there are no binaries, or the server does not start.
    pub async fn start() -> anyhow::Result<Self> {
        let Some(binaries) = binaries() else {
            let hint = "no PostgreSQL is found on this machine; name a server: \
                        --database postgres://USER:PASSWORD@HOST/NAME";
            return Err(Usage(hint.to_owned()).into());
        };
        let folder = Folder::new(&Chance::system())?;
        let user = user(folder.path())?;
        let data = folder.path().join("data");
        let run = |name: &str| {
            let mut command = Command::new(binaries.join(name));
            command.current_dir(folder.path()).stdin(Stdio::null());
            if let Some((uid, gid)) = user {
                command.uid(uid).gid(gid);
            }
            command
        };
        let initdb = ["-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "-D"];
        let made = run("initdb").args(initdb).arg(&data).output()?;
        anyhow::ensure!(
            made.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let log = std::fs::File::create(folder.path().join("log"))?;
        let mut command = run("postgres");
        command.arg("-D").arg(&data).args(["-p", &port.to_string()]);
        let settings = [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "shared_buffers=256MB",
        ];
        for setting in settings {
            command.args(["-c", setting]);
        }
        command.stdout(log.try_clone()?).stderr(log);
        let child = command.spawn().context("postgres cannot be started")?;
        let url = format!("postgres://postgres@127.0.0.1:{port}/postgres");
        let mut server = Self {
            child,
            url,
            _folder: folder,
        };
        let began = Instant::now();
        while !legation_store::scratch::answers(&server.url).await {
            if server.child.try_wait()?.is_some() || began.elapsed() > START {
                bail!("the temporary PostgreSQL did not start");
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        Ok(server)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // SIGQUIT: it ends at once, and what it wrote is deleted anyway.
        if let Ok(pid) = i32::try_from(self.child.id()) {
            let pid = nix::unistd::Pid::from_raw(pid);
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGQUIT);
        }
        let _ = self.child.wait();
    }
}

/// The folder of `initdb` and `postgres`: in PATH, or where Debian puts them.
fn binaries() -> Option<PathBuf> {
    let has_both = |folder: &PathBuf| folder.join("initdb").is_file() && folder.join("postgres").is_file();
    let mut folders: Vec<PathBuf> = std::env::var_os("PATH")
        .map(|path| std::env::split_paths(&path).collect())
        .unwrap_or_default();
    let mut versions: Vec<PathBuf> = std::fs::read_dir("/usr/lib/postgresql")
        .map(|entries| entries.flatten().map(|entry| entry.path().join("bin")).collect())
        .unwrap_or_default();
    versions.sort();
    folders.extend(versions.into_iter().rev());
    folders.into_iter().find(has_both)
}

/// For root: whom the server runs as, who gets the folder.
fn user(folder: &Path) -> anyhow::Result<Option<(u32, u32)>> {
    let is_root = std::fs::metadata(folder)?.uid() == 0;
    if !is_root {
        return Ok(None);
    }
    let users = std::fs::read_to_string("/etc/passwd")?;
    let ids = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        Some((fields.next()?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    let found: Option<(u32, u32)> = USERS.iter().find_map(|name| ids(name));
    let (uid, gid) = found.context("PostgreSQL does not run as root, and there is no user postgres")?;
    std::os::unix::fs::chown(folder, Some(uid), Some(gid))?;
    Ok(Some((uid, gid)))
}
