//! Keeps the agent worker running: started with this project's settings, started again when it dies or they change.

use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::Context;
use legation_language::documents::{self, Nothing, Options, Origin};
use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt, AsyncRead, BufReader};
use tokio::process::{Child, Command};
use tokio_util::sync::CancellationToken;
use toml::{Table, Value};

use super::{Project, guard};
use crate::cli::print::{Ink, colours_on_stderr};
use crate::cli::project::{self, Documents};

/// The agent worker's own settings, in the project's folder.
const CONFIG: &str = "legation-agent.toml";

/// How often settings are looked at.
const LOOK: Duration = Duration::from_millis(400);

/// How long it may take to hand its work back.
const GRACE: Duration = Duration::from_secs(6);

/// How a run of it ended.
enum End {
    Stop,
    Changed,
    Died(ExitStatus),
}

/// Runs the agent worker until `stop`; it is gone when this returns.
pub async fn keep(project: &Project, key: &str, stop: &CancellationToken) {
    let Some(program) = program() else {
        tell!(
            "legation-agent is not beside this program nor on the PATH: agent nodes wait for one that you start"
        );
        return stop.cancelled().await;
    };
    while !stop.is_cancelled() {
        let pause = match run(project, key, &program, stop).await {
            Ok(End::Stop) => return,
            Ok(End::Changed) => {
                tell!("the agent worker's settings changed: starting it again");
                continue;
            }
            Ok(End::Died(status)) => {
                tell!(
                    "{} the agent worker ended ({status}); starting it again",
                    Ink::stderr().red("agent:")
                );
                Duration::from_secs(1)
            }
            Err(error) => {
                tell!("{} {error:#}; trying again", Ink::stderr().red("agent:"));
                Duration::from_secs(3)
            }
        };
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = stop.cancelled() => {}
        }
    }
}

/// `legation-agent` beside this program, or on the PATH.
fn program() -> Option<PathBuf> {
    let beside = std::env::current_exe()
        .ok()
        .and_then(|path| Some(path.parent()?.join("legation-agent")));
    let on_path = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>());
    beside
        .into_iter()
        .chain(on_path.map(|folder| folder.join("legation-agent")))
        .find(|path| path.is_file())
}

async fn run(project: &Project, key: &str, program: &Path, stop: &CancellationToken) -> anyhow::Result<End> {
    let config = project.data.join("agent.toml");
    let settings = settings(&project.folder)?;
    std::fs::write(&config, &settings).with_context(|| format!("{} cannot be written", config.display()))?;
    let mut child = start(project, key, program, &config)?;
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .map(Pid::from_raw);
    let guard = group.map(guard::start).transpose()?;
    tell!("agent worker started (RUST_LOG=info shows what it does)");
    let (out, err) = (child.stdout.take(), child.stderr.take());
    let talk = async {
        tokio::join!(relay(out), relay(err));
        std::future::pending::<End>().await
    };
    let watch = async {
        let end = watch(&mut child, &project.folder, &settings, stop).await;
        end_group(&mut child, group).await;
        if let Some(mut guard) = guard {
            let _ = guard.kill().await;
        }
        end
    };
    tokio::select! {
        end = watch => end,
        end = talk => Ok(end),
    }
}

/// Until it dies, `stop` comes, or what it was started with changed.
async fn watch(
    child: &mut Child,
    folder: &Path,
    settings: &str,
    stop: &CancellationToken,
) -> anyhow::Result<End> {
    let scripts = scripts(folder, settings);
    let mut seen = project::stamp(folder, &scripts);
    loop {
        tokio::select! {
            status = child.wait() => return Ok(End::Died(status?)),
            () = stop.cancelled() => return Ok(End::Stop),
            () = tokio::time::sleep(LOOK) => {}
        }
        let now = project::stamp(folder, &scripts);
        if now == seen {
            continue;
        }
        let is_script = now
            .iter()
            .any(|file| !seen.contains(file) && scripts.contains(&file.0));
        seen = now;
        if is_script || self::settings(folder).is_ok_and(|now| now != settings) {
            return Ok(End::Changed);
        }
    }
}

