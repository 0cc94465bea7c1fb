//! The one clock (core §2, "Time"). Everything that reads the time asks here; nothing asks the database or the
//! system. Tests and the simulation replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;

/// Milliseconds since the epoch. Cheap to clone.
#[derive(Clone)]
pub struct Clock(Arc<Inner>);

struct Inner {
    source: Source,
    /// Told on every move of a fake clock, so that sleepers look again.
    moved: Notify,
}

enum Source {
    /// Runs with the monotonic clock from a start time; `offset` calibrates it against a database.
    Real {
        start: Instant,
        at_start: AtomicI64,
    },
    Fake(AtomicI64),
}

impl Clock {
    /// Begins at the system's time and runs monotonically from there.
    #[must_use]
    #[expect(
        clippy::disallowed_methods,
        reason = "the one place that reads the system's time"
    )]
    pub fn system() -> Self {
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap_or_default();
        let source = Source::Real {
            start: Instant::now(),
            at_start: AtomicI64::new(now.as_millis() as i64),
        };
        Self(Arc::new(Inner {
            source,
            moved: Notify::new(),
        }))
    }

    /// Stands still until it is moved.
    #[must_use]
    pub fn fake(at: i64) -> Self {
        Self(Arc::new(Inner {
            source: Source::Fake(AtomicI64::new(at)),
            moved: Notify::new(),
        }))
    }

    /// Now, epoch ms.
    #[must_use]
    pub fn now(&self) -> i64 {
        match &self.0.source {
            Source::Real { start, at_start } => {
                at_start.load(Ordering::Relaxed) + start.elapsed().as_millis() as i64
            }
            Source::Fake(now) => now.load(Ordering::SeqCst),
        }
    }

    /// Moves a fake clock. Does nothing to a real one.
    pub fn advance(&self, ms: i64) {
        if let Source::Fake(now) = &self.0.source {
            now.fetch_add(ms, Ordering::SeqCst);
            self.0.moved.notify_waiters();
        }
    }

    /// Sets a real clock by a database's: answers by how many ms it was off.
    pub fn calibrate(&self, now: i64) -> i64 {
        let off = now - self.now();
        if let Source::Real { at_start, .. } = &self.0.source {
            at_start.fetch_add(off, Ordering::Relaxed);
        }
        off
    }

    /// Waits until this clock shows `at`, and at most `limit` of real time on a real clock.
    pub async fn sleep_until(&self, at: i64) {
        match &self.0.source {
            Source::Real { .. } => {
                let wait = (at - self.now()).max(0);
                tokio::time::sleep(Duration::from_millis(wait as u64)).await;
            }
            Source::Fake(_) => loop {
                let moved = self.0.moved.notified();
                if self.now() >= at {
                    return;
                }
                moved.await;
            },
        }
    }

    /// Whether it stands still between moves.
    #[must_use]
    pub fn is_fake(&self) -> bool {
        matches!(self.0.source, Source::Fake(_))
    }
}
