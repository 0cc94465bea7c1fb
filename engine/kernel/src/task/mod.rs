//! The second aggregate: an external task with its journal (core §1, §3). Leases are neither history nor
//! replayed; a task is its steps and the few facts below.

mod closing;
mod lease;
mod output;
mod retire;
mod status;

use std::collections::BTreeSet;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::content::Content;
use crate::ids::TaskId;
use crate::journal::Step;

pub use closing::{
    Failure, FailureOutcome, MAX_DEFERRAL_MS, MAX_DEFERRALS, Opened, Parked, ReleaseOutcome, close, failure,
    new_attempt, open_closing, park, release, retry,
};
pub use lease::{LapseOutcome, MAX_EXPIRIES, check_lease, heartbeat, lapse, take, unlock};
pub(crate) use lease::{call_back, end_lease, hold};
pub use output::{Completion, MAX_INVALID_OUTPUTS, check_complete, invalid_output};
pub use retire::{RetiredWork, retire};
pub(crate) use status::is_idle;
pub use status::{Waiting, WaitingKind, claimable_at, lapse_at, status, waiting_for};

/// The format that this engine writes (core §1).
pub const TASK_FORMAT: u32 = 1;

/// An external task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Task {
    pub format: u32,
    pub id: TaskId,
    /// The token that waits.
    pub token: u32,
    pub node: String,
    pub topic: String,
    /// True for agent nodes: journal and output contract apply.
    pub agent: bool,
    pub priority: i32,
    pub created_at: i64,
    /// The conversation's number, from 1 (D33).
    pub attempt: u32,
    /// Counted failures.
    pub tries: u32,
    /// The number of the newest lease; 0 before the first.
    pub lease_no: u32,
    /// The live or expired lease; None when it was given back, taken back or never given.
    pub lease: Option<Lease>,
    /// The newest lease when the engine or an operator ended it: calls that arrived before still count, unless
    /// somebody took the task since (core §2).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended_lease: Option<Lease>,
    /// Back-off or deferral: not leased before this time (epoch ms).
    pub available_at: Option<i64>,
    /// True between a park and the next opening.
    pub parked: bool,
    /// Leases that expired in a row without a settled step.
    pub expiries: u32,
    /// Deferrals in a row without a settled step (D34).
    pub deferrals: u32,
    /// Completions of this attempt refused with `INVALID_OUTPUT`.
    pub invalid_outputs: u32,
    pub retired: Option<Retired>,
    /// Local numbers of all incidents that hold this task, those about writes in doubt included: it goes on when
    /// none is left.
    #[serde(
        default,
        alias = "incident",
        deserialize_with = "held_by",
        skip_serializing_if = "BTreeSet::is_empty"
    )]
    pub incidents: BTreeSet<u32>,
    /// The last closing call and its answer, for repeats.
    pub closing: Option<Closing>,
    /// `sha256(task id)`: equal over leases and attempts (D46b).
    pub idempotency_key: String,
    /// What the worker gets; None: all variables of the instance but sensitive ones, read at fetch.
    pub inputs: Option<Content>,
    /// W3C trace context of what created the task.
    pub traceparent: Option<String>,
    /// Next number in the order of completion (`settled`, core §4).
    pub next_settled: u32,
    /// Bytes of requests and results so far (limit 16 MiB).
    pub journal_bytes: u64,
    /// Tokens used by all model steps of this attempt.
    pub tokens_used: u64,
    /// Something settled while a lease was live and its worker was not told: the next `park` tells it instead.
    #[serde(default)]
    pub news: bool,
}

/// A lease belongs to (number, worker, credential); the random part makes its id unguessable.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lease {
    pub number: u32,
    pub random: String,
    pub worker: String,
    pub credential: String,
    /// Epoch ms.
    pub until: i64,
    pub duration_ms: i64,
}

/// How a task ended.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Retired {
    pub outcome: TaskOutcome,
    pub at: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskOutcome {
    Completed,
    Failed,
    Cancelled,
}

/// One closing call per lease (core §3): a repeat of it gets the same answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Closing {
    pub lease_no: u32,
    pub random: String,
    /// SHA-256 of operation and canonical body.
    pub digest: String,
    /// The state that was answered.
    pub state: TaskState,
    /// What else was answered.
    #[serde(default)]
    pub attempt: u32,
    #[serde(default)]
    pub available_at: Option<i64>,
    #[serde(default)]
    pub incident: Option<u32>,
}

/// What a task shows (D30), computed by [`status()`], never stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum TaskState {
    Open,
    Locked,
    AwaitingApproval,
    AwaitingInput,
    AwaitingChild,
    AwaitingTimer,
    Incident,
    Completed,
    Failed,
    Cancelled,
}

/// A task with all the steps that are loaded; steps are in (attempt, sequence) order.
#[derive(Clone, Debug, PartialEq)]
pub struct TaskFile {
    pub task: Task,
    pub steps: Vec<Arc<Step>>,
}

/// Who calls, and under which lease.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Caller {
    pub worker: String,
    /// The principal's id.
    pub credential: String,
    /// (number, random) of the lease id that was used; None for the bare id.
    pub lease: Option<(u32, String)>,
    /// When the call arrived: a lease is judged by this, not by the time of the batch.
    pub arrived_at: i64,
}

impl Task {
    /// The newest of the incidents that hold it: the one to show where there is room for one.
    #[must_use]
    pub fn incident(&self) -> Option<u32> {
        self.incidents.last().copied()
    }
}

impl TaskFile {
    /// The place of a step in `steps`.
    #[must_use]
    pub fn position(&self, attempt: u32, sequence: u32) -> Option<usize> {
        self.steps
            .iter()
            .position(|step| step.attempt == attempt && step.sequence == sequence)
    }

    #[must_use]
    pub fn step(&self, attempt: u32, sequence: u32) -> Option<&Step> {
        self.position(attempt, sequence).map(|at| &*self.steps[at])
    }

    /// The steps of the running attempt, in order of sequence.
    pub fn current(&self) -> impl Iterator<Item = &Step> {
        let attempt = self.task.attempt;
        self.steps
            .iter()
            .map(|step| &**step)
            .filter(move |step| step.attempt == attempt)
    }
}

/// Rows that were written before a task could be held twice name one incident, or none.
fn held_by<'de, D: serde::Deserializer<'de>>(from: D) -> Result<BTreeSet<u32>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Held {
        All(BTreeSet<u32>),
        One(Option<u32>),
    }
    Ok(match Held::deserialize(from)? {
        Held::All(all) => all,
        Held::One(one) => one.into_iter().collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Core §1: readers take what was written before.
    #[test]
    fn what_held_a_task_before_it_could_be_held_twice_still_holds_it() {
        #[derive(Deserialize)]
        struct Row {
            #[serde(default, alias = "incident", deserialize_with = "held_by")]
            incidents: BTreeSet<u32>,
        }
        for (row, held) in [
            ("{}", &[][..]),
            (r#"{"incident":null}"#, &[]),
            (r#"{"incident":7}"#, &[7]),
            (r#"{"incidents":[7,9]}"#, &[7, 9]),
        ] {
            let read: Row = serde_json::from_str(row).expect(row);
            assert_eq!(read.incidents, BTreeSet::from_iter(held.iter().copied()), "{row}");
        }
    }
}
