//! The four calls that end a lease: complete, failure, error, release. One per lease; repeated, it gets the same
//! answer (D32).

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::commands::{self, BusinessError, Command, Completion};
use legation_kernel::dates::rfc3339;
use legation_kernel::ids::TaskId;
use legation_kernel::task;
use legation_protocol::external_tasks::{
    ClosedAnswer, CompleteRequest, ErrorRequest, FailureRequest, ReleaseRequest, TaskState,
};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Call, call, duration};
use crate::http::Http;
use crate::http::auth::Who;
use crate::http::error::{Error, Result};
use crate::http::extract::{Id, Json, value, values};
use crate::http::views;

/// The longest that a worker may put a task off, ms (D34).
const MAX_AFTER_MS: u64 = 15 * 60 * 1_000;

/// The longest message of a failure that is kept, characters.
const MAX_MESSAGE: usize = 2_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(complete))
        .routes(routes!(failure))
        .routes(routes!(error))
        .routes(routes!(release))
}

/// Ends the task with its result; the instance goes on.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/complete", tag = "external tasks", params(("id" = String, Path)),
    request_body = CompleteRequest, responses((status = 200, body = ClosedAnswer)))]
async fn complete(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<CompleteRequest>,
) -> Result<Answer<ClosedAnswer>> {
    let Call { task, caller } = call(&http, &who, id, &body.worker_id).await?;
    let completion = completion(&body)?;
    let topic = http.topics().get(&task).map(|known| known.1);
    let command = Command::Complete {
        task,
        caller,
        completion,
    };
    let answer = run(&http, &who, command).await?;
    if answer.state == TaskState::Completed {
        let now = http.app().clock().now();
        http.throughput()
            .completed(who.project(), topic.as_deref(), &body.worker_id, now);
    }
    Ok(answer)
}

/// The try failed for a technical reason: it is repeated, or the node's retries are used up.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/failure", tag = "external tasks", params(("id" = String, Path)),
    request_body = FailureRequest, responses((status = 200, body = ClosedAnswer)))]
async fn failure(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<FailureRequest>,
) -> Result<Answer<ClosedAnswer>> {
    let Call { task, caller } = call(&http, &who, id, &body.worker_id).await?;
    let retry_after_ms = body
        .retry_after_ms
        .map(|ms| i64::try_from(ms).unwrap_or(i64::MAX));
    if let Some(details) = &body.details {
        tracing::debug!(%task, details = %details.chars().take(MAX_MESSAGE).collect::<String>(), "a worker failed");
    }
    let failure = task::Failure {
        message: body.message.chars().take(MAX_MESSAGE).collect(),
        code: body.code,
        retryable: body.retryable.unwrap_or(true),
        retry_after_ms,
    };
    run(
        &http,
        &who,
        Command::Failure {
            task,
            caller,
            failure,
        },
    )
    .await
}

/// A business error: routed by its code.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/error", tag = "external tasks", params(("id" = String, Path)),
    request_body = ErrorRequest, responses((status = 200, body = ClosedAnswer)))]
async fn error(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<ErrorRequest>,
) -> Result<Answer<ClosedAnswer>> {
    let Call { task, caller } = call(&http, &who, id, &body.worker_id).await?;
    let variables = body
        .variables
        .as_ref()
        .map(values)
        .transpose()?
        .unwrap_or_default();
    let error = BusinessError {
        code: body.code,
        message: body.message,
        variables,
    };
    run(&http, &who, Command::Error { task, caller, error }).await
}

/// Hands the lease back; with `afterMs` the task opens later (D34).
#[utoipa::path(post, path = "/v1/external-tasks/{id}/release", tag = "external tasks", params(("id" = String, Path)),
    request_body = ReleaseRequest, responses((status = 200, body = ClosedAnswer)))]
async fn release(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<ReleaseRequest>,
) -> Result<Answer<ClosedAnswer>> {
    let Call { task, caller } = call(&http, &who, id, &body.worker_id).await?;
    let after_ms = body
        .after_ms
        .map(|ms| duration("afterMs", ms, 0, MAX_AFTER_MS))
        .transpose()?;
    run(
        &http,
        &who,
        Command::Release {
            task,
            caller,
            after_ms,
            reason: body.reason,
        },
    )
    .await
}

fn completion(body: &CompleteRequest) -> Result<Completion> {
    match (&body.variables, &body.result) {
        (Some(_), Some(_)) => Err(Error::invalid(
            "send `variables` or, for an agent's task, `result`, not both",
        )
        .argument("result")),
        (None, Some(result)) => Ok(Completion::Result {
            result: value(result)?,
            outcome: body.outcome.clone(),
        }),
        (variables, None) => {
            if body.outcome.is_some() {
                return Err(
                    Error::invalid("an outcome comes with the `result` of an agent's task")
                        .argument("outcome"),
                );
            }
            Ok(Completion::Variables(
                variables.as_ref().map(values).transpose()?.unwrap_or_default(),
            ))
        }
    }
}

/// Runs a closing call and answers where the task stands.
async fn run(http: &Http, who: &Who, command: Command) -> Result<Answer<ClosedAnswer>> {
    let task = command.task().cloned();
    let answer = http.app().run(&who.sender(), command).await?;
    closed(task.as_ref(), answer).map(Answer)
}

/// The answer of a closing call or an unlock.
pub(super) fn closed(task: Option<&TaskId>, answer: commands::Answer) -> Result<ClosedAnswer> {
    match answer {
        commands::Answer::Closed {
            state,
            attempt,
            available_at,
            incident,
        } => Ok(ClosedAnswer {
            state: views::tasks::wire_state(state),
            attempt: Some(attempt),
            available_at: available_at.map(rfc3339),
            incident_id: incident
                .zip(task)
                .map(|(number, task)| task.instance().incident(number)),
        }),
        commands::Answer::InvalidOutput { errors } => Err(Error::invalid_output(&errors)),
        other => Err(Error::internal(&format!("a closing call answered {other:?}"))),
    }
}
