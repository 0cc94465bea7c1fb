//! The journal of an external task: what a worker sends before and after every step, and what it reads back (D8, D35–D41).

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

pub use crate::step_bodies::{
    CheckpointRequest, ModelCall, ModelRequest, ModelResult, ToolRequest, Usage, WaitRequest,
};

use crate::external_tasks::TaskStatus;
use crate::{Json, Problem, Timestamp, present};

/// What a step does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepKind {
    /// One turn of a model: `toolRef` is `model:<name>`, see [`ModelRequest`] and [`ModelResult`].
    Model,
    /// One call of a tool by the worker: `toolRef` is `server/tool`, see [`ToolRequest`].
    Tool,
    /// A process run by the engine as a child instance: `toolRef` is `delegate:<process>`, see [`ToolRequest`].
    Delegation,
    /// A piece of a handler's own code: `toolRef` is `step:<name>`, see [`CheckpointRequest`].
    Checkpoint,
    /// A pause without lease or slot: `toolRef` is `wait`, see [`WaitRequest`].
    Wait,
}

/// Where a step stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StepState {
    /// Granted: the worker must act, or for a delegation or a wait the engine does.
    Started,
    /// Waits for a person's approval.
    Proposed,
    /// Approved; granted by sending STARTED again.
    Approved,
    /// A person refused; the result holds the comment that the model reads.
    Rejected,
    /// Done, with its result.
    Completed,
    /// Ended without success; the result says how.
    Failed,
    /// The engine refused the call; the result holds what the model reads.
    Refused,
    /// A write was cut off and may or may not have happened; a person says which.
    OutcomeUnknown,
    /// Given up before it was decided, because the work ended.
    Withdrawn,
}

impl StepState {
    /// True when nothing will change the step any more on its own.
    #[must_use]
    pub fn is_settled(self) -> bool {
        match self {
            StepState::Rejected
            | StepState::Completed
            | StepState::Failed
            | StepState::Refused
            | StepState::Withdrawn => true,
            StepState::Started | StepState::Proposed | StepState::Approved | StepState::OutcomeUnknown => {
                false
            }
        }
    }
}

/// The place of a call in the conversation: which model step asked, and which of its calls this is (D62).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CallRef {
    /// Sequence of the MODEL step.
    pub step: u32,
    /// Place in that step's `calls`, from 0.
    pub index: u32,
}

/// `POST /v1/external-tasks/{id}/steps`: one step, or an ordered batch in `steps`; one commit either way.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepsRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
    /// The attempt that the worker was given.
    pub attempt: u32,
    /// Single form: number of the step in the attempt, gap-free from 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u32>,
    /// Single form: what the step does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<StepKind>,
    /// Single form: the state that is asked for or reported.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<StepState>,
    /// Single form: the target, see [`StepKind`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<String>,
    /// Single form: which call of which model turn this answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
    /// Single form: the request, see [`StepInput::request`].
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub request: Option<Json>,
    /// Single form: the result, see [`StepInput::result`].
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
    /// Batch form: the steps in order, starts and results mixed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<Vec<StepInput>>,
}

/// One step as a worker sends it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StepInput {
    /// Number of the step in the attempt, gap-free from 1.
    pub sequence: u32,
    /// What the step does.
    pub kind: StepKind,
    /// The state that is asked for (STARTED) or reported (COMPLETED, FAILED, REFUSED).
    pub state: StepState,
    /// The target, see [`StepKind`].
    pub tool_ref: String,
    /// Which call of which model turn this answers; absent for steps that no model asked for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
    /// The request: a [`ModelRequest`], [`ToolRequest`], [`CheckpointRequest`] or [`WaitRequest`]. Needed with the first
    /// message of a sequence, optional with its result.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub request: Option<Json>,
    /// The result; a `null` that is sent is a result.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
}

/// A [`StepsRequest`] that is neither the single form nor the batch form; answered 422 `INVALID_REQUEST`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepsShapeError {
    /// `steps` stands beside fields of the single form.
    Both,
    /// `steps` is an empty list.
    Empty,
    /// The single form lacks this field.
    Missing(&'static str),
}

impl std::fmt::Display for StepsShapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            StepsShapeError::Both => {
                f.write_str("`steps` and the fields of a single step cannot be sent together")
            }
            StepsShapeError::Empty => f.write_str("`steps` is empty"),
            StepsShapeError::Missing(field) => {
                write!(
                    f,
                    "`{field}` is missing: send one step with it, or a list in `steps`"
                )
            }
        }
    }
}

impl std::error::Error for StepsShapeError {}

impl StepsRequest {
    /// The batch form.
    #[must_use]
    pub fn batch(worker_id: impl Into<String>, attempt: u32, steps: Vec<StepInput>) -> Self {
        StepsRequest {
            worker_id: worker_id.into(),
            attempt,
            steps: Some(steps),
            ..StepsRequest::default()
        }
    }

