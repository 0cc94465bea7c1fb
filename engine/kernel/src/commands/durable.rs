//! A durable command that failed again and again (core §2): its row is held, and an incident of the instance says so
//! like any other, so that it is listed with the instance and ends with it.

use super::Answer;
use crate::effect::{Effect, Held, Incident};
use crate::ids::InstanceId;
use crate::rejection::{Rejection, Stop};
use crate::work::Work;

/// The code of such an incident.
pub const DURABLE_COMMAND_FAILED: &str = "DURABLE_COMMAND_FAILED";

pub(super) fn give_up(
    work: &mut Work<'_>,
    instance: &InstanceId,
    held: &Held,
    message: &str,
) -> Result<Answer, Stop> {
    work.with(instance, |m| {
        let number = m.number();
        let incident = Incident {
            id: m.instance().id.incident(number),
            instance: m.id(),
            node: String::new(),
            task: None,
            attempt: None,
            sequence: None,
            // An instance that is over holds no incident (I5).
            notice: m.instance().is_over(),
            code: DURABLE_COMMAND_FAILED.to_owned(),
            message: message.to_owned(),
            created_at: m.now(),
            held: Some(held.clone()),
        };
        m.effect(Effect::OpenIncident(Box::new(incident)));
        Ok(Answer::Done)
    })
}

/// A row that says nothing that this engine understands: refused, so that its tries are counted.
pub(super) fn unreadable(instance: &InstanceId) -> Stop {
    let message = format!("a durable command for instance {instance} cannot be read");
    Rejection::new(
        crate::rejection::RejectionKind::Internal,
        DURABLE_COMMAND_FAILED,
        message,
    )
    .into()
}
