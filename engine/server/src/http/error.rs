//! Every answer that is not 2xx: problem details (RFC 9457) with a stable code. The one place where the kernel's
//! refusals and the writer's failures become HTTP.

use std::sync::atomic::{AtomicU64, Ordering};

use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use legation_kernel::rejection::{Rejection, RejectionKind};
use legation_protocol::problem::SchemaError;
use legation_protocol::{DocumentProblem, Problem};
use tracing::error;

use super::problems;
use crate::plural;
use crate::writer::Failure;

/// The media type of problems.
pub const PROBLEM_JSON: &str = "application/problem+json";

/// Seconds after which a refused caller may come back.
const RETRY_AFTER_S: u16 = 1;

/// Why a request has no good answer.
#[derive(Debug)]
pub enum Error {
    Problem(Box<Problem>),
    /// The stored answer of the first call under the same `Idempotency-Key`.
    Answered {
        status: u16,
        body: String,
    },
}

/// What handlers give.
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// A refusal with its stable code.
    #[must_use]
    pub fn new(status: StatusCode, code: &str, detail: impl Into<String>) -> Self {
        Self::Problem(Box::new(Problem {
            kind: format!("/v1/problems/{code}"),
            title: title(code),
            status: status.as_u16(),
            detail: Some(detail.into()),
            code: code.to_owned(),
            hint: problems::advice(code),
            ..Problem::default()
        }))
    }

    /// 400 `INVALID_REQUEST`
    #[must_use]
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, "INVALID_REQUEST", detail)
    }

    /// 422 `INVALID_REQUEST`: readable, but a value is outside its range.
    #[must_use]
    pub fn out_of_range(argument: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_REQUEST", detail).argument(argument)
    }

    /// 404: unknown, another project's and not yours look alike (B8).
    #[must_use]
    pub fn not_found(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, "NOT_FOUND", detail)
    }

    /// 403
    #[must_use]
    pub fn forbidden(code: &str, detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, code, detail)
    }

    /// 500 with only an id; the cause goes to the log.
    #[must_use]
    pub fn internal(cause: &dyn std::fmt::Display) -> Self {
        static COUNT: AtomicU64 = AtomicU64::new(1);
        let id = format!(
            "{:x}-{:x}",
            std::process::id(),
            COUNT.fetch_add(1, Ordering::Relaxed)
        );
        error!(id, %cause, "a request failed");
        let detail = format!("the engine failed; its log tells more under id {id}");
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "INTERNAL", detail)
            .hint("repeat the request, or report the id")
    }

    /// The argument, variable or field at fault.
    #[must_use]
    pub fn argument(mut self, argument: impl Into<String>) -> Self {
        if let Self::Problem(problem) = &mut self {
            problem.argument = Some(argument.into());
        }
        self
    }

    /// What to do about it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        if let Self::Problem(problem) = &mut self {
            problem.hint = Some(hint.into());
        }
        self
    }

    /// The problems of the documents that were sent.
    #[must_use]
    pub fn problems(mut self, problems: Vec<DocumentProblem>) -> Self {
        if let Self::Problem(problem) = &mut self {
            problem.problems = problems;
        }
        self
    }

    /// 422 `INVALID_OUTPUT`: the texts are for the model.
    #[must_use]
    pub fn invalid_output(errors: &[String]) -> Self {
        let detail = format!(
            "the result has {}; the lease stands",
            plural::count(errors.len(), "error")
        );
        let refusal = Self::new(StatusCode::UNPROCESSABLE_ENTITY, "INVALID_OUTPUT", detail);
        let Self::Problem(mut problem) = refusal else {
            return refusal;
        };
        problem.hint = Some(
            "correct the result and complete again; the third broken result ends the attempt".to_owned(),
        );
        problem.errors = errors.iter().map(|text| schema_error(text)).collect();
        Self::Problem(problem)
    }
}

/// The problem of a kernel's refusal, also for single steps of a batch.
#[must_use]
pub fn problem_of(rejection: &Rejection) -> Problem {
    let code = rejection.code;
    Problem {
        kind: format!("/v1/problems/{code}"),
        title: title(code),
        status: status_of(rejection.kind).as_u16(),
        detail: Some(rejection.message.clone()),
        code: code.to_owned(),
        reason: rejection.reason.clone(),
        argument: rejection.argument.clone(),
        hint: rejection.hint.clone().or_else(|| problems::advice(code)),
        tool_error: rejection.tool_error.then_some(true),
        problems: Vec::new(),
        errors: rejection.errors.iter().map(|text| schema_error(text)).collect(),
    }
}

