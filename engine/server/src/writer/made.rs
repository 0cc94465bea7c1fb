//! One row of each table, from what the kernel says of it.

use legation_kernel::effect::{HumanEnd, HumanTask, Incident, Mail, Timer};
use legation_kernel::instance::{Cause, Instance};
use legation_kernel::journal::Step;
use legation_kernel::task::{self, TaskFile};
use legation_store::Result;
use legation_store::external_tasks::ExternalTaskRow;
use legation_store::incidents::IncidentRow;
use legation_store::instances::InstanceRow;
use legation_store::mailbox::MailboxRow;
use legation_store::steps::StepRow;
use legation_store::tasks::TaskRow;
use legation_store::timers::TimerRow;

use super::rows::Told;

pub(super) fn json<T: serde::Serialize>(value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| legation_store::Error::Corrupt {
        table: "row",
        id: error.to_string(),
    })
}

pub(super) fn instance_row(instance: &Instance) -> Result<InstanceRow> {
    let parent = instance.parent.as_ref();
    let (task, attempt, sequence) = match parent.map(|parent| &parent.cause) {
        Some(Cause::Step {
            task,
            attempt,
            sequence,
            ..
        }) => (
            Some(task.0.clone()),
            Some(i64::from(*attempt)),
            Some(i64::from(*sequence)),
        ),
        Some(Cause::Token(_)) | None => (None, None, None),
    };
    Ok(InstanceRow {
        root: instance.id.root().to_owned(),
        id: instance.id.0.clone(),
        project: instance.project.clone(),
        process: instance.process.clone(),
        version: i64::from(instance.version),
        status: instance.status.as_str().to_owned(),
        suspended: instance.suspended,
        business_key: instance.business_key.clone(),
        parent: parent.map(|parent| parent.instance.0.clone()),
        parent_task: task,
        parent_attempt: attempt,
        parent_sequence: sequence,
        depth: i64::from(instance.depth),
        initiator: Some(instance.initiator.clone()),
        started_by: json(&instance.parent)?,
        labels: json(&instance.labels)?,
        error_code: instance.error.as_ref().map(|error| error.code.clone()),
        incidents: instance.incidents.len() as i64,
        started_at: instance.started_at,
        ended_at: instance.ended_at,
        updated_at: instance.updated_at,
        revision: instance.revision as i64,
        format: i64::from(instance.format),
        snapshot: json(instance)?,
    })
}

pub(super) fn task_row(
    project: &str,
    file: &TaskFile,
    known: Option<super::trees::TaskRow>,
) -> Result<ExternalTaskRow> {
    let task = &file.task;
    let lease = task.lease.as_ref();
    let retired = task.retired.as_ref();
    Ok(ExternalTaskRow {
        root: task.id.root().to_owned(),
        id: task.id.0.clone(),
        project: project.to_owned(),
        instance: task.id.instance().0,
        node: task.node.clone(),
        topic: task.topic.clone(),
        agent: task.agent,
        priority: i64::from(task.priority),
        position: known.map_or(task.created_at, |known| known.position),
        lease_no: i64::from(task.lease_no),
        lease_random: lease.map(|lease| lease.random.clone()),
        worker: lease.map(|lease| lease.worker.clone()),
        credential: lease.map(|lease| lease.credential.clone()),
        locked_until: lease.map(|lease| lease.until),
        lock_ms: lease.map(|lease| lease.duration_ms),
        claimable_at: task::claimable_at(file),
        expiries: i64::from(task.expiries),
        lapse_at: task::lapse_at(file),
        attempt: i64::from(task.attempt),
        retired: retired.is_some(),
        outcome: retired.map(|retired| outcome(retired.outcome).to_owned()),
        created_at: task.created_at,
        ended_at: retired.map(|retired| retired.at),
        traceparent: task.traceparent.clone(),
        revision: known.map_or(0, |known| known.revision),
        body: json(task)?,
    })
}

fn outcome(outcome: task::TaskOutcome) -> &'static str {
    match outcome {
        task::TaskOutcome::Completed => "COMPLETED",
        task::TaskOutcome::Failed => "FAILED",
        task::TaskOutcome::Cancelled => "CANCELLED",
    }
}

