//! Processes of a test: each is the leader of a group, so that what it started ends with it; output goes to a file.

use std::fs::File;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::wait::until;

/// A running process. Dropping it kills its whole group.
pub struct Process {
    name: String,
    child: Child,
    log: PathBuf,
}

impl Process {
    /// Starts a command; what it says is appended to `<logs>/<name>.log`.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn start(name: &str, command: &mut Command, logs: &Path) -> Self {
        use std::os::unix::process::CommandExt;
        let log = logs.join(format!("{name}.log"));
        let file = File::options()
            .create(true)
            .append(true)
            .open(&log)
            .expect("a log file can be written");
        let errors = file.try_clone().expect("a file handle can be copied");
        let child = command
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file)
            .stderr(errors)
            .spawn();
        let child = child.unwrap_or_else(|error| panic!("{name} cannot be started: {error}"));
        Self {
            name: name.to_owned(),
            child,
            log,
        }
    }

    /// `kill -9` of this process alone: its children are left to find out.
    ///
    /// # Panics
    /// When it had ended by itself.
    pub fn kill(mut self) {
        let ended = self.child.try_wait().expect("a child can be asked");
        assert!(ended.is_none(), "{} had ended by itself: {ended:?}", self.name);
        kill(self.pid(), Signal::SIGKILL).expect("a child can be killed");
        self.child.wait().expect("a child can be waited for");
    }

    /// Ctrl-C: the whole group hears it, as in a terminal.
    ///
    /// # Panics
    /// When it had ended by itself.
    pub fn interrupt(&self) {
        killpg(self.pid(), Signal::SIGINT).expect("a group can be interrupted");
    }

    /// Waits until it has ended by itself, and says how.
    ///
    /// # Panics
    /// When it never does.
    pub async fn ended(&mut self) -> ExitStatus {
        let what = format!("{} to end", self.name);
        until(&what, async || {
            self.child.try_wait().expect("a child can be asked")
        })
        .await
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it said so far.
    #[must_use]
    pub fn log(&self) -> String {
        std::fs::read_to_string(&self.log).unwrap_or_default()
    }

    fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = killpg(self.pid(), Signal::SIGKILL);
        let _ = self.child.wait();
    }
}

/// A port that nobody listens on at this moment.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn free_port() -> u16 {
    let socket = TcpListener::bind("127.0.0.1:0").expect("a port is free");
    socket.local_addr().expect("it has an address").port()
}
