//! Instances and lineage.

use std::collections::BTreeMap;

use legation_kernel::dates::rfc3339;
use legation_kernel::instance::{Cause, Instance, Parent, Status};
use legation_protocol::incidents::IncidentView;
use legation_protocol::instances::{InstanceError, InstanceStatus, InstanceView, StartedByAgent};
use legation_protocol::lineage::LineageNode;
use legation_store::instances::InstanceRow;

/// An instance as lists show it: what its columns tell.
pub fn listed(row: &InstanceRow) -> InstanceView {
    let parent = parent(row);
    InstanceView {
        id: row.id.clone(),
        key: key(row),
        process: row.process.clone(),
        version: u32::try_from(row.version).unwrap_or_default(),
        status: word(&row.status),
        suspended: row.suspended,
        business_key: row.business_key.clone(),
        labels: serde_json::from_str::<BTreeMap<String, String>>(&row.labels).unwrap_or_default(),
        parent_id: row.parent.clone(),
        root_id: row.root.clone(),
        depth: u32::try_from(row.depth).unwrap_or_default(),
        started_by_agent: parent.as_ref().and_then(started_by_agent),
        initiator: row.initiator.clone(),
        started_at: rfc3339(row.started_at),
        ended_at: row.ended_at.map(rfc3339),
        outputs: None,
        error: row.error_code.clone().map(|code| InstanceError {
            code,
            message: None,
            node_id: None,
        }),
        incidents: Vec::new(),
        incident_count: u32::try_from(row.incidents).unwrap_or_default(),
        active_nodes: Vec::new(),
        revision: row.revision.unsigned_abs(),
    }
}

/// An instance by itself.
pub fn full(row: &InstanceRow, instance: &Instance, incidents: Vec<IncidentView>) -> InstanceView {
    let mut nodes: Vec<String> = instance.tokens.values().map(|token| token.node.clone()).collect();
    nodes.sort();
    nodes.dedup();
    InstanceView {
        error: error(instance),
        incidents,
        active_nodes: nodes,
        ..listed(row)
    }
}

fn error(instance: &Instance) -> Option<InstanceError> {
    if let Some(failure) = &instance.error {
        return Some(InstanceError {
            code: failure.code.clone(),
            message: failure.reason.clone().or_else(|| instance.reason.clone()),
            node_id: None,
        });
    }
    let message = instance.reason.clone();
    match instance.status {
        Status::Cancelled | Status::Cancelling => Some(InstanceError {
            code: "CANCELLED".to_owned(),
            message,
            node_id: None,
        }),
        Status::Failed => Some(InstanceError {
            code: "FAILED".to_owned(),
            message,
            node_id: None,
        }),
        Status::Running | Status::Compensating | Status::Completed => None,
    }
}

/// The key shown to people: `ORD-7`, and `ORD-7~4` for its child `….i4`.
pub fn key(row: &InstanceRow) -> String {
    let below = row.id.strip_prefix(&row.root).unwrap_or_default();
    let top = row.business_key.as_deref().unwrap_or(&row.root);
    format!("{top}{}", below.replace(".i", "~"))
}

/// A node of a lineage tree.
pub fn lineage(row: &InstanceRow, children: Vec<LineageNode>) -> LineageNode {
    let parent = parent(row);
    let by_agent = parent.as_ref().and_then(started_by_agent);
    LineageNode {
        id: row.id.clone(),
        key: key(row),
        process: row.process.clone(),
        version: u32::try_from(row.version).unwrap_or_default(),
        status: word(&row.status),
        depth: u32::try_from(row.depth).unwrap_or_default(),
        parent_node_id: parent.map(|parent| parent.node).filter(|_| by_agent.is_none()),
        started_by_agent: by_agent,
        started_at: rfc3339(row.started_at),
        ended_at: row.ended_at.map(rfc3339),
        children,
    }
}

fn parent(row: &InstanceRow) -> Option<Parent> {
    serde_json::from_str::<Option<Parent>>(&row.started_by)
        .ok()
        .flatten()
}

fn started_by_agent(parent: &Parent) -> Option<StartedByAgent> {
    let Cause::Step {
        task,
        attempt,
        sequence,
        model,
        prompt_version,
    } = &parent.cause
    else {
        return None;
    };
    Some(StartedByAgent {
        node_id: parent.node.clone(),
        model: model.clone(),
        used_model: None,
        prompt_version: prompt_version.clone(),
        task_id: task.0.clone(),
        attempt: *attempt,
        sequence: *sequence,
    })
}

pub fn status(status: Status) -> InstanceStatus {
    match status {
        Status::Running => InstanceStatus::Running,
        Status::Cancelling => InstanceStatus::Cancelling,
        Status::Compensating => InstanceStatus::Compensating,
        Status::Completed => InstanceStatus::Completed,
        Status::Failed => InstanceStatus::Failed,
        Status::Cancelled => InstanceStatus::Cancelled,
    }
}

/// The status as its column has it.
pub fn word(word: &str) -> InstanceStatus {
    match word {
        "CANCELLING" => InstanceStatus::Cancelling,
        "COMPENSATING" => InstanceStatus::Compensating,
        "COMPLETED" => InstanceStatus::Completed,
        "FAILED" => InstanceStatus::Failed,
        "CANCELLED" => InstanceStatus::Cancelled,
        _ => InstanceStatus::Running,
    }
}

/// The column's word for a status.
pub fn column(status: InstanceStatus) -> &'static str {
    match status {
        InstanceStatus::Running => "RUNNING",
        InstanceStatus::Cancelling => "CANCELLING",
        InstanceStatus::Compensating => "COMPENSATING",
        InstanceStatus::Completed => "COMPLETED",
        InstanceStatus::Failed => "FAILED",
        InstanceStatus::Cancelled => "CANCELLED",
    }
}
