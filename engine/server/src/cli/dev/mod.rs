//! `legation dev`: an engine for one project on this machine, which deploys on every save and runs the agent worker.

mod agent;
pub mod guard;
mod save;
mod unserved;

use std::collections::BTreeMap;
use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::client::{Client, DATA_FOLDER, URL_FILE};
use super::print::Ink;
use super::setup::{self, DevData};
use super::{Usage, logs, serve};
use crate::app::{App, Parts};
use crate::chance::Chance;
use crate::clock::Clock;
use crate::http;

/// How long a stop waits for what runs in the engine.
const GRACE: Duration = Duration::from_secs(10);

#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// The project's folder.
    #[arg(default_value = ".", value_name = "DIR")]
    pub folder: PathBuf,
    /// The port to listen on; the next free one is used when it is taken.
    #[arg(long, env = "LEGATION_PORT", default_value_t = 8700)]
    pub port: u16,
    /// Where data and keys are kept, in place of DIR/.legation.
    #[arg(long, env = "LEGATION_DATA", value_name = "DIR")]
    pub data: Option<PathBuf>,
    /// Another database than legation.db in the data folder.
    #[arg(
        long,
        env = "LEGATION_DATABASE_URL",
        hide_env_values = true,
        value_name = "URL"
    )]
    pub database: Option<String>,
    /// Start no agent worker.
    #[arg(long)]
    pub no_agent: bool,
}

/// What runs beside the engine knows of it.
#[derive(Clone)]
struct Project {
    folder: PathBuf,
    data: PathBuf,
    client: Client,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    logs::quiet();
    let folder = arguments
        .folder
        .canonicalize()
        .map_err(|error| Usage(format!("{} is no folder: {error}", arguments.folder.display())))?;
    let data_folder = arguments.data.clone().unwrap_or_else(|| folder.join(DATA_FOLDER));
    std::fs::create_dir_all(&data_folder)
        .with_context(|| format!("{} cannot be made", data_folder.display()))?;
    // Two engines on one SQLite file would not see each other's work. Held until the process ends.
    let _lock = lock(&data_folder)?;
    let data = setup::dev_data(&data_folder, arguments.database.as_deref()).await?;
    let listener = listen(arguments.port).await?;
    let url = format!("http://{}", listener.local_addr()?);
    let project = Project {
        folder,
        data: data.folder.clone(),
        client: Client::with(&url, &data.dev)?,
    };
    let login = studio_login(&data);
    let port = listener.local_addr()?.port();
    greet(&data, &url, &login.code, arguments.port, port);

    let url_file = data.folder.join(URL_FILE);
    let worker_key = data.worker.clone();
    let app = App::start(Parts::new(
        data.db,
        Clock::system(),
        Chance::system(),
        data.master,
    ));
    let settings = http::Settings {
        metrics: http::recorder(),
        open_metrics: true,
        login: Some(Arc::new(login)),
    };
    app.spawn(http::serve(app.clone(), listener, settings));
    std::fs::write(&url_file, &url).with_context(|| format!("{} cannot be written", url_file.display()))?;

    let beside = beside(&project, &worker_key, arguments.no_agent, app.stopping()).await;
    let failed = app.stopping().is_cancelled();
    let _ = std::fs::remove_file(&url_file);
    serve::stop(&app, GRACE).await?;
    tell!("stopped");
    anyhow::ensure!(
        !failed,
        "the engine's writer ended by itself; the lines above tell why"
    );
    beside
}

/// Deploying, the agent worker and warnings, until a signal comes or the engine ends by itself. The agent worker is
/// gone when this returns.
async fn beside(
    project: &Project,
    worker_key: &str,
    no_agent: bool,
    ended: &CancellationToken,
) -> anyhow::Result<()> {
    let stop = CancellationToken::new();
    let signal = async {
        let signal = tokio::select! {
            signal = serve::stopped() => signal,
            () = ended.cancelled() => Ok(()),
        };
        tell!("\nstopping");
        stop.cancel();
        signal
    };
    let agent = async {
        if !no_agent {
            agent::keep(project, worker_key, &stop).await;
        }
        anyhow::Ok(())
    };
    let saves = async {
        tokio::select! {
            () = save::deploy_on_save(project) => {}
            () = stop.cancelled() => {}
        }
        anyhow::Ok(())
    };
    let warnings = async {
        tokio::select! {
            () = unserved::warn(project) => {}
            () = stop.cancelled() => {}
        }
        anyhow::Ok(())
    };
    let again = async {
        stop.cancelled().await;
        serve::stopped().await?;
        anyhow::bail!("stopped at once, by a second signal")
    };
    tokio::select! {
        done = async { tokio::try_join!(signal, agent, saves, warnings) } => done.map(drop),
        failed = again => failed,
    }
}

/// The first free port from the wanted one on, on this machine only.
async fn listen(wanted: u16) -> anyhow::Result<TcpListener> {
    for port in wanted..=wanted.saturating_add(99) {
        match TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await {
            Ok(listener) => return Ok(listener),
            Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => {}
            Err(error) => return Err(error).with_context(|| format!("port {port} cannot be listened on")),
        }
    }
    anyhow::bail!("no port from {wanted} to {} is free", wanted.saturating_add(99))
}

fn lock(folder: &Path) -> anyhow::Result<File> {
    let path = folder.join("lock");
    let file = File::create(&path).with_context(|| format!("{} cannot be written", path.display()))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => {
            let url = std::fs::read_to_string(folder.join(URL_FILE)).unwrap_or_default();
            let at = if url.is_empty() {
                String::new()
            } else {
                format!(" at {}", url.trim())
            };
            anyhow::bail!("another `legation dev` runs on {}{at}", folder.display())
        }
        Err(std::fs::TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("{} cannot be locked", path.display()))
        }
    }
}

/// Lets whoever reads this terminal into Studio as `dev`, and as `approver` by its menu.
fn studio_login(data: &DevData) -> http::Login {
    let chance = Chance::system();
    http::Login {
        code: [chance.token(), chance.token()].concat(),
        keys: BTreeMap::from([
            ("dev".to_owned(), data.dev.clone()),
            ("approver".to_owned(), data.approver.clone()),
        ]),
    }
}

fn greet(data: &DevData, url: &str, code: &str, wanted: u16, port: u16) {
    let ink = Ink::stdout();
    if wanted != 0 && port != wanted {
        say!("port {wanted} is taken, using {port}");
    }
    say!("{} {url}", ink.bold("Legation"));
    // Behind the #, so that no log of the server and no other site sees the code.
    say!("  Studio   {url}/#login={code}");
    say!("  API      {url}/v1/openapi.json");
    say!("  data     {}", data.folder.display());
    say!(
        "  keys     dev.key (deploys, starts, operates), worker.key (takes work), approver.key (is in every group)"
    );
    if data.made_master_key {
        say!(
            "  made an encryption key: {}",
            data.folder.join("master.key").display()
        );
    } else {
        say!("  the encryption key is in the data folder too: master.key");
    }
    say!(
        "  This is not for production: whoever reads that folder can do and decide everything. `legation serve` is."
    );
}
