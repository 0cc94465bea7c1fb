//! Leases on external work: fetch, heartbeat, the four closing calls, park (D30–D33, D46b).
//!
//! The id in a fetch answer names its lease (`<task>~<lease no>-<random>`); worker calls use it. The bare id is for
//! operators and for reading.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};

use crate::agent::AgentNode;
use crate::steps::{Journal, StepView};
use crate::{Json, Timestamp, Variables};

/// Where an external task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    /// May be fetched, now or from `availableAt`.
    Open,
    /// Leased to a worker.
    Locked,
    /// Parked until a person approves or rejects.
    AwaitingApproval,
    /// Parked until a person answers a question.
    AwaitingInput,
    /// Parked until a child instance ends.
    AwaitingChild,
    /// Parked until a time has come.
    AwaitingTimer,
    /// Held by an incident until someone retries or resolves it.
    Incident,
    /// Ended with a result.
    Completed,
    /// Ended by an error or by its last failure.
    Failed,
    /// Ended from outside: a cancel, a timeout, another branch.
    Cancelled,
}

impl TaskState {
    /// True for the states that answer 410 `WORK_RETIRED` to a worker.
    #[must_use]
    pub fn is_retired(self) -> bool {
        match self {
            TaskState::Completed | TaskState::Failed | TaskState::Cancelled => true,
            TaskState::Open
            | TaskState::Locked
            | TaskState::AwaitingApproval
            | TaskState::AwaitingInput
            | TaskState::AwaitingChild
            | TaskState::AwaitingTimer
            | TaskState::Incident => false,
        }
    }
}

/// What one unsettled step of a task waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum WaitKind {
    /// A person's approval.
    Approval,
    /// A person's answer to a question.
    Input,
    /// The end of a child instance.
    Child,
    /// A free place for a child instance (`max_concurrent`).
    QueuedChild,
    /// A point in time.
    Timer,
    /// A person who says whether a cut-off write happened.
    Resolution,
}

/// One thing that a task waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct WaitingFor {
    /// What is awaited.
    pub kind: WaitKind,
    /// The step that waits.
    pub sequence: u32,
    /// The approval, child instance, timer or incident that ends the wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
    /// The target of the step, such as `delegate:refund_payout`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tool_ref: Option<String>,
    /// When the wait ends by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// Where a task stands after a worker's call.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct TaskStatus {
    /// LOCKED: the lease stands; anything else: it is gone.
    pub state: TaskState,
    /// Everything that is awaited.
    #[serde(default)]
    pub waiting_for: Vec<WaitingFor>,
}

/// `POST /v1/external-tasks/fetch-and-lock`.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FetchRequest {
    /// Names the worker; the lease belongs to it and to the credential used.
    pub worker_id: String,
    /// The topics to take work from.
    pub topics: Vec<String>,
    /// How long each lease lasts, in ms: 1 to 3,600,000, default 30,000.
    #[serde(default = "default_lock_duration")]
    pub lock_duration: u64,
    /// At most so many tasks: 1 to 50, default 1.
    #[serde(default = "default_max_tasks")]
    pub max_tasks: u32,
    /// Wait so long for work before answering an empty list, in ms: at most 60,000, default 0.
    #[serde(default)]
    pub long_poll_ms: u64,
    /// The last step known of tasks seen before, by bare task id: only the news is sent for them.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub have: BTreeMap<String, u32>,
}

fn default_lock_duration() -> u64 {
    30_000
}

fn default_max_tasks() -> u32 {
    1
}

/// The answer to a [`FetchRequest`]; an empty list after `longPollMs`, never 204.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct FetchAnswer {
    /// The tasks leased to this worker.
    pub tasks: Vec<LockedTask>,
}

/// A task with the lease that was just given.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct LockedTask {
    /// The lease id, used in every worker call.
    pub id: String,
    /// The topic that it was taken from.
    pub topic: String,
    /// The instance that it belongs to.
    pub instance_id: String,
    /// The process of that instance.
    #[serde(default)]
    pub process: String,
    /// The instance's business key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub business_key: Option<String>,
    /// The node that it is the work of.
    pub node_id: String,
    /// The attempt, from 1.
    pub attempt: u32,
    /// The node's inputs; without `inputs` every variable that is not sensitive, for agents only what the prompt mentions.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub variables: Variables,
    /// The node's fixed headers.
    #[serde(default)]
    #[schema(value_type = Object)]
    pub headers: Variables,
    /// `sha256(task id)`: equal over leases and attempts, to dedupe outside effects with (D46b).
    pub idempotency_key: String,
    /// When the lease ends unless a heartbeat extends it.
    pub locked_until: Timestamp,
    /// W3C trace context of the instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traceparent: Option<String>,
    /// The frozen agent node, when the task is an agent's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<AgentNode>,
    /// The attempt's steps so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub journal: Option<Journal>,
    /// What earlier attempts did that cannot be undone by starting again (D33).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub prior_effects: Vec<StepView>,
}

