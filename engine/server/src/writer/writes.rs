//! Whether the database takes what is written, as the writers' last commits tell: for whoever watches the engine.
//! A database that is full still answers every question.

use std::sync::{Mutex, MutexGuard, PoisonError};

use legation_store::Error;

/// Why nothing can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    Full,
    Away,
}

/// Writes that failed, with none that succeeded between them or since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Failing {
    pub why: Why,
    /// The first of them, epoch ms.
    pub since: i64,
    /// The latest of them, epoch ms.
    pub last: i64,
}

/// The last outcome of the writers.
#[derive(Default)]
pub struct Writes(Mutex<Option<Failing>>);

impl Writes {
    /// None: the last write succeeded.
    #[must_use]
    pub fn failing(&self) -> Option<Failing> {
        *self.lock()
    }

    pub(super) fn succeeded(&self) {
        *self.lock() = None;
    }

    /// Errors that are one command's say nothing about the next.
    pub(super) fn failed(&self, error: &Error, now: i64) {
        let why = match error {
            Error::Full(_) => Why::Full,
            Error::Connection(_) => Why::Away,
            Error::Conflict { .. }
            | Error::Retry(_)
            | Error::Corrupt { .. }
            | Error::Database(_)
            | Error::Setup(_) => return,
        };
        let mut failing = self.lock();
        let since = failing.map_or(now, |before| before.since);
        *failing = Some(Failing {
            why,
            since,
            last: now,
        });
    }

    fn lock(&self) -> MutexGuard<'_, Option<Failing>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
