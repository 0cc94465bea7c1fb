//! `legation serve`: an engine for more than one machine's owner. It starts with an encryption key and somebody who
//! may log in, or not at all (D66).

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use legation_language::duration;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use super::{Usage, logs, setup};
use crate::app::{App, Parts};
use crate::chance::Chance;
use crate::cipher::Master;
use crate::clock::Clock;
use crate::http;

/// How long a stop waits for what runs.
const GRACE: Duration = Duration::from_secs(25);

#[derive(Args, Debug)]
pub struct Arguments {
    /// sqlite:FILE or postgres://USER:PASSWORD@HOST/NAME.
    #[arg(
        long,
        env = "LEGATION_DATABASE_URL",
        hide_env_values = true,
        default_value = "sqlite:legation.db",
        value_name = "URL"
    )]
    pub database: String,
    /// How long a PostgreSQL that cannot be reached is waited for, such as 5m.
    #[arg(long, default_value = "60s", value_name = "DURATION")]
    pub wait_for_database: String,
    /// Where to listen.
    #[arg(
        long,
        env = "LEGATION_LISTEN",
        default_value = "127.0.0.1:8700",
        value_name = "ADDRESS"
    )]
    pub listen: String,
    /// A file with the encryption key: 64 hex characters, or 32 bytes in Base64. LEGATION_MASTER_KEY may hold the key itself.
    #[arg(long, env = "LEGATION_MASTER_KEY_FILE", value_name = "FILE")]
    pub master_key_file: Option<PathBuf>,
    /// On a database without any key: make a person `admin` with every role, and write its key to this new file (or take the key that stands in it).
    #[arg(long, env = "LEGATION_BOOTSTRAP_ADMIN_KEY_FILE", value_name = "FILE")]
    pub bootstrap_admin_key_file: Option<PathBuf>,
    /// Serve /metrics without a key, for a scraper on a closed network.
    #[arg(long)]
    pub open_metrics: bool,
    /// For measurements: every commit on SQLite waits so much longer.
    #[arg(long, hide = true, value_name = "MS")]
    pub sync_delay_ms: Option<u64>,
}

pub async fn run(arguments: Arguments) -> anyhow::Result<()> {
    logs::json();
    let master = master(&arguments)?;
    let (clock, chance) = (Clock::system(), Chance::system());
    let patience = patience(&arguments.wait_for_database)?;
    let db = setup::open(&arguments.database, &master, &clock, patience).await?;
    db.delay_commits(arguments.sync_delay_ms.unwrap_or_default());
    if !setup::has_keys(&db, &clock).await? {
        let Some(file) = &arguments.bootstrap_admin_key_file else {
            db.close().await;
            return Err(Usage(
                "serve refuses to start: nobody could log in, the database has no API key; \
                 --bootstrap-admin-key-file FILE makes a first one"
                    .to_owned(),
            )
            .into());
        };
        setup::bootstrap_admin(&db, file, &clock, &chance).await?;
        tracing::info!(file = %file.display(), "made the first key, of admin");
    }
    let metrics = http::recorder();
    let listener = TcpListener::bind(&arguments.listen).await.with_context(|| {
        format!(
            "{} cannot be listened on (--listen takes another address)",
            arguments.listen
        )
    })?;
    let address = listener.local_addr()?;
    let app = App::start(Parts::new(db, clock, chance, master));
    app.spawn(http::serve(
        app.clone(),
        listener,
        http::Settings {
            metrics,
            open_metrics: arguments.open_metrics,
            login: None,
        },
    ));
    tracing::info!(%address, "legation serves");
    let failed = tokio::select! {
        signal = stopped() => signal.map(|()| false)?,
        () = app.stopping().cancelled() => true,
    };
    tracing::info!("stopping");
    stop(&app, GRACE).await?;
    tracing::info!("stopped");
    anyhow::ensure!(!failed, "the engine's writer ended by itself; the log tells why");
    Ok(())
}

/// Stops the engine gracefully; a second signal does not wait for that.
pub async fn stop(app: &App, grace: Duration) -> anyhow::Result<()> {
    tokio::select! {
        () = app.stop(grace) => Ok(()),
        again = stopped() => again.and_then(|()| anyhow::bail!("stopped at once, by a second signal")),
    }
}

/// Waits for SIGTERM or Ctrl-C.
pub async fn stopped() -> anyhow::Result<()> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let mut hangup = signal(SignalKind::hangup())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
        _ = hangup.recv() => {}
    }
    Ok(())
}

fn patience(text: &str) -> anyhow::Result<Duration> {
    match duration::parse_ms(text) {
        Ok(ms) => Ok(Duration::from_millis(ms.unsigned_abs())),
        Err(why) => Err(Usage(format!("--wait-for-database {text}: {why}")).into()),
    }
}

fn master(arguments: &Arguments) -> anyhow::Result<Master> {
    let text = match (&arguments.master_key_file, std::env::var("LEGATION_MASTER_KEY")) {
        (Some(file), _) => {
            std::fs::read_to_string(file).with_context(|| format!("{} cannot be read", file.display()))?
        }
        (None, Ok(text)) if !text.trim().is_empty() => text,
        (None, _) => {
            return Err(Usage(
                "serve refuses to start without an encryption key: set LEGATION_MASTER_KEY or --master-key-file; \
                 `openssl rand -hex 32` makes one, and without it nothing that is stored can be read"
                    .to_owned(),
            )
            .into());
        }
    };
    setup::master_from_text(&text).ok_or_else(|| {
        Usage("the master key is not 64 hex characters or 32 bytes in Base64".to_owned()).into()
    })
}
