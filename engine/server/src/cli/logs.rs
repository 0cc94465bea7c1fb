//! Where the engine's log goes: JSON lines for `serve`, a few words for `dev`. RUST_LOG says more or less of it.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// On stderr: one JSON object a line for machines, plain lines on a terminal.
pub fn json() {
    // PostgreSQL notices that tables are there already, at every start.
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter("info,sqlx::postgres::notice=warn"))
        .with_writer(std::io::stderr);
    // A second set-up in one process is a test's; the first one stands.
    let _ = if std::io::stderr().is_terminal() {
        lines
            .with_target(false)
            .with_ansi(super::print::colours_on_stderr())
            .try_init()
    } else {
        lines.json().try_init()
    };
}

/// For the person at the terminal: warnings and errors.
pub fn quiet() {
    let lines = tracing_subscriber::fmt()
        .with_env_filter(filter("warn"))
        .with_target(false)
        .with_ansi(super::print::colours_on_stderr())
        .with_writer(std::io::stderr);
    let _ = lines.try_init();
}

fn filter(default: &str) -> EnvFilter {
    EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new(default))
}
