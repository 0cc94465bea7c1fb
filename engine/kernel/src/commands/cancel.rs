//! Cancel an instance and everything below it, with the reason at each level (D19, D69).

use super::Answer;
use crate::ids::InstanceId;
use crate::rejection::Stop;
use crate::work::Work;

pub(super) fn run(work: &mut Work<'_>, instance: &InstanceId, reason: &str) -> Result<Answer, Stop> {
    let status = work.instance(instance)?.status;
    if status.is_over() {
        return Ok(Answer::Ended { status });
    }
    let status = work.with(instance, |m| {
        m.cancel(reason)?;
        Ok(m.instance().status)
    })?;
    Ok(Answer::Ended { status })
}
