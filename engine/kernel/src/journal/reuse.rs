//! What an earlier attempt did is not done again (D40): the n-th identical write or delegation of an attempt is
//! answered by the n-th of the earlier ones, once each.

use super::check::Target;
use super::{Step, StepKind, StepState};
use crate::task::TaskFile;
use legation_language::model::Policy;

/// The step that answers this new one, if any.
pub(super) fn find<'a>(file: &'a TaskFile, target: Target<'_>, request_digest: &str) -> Option<&'a Step> {
    let reusable = match target {
        Target::Tool(tool) => tool.policy != Policy::Read,
        Target::Delegate(_) => true,
        Target::Checkpoint { once } => once,
        Target::Model | Target::Wait { .. } => false,
    };
    if !reusable {
        return None;
    }
    let used = |step: &Step| {
        file.steps
            .iter()
            .any(|other| other.reused_from == Some((step.attempt, step.sequence)))
    };
    let mut free: Vec<&Step> = file
        .steps
        .iter()
        .map(|step| &**step)
        .filter(|step| {
            step.attempt < file.task.attempt
                && step.state == StepState::Completed
                && step.request_digest == request_digest
                && matches!(
                    step.kind,
                    StepKind::Tool | StepKind::Delegation | StepKind::Checkpoint
                )
                && !used(step)
        })
        .collect();
    // A step that was itself reused stands for the one that ran, so the n-th stays the n-th over many attempts.
    free.sort_by_key(|step| origin(file, step));
    free.first().copied()
}

fn origin(file: &TaskFile, step: &Step) -> (u32, u32) {
    let mut at = (step.attempt, step.sequence);
    let mut from = step.reused_from;
    while let Some(earlier) = from {
        at = earlier;
        from = file.step(earlier.0, earlier.1).and_then(|step| step.reused_from);
    }
    at
}