pub(super) fn step_row(step: &Step, told: &Told<'_>) -> Result<StepRow> {
    let word = |value: String| value.trim_matches('"').to_owned();
    Ok(StepRow {
        root: step.task.root().to_owned(),
        task: step.task.0.clone(),
        attempt: i64::from(step.attempt),
        sequence: i64::from(step.sequence),
        instance: step.task.instance().0,
        kind: word(json(&step.kind)?),
        state: word(json(&step.state)?),
        tool_ref: Some(step.tool_ref.clone()),
        settled: step.settled.map(i64::from),
        request_digest: step.request_digest.clone(),
        effective_digest: step.effective_digest.clone(),
        grant_lease: step.grant.as_ref().map(|(number, _)| i64::from(*number)),
        reused_from: step.reused_from.map(|(_, sequence)| i64::from(sequence)),
        child: step.child.as_ref().map(|child| child.0.clone()),
        late_result: step.late_result.as_ref().map(json).transpose()?,
        resolved_by: step.resolved_by.clone(),
        writer: told.writer.to_owned(),
        batch_no: told.batch_no,
        started_at: step.started_at,
        ended_at: step.ended_at,
        body: json(step)?,
    })
}

pub(super) fn timer_row(root: &str, project: &str, timer: &Timer) -> TimerRow {
    TimerRow {
        root: root.to_owned(),
        id: timer.id.clone(),
        project: project.to_owned(),
        instance: timer.instance.0.clone(),
        node: Some(timer.node.clone()),
        kind: "FIRE".to_owned(),
        due_at: timer.due_at,
        held: false,
        body: "{}".to_owned(),
    }
}

pub(super) fn human_row(root: &str, project: &str, human: &HumanTask) -> Result<TaskRow> {
    Ok(TaskRow {
        root: root.to_owned(),
        id: human.id.clone(),
        project: project.to_owned(),
        instance: human.instance.0.clone(),
        node: human.node.clone(),
        kind: match human.kind {
            legation_kernel::effect::HumanKind::Human => "human",
            legation_kernel::effect::HumanKind::Approval => "approval",
        }
        .to_owned(),
        state: "OPEN".to_owned(),
        groups: json(&human.groups)?,
        users: json(&human.users)?,
        external_task: human.task.as_ref().map(|task| task.0.clone()),
        attempt: human.attempt.map(i64::from),
        sequence: human.sequence.map(i64::from),
        digest: human.digest.clone(),
        due_at: human.due_at,
        created_at: human.created_at,
        ended_at: None,
        decided_by: None,
        outcome: None,
        comment: None,
        body: json(human)?,
    })
}

pub(super) fn end_human(row: &mut TaskRow, end: &HumanEnd) {
    row.state = end.state.to_owned();
    row.decided_by.clone_from(&end.by);
    row.outcome.clone_from(&end.outcome);
    row.comment.clone_from(&end.comment);
    row.ended_at = Some(end.at);
}

pub(super) fn incident_row(root: &str, project: &str, incident: &Incident) -> Result<IncidentRow> {
    let body = serde_json::json!({ "attempt": incident.attempt, "held": incident.held });
    Ok(IncidentRow {
        root: root.to_owned(),
        id: incident.id.clone(),
        project: project.to_owned(),
        instance: incident.instance.0.clone(),
        node: Some(incident.node.clone()).filter(|node| !node.is_empty()),
        external_task: incident.task.as_ref().map(|task| task.0.clone()),
        sequence: incident.sequence.map(i64::from),
        kind: if incident.notice { "notice" } else { "incident" }.to_owned(),
        code: incident.code.clone(),
        message: incident.message.clone(),
        state: "OPEN".to_owned(),
        created_at: incident.created_at,
        resolved_at: None,
        resolved_by: None,
        resolution: None,
        body: json(&body)?,
    })
}

pub(super) fn end_incident(row: &mut IncidentRow, by: &str, resolution: &str, now: i64) -> Result<()> {
    row.state = "RESOLVED".to_owned();
    row.resolved_at = Some(now);
    row.resolved_by = Some(by.to_owned());
    row.resolution = Some(json(&resolution)?);
    Ok(())
}

pub(super) fn mail_row(root: &str, told: &Told<'_>, mail: &Mail) -> Result<MailboxRow> {
    let (kind, key) = match mail {
        Mail::ChildDone { child } => ("CHILD_DONE", child.0.clone()),
        Mail::Continue { instance } => ("CONTINUE", format!("{instance}:{}", told.command_id)),
    };
    Ok(MailboxRow {
        root: root.to_owned(),
        id: format!("{kind}:{key}"),
        project: told.project.to_owned(),
        kind: kind.to_owned(),
        key,
        due_at: Some(told.now),
        tries: 0,
        body: json(mail)?,
    })
}
