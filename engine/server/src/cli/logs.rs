//! Where the engine's log goes: JSON lines for `serve`, a few words for `dev`. RUST_LOG says more or less of it.

use tracing_subscriber::EnvFilter;

/// For machines: one JSON object a line, on stderr.
pub fn json() {
    let lines = tracing_subscriber::fmt()
        .json()
        .with_env_filter(filter("info"))
        .with_writer(std::io::stderr);
    // A second set-up in one process is a test's; the first one stands.
    let _ = lines.try_init();
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
