//! Running the binary, and waiting for what it says and does.

use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything takes on a busy machine.
pub const DEADLINE: Duration = Duration::from_secs(60);

pub fn legation(folder: &Path) -> Command {
    command(Path::new(env!("CARGO_BIN_EXE_legation")), folder)
}

/// Nothing of this machine's own settings.
pub fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for name in [
        "URL",
        "KEY",
        "MASTER_KEY",
        "MASTER_KEY_FILE",
        "DATABASE_URL",
        "DATA",
        "PORT",
        "LISTEN",
    ] {
        command.env_remove(format!("LEGATION_{name}"));
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

pub fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command that must succeed; its stdout.
pub fn ok(folder: &Path, arguments: &[&str]) -> String {
    let output = legation(folder).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "legation {}: {}{}",
        arguments.join(" "),
        out(&output),
        err(&output)
    );
    out(&output)
}

/// Runs a command that must not succeed; its exit code and stderr.
pub fn refused(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = legation(folder).args(arguments).output().unwrap();
    assert!(
        !output.status.success(),
        "legation {} succeeded: {}",
        arguments.join(" "),
        out(&output)
    );
    (output.status.code().unwrap(), err(&output))
}

pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub fn is_alive(pid: i32) -> bool {
    // A zombie whose parent has not looked yet is dead all the same.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// A running engine whose stderr is read line by line.
pub struct Engine {
    pub child: Child,
    lines: mpsc::Receiver<String>,
}

impl Engine {
    pub fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines }
    }

    /// The next line on stderr that holds this text.
    pub fn says(&self, text: &str) -> String {
        let begun = Instant::now();
        let mut before = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
            if line.contains(text) {
                return line;
            }
            before.push(line);
        }
        panic!("nothing said `{text}`, but:\n{}", before.join("\n"));
    }

    pub fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Stops it with SIGTERM and expects a good end.
    pub fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let status = until("the engine to stop", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Engine {
    /// Waits until it has ended by itself; its exit code.
    pub fn ends(&mut self) -> Option<i32> {
        until("the engine to end by itself", || self.child.try_wait().unwrap()).code()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `legation dev .` without an agent worker, once it serves.
pub fn dev(folder: &Path) -> Engine {
    let mut command = legation(folder);
    command.args(["dev", ".", "--port", "0", "--no-agent"]);
    let engine = Engine::start(command);
    url(folder);
    engine
}

pub fn url(folder: &Path) -> String {
    until("dev to listen", || {
        std::fs::read_to_string(folder.join(".legation/url"))
            .ok()
            .filter(|url| url.starts_with("http"))
    })
}

pub fn mode(path: PathBuf) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}
