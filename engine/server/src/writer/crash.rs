//! Crash points of debug builds (B15): a test writes the name of a moment into the file that `LEGATION_CRASH_FILE`
//! names, and the engine kills itself the next time it comes there; `writer-panics` ends only the writer. Release
//! builds have none of it.

use std::path::PathBuf;
use std::sync::Arc;

use futures::future::BoxFuture;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::faults::{Faults, Lost, Moment};

/// The crash points, if this is a debug build and a test asks for them.
#[must_use]
pub fn points() -> Option<Arc<dyn Faults>> {
    if !cfg!(debug_assertions) {
        return None;
    }
    let file = std::env::var_os("LEGATION_CRASH_FILE")?;
    Some(Arc::new(CrashPoints { file: file.into() }))
}

struct CrashPoints {
    file: PathBuf,
}

impl Faults for CrashPoints {
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>> {
        let wanted = std::fs::read_to_string(&self.file).unwrap_or_default();
        if wanted.trim() == "writer-panics" {
            let _ = std::fs::remove_file(&self.file);
            std::panic::panic_any("a test wants the writer to panic");
        }
        let here = match moment {
            Moment::BeforeCommit => wanted.trim() == "before-commit",
            Moment::AfterCommit { mail: 0 } => wanted.trim() == "after-commit",
            Moment::AfterCommit { .. } => ["after-commit", "child-ended"].contains(&wanted.trim()),
        };
        if here {
            // Once: the next engine goes on.
            let _ = std::fs::remove_file(&self.file);
            let _ = kill(Pid::this(), Signal::SIGKILL);
            return Box::pin(std::future::pending());
        }
        Box::pin(std::future::ready(Ok(())))
    }
}
