//! I3: no answer without its commit. What callers were told is remembered and looked for in the database at the end.

use legation_kernel::commands::{Answer, Command};
use legation_kernel::ids::TaskId;
use legation_kernel::journal::StepState;
use legation_kernel::task::{TaskFile, TaskState};

use super::calls::{Call, Outcome};
use super::engine::Engine;
use super::look;
use super::stale::lease_of;

/// Everything that was answered.
#[derive(Default)]
pub struct Said {
    steps: Vec<(TaskId, (u32, u32), StepState)>,
    /// Task, number of the lease, and the state that was answered.
    closed: Vec<(TaskId, u32, TaskState)>,
}

impl Said {
    pub fn note(&mut self, call: &Call, outcome: &Outcome) {
        let (Call::Run { command, .. }, Outcome::Answer(answer)) = (call, outcome) else {
            return;
        };
        match (command, answer) {
            (Command::Steps { task, record }, Answer::Steps { recorded, .. }) => {
                for step in &recorded.steps {
                    let at = (record.attempt, step.sequence);
                    self.steps.push((task.clone(), at, step.state));
                }
            }
            (_, Answer::Closed { state, .. }) => {
                if let Some((task, lease)) = lease_of(call) {
                    self.closed.push((task, lease.0, *state));
                }
            }
            _ => {}
        }
    }

    /// # Errors
    /// An answer that the database knows nothing of.
    pub fn is_kept(&self, engine: &mut Engine) -> Result<(), String> {
        engine.read(async |db| {
            let mut conn = db.read().await.expect("a connection");
            for (task, at, state) in &self.steps {
                step_is_kept(&look::file(&mut conn, task).await, *at, *state)?;
            }
            for (task, lease, state) in &self.closed {
                let file = look::file(&mut conn, task).await;
                let known = file.task.closing.as_ref();
                let known = known.is_some_and(|closing| closing.lease_no >= *lease);
                let undone = *state == TaskState::Completed && file.task.retired.is_none();
                if !known || undone {
                    return Err(format!(
                        "I3: lease {lease} was answered {state:?}: {:?}",
                        file.task
                    ));
                }
            }
            Ok(())
        })
    }
}

fn step_is_kept(file: &TaskFile, at: (u32, u32), state: StepState) -> Result<(), String> {
    let id = &file.task.id;
    let Some(step) = file.step(at.0, at.1) else {
        return Err(format!("I3: step {at:?} of {id} was answered and is gone"));
    };
    let settled = [StepState::Completed, StepState::Failed, StepState::Rejected];
    if settled.contains(&state) && step.state != state {
        return Err(format!(
            "I3: step {at:?} of {id} was {state:?} and is {:?}",
            step.state
        ));
    }
    Ok(())
}
