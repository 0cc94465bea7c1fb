//! Incidents and notices.

use legation_kernel::dates::rfc3339;
use legation_protocol::incidents::{IncidentKind, IncidentState, IncidentView};
use legation_store::incidents::IncidentRow;

/// An incident of an instance of `process`.
pub fn view(row: &IncidentRow, process: &str) -> IncidentView {
    IncidentView {
        id: row.id.clone(),
        kind: if row.kind == "notice" {
            IncidentKind::Notice
        } else {
            IncidentKind::Incident
        },
        state: if row.state == "OPEN" {
            IncidentState::Open
        } else {
            IncidentState::Resolved
        },
        code: row.code.clone(),
        message: row.message.clone(),
        hint: hint(row),
        instance_id: row.instance.clone(),
        process: process.to_owned(),
        node_id: row.node.clone(),
        task_id: row.external_task.clone(),
        attempt: attempt(row),
        sequence: row.sequence.and_then(|sequence| u32::try_from(sequence).ok()),
        created_at: rfc3339(row.created_at),
        resolved_at: row.resolved_at.map(rfc3339),
        resolved_by: row.resolved_by.clone(),
    }
}

/// The attempt of the task that an incident is about.
pub fn attempt(row: &IncidentRow) -> Option<u32> {
    let body: serde_json::Value = serde_json::from_str(&row.body).ok()?;
    u32::try_from(body.get("attempt")?.as_u64()?).ok()
}

fn hint(row: &IncidentRow) -> Option<String> {
    let hint = match row.code.as_str() {
        "OUTCOME_UNKNOWN" => {
            "find out whether the call happened, then resolve it as performed or not_performed"
        }
        // The version is frozen and nobody writes variables from outside: only another branch may change what is read.
        "EXPRESSION_FAILED" | "VARIABLE_TYPE" | "VARIABLE_TOO_LARGE" | "NO_RULE" | "NO_BRANCH"
        | "HIT_POLICY" => {
            "a retry reads the same process and the same variables: it helps only when another branch has written what \
             was wrong or missing. Else correct the process, deploy it, start anew and cancel this instance"
        }
        "WORK_FAILED" | "LEASE_EXPIRY" => "see why the worker failed, then retry: a new attempt begins",
        _ if row.kind == "notice" => return None,
        _ => "remove the cause, then retry",
    };
    (row.state == "OPEN").then(|| hint.to_owned())
}
