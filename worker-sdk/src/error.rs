//! What can go wrong between a worker and the engine, told apart by whether trying again helps.

use std::time::Duration;

use legation_protocol::Problem;

/// A call to the engine that brought no answer to work with.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// The engine understood and said no; the same call again gets the same no.
    #[error("the engine refused: {0}")]
    Rejected(Box<Problem>),
    /// The engine could not be reached or is overloaded; the same call later may work.
    #[error("the engine is unavailable: {message}")]
    Unavailable {
        /// What happened.
        message: String,
        /// How long the engine asked to wait.
        retry_after: Option<Duration>,
    },
    /// The answer was none of this API's; something else answers at that address, or the versions do not fit.
    #[error("the answer is not of this API: {0}")]
    Protocol(String),
}

impl Error {
    /// True when the same call may work later.
    #[must_use]
    pub fn retry_helps(&self) -> bool {
        match self {
            Error::Unavailable { .. } => true,
            Error::Rejected(_) | Error::Protocol(_) => false,
        }
    }

    /// The problem, when the engine refused.
    #[must_use]
    pub fn problem(&self) -> Option<&Problem> {
        match self {
            Error::Rejected(problem) => Some(problem),
            Error::Unavailable { .. } | Error::Protocol(_) => None,
        }
    }

    /// The problem's code, when the engine refused.
    #[must_use]
    pub fn code(&self) -> Option<&str> {
        self.problem().map(|problem| problem.code.as_str())
    }

    /// True when the refusal means that this lease is over: the work is retired, or someone else's by now (D36).
    #[must_use]
    pub fn lease_is_over(&self) -> bool {
        let Some(problem) = self.problem() else {
            return false;
        };
        let over = [
            "WORK_RETIRED",
            "LEASE_EXPIRED",
            "LEASE_NOT_OWNED",
            "STALE_ATTEMPT",
        ];
        problem.status == 410 || problem.status == 404 || over.contains(&problem.code.as_str())
    }

    pub(crate) fn retry_after(&self) -> Option<Duration> {
        match self {
            Error::Unavailable { retry_after, .. } => *retry_after,
            Error::Rejected(_) | Error::Protocol(_) => None,
        }
    }
}
