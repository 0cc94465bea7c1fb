//! `legation bench`: what this machine and this database reach, so that an installation can be sized. Engine, workers
//! and load are processes of their own, as they are in real life; this one starts them, reads what they report and
//! what they cost, and prints it.

mod agents;
mod calibrate;
mod documents;
mod engine;
mod http;
mod load;
mod report;
mod server;
mod times;
mod usage;
mod work;

use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::Context;
use clap::{Args, ValueEnum};
use legation_protocol::processes::{DeployAnswer, DeployRequest};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::client::Client;
use super::{Global, Usage};
use engine::{Engine, Place};
use http::Target;
use report::{Measured, Report};
use server::Server;
use times::Part;
use usage::Meter;

/// The line with which a part of the load says that its measured time begins.
const MEASURING: &str = "measuring";

/// The line with which the workers say that they are connected.
const READY: &str = "ready";

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
pub enum Scenario {
    /// Instances with one task: started by many clients, done by workers that lease up to 50 by long poll.
    #[value(name = "A")]
    A,
    /// The same one at a time: from the start request to the finished instance.
    #[value(name = "A1")]
    A1,
    /// Instances of an empty process, started by many clients.
    #[value(name = "B")]
    B,
    /// An agent's journal: 100 steps in a row, each STARTED and COMPLETED by a call of its own.
    #[value(name = "C")]
    C,
    /// The same by ten agents at once.
    #[value(name = "C10")]
    C10,
    /// A delegation: from STARTED to the parent's next lease, with a waiting worker doing the child's one task.
    #[value(name = "D")]
    D,
    /// All of them.
    #[value(name = "all")]
    All,
}

const EVERY: [Scenario; 6] = [
    Scenario::A,
    Scenario::A1,
    Scenario::B,
    Scenario::C,
    Scenario::C10,
    Scenario::D,
];

/// A process of the load, which this program starts of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Role {
    Load,
    Workers,
    Agents,
}

#[derive(Args, Clone, Debug)]
pub struct Arguments {
    /// What to measure; without any, everything.
    #[arg(value_enum, ignore_case = true, value_name = "SCENARIO")]
    pub scenarios: Vec<Scenario>,
    /// `sqlite`: a temporary file. `postgres://…`: a temporary database on that server, which must be on this machine
    /// for its CPU and memory to be shown. `postgres`: the server of TEST_DATABASE_URL, or a temporary one made of
    /// the binaries of this machine.
    #[arg(
        long,
        default_value = "sqlite",
        hide_env_values = true,
        value_name = "DATABASE"
    )]
    pub database: String,
    /// With --url: a file with the key of a person with every role. The engine there gets real load and keeps the data.
    #[arg(long, value_name = "FILE")]
    pub key_file: Option<PathBuf>,
    /// How long each scenario is measured, after a warm-up of a third of it, at most 1.5 s.
    #[arg(long, default_value_t = 5.0, value_name = "SECONDS")]
    pub seconds: f64,
    /// Clients that start instances in A and B.
    #[arg(long, default_value_t = 50, value_name = "N")]
    pub clients: usize,
    /// Workers in A; each leases up to 50 tasks at a time.
    #[arg(long, default_value_t = 4, value_name = "N")]
    pub workers: usize,
    /// Let every commit wait so much longer, as a slower disk would.
    #[arg(long, value_name = "MS")]
    pub sync_delay_ms: Option<u32>,
    /// What this process is, when this program started it.
    #[arg(long, value_enum, hide = true)]
    pub role: Option<Role>,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    if let Some(role) = arguments.role {
        return run_role(global, &arguments, role).await;
    }
    anyhow::ensure!(
        arguments.seconds > 0.0 && arguments.clients > 0 && arguments.workers > 0,
        Usage("--seconds, --clients and --workers are more than 0".to_owned())
    );
    let all = arguments.scenarios.is_empty() || arguments.scenarios.contains(&Scenario::All);
    let scenarios = if all {
        EVERY.to_vec()
    } else {
        arguments.scenarios.clone()
    };
    // On Ctrl-C the measurement is dropped, and with it engine, load and temporary files.
    let report = tokio::select! {
        report = measure_all(global, &arguments, &scenarios) => report?,
        signal = tokio::signal::ctrl_c() => {
            signal?;
            anyhow::bail!("interrupted");
        }
    };
    if global.json {
        println!("{}", serde_json::to_string_pretty(&report)?);
    } else {
        report.print();
    }
    Ok(())
}