/// `POST …/{id}/complete`. Ordinary workers send `variables`; agents send `result` and `outcome`.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CompleteRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
    /// The results of an ordinary worker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub variables: Option<Variables>,
    /// The result of an agent: text, or the object of its output schema.
    #[serde(
        default,
        skip_serializing_if = "Option::is_none",
        deserialize_with = "crate::present"
    )]
    #[schema(value_type = Option<Value>)]
    pub result: Option<Json>,
    /// The outcome that an agent chose, where its node has outcomes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<String>,
}

/// `POST …/{id}/failure`: the try failed for a technical reason.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct FailureRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
    /// What went wrong, one line.
    pub message: String,
    /// More of it, such as a stack trace.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub details: Option<String>,
    /// A code for programs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub code: Option<String>,
    /// `false`: trying again cannot help, the failure is the last one. Default true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retryable: Option<bool>,
    /// Wait at least so long before the next try, in ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
}

/// `POST …/{id}/error`: a business error, routed by its code.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ErrorRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
    /// The code that `on_error` routes by.
    pub code: String,
    /// For people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// Results that come with the error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Option<Object>)]
    pub variables: Option<Variables>,
}

/// `POST …/{id}/release`: hands the lease back. With `afterMs` a deferral (D34), without it nothing counts.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ReleaseRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
    /// Open the task again after so many ms, at most 900,000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after_ms: Option<u64>,
    /// Why, for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// The answer to the closing calls and to `unlock`: where the task stands now.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ClosedAnswer {
    /// The task's state after the call.
    pub state: TaskState,
    /// The attempt that comes next, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub attempt: Option<u32>,
    /// When the task may be fetched again, in back-off or deferral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_at: Option<Timestamp>,
    /// The incident that the call opened.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident_id: Option<String>,
}

/// `POST …/{id}/heartbeat`: extends the lease from now.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct HeartbeatRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
    /// How long the lease lasts from now, in ms: 1 to 3,600,000.
    pub lock_duration: u64,
}

/// The answer to a [`HeartbeatRequest`].
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct HeartbeatAnswer {
    /// When the lease ends now.
    pub locked_until: Timestamp,
}

/// `POST …/{id}/park`: nothing is left to do until the waiting steps settle.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ParkRequest {
    /// The worker that holds the lease.
    pub worker_id: String,
}

/// The answer to a [`ParkRequest`]: parked, or the news that came in between.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParkAnswer {
    /// AWAITING_…: parked, the lease is gone. LOCKED: something is to do, the lease stands.
    pub task: TaskStatus,
    /// With LOCKED: the attempt's steps as they are now.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<StepView>,
}

/// `GET /v1/external-tasks`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, IntoParams, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct ExternalTaskQuery {
    /// Only tasks of this instance.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance_id: Option<String>,
    /// Only tasks of this topic.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub topic: Option<String>,
    /// Only tasks in this state.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub state: Option<TaskState>,
    /// At most so many, 1 to 200, default 50.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// An external task as operators see it.
#[derive(Debug, Clone, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalTaskView {
    /// The bare id.
    pub id: String,
    /// The topic.
    pub topic: String,
    /// The instance that it belongs to.
    pub instance_id: String,
    /// The node that it is the work of.
    pub node_id: String,
    /// Where it stands.
    pub state: TaskState,
    /// Everything that is awaited.
    #[serde(default)]
    pub waiting_for: Vec<WaitingFor>,
    /// The current attempt.
    pub attempt: u32,
    /// Counted failures so far.
    #[serde(default)]
    pub failures: u32,
    /// Equal over leases and attempts.
    pub idempotency_key: String,
    /// Who holds the lease.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub worker_id: Option<String>,
    /// When the lease ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_until: Option<Timestamp>,
    /// When its last lease began, also after its end; before that it waited in the queue.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub locked_at: Option<Timestamp>,
    /// When it may be fetched, in back-off or deferral.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub available_at: Option<Timestamp>,
    /// The incident that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub incident_id: Option<String>,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it was retired.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_at: Option<Timestamp>,
}

/// A page of external tasks.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExternalTaskList {
    /// The tasks, newest first.
    pub tasks: Vec<ExternalTaskView>,
    /// Send it as `after` for the next page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
