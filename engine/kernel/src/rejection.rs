//! Why a command cannot apply now: a stable code, what was expected, what to do. The shell turns it into a
//! problem (RFC 9457); nothing was changed.

use std::fmt;

use crate::content::MissingPayload;
use crate::ids::{InstanceId, TaskId};

/// The family of a refusal; the HTTP layer maps it to a status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RejectionKind {
    /// 404
    NotFound,
    /// 403
    Forbidden,
    /// 409
    Conflict,
    /// 410
    Gone,
    /// 422
    Invalid,
    /// 413
    TooLarge,
    /// 500: the stored data or the engine itself is at fault
    Internal,
}

/// A refused command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rejection {
    pub kind: RejectionKind,
    /// Stable, UPPER_SNAKE, listed in docs/ERRORS.md.
    pub code: &'static str,
    /// Lower case, no full stop, names the thing, never a value.
    pub message: String,
    /// The finer word under the code, such as `missing-param`.
    pub reason: Option<String>,
    /// The argument or variable at fault.
    pub argument: Option<String>,
    pub hint: Option<String>,
    /// Give it to the model as the call's answer; the task goes on (D11).
    pub tool_error: bool,
    /// Single schema errors, for `INVALID_OUTPUT` and the like.
    pub errors: Vec<String>,
}

impl Rejection {
    #[must_use]
    pub fn new(kind: RejectionKind, code: &'static str, message: impl Into<String>) -> Self {
        Self {
            kind,
            code,
            message: message.into(),
            reason: None,
            argument: None,
            hint: None,
            tool_error: false,
            errors: Vec::new(),
        }
    }

    #[must_use]
    pub fn not_found(message: impl Into<String>) -> Self {
        Self::new(RejectionKind::NotFound, "NOT_FOUND", message)
    }

    #[must_use]
    pub fn conflict(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::Conflict, code, message)
    }

    #[must_use]
    pub fn invalid(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::Invalid, code, message)
    }

    #[must_use]
    pub fn forbidden(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::Forbidden, code, message)
    }

    #[must_use]
    pub fn gone(code: &'static str, message: impl Into<String>) -> Self {
        Self::new(RejectionKind::Gone, code, message)
    }

    #[must_use]
    pub fn because(mut self, reason: impl Into<String>) -> Self {
        self.reason = Some(reason.into());
        self
    }

    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        self.argument = Some(argument.into());
        self
    }

    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    #[must_use]
    pub fn for_the_model(mut self) -> Self {
        self.tool_error = true;
        self
    }
}

impl fmt::Display for Rejection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.code, self.message)
    }
}

impl std::error::Error for Rejection {}

/// Why a command did not go through: refused, or something it needs is not loaded. The shell loads what is
/// missing and runs the command again from the start; nothing was changed.
#[derive(Clone, Debug, PartialEq)]
pub enum Stop {
    Rejected(Box<Rejection>),
    /// Payloads of the tree, by digest: as many as are known to be needed.
    MissingPayloads(Vec<String>),
    MissingInstance(InstanceId),
    MissingTask(TaskId),
    /// A process by key; a version, or None for the latest.
    MissingDefinition(String, Option<u32>),
}

impl From<Rejection> for Stop {
    fn from(rejection: Rejection) -> Self {
        Self::Rejected(Box::new(rejection))
    }
}

impl From<MissingPayload> for Stop {
    fn from(missing: MissingPayload) -> Self {
        Self::MissingPayloads(vec![missing.0])
    }
}