    /// The steps in order, and whether they came in the single form (whose refusals answer an error and record nothing).
    ///
    /// # Errors
    /// When the body is neither of the two forms.
    pub fn into_steps(self) -> Result<(bool, Vec<StepInput>), StepsShapeError> {
        if let Some(steps) = self.steps {
            let single_field = self.sequence.is_some()
                || self.kind.is_some()
                || self.state.is_some()
                || self.tool_ref.is_some()
                || self.call.is_some()
                || self.request.is_some()
                || self.result.is_some();
            if single_field {
                return Err(StepsShapeError::Both);
            }
            if steps.is_empty() {
                return Err(StepsShapeError::Empty);
            }
            return Ok((false, steps));
        }
        let step = StepInput {
            sequence: self.sequence.ok_or(StepsShapeError::Missing("sequence"))?,
            kind: self.kind.ok_or(StepsShapeError::Missing("kind"))?,
            state: self.state.ok_or(StepsShapeError::Missing("state"))?,
            tool_ref: self.tool_ref.ok_or(StepsShapeError::Missing("toolRef"))?,
            call: self.call,
            request: self.request,
            result: self.result,
        };
        Ok((true, vec![step]))
    }
}

/// The step of an earlier attempt whose result this step took over (D40).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ReusedFrom {
    /// The earlier attempt.
    pub attempt: u32,
    /// The step in it.
    pub sequence: u32,
}

/// What a tool may do, as its binding says (D38).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolPolicy {
    /// Changes nothing.
    Read,
    /// Changes something.
    Write,
    /// Changes something, and a person approves the exact inputs first.
    ApprovalRequired,
}

/// One step of the answer to a [`StepsRequest`].
///
/// A step that is recognised outside the live lease carries `sequence`, `kind`, `state` and `childInstanceId` only (D37).
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepAnswer {
    /// Number of the step.
    pub sequence: u32,
    /// What the step does.
    pub kind: StepKind,
    /// STARTED is the grant; PROPOSED waits for a person; a settled state needs no work.
    pub state: StepState,
    /// The target.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<String>,
    /// What the tool may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
    /// The effective arguments: the worker runs these, never its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub arguments: Option<Json>,
    /// The key to send with a write, the same on every resumed lease (D39).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The result of a settled step.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
    /// The place in the task's order of completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u32>,
    /// The result was taken over from an earlier attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<ReusedFrom>,
    /// The child instance of a delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_instance_id: Option<String>,
    /// The child starts when a running sibling ends (`max_concurrent`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<bool>,
    /// The approval that a PROPOSED step waits for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_task_id: Option<String>,
    /// Why a step of a batch was recorded as REFUSED.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub problem: Option<Problem>,
}

/// The answer to a [`StepsRequest`].
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepsAnswer {
    /// One entry for each step sent, in the same order.
    pub steps: Vec<StepAnswer>,
    /// LOCKED: go on; AWAITING_…: stop, the lease is gone.
    pub task: TaskStatus,
}

/// A step as the journal shows it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepView {
    /// The attempt that the step belongs to; absent where the surrounding answer is about one attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// Number of the step in its attempt.
    pub sequence: u32,
    /// What the step does.
    pub kind: StepKind,
    /// Where it stands.
    pub state: StepState,
    /// The target.
    pub tool_ref: String,
    /// Which call of which model turn it answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub call: Option<CallRef>,
    /// The request as it was sent; absent once the working copy was cleared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub request: Option<Json>,
    /// The effective arguments: references resolved, edits applied.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Value>)]
    pub arguments: Option<Json>,
    /// The result; absent while open, and once the working copy was cleared.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
    /// The place in the task's order of completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub settled: Option<u32>,
    /// What the tool may do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub policy: Option<ToolPolicy>,
    /// The key that a write carries (only to the worker that holds the lease).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// The result was taken over from an earlier attempt.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reused: Option<ReusedFrom>,
    /// The child instance of a delegation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub child_instance_id: Option<String>,
    /// The child starts when a running sibling ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queued: Option<bool>,
    /// The approval of a PROPOSED or decided step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approval_task_id: Option<String>,
    /// Digest of kind, target and arguments as sent: the step's identity.
    pub request_digest: String,
    /// Digest of what is approved and run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub effective_digest: Option<String>,
    /// Who decided the approval, or said what happened to an unknown outcome.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub decided_by: Option<String>,
    /// What that person wrote.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub comment: Option<String>,
    /// A result that came after the step was settled otherwise: kept, shown, never used.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "present"
    )]
    #[schema(value_type = Option<Value>)]
    pub late_result: Option<Json>,
    /// When it was first recorded.
    pub started_at: Timestamp,
    /// When it was settled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// The journal inside a fetch answer: the first part of the attempt's steps.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct Journal {
    /// Steps in the order of `sequence`, or with `have` the changed ones only.
    pub steps: Vec<StepView>,
    /// There is more: read on with `GET …/steps?after=`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}

/// `GET /v1/external-tasks/{id}/steps`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct StepsQuery {
    /// Only steps with a greater sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
    /// Another attempt than the current one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// At most so many steps, 1 to 1,000, default 200.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
}

/// Steps of one attempt.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct StepList {
    /// The attempt.
    pub attempt: u32,
    /// Steps in the order of `sequence`.
    pub steps: Vec<StepView>,
    /// There is more after this sequence.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<u32>,
}