async fn measure_all(
    global: &Global,
    arguments: &Arguments,
    scenarios: &[Scenario],
) -> anyhow::Result<Report> {
    let quiet = global.json;
    if let (Some(url), Some(key_file)) = (&global.url, &arguments.key_file) {
        let key = std::fs::read_to_string(key_file)
            .with_context(|| format!("{} cannot be read", key_file.display()))?;
        let target = Target::new(url, &key)?;
        let mut measured = Vec::new();
        for scenario in scenarios {
            tell(quiet, *scenario);
            let there = There {
                target: &target,
                key_file,
                pid: None,
                database: &Vec::new,
            };
            measured.push(measure(&there, arguments, *scenario).await?);
        }
        return Ok(Report::new(url.clone(), arguments, None, measured));
    }
    if arguments.key_file.is_some() {
        return Err(Usage("--key-file goes with --url".to_owned()).into());
    }
    // Kept until everything is measured.
    let (place, _server) = place(&arguments.database).await?;
    if !quiet {
        eprintln!("calibrating");
    }
    let calibration = calibrate::calibrate(&place, arguments.sync_delay_ms).await?;
    let mut measured = Vec::new();
    for scenario in scenarios {
        tell(quiet, *scenario);
        let engine = Engine::start(&place, arguments.sync_delay_ms).await?;
        let there = There {
            target: &engine.target,
            key_file: &engine.key_file,
            pid: Some(engine.pid),
            database: &|| engine.database_pids(),
        };
        let mut one = measure(&there, arguments, *scenario).await?;
        one.start_ms = Some(engine.start_ms);
        engine.stop().await?;
        measured.push(one);
    }
    let name = match place {
        Place::Sqlite => "sqlite",
        Place::Postgres(_) => "postgres",
    };
    Ok(Report::new(
        name.to_owned(),
        arguments,
        Some(calibration),
        measured,
    ))
}

/// Where to measure, and the server that was started for it.
async fn place(database: &str) -> anyhow::Result<(Place, Option<Server>)> {
    match database {
        "sqlite" => Ok((Place::Sqlite, None)),
        "postgres" => match std::env::var("TEST_DATABASE_URL") {
            Ok(url) if !url.is_empty() => Ok((Place::Postgres(url), None)),
            _ => {
                let server = Server::start().await?;
                Ok((Place::Postgres(server.url.clone()), Some(server)))
            }
        },
        url if url.starts_with("postgres://") || url.starts_with("postgresql://") => {
            Ok((Place::Postgres(url.to_owned()), None))
        }
        _ => Err(Usage("--database is sqlite, postgres or a postgres:// address".to_owned()).into()),
    }
}

fn tell(quiet: bool, scenario: Scenario) {
    if !quiet {
        eprintln!("measuring {scenario:?}: {}", report::words(scenario));
    }
}

/// The engine that is measured.
struct There<'a> {
    target: &'a Target,
    key_file: &'a Path,
    /// None: it was not started here.
    pid: Option<u32>,
    /// The processes of its database that run now.
    database: &'a dyn Fn() -> Vec<u32>,
}

