//! A timer fires; or READY tokens go on after the budget of an earlier command was used up.

use super::Answer;
use crate::ids::{self, InstanceId};
use crate::instance::{Event, TokenState, Wait};
use crate::nodes::{self, Signal};
use crate::rejection::Stop;
use crate::work::Work;

pub(super) fn run(work: &mut Work<'_>, timer: &str) -> Result<Answer, Stop> {
    let (Some(owner), Some(local)) = (ids::owner_of(timer), ids::local_of(timer)) else {
        return Ok(Answer::Nothing);
    };
    if !work.instance(&owner)?.timers.contains_key(&local) {
        return Ok(Answer::Nothing);
    }
    work.with(&owner, |m| {
        let tokens = &m.instance().tokens;
        let waiting = tokens
            .iter()
            .find(|(_, token)| token.state == TokenState::Waiting(Wait::Timer { timer: local }))
            .map(|(id, _)| *id);
        let timed_out = tokens.iter().find(|(_, token)| token.timeout == Some(local)).map(|(id, _)| *id);
        m.emit(Event::TimerFired { timer: local });
        if let Some(token) = waiting {
            nodes::resume(m, token, Signal::Timer)?;
        } else if let Some(token) = timed_out {
            let definition = m.definition.clone();
            if let Some(node) = m.token(token).and_then(|token| definition.node(&token.node)) {
                m.time_out(token, node)?;
            }
            nodes::advance(m)?;
        } else {
            crate::commands::journal::wake(m, local)?;
        }
        Ok(Answer::Done)
    })
}

pub(super) fn go_on(work: &mut Work<'_>, instance: &InstanceId) -> Result<Answer, Stop> {
    work.with(instance, |m| {
        nodes::advance(m)?;
        Ok(Answer::Done)
    })
}