fn status_of(kind: RejectionKind) -> StatusCode {
    match kind {
        RejectionKind::NotFound => StatusCode::NOT_FOUND,
        RejectionKind::Forbidden => StatusCode::FORBIDDEN,
        RejectionKind::Conflict => StatusCode::CONFLICT,
        RejectionKind::Gone => StatusCode::GONE,
        RejectionKind::Invalid => StatusCode::UNPROCESSABLE_ENTITY,
        RejectionKind::TooLarge => StatusCode::PAYLOAD_TOO_LARGE,
        RejectionKind::Internal => StatusCode::INTERNAL_SERVER_ERROR,
    }
}

/// `/items/0: is no number`: pointer and words.
fn schema_error(text: &str) -> SchemaError {
    match text.split_once(": ") {
        Some((pointer, message)) if pointer.starts_with('/') => {
            let pointer = if pointer == "/" { "" } else { pointer };
            SchemaError {
                pointer: pointer.to_owned(),
                message: message.to_owned(),
            }
        }
        _ => SchemaError {
            pointer: String::new(),
            message: text.to_owned(),
        },
    }
}

/// `LEASE_EXPIRED` as words: the same for every occurrence.
fn title(code: &str) -> String {
    code.to_ascii_lowercase().replace('_', " ")
}

impl From<Rejection> for Error {
    fn from(rejection: Rejection) -> Self {
        if rejection.kind == RejectionKind::Internal {
            return Self::internal(&rejection);
        }
        Self::Problem(Box::new(problem_of(&rejection)))
    }
}

impl From<Failure> for Error {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Rejected(rejection) => Self::from(*rejection),
            Failure::Answered { status, body } => Self::Answered { status, body },
            Failure::IdempotencyConflict => {
                let detail = "this Idempotency-Key was used with another body";
                Self::new(StatusCode::CONFLICT, "IDEMPOTENCY_KEY_REUSED", detail)
                    .hint("use a new key for a new request")
            }
            Failure::Busy => Self::new(
                StatusCode::TOO_MANY_REQUESTS,
                "RATE_LIMITED",
                "the engine is behind; come back in a moment",
            ),
            Failure::Unavailable(cause) => unavailable(&cause),
            Failure::Full => full(),
            Failure::Internal => Self::internal(&"the writer could not carry out a command"),
        }
    }
}

impl From<legation_store::Error> for Error {
    fn from(error: legation_store::Error) -> Self {
        match &error {
            legation_store::Error::Full(_) => full(),
            legation_store::Error::Connection(_) | legation_store::Error::Retry(_) => unavailable(&error),
            legation_store::Error::Conflict { .. }
            | legation_store::Error::Corrupt { .. }
            | legation_store::Error::Database(_)
            | legation_store::Error::Setup(_) => Self::internal(&error),
        }
    }
}

fn unavailable(cause: &dyn std::fmt::Display) -> Error {
    // The database's words may name hosts and users; they stay in the log.
    tracing::warn!(%cause, "a request finds the engine unavailable");
    let detail = "the engine is stopping, or its database cannot be reached";
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail).hint("repeat the request shortly")
}

/// Shortly is of no use here: somebody has to make room.
fn full() -> Error {
    tracing::warn!("a request finds the database full");
    let detail = "the database is full, so nothing was written";
    Error::new(StatusCode::SERVICE_UNAVAILABLE, "UNAVAILABLE", detail)
        .hint("make room on the disk of the database, then repeat the request")
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, body, media) = match self {
            Self::Answered { status, body } => (status, body.into_bytes(), "application/json"),
            Self::Problem(problem) => (
                problem.status,
                serde_json::to_vec(&problem).unwrap_or_default(),
                PROBLEM_JSON,
            ),
        };
        let status = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
        let mut response = (status, body).into_response();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media));
        match status {
            StatusCode::UNAUTHORIZED => {
                headers.insert(
                    header::WWW_AUTHENTICATE,
                    HeaderValue::from_static("Bearer realm=\"legation\""),
                );
            }
            // What still comes of the body is no request.
            StatusCode::REQUEST_TIMEOUT => {
                headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
            }
            StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => {
                headers.insert(header::RETRY_AFTER, HeaderValue::from(RETRY_AFTER_S));
            }
            _ => {}
        }
        response
    }
}
