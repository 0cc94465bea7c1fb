//! A tool server as a child process: its own process group, its stderr in our log, a bound on every
//! message, and gone when the connection is dropped.

use std::path::PathBuf;
use std::pin::Pin;
use std::process::Stdio;
use std::task::{Context, Poll};

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader, ReadBuf};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::CallError;
use crate::secret::redact;

/// The longest single message that a server may send, in bytes.
const MAX_MESSAGE: usize = 64 * 1024 * 1024;

/// The variables that a tool server inherits; everything else, keys of models above all, it does not get.
const INHERITED: [&str; 10] = [
    "PATH",
    "HOME",
    "USER",
    "LANG",
    "LC_ALL",
    "TZ",
    "TMPDIR",
    "TERM",
    "SHELL",
    "NODE_PATH",
];

/// A running child process. Dropping it ends the whole group.
pub(super) struct Program {
    group: Option<Pid>,
    child: Child,
}

impl Program {
    /// Starts the program; returns it with its two ends.
    pub(super) fn start(
        name: &str,
        command: &str,
        args: &[String],
        env: Vec<(String, String)>,
        cwd: Option<PathBuf>,
    ) -> Result<(Self, Bounded, ChildStdin), CallError> {
        let failed = |e: std::io::Error| {
            let message = format!("tool server '{name}' cannot be started ({command}): {e}");
            CallError::new("TOOL_SERVER_UNREACHABLE", message)
        };
        let mut process = Command::new(command);
        process.args(args).env_clear();
        process.envs(
            INHERITED
                .iter()
                .filter_map(|name| Some((*name, std::env::var_os(name)?))),
        );
        process.envs(env);
        if let Some(cwd) = cwd {
            process.current_dir(cwd);
        }
        process
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        process.process_group(0).kill_on_drop(true);
        let mut child = process.spawn().map_err(failed)?;
        let group = child
            .id()
            .and_then(|id| i32::try_from(id).ok())
            .map(Pid::from_raw);
        let lost = || failed(std::io::Error::other("its pipes are missing"));
        let stdout = child.stdout.take().ok_or_else(lost)?;
        let stdin = child.stdin.take().ok_or_else(lost)?;
        let stderr = child.stderr.take().ok_or_else(lost)?;
        let server = name.to_owned();
        tokio::spawn(async move {
            let mut lines = BufReader::new(stderr).lines();
            while let Ok(Some(line)) = lines.next_line().await {
                tracing::info!(server, "{}", redact(&line));
            }
        });
        Ok((
            Self { group, child },
            Bounded {
                inner: stdout,
                since_line: 0,
            },
            stdin,
        ))
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // Only while our child is not reaped is the group's number certainly ours.
        if let (Some(group), Ok(None)) = (self.group, self.child.try_wait()) {
            let _ = killpg(group, Signal::SIGKILL);
        }
    }
}

/// Stdout with a bound on the length of a line, so that no server can fill our memory.
pub(super) struct Bounded {
    inner: ChildStdout,
    since_line: usize,
}

impl AsyncRead for Bounded {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        let before = buffer.filled().len();
        let polled = Pin::new(&mut self.inner).poll_read(context, buffer);
        if let Poll::Ready(Ok(())) = polled {
            let read = &buffer.filled()[before..];
            self.since_line = match read.iter().rposition(|b| *b == b'\n') {
                Some(at) => read.len() - at - 1,
                None => self.since_line + read.len(),
            };
            if self.since_line > MAX_MESSAGE {
                let message = format!("the tool server sent a message of more than {MAX_MESSAGE} bytes");
                return Poll::Ready(Err(std::io::Error::other(message)));
            }
        }
        polled
    }
}
