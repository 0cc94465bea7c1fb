//! The durable command that declares a lease lost (core §3): writes in doubt become OUTCOME_UNKNOWN.

use super::Answer;
use crate::ids::TaskId;
use crate::rejection::Stop;
use crate::task::{self, LapseOutcome};
use crate::work::Work;

pub(super) fn run(work: &mut Work<'_>, id: &TaskId) -> Result<Answer, Stop> {
    let now = work.env.now;
    if work.task(id)?.task.retired.is_some() {
        return Ok(Answer::Nothing);
    }
    work.with(&id.instance(), |m| {
        let mut numbers = m.numbers();
        let mut out = Vec::new();
        let outcome = task::lapse(m.work.task_mut(id)?, now, &mut numbers, &mut out);
        m.set_numbers(numbers);
        m.effects(out);
        Ok(match outcome {
            LapseOutcome::NotDue => Answer::Nothing,
            LapseOutcome::Unknown(_) | LapseOutcome::BudgetUsedUp(_) => Answer::Done,
        })
    })
}
