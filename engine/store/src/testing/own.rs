//! A PostgreSQL server of a test's own, to be killed and started again (B16). It keeps what it says is committed.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::server::{Binaries, workspace};

/// A server with an empty database `postgres`. Dropping it kills it and deletes its data.
pub struct OwnPostgres {
    binaries: Binaries,
    folder: PathBuf,
    port: u16,
    server: Option<Child>,
}

impl OwnPostgres {
    /// Makes a cluster and starts its server. Takes some seconds.
    ///
    /// # Panics
    /// When there is no PostgreSQL, naming the command that installs one.
    #[must_use]
    pub fn start() -> Self {
        let folder = std::env::temp_dir().join(format!("legation-own-postgres-{}", std::process::id()));
        let _ = fs::remove_dir_all(&folder);
        let data = folder.join("data");
        fs::create_dir_all(&data).expect("the folder for temporary files can be written");
        let binaries = Binaries::find(&workspace(), &folder);
        binaries.give(&folder);
        binaries.give(&data);
        let mut initdb = binaries.command("initdb");
        initdb.arg("-D").arg(&data);
        initdb.args([
            "-U",
            "postgres",
            "-A",
            "trust",
            "-E",
            "UTF8",
            "--no-locale",
            "--no-sync",
        ]);
        let made = initdb.output().expect("initdb can be run");
        assert!(
            made.status.success(),
            "initdb failed: {}",
            String::from_utf8_lossy(&made.stderr)
        );
        let port = TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a port is free")
            .port();
        let mut own = Self {
            binaries,
            folder,
            port,
            server: None,
        };
        own.start_again();
        own
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("postgres://postgres@127.0.0.1:{}/postgres", self.port)
    }

    /// `kill -9` of the server and every process of it.
    ///
    /// # Panics
    /// When it does not run.
    pub fn kill(&mut self) {
        let mut server = self.server.take().expect("it runs");
        signal(&server);
        let _ = server.wait();
    }

    /// Starts it after a kill: it recovers from its log.
    ///
    /// # Panics
    /// When it does not answer within a minute.
    pub fn start_again(&mut self) {
        use std::os::unix::process::CommandExt;
        let data = self.folder.join("data");
        let pid_file = data.join("postmaster.pid");
        let _ = fs::remove_file(&pid_file);
        let log = File::options()
            .create(true)
            .append(true)
            .open(self.folder.join("log"));
        let log = log.expect("the folder can be written");
        let mut postgres = self.binaries.command("postgres");
        postgres.arg("-D").arg(&data).args(["-p", &self.port.to_string()]);
        for setting in [
            "listen_addresses=127.0.0.1",
            "unix_socket_directories=",
            "max_connections=100",
        ] {
            postgres.args(["-c", setting]);
        }
        let errors = log.try_clone().expect("a file handle can be copied");
        postgres
            .stdin(Stdio::null())
            .stdout(log)
            .stderr(errors)
            .process_group(0);
        self.server = Some(postgres.spawn().expect("PostgreSQL can be run"));
        let deadline = Instant::now() + Duration::from_secs(60);
        while !is_ready(&pid_file) {
            let log = || fs::read_to_string(self.folder.join("log")).unwrap_or_default();
            assert!(Instant::now() < deadline, "PostgreSQL did not start: {}", log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for OwnPostgres {
    fn drop(&mut self) {
        if let Some(mut server) = self.server.take() {
            signal(&server);
            let _ = server.wait();
        }
        let _ = fs::remove_dir_all(&self.folder);
    }
}

/// Its last line says `ready` when connections are taken.
fn is_ready(pid_file: &Path) -> bool {
    fs::read_to_string(pid_file).is_ok_and(|text| text.contains("ready"))
}

/// Kills the server and its processes, which lead sessions of their own, as in a machine's death.
fn signal(server: &Child) {
    let processes: Vec<u32> = children(server.id()).into_iter().chain([server.id()]).collect();
    let mut kill = Command::new("kill");
    kill.arg("-9").args(processes.iter().map(u32::to_string));
    let _ = kill.stdout(Stdio::null()).stderr(Stdio::null()).status();
    let gone = |id: &u32| !Path::new(&format!("/proc/{id}/exe")).exists();
    while !processes.iter().all(gone) {
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// The processes that a process started.
fn children(parent: u32) -> Vec<u32> {
    let is_child = |id: &u32| {
        let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
        // The name in brackets may hold anything; the parent is the second field behind it.
        let behind = stat.rsplit_once(')').map_or("", |(_, behind)| behind);
        behind
            .split_whitespace()
            .nth(1)
            .and_then(|parent| parent.parse().ok())
            == Some(parent)
    };
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let ids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    ids.filter(is_child).collect()
}