/// A process group of its own: Ctrl-C reaches this program only, which then lets the agent worker finish.
fn start(project: &Project, key: &str, program: &Path, config: &Path) -> anyhow::Result<Child> {
    let mut command = Command::new(program);
    command
        .arg("--config")
        .arg(config)
        .args(["--worker-id", "legation-agent-dev", "--grace", "5000"])
        .current_dir(&project.folder)
        .env("LEGATION_URL", project.client.url())
        .env("LEGATION_KEY", key)
        // Whoever started `dev` may have a key of another engine at hand; the worker gets this one's only.
        .env_remove("LEGATION_KEY_FILE")
        .envs(quiet())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
        .spawn()
        .with_context(|| format!("{} cannot be started", program.display()))
}

/// Its log says what goes wrong, unless more is asked for; colours only where a person looks.
fn quiet() -> impl Iterator<Item = (&'static str, &'static str)> {
    let log = std::env::var_os("RUST_LOG")
        .is_none()
        .then_some(("RUST_LOG", "warn"));
    let plain = (!colours_on_stderr()).then_some(("NO_COLOR", "1"));
    log.into_iter().chain(plain)
}

/// Shows what it says, until the pipe ends.
async fn relay(pipe: Option<impl AsyncRead + Unpin>) {
    let Some(pipe) = pipe else { return };
    let ink = Ink::stderr();
    let mut lines = BufReader::new(pipe).lines();
    while let Ok(Some(line)) = lines.next_line().await {
        tell!("{} {line}", ink.dim("agent:"));
    }
}

/// Asks it to end, waits, and ends whatever of its group is left: tool servers go with their worker.
async fn end_group(child: &mut Child, group: Option<Pid>) {
    let Some(group) = group else { return };
    if child.id().is_some() {
        // It may have ended just now, which is what is wanted.
        let _ = kill(group, Signal::SIGTERM);
        let _ = tokio::time::timeout(GRACE, child.wait()).await;
    }
    let _ = killpg(group, Signal::SIGKILL);
    let _ = child.wait().await;
}

/// The project's `legation-agent.toml` with absolute paths, and the stdio servers that only its server files name:
/// their commands never travel through the engine (core §7).
pub fn settings(folder: &Path) -> anyhow::Result<String> {
    let file = folder.join(CONFIG);
    let text = if file.is_file() {
        std::fs::read_to_string(&file)?
    } else {
        String::new()
    };
    let mut table: Table = text
        .parse()
        .with_context(|| format!("{} is no TOML", file.display()))?;
    let servers = entry(&mut table, "servers");
    for command in commands(folder) {
        if servers.contains_key(&command.server) {
            continue;
        }
        let args = command.args.into_iter().map(Value::String).collect();
        let server = Table::from_iter([
            ("command".to_owned(), Value::String(command.command)),
            ("args".to_owned(), Value::Array(args)),
        ]);
        servers.insert(command.server, Value::Table(server));
    }
    for server in servers.iter_mut().filter_map(|(_, server)| server.as_table_mut()) {
        if server.contains_key("command") {
            let cwd = server.get("cwd").and_then(Value::as_str).unwrap_or("");
            let cwd = folder.join(cwd).display().to_string();
            server.insert("cwd".to_owned(), Value::String(cwd));
        }
    }
    for alias in entry(&mut table, "models")
        .iter_mut()
        .filter_map(|(_, alias)| alias.as_table_mut())
    {
        if let Some(path) = alias.get("file").and_then(Value::as_str) {
            let path = folder.join(path).display().to_string();
            alias.insert("file".to_owned(), Value::String(path));
        }
    }
    Ok(table.to_string())
}

fn entry<'t>(table: &'t mut Table, name: &str) -> &'t mut Table {
    let entry = table.entry(name).or_insert_with(|| Value::Table(Table::new()));
    if !entry.is_table() {
        *entry = Value::Table(Table::new());
    }
    entry.as_table_mut().expect("it was just made a table")
}

fn commands(folder: &Path) -> Vec<documents::StdioCommand> {
    let Ok(documents) = Documents::read(&[folder.to_owned()]) else {
        return Vec::new();
    };
    let options = Options {
        origin: Origin::Local,
        env: None,
    };
    documents::freeze(&documents.texts, &options, &Nothing).commands
}

/// Files that its settings are made of, beside the project's documents.
fn scripts(folder: &Path, settings: &str) -> Vec<PathBuf> {
    let table: Table = settings.parse().unwrap_or_default();
    let models = table.get("models").and_then(Value::as_table);
    let scripts = models
        .into_iter()
        .flatten()
        .filter_map(|(_, alias)| alias.get("file")?.as_str());
    std::iter::once(folder.join(CONFIG))
        .chain(scripts.map(PathBuf::from))
        .collect()
}
