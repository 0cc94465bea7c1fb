//! The one clock (core §2, "Time"). Everything that reads the time asks here; nothing asks the database or the
//! system. Tests and the simulation replace it.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{Duration, Instant};

use tokio::sync::Notify;
use tracing::warn;

/// The database's time is off by up to half of this.
const SLOWEST_ANSWER_MS: i64 = 1_000;

/// How often the system's time is looked at, and what counts as a jump.
const LOOK: Duration = Duration::from_secs(1);
const JUMP_MS: i64 = 1_000;

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
    pub fn system() -> Self {
        let source = Source::Real {
            start: Instant::now(),
            at_start: AtomicI64::new(system_ms()),
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

    /// Sets a real clock by what a database's showed, asked at `asked` and answered just now. Answers by how many ms it
    /// was off; None when the answer took so long that it says less than this clock does.
    pub fn calibrate(&self, asked: i64, theirs: i64) -> Option<i64> {
        let now = self.now();
        let took = now - asked;
        if took > SLOWEST_ANSWER_MS {
            return None;
        }
        let off = theirs + took / 2 - now;
        if let Source::Real { at_start, .. } = &self.0.source {
            at_start.fetch_add(off, Ordering::Relaxed);
        }
        Some(off)
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

    /// Tells the log when the system's time jumped. This clock does not follow: leases and timers go by the time that
    /// passed, until the next start.
    pub async fn tell_jumps(&self) {
        let mut ahead = system_ms() - self.now();
        while !self.is_fake() {
            tokio::time::sleep(LOOK).await;
            let now = system_ms() - self.now();
            if (now - ahead).abs() > JUMP_MS {
                warn!(
                    by_ms = now - ahead,
                    "the system's time jumped; this engine's goes on by the time that passed"
                );
            }
            ahead = now;
        }
    }

    /// Whether it stands still between moves.
    #[must_use]
    pub fn is_fake(&self) -> bool {
        matches!(self.0.source, Source::Fake(_))
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the one place that reads the system's time"
)]
fn system_ms() -> i64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    now.unwrap_or_default().as_millis() as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Engines whose database answers after 20 s would set their clocks 10 s apart and end each other's leases.
    #[test]
    fn a_slow_answer_sets_no_clock() {
        let clock = Clock::system();
        let before = clock.now();
        assert_eq!(clock.calibrate(before - 20_000, before + 5_000), None);
        assert!(clock.now() < before + 4_000, "it stays as it was");
        let off = clock.calibrate(before - 200, before + 5_000);
        assert!(off.is_some_and(|off| (4_000..6_000).contains(&off)), "{off:?}");
        assert!(clock.now() >= before + 4_000);
    }
}
