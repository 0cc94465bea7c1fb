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

/// What really helps. A version is frozen and nobody writes variables from outside, so few incidents go away by a
/// retry alone.
fn hint(row: &IncidentRow) -> Option<String> {
    let hint = match row.code.as_str() {
        "OUTCOME_UNKNOWN" => {
            "find out whether the call happened, then resolve it as performed or not_performed"
        }
        "EXPRESSION_FAILED" | "VARIABLE_TYPE" | "VARIABLE_TOO_LARGE" | "NO_RULE" | "NO_BRANCH"
        | "HIT_POLICY" => {
            "a retry reads the same process and the same variables: it helps only when another branch has written what \
             was wrong or missing. Else correct the process, deploy it, start anew and cancel this instance"
        }
        "NO_NEXT" | "NODE_UNKNOWN" | "OUTCOME_NOT_FOUND" => {
            "this version of the process is at fault and a retry changes nothing: correct it, deploy it, start anew and \
             cancel this instance"
        }
        "WORK_FAILED" | "LEASE_EXPIRY" => "see why the worker failed, then retry: a new attempt begins",
        "UNHANDLED_ERROR" => "mend what raised the error, then retry: the work of the node is done again",
        "DURABLE_COMMAND_FAILED" => "the engine's log says why it failed; a retry runs it again",
        _ if row.kind == "notice" => return None,
        _ => "remove the cause, then retry",
    };
    (row.state == "OPEN").then(|| hint.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(code: &str, state: &str) -> IncidentRow {
        IncidentRow {
            root: "r".to_owned(),
            id: "r.n1".to_owned(),
            project: "p".to_owned(),
            instance: "r".to_owned(),
            node: None,
            external_task: None,
            sequence: None,
            kind: "incident".to_owned(),
            code: code.to_owned(),
            message: String::new(),
            state: state.to_owned(),
            created_at: 0,
            resolved_at: None,
            resolved_by: None,
            resolution: None,
            body: "{}".to_owned(),
        }
    }

    #[test]
    fn a_hint_promises_no_cure_that_a_frozen_version_does_not_allow() {
        for code in ["EXPRESSION_FAILED", "NO_BRANCH", "NO_NEXT"] {
            let hint = hint(&row(code, "OPEN")).unwrap_or_default();
            assert!(hint.contains("start anew"), "{code}: {hint}");
        }
        assert_eq!(hint(&row("EXPRESSION_FAILED", "RESOLVED")), None);
    }
}
