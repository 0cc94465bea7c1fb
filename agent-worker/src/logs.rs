//! Logs as text or JSON lines on stderr, with every known secret struck out.

use std::io::{self, IsTerminal, Write};

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::MakeWriter;

use crate::secret::redact;

/// Sets up logging for the process. `RUST_LOG` wins over the default level.
pub fn init(json: bool) {
    let filter = EnvFilter::try_from_default_env()
        .unwrap_or_else(|_| EnvFilter::new("warn,legation_agent_worker=info,legation_agent=info"));
    let builder = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(colours())
        .with_writer(Redacted);
    if json {
        builder.json().flatten_event(true).init();
    } else {
        builder.with_target(false).init();
    }
}

/// Colours where a person looks and has not asked for none (<https://no-color.org>).
fn colours() -> bool {
    io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

struct Redacted;

impl<'a> MakeWriter<'a> for Redacted {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line(Vec::new())
    }
}

/// One event; written when complete, so that a secret cannot hide between two pieces.
struct Line(Vec<u8>);

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let text = redact(&String::from_utf8_lossy(&self.0));
        let _ = io::stderr().lock().write_all(text.as_bytes());
    }
}