/// Deploys, starts the load and reads what it reports.
async fn measure(there: &There<'_>, arguments: &Arguments, scenario: Scenario) -> anyhow::Result<Measured> {
    let files = documents::files();
    Client::with(&there.target.url(), &there.target.key)?
        .post::<DeployAnswer>("/v1/deployments", &DeployRequest { files })
        .await
        .context("the measured processes cannot be deployed")?;
    let idle_mb = there.pid.and_then(usage::memory_mb).map(|(now, _)| now);
    let child = |role, stdin, stdout| part(there, arguments, scenario, role, stdin, stdout);
    let (workers, mut load) = match scenario {
        Scenario::A | Scenario::A1 => {
            let mut workers = child(Role::Workers, Stdio::null(), Stdio::piped())?;
            let lines = workers.stdout.take().context("the workers have no stdout")?;
            let lines: Stdio = lines.try_into()?;
            (Some(workers), child(Role::Load, lines, Stdio::piped())?)
        }
        Scenario::D => {
            let workers = child(Role::Workers, Stdio::null(), Stdio::null())?;
            (Some(workers), child(Role::Agents, Stdio::null(), Stdio::piped())?)
        }
        Scenario::C | Scenario::C10 => (None, child(Role::Agents, Stdio::null(), Stdio::piped())?),
        Scenario::B | Scenario::All => (None, child(Role::Load, Stdio::null(), Stdio::piped())?),
    };
    let stdout = load.stdout.take().context("the load has no stdout")?;
    let mut lines = BufReader::new(stdout).lines();
    let mut meters = None;
    let mut part: Option<Part> = None;
    while let Some(line) = lines.next_line().await? {
        if line == MEASURING {
            let workers = workers.as_ref().and_then(Child::id);
            meters = Some((
                Meter::start(there.pid.into_iter().collect()),
                Meter::start((there.database)()),
                Meter::start(workers.into_iter().collect()),
            ));
        } else {
            part = Some(serde_json::from_str(&line).context("the load said something else")?);
            break;
        }
    }
    let usage = meters.map(|(engine, database, workers)| (engine.stop(), database.stop(), workers.stop()));
    let part = part.context("the load ended without a report")?;
    anyhow::ensure!(load.wait().await?.success(), "the load failed");
    if let Some(mut workers) = workers {
        workers.kill().await?;
    }
    anyhow::ensure!(part.finished > 0, "nothing was finished in the measured time");
    let (engine, database, workers) = usage.unwrap_or_default();
    Ok(Measured {
        scenario,
        per_second: part.finished as f64 / part.seconds,
        finished: part.finished,
        times: part.times,
        engine,
        engine_idle_mb: idle_mb,
        database,
        load_cpu_cores: part.cpu_seconds / part.seconds + workers.map_or(0.0, |usage| usage.cpu_cores),
        start_ms: None,
    })
}

/// Starts this program as a part of the load.
fn part(
    there: &There<'_>,
    arguments: &Arguments,
    scenario: Scenario,
    role: Role,
    stdin: Stdio,
    stdout: Stdio,
) -> anyhow::Result<Child> {
    let role = role.to_possible_value().context("every role has a name")?;
    let scenario = scenario
        .to_possible_value()
        .context("every scenario has a name")?;
    let child = Command::new(std::env::current_exe()?)
        .args(["bench", scenario.get_name(), "--role", role.get_name()])
        .args(["--seconds", &arguments.seconds.to_string()])
        .args(["--clients", &arguments.clients.to_string()])
        .args(["--workers", &arguments.workers.to_string()])
        .args(["--url", &there.target.url()])
        .arg("--key-file")
        .arg(there.key_file)
        .stdin(stdin)
        .stdout(stdout)
        .kill_on_drop(true)
        .spawn();
    child.context("the load cannot be started")
}

/// This process is a part of the load.
async fn run_role(global: &Global, arguments: &Arguments, role: Role) -> anyhow::Result<()> {
    let (Some(url), Some(key_file), [scenario]) =
        (&global.url, &arguments.key_file, arguments.scenarios.as_slice())
    else {
        return Err(Usage("--role is for this program itself".to_owned()).into());
    };
    let target = Target::new(url, &std::fs::read_to_string(key_file)?)?;
    let seconds = arguments.seconds;
    let part = match (role, scenario) {
        (Role::Workers, Scenario::A) => return work::run(&target, arguments.workers, 50).await,
        (Role::Workers, _) => return work::run(&target, 1, 1).await,
        (Role::Load, scenario) => load::run(&target, *scenario, seconds, arguments.clients).await?,
        (Role::Agents, Scenario::C10) => agents::run(&target, *scenario, seconds, 10).await?,
        (Role::Agents, _) => agents::run(&target, *scenario, seconds, 1).await?,
    };
    println!("{}", serde_json::to_string(&part)?);
    Ok(())
}
