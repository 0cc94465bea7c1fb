//! `legation-agent`: runs the agent nodes of an engine.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use clap::Parser;
use legation_agent_worker::config::Config;
use legation_agent_worker::http::Outgoing;
use legation_agent_worker::models::configured::{self, Env, Models};
use legation_agent_worker::run::Shared;
use legation_agent_worker::tools::ToolServers;
use legation_agent_worker::{logs, reach, worker};
use legation_worker::Client;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

const CONFIG: &str = "legation-agent.toml";

/// Takes agent tasks from a Legation engine, asks models, calls tool servers.
#[derive(Parser)]
#[command(name = "legation-agent", version)]
struct Arguments {
    /// The engine's address; without it LEGATION_URL, else that of the `legation dev` of this folder.
    #[arg(long)]
    url: Option<String>,
    /// A file with this worker's API key; without it LEGATION_KEY (the key itself), LEGATION_KEY_FILE, else
    /// `.legation/worker.key` in this folder.
    #[arg(long)]
    key_file: Option<PathBuf>,
    /// Tool servers and models; `legation-agent.toml` in this folder when it is there.
    #[arg(long)]
    config: Option<PathBuf>,
    /// The most tasks at once.
    #[arg(long, default_value_t = 8)]
    concurrency: usize,
    /// Names this worker in leases; stable names make its history readable.
    #[arg(long)]
    worker_id: Option<String>,
    /// Take topic agent.POOL as well; may be given more than once.
    #[arg(long = "pool")]
    pools: Vec<String>,
    /// The script of the model `scripted`.
    #[arg(long)]
    script: Option<PathBuf>,
    /// How long a lease lasts, in ms.
    #[arg(long, default_value_t = 30_000)]
    lock_duration: u64,
    /// How long running tasks may take to come to an end, in ms.
    #[arg(long, default_value_t = 30_000)]
    grace: u64,
    /// Logs as JSON lines.
    #[arg(long)]
    json_logs: bool,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let arguments = Arguments::parse();
    logs::init(arguments.json_logs);
    let config = read_config(arguments.config.as_deref())?;
    let setting = |name: &str| std::env::var(name).ok();
    let url = reach::address(arguments.url.as_deref(), &setting, Path::new("."));
    let key = reach::key(arguments.key_file.as_deref(), &setting, Path::new("."))?;
    // A result that is known outlives an engine that is away for a while.
    let client = Client::new(&url, key.expose())?.with_patience(Duration::from_secs(300));

    let script = arguments.script.clone().map(|path| path.display().to_string());
    let env: Env = Arc::new(move |name: &str| match (name, &script) {
        ("LEGATION_SCRIPT", Some(path)) => Some(path.clone()),
        _ => std::env::var(name).ok(),
    });
    let mut listed = configured::addresses(&config.models, &*env);
    listed.extend(config.servers.values().filter_map(|s| s.url.clone()));
    listed.extend(config.outgoing.allow.iter().cloned());
    let outgoing = Outgoing::new(&listed)?;
    let models = Models::new(config.models.clone(), Arc::clone(&env), outgoing.clone());
    let worker_id = arguments.worker_id.clone().unwrap_or_else(default_id);
    let mut topics = vec!["agent".to_owned()];
    topics.extend(arguments.pools.iter().map(|pool| format!("agent.{pool}")));
    tracing::info!(
        url,
        worker_id,
        topics = topics.join(","),
        servers = config.servers.keys().cloned().collect::<Vec<_>>().join(","),
        concurrency = arguments.concurrency,
        "legation-agent is ready; {}",
        models.describe()
    );

    let tools = Arc::new(ToolServers::new(&config, env, outgoing));
    let shared = Arc::new(Shared {
        engine: Arc::new(client.clone()),
        models: Arc::new(models),
        tools: Arc::<ToolServers>::clone(&tools),
        worker_id,
        lock_ms: arguments.lock_duration.clamp(1, 3_600_000),
        limits: config.limits.clone(),
    });
    let settings = worker::Settings {
        topics,
        concurrency: arguments.concurrency.max(1),
        long_poll: Duration::from_secs(20),
        grace: Duration::from_millis(arguments.grace),
    };
    let stop = stop_on_signals()?;
    worker::serve(client, shared, settings, stop).await;
    tools.close().await;
    tracing::info!("stopped");
    Ok(())
}

fn read_config(path: Option<&Path>) -> anyhow::Result<Config> {
    if let Some(path) = path {
        return Ok(Config::load(path)?);
    }
    let default = Path::new(CONFIG);
    if default.exists() {
        Ok(Config::load(default)?)
    } else {
        Ok(Config::default())
    }
}

fn default_id() -> String {
    let host = nix::unistd::gethostname()
        .ok()
        .and_then(|h| h.into_string().ok())
        .unwrap_or_default();
    format!("legation-agent-{host}-{}", std::process::id())
}

/// The first signal drains, the second one ends the process.
fn stop_on_signals() -> anyhow::Result<CancellationToken> {
    let stop = CancellationToken::new();
    let fired = stop.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    tokio::spawn(async move {
        for round in 0..2 {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            if round == 1 {
                tracing::warn!("second signal: stopping at once");
                std::process::exit(130);
            }
            fired.cancel();
        }
    });
    Ok(stop)
}
