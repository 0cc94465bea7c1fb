//! I6: a lease is fenced. A call under an older or expired lease leaves every row as it was, except the outcome of a
//! step that was granted under it.

use std::collections::BTreeMap;

use legation_kernel::commands::Command;
use legation_kernel::ids::TaskId;
use legation_kernel::instance::Instance;
use legation_kernel::task::{TaskFile, check_lease};

use super::calls::Call;
use super::engine::Engine;
use super::look;

/// The task and the lease that a call names.
pub fn lease_of(call: &Call) -> Option<(TaskId, (u32, String))> {
    let Call::Run { command, .. } = call else {
        return None;
    };
    let (task, caller) = match command {
        Command::Complete { task, caller, .. }
        | Command::Failure { task, caller, .. }
        | Command::Error { task, caller, .. }
        | Command::Release { task, caller, .. }
        | Command::Park { task, caller, .. }
        | Command::Heartbeat { task, caller, .. } => (task, caller),
        Command::Steps { task, record } => (task, &record.caller),
        _ => return None,
    };
    Some((task.clone(), caller.lease.clone()?))
}

/// Tasks with their instances, as they are.
pub type Picture = BTreeMap<TaskId, (TaskFile, Instance)>;

pub fn picture(engine: &mut Engine, tasks: &[TaskId]) -> Picture {
    engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let mut picture = Picture::new();
        for task in tasks {
            let file = look::file(&mut conn, task).await;
            let instance = look::instance(&mut conn, &task.instance()).await;
            picture.insert(task.clone(), (file, instance));
        }
        picture
    })
}

/// Compares after a late call.
pub fn unchanged(engine: &mut Engine, before: &Picture, call: &Call) -> Result<(), String> {
    let Some((task, lease)) = lease_of(call) else {
        return Ok(());
    };
    let Some((file, instance)) = before.get(&task) else {
        return Ok(());
    };
    let Call::Run { command, .. } = call else {
        return Ok(());
    };
    let mut caller = match command {
        Command::Complete { caller, .. }
        | Command::Failure { caller, .. }
        | Command::Error { caller, .. }
        | Command::Release { caller, .. }
        | Command::Park { caller, .. }
        | Command::Heartbeat { caller, .. } => caller.clone(),
        Command::Steps { record, .. } => record.caller.clone(),
        _ => return Ok(()),
    };
    caller.arrived_at = engine.clock.now();
    if check_lease(file, &caller).is_ok() {
        return Ok(());
    }
    let after = picture(engine, std::slice::from_ref(&task));
    let (now_file, now_instance) = &after[&task];
    let mine = |attempt: u32, sequence: u32| {
        file.step(attempt, sequence)
            .is_some_and(|step| step.grant.as_ref() == Some(&lease) || step.earlier_grants.contains(&lease))
    };
    let moved = now_file.steps.iter().find(|step| {
        file.step(step.attempt, step.sequence) != Some(step.as_ref()) && !mine(step.attempt, step.sequence)
    });
    if let Some(step) = moved {
        return Err(format!("I6: a stale lease moved {step:?}, by {call:?}"));
    }
    let settled = now_file.steps != file.steps;
    let same_task = now_file.task == file.task && now_instance == instance;
    if !settled && !same_task {
        return Err(format!(
            "I6: a stale lease changed {:?}\nto {:?}\nby {call:?}",
            file.task, now_file.task
        ));
    }
    let fenced = now_file.task.attempt == file.task.attempt
        && now_file.task.lease_no == file.task.lease_no
        && now_file.task.tries == file.task.tries
        && now_file.task.retired == file.task.retired;
    if fenced {
        Ok(())
    } else {
        Err(format!(
            "I6: a stale lease moved the task {:?}, by {call:?}",
            file.task
        ))
    }
}
