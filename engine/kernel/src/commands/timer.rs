//! A timer fires; or READY tokens, or the end of a tree, go on after the budget of an earlier command was used up.

use super::Answer;
use crate::effect::{Effect, Incident};
use crate::ids::{self, InstanceId};
use crate::instance::{Event, TokenState, Wait};
use crate::moves::Moves;
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
        let unserved = tokens
            .iter()
            .find(|(_, token)| token.alarm == Some(local))
            .map(|(id, _)| *id);
        let timed_out = tokens
            .iter()
            .find(|(_, token)| token.timeout == Some(local))
            .map(|(id, _)| *id);
        m.emit(Event::TimerFired { timer: local });
        if let Some(token) = waiting {
            nodes::resume(m, token, Signal::Timer)?;
        } else if let Some(token) = timed_out {
            let definition = m.definition.clone();
            if let Some(node) = m.token(token).and_then(|token| definition.node(&token.node)) {
                m.time_out(token, node)?;
            }
            nodes::advance(m)?;
        } else if let Some(token) = unserved {
            alarm(m, token)?;
        } else {
            crate::commands::journal::wake(m, local)?;
        }
        Ok(Answer::Done)
    })
}

pub(super) fn go_on(work: &mut Work<'_>, instance: &InstanceId) -> Result<Answer, Stop> {
    work.with(instance, |m| {
        if m.instance().is_ending() {
            m.go_on_ending()?;
        } else {
            nodes::advance(m)?;
        }
        Ok(Answer::Done)
    })
}

/// `start_within` is over and no worker ever took the task: somebody should know. A notice holds nothing.
fn alarm(m: &mut Moves<'_, '_>, token: u32) -> Result<(), Stop> {
    let Some(TokenState::Waiting(Wait::Task { task })) = m.token(token).map(|token| token.state.clone())
    else {
        return Ok(());
    };
    let id = m.instance().id.task(task);
    // To be written, though nothing changes: leases are taken without the root's lock, and only a write shows the
    // shell that it decided on an old one.
    let waiting = m.work.task_mut(&id)?;
    if waiting.task.lease_no > 0 {
        return Ok(());
    }
    let (node, topic) = (waiting.task.node.clone(), waiting.task.topic.clone());
    let number = m.number();
    let notice = Incident {
        id: m.instance().id.incident(number),
        instance: m.id(),
        node: node.clone(),
        task: Some(id),
        attempt: None,
        sequence: None,
        notice: true,
        code: "NOT_STARTED".to_owned(),
        message: format!("node {node}: no worker took the task of topic {topic} within its start_within"),
        created_at: m.now(),
        held: None,
    };
    m.effect(Effect::OpenIncident(Box::new(notice)));
    Ok(())
}
