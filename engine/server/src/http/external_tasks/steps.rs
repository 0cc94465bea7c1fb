//! The journal's endpoint for writing: one step, or an ordered batch, in one commit (D8, D35–D41).

use std::collections::HashMap;

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::commands::{self, Command};
use legation_kernel::ids::TaskId;
use legation_kernel::journal::{self, Record, Recorded};
use legation_language::{Value, canonical};
use legation_protocol::steps::{ReusedFrom, StepAnswer, StepInput, StepsAnswer, StepsRequest};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::{Call, call};
use crate::http::Http;
use crate::http::auth::Who;
use crate::http::error::{Error, Result, problem_of};
use crate::http::extract::{Id, Json, value};
use crate::http::load::{self, Wanted};
use crate::http::views;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(record))
}

/// Most steps of one batch.
const MAX_BATCH: usize = 256;

/// Journals one step, or an ordered list in `steps`; the same sent again gets the stored answer.
#[utoipa::path(post, path = "/v1/external-tasks/{id}/steps", tag = "external tasks", params(("id" = String, Path)),
    request_body = StepsRequest, responses((status = 200, body = StepsAnswer)))]
async fn record(
    State(http): State<Http>,
    who: Who,
    id: Id,
    Json(body): Json<StepsRequest>,
) -> Result<Answer<StepsAnswer>> {
    let Call { task, caller } = call(&http, &who, id, &body.worker_id).await?;
    let attempt = body.attempt;
    let (single, sent) = body
        .into_steps()
        .map_err(|error| Error::out_of_range("steps", error.to_string()))?;
    if sent.len() > MAX_BATCH {
        return Err(Error::out_of_range(
            "steps",
            format!("a batch has at most {MAX_BATCH} steps"),
        ));
    }
    let mut results = HashMap::new();
    let steps = sent
        .iter()
        .map(|step| input(step, &mut results))
        .collect::<Result<_>>()?;
    let record = Record {
        caller,
        attempt,
        single,
        steps,
    };
    let answer = http
        .app()
        .run(
            &who.sender(),
            Command::Steps {
                task: task.clone(),
                record,
            },
        )
        .await?;
    let commands::Answer::Steps {
        recorded,
        state,
        waiting,
    } = answer
    else {
        return Err(Error::internal(&format!("journaling answered {answer:?}")));
    };
    if let Some(refusal) = recorded.refusal {
        // Something was recorded all the same: the incident that holds the task.
        return Err(refusal.into());
    }
    read_results(&http, &task, &recorded, &mut results).await?;
    let steps = recorded
        .steps
        .iter()
        .map(|step| view(step, &results))
        .collect::<Result<_>>()?;
    Ok(Answer(StepsAnswer {
        steps,
        task: views::tasks::status(state, &waiting),
    }))
}

/// A step of the wire as the kernel takes it; its result is remembered for the answer.
fn input(step: &StepInput, results: &mut HashMap<String, Value>) -> Result<journal::StepInput> {
    let mut request = step.request.as_ref().map(value).transpose()?.unwrap_or_default();
    let call_id = match request.as_map_mut() {
        Some(entries) => entries
            .remove("callId")
            .and_then(|id| id.as_str().map(str::to_owned)),
        None => None,
    };
    let once = request.get("once").is_some_and(|once| *once == Value::Bool(true));
    let result = step.result.as_ref().map(value).transpose()?;
    if let Some(result) = &result {
        results.insert(canonical::digest(result), result.clone());
    }
    Ok(journal::StepInput {
        sequence: step.sequence,
        kind: views::steps::kernel_kind(step.kind),
        state: views::steps::kernel_state(step.state),
        tool_ref: step.tool_ref.clone(),
        call: step.call.map(|call| journal::Call {
            step: call.step,
            index: call.index,
        }),
        call_id,
        request,
        result,
        once,
    })
}

/// Stored results that the call did not bring itself.
async fn read_results(
    http: &Http,
    task: &TaskId,
    recorded: &Recorded,
    results: &mut HashMap<String, Value>,
) -> Result<()> {
    let named = recorded.steps.iter().filter_map(|step| step.result.as_ref());
    let missing: Vec<Wanted> = named
        .filter(|reference| !results.contains_key(&reference.digest))
        .map(|reference| Wanted::new(task.as_str(), reference))
        .collect();
    if missing.is_empty() {
        return Ok(());
    }
    let mut read = http.app().db().read().await?;
    results.extend(load::values(http, &mut read, &missing).await?);
    Ok(())
}

fn view(step: &journal::StepAnswer, results: &HashMap<String, Value>) -> Result<StepAnswer> {
    let result = step
        .result
        .as_ref()
        .and_then(|reference| results.get(&reference.digest));
    Ok(StepAnswer {
        sequence: step.sequence,
        kind: views::steps::kind(step.kind),
        state: views::steps::state(step.state),
        tool_ref: step.tool_ref.clone(),
        policy: step.policy.map(views::steps::policy),
        arguments: step.arguments.as_ref().map(views::raw).transpose()?,
        idempotency_key: step.idempotency_key.clone(),
        result: result.map(views::raw).transpose()?,
        settled: step.settled,
        reused: step
            .reused
            .map(|(attempt, sequence)| ReusedFrom { attempt, sequence }),
        child_instance_id: step.child.as_ref().map(|child| child.0.clone()),
        queued: step.queued.then_some(true),
        approval_task_id: step.approval.clone(),
        problem: step.refusal.as_ref().map(problem_of),
    })
}
