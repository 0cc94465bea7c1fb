//! Ends the agent worker when `dev` dies without a chance to. A process of its own, because whoever is killed with
//! SIGKILL runs no code any more: it waits until `dev`'s end of a pipe closes, whatever closed it.

use std::io::Read;
use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::Context;
use clap::Args;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

/// How long the group may take to end by itself.
const GRACE: Duration = Duration::from_secs(6);

#[derive(Args, Debug)]
pub struct Arguments {
    /// The process group to end.
    pub group: i32,
}

/// Starts one for a group. It holds nothing back: who ends the group ends it first.
pub fn start(group: Pid) -> anyhow::Result<Child> {
    let program = std::env::current_exe()?;
    let mut command = Command::new(&program);
    command
        .arg("guard")
        .arg(group.to_string())
        .env_remove("LEGATION_KEY")
        .env_remove("LEGATION_KEY_FILE")
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .process_group(0)
        .kill_on_drop(true);
    command
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))
}

/// The hidden command: waits for the end of stdin, then ends the group.
pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let mut rest = Vec::new();
    std::io::stdin().read_to_end(&mut rest)?;
    let group = Pid::from_raw(arguments.group);
    let asked = Instant::now();
    if killpg(group, Signal::SIGTERM).is_err() {
        return Ok(());
    }
    while asked.elapsed() < GRACE {
        // No signal at all: it only tells whether anybody is left.
        if killpg(group, None).is_err() {
            return Ok(());
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let _ = killpg(group, Signal::SIGKILL);
    Ok(())
}
