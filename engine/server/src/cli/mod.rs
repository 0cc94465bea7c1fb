//! The command line. One file per command; commands that look at an engine speak HTTP with it and nothing else, so
//! that whatever the command line can do, a program can.

/// Prints a line on stdout. Not `println!`, which panics when the reader (`| head`) is gone.
macro_rules! say {
    ($($text:tt)*) => { $crate::cli::print::line(std::io::stdout(), format_args!($($text)*)) };
}

/// Prints a line on stderr, or does not when nobody can read it.
macro_rules! tell {
    ($($text:tt)*) => { $crate::cli::print::line(std::io::stderr(), format_args!($($text)*)) };
}

mod approve;
mod bench;
mod cancel;
mod client;
mod complete;
mod deploy;
mod dev;
mod explain;
mod export;
mod feed;
mod incidents;
mod init;
mod instances;
mod journal;
mod keys;
mod lineage;
mod logs;
mod openapi;
mod print;
mod problems;
mod processes;
mod project;
mod reach;
mod record;
mod resolve;
mod retry;
mod run;
mod serve;
pub mod setup;
mod show;
mod tasks;
mod templates;
#[cfg(test)]
mod tests;
mod validate;
mod vars;
mod workers;

use std::process::ExitCode;

use clap::{Args, Parser, Subcommand};

/// Runs business processes in which agents and services do the work.
///
/// Exit codes: 0 done, 1 failed, 2 used wrongly.
#[derive(Parser, Debug)]
#[command(name = "legation", version)]
pub struct Cli {
    #[command(flatten)]
    pub global: Global,
    #[command(subcommand)]
    pub command: Command,
}

/// What every command that talks to an engine takes.
#[derive(Args, Clone, Debug, Default)]
#[command(next_help_heading = "Which engine, and as whom")]
pub struct Global {
    /// The engine's address; without it, that of the `legation dev` of this folder, or http://127.0.0.1:8700.
    #[arg(long, global = true, env = "LEGATION_URL", value_name = "URL")]
    pub url: Option<String>,
    /// Whose key to use: `.legation/NAME.key` of this folder or the nearest one above. Without it, the key in
    /// LEGATION_KEY, else that of `dev`.
    #[arg(long = "as", global = true, value_name = "NAME")]
    pub principal: Option<String>,
    /// Print the API's JSON.
    #[arg(long, global = true)]
    pub json: bool,
}

/// The commands.
#[derive(Subcommand, Debug)]
pub enum Command {
    /// Write a project to start from.
    Init(init::Arguments),
    /// Run an engine for one project on this machine: deploys it on every save, with the agent worker beside it.
    Dev(dev::Arguments),
    /// Run an engine.
    Serve(serve::Arguments),
    /// Deploy a project or single documents.
    Deploy(deploy::Arguments),
    /// Report every problem of a project's documents; needs no engine.
    Validate(validate::Arguments),
    /// Start an instance and follow it: narration on stderr, its outputs as JSON on stdout.
    Run(run::Arguments),
    /// List what is deployed, or the versions of one process.
    Processes(processes::Arguments),
    /// List instances.
    Instances(instances::Arguments),
    /// Show an instance: where it stands, variables, incidents, timeline, journal.
    Show(One),
    /// Say why an instance waits, and what would move it.
    Explain(One),
    /// Draw which agent step or node started what.
    Lineage(One),
    /// Show every step that workers took for an instance.
    Journal(One),
    /// List what waits for a person.
    Tasks(tasks::Arguments),
    /// Approve a step, over exactly the inputs shown.
    Approve(approve::ApproveArguments),
    /// Refuse a step; the model reads the comment.
    Reject(approve::RejectArguments),
    /// Decide a task or approval with any of its outcomes.
    Decide(approve::DecideArguments),
    /// Finish a human task with its form's values.
    Complete(complete::Arguments),
    /// List what needs somebody.
    Incidents(incidents::Arguments),
    /// Try again what an incident holds.
    Retry(retry::Arguments),
    /// Say what became of a write that was cut off.
    Resolve(resolve::Arguments),
    /// End an instance and everything below it.
    Cancel(cancel::Arguments),
    /// Write a process for other tools.
    Export(export::Arguments),
    /// List workers, and topics that nobody serves.
    Workers,
    /// Make, list and revoke API keys.
    Keys(keys::Arguments),
    /// Measure what this machine and database reach, with an engine of its own.
    Bench(bench::Arguments),
    /// Print the OpenAPI document of the HTTP API.
    Openapi,
    /// What `dev` starts to end its agent worker with it.
    #[command(hide = true)]
    Guard(dev::guard::Arguments),
}

/// Commands about one instance.
#[derive(Args, Debug)]
pub struct One {
    /// The instance's id.
    #[arg(value_name = "INSTANCE")]
    pub id: String,
}

/// Used wrongly: exit code 2.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Usage(pub String);

/// Failed, and everything about it was shown already: exit code 1.
#[derive(Debug, thiserror::Error)]
#[error("failed")]
pub struct Shown;

/// Runs the command line of this process.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = runtime(&cli.command).and_then(|runtime| runtime.block_on(run(cli)));
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => problems::report(&error),
    }
}

/// An engine uses all cores, a client one thread.
fn runtime(command: &Command) -> anyhow::Result<tokio::runtime::Runtime> {
    let mut builder = match command {
        Command::Dev(_) | Command::Serve(_) => tokio::runtime::Builder::new_multi_thread(),
        _ => tokio::runtime::Builder::new_current_thread(),
    };
    Ok(builder.enable_all().build()?)
}

async fn run(cli: Cli) -> anyhow::Result<()> {
    let global = &cli.global;
    match cli.command {
        Command::Init(arguments) => init::run(&arguments),
        Command::Dev(arguments) => dev::run(arguments).await,
        Command::Serve(arguments) => serve::run(arguments).await,
        Command::Deploy(arguments) => deploy::run(global, arguments).await,
        Command::Validate(arguments) => validate::run(global, &arguments),
        Command::Run(arguments) => run::run(global, arguments).await,
        Command::Processes(arguments) => processes::run(global, arguments).await,
        Command::Instances(arguments) => instances::run(global, arguments).await,
        Command::Show(one) => show::run(global, &one.id).await,
        Command::Explain(one) => explain::run(global, &one.id).await,
        Command::Lineage(one) => lineage::run(global, &one.id).await,
        Command::Journal(one) => journal::run(global, &one.id).await,
        Command::Tasks(arguments) => tasks::run(global, arguments).await,
        Command::Approve(arguments) => approve::approve(global, arguments).await,
        Command::Reject(arguments) => approve::reject(global, arguments).await,
        Command::Decide(arguments) => approve::decide(global, arguments).await,
        Command::Complete(arguments) => complete::run(global, arguments).await,
        Command::Incidents(arguments) => incidents::run(global, arguments).await,
        Command::Retry(arguments) => retry::run(global, arguments).await,
        Command::Resolve(arguments) => resolve::run(global, arguments).await,
        Command::Cancel(arguments) => cancel::run(global, arguments).await,
        Command::Export(arguments) => export::run(global, arguments).await,
        Command::Workers => workers::run(global).await,
        Command::Keys(arguments) => keys::run(global, arguments).await,
        Command::Bench(arguments) => bench::run(global, arguments).await,
        Command::Openapi => openapi::run(),
        Command::Guard(arguments) => dev::guard::run(&arguments),
    }
}
