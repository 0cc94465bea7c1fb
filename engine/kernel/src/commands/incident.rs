//! Retry an incident; say what happened to a write of unknown outcome.

use legation_language::Value;

use super::{Answer, IncidentTarget};
use crate::effect::Effect;
use crate::ids;
use crate::instance::{Event, Resume, TokenState};
use crate::moves::{Done, Moves};
use crate::nodes::{self, Signal};
use crate::rejection::{Rejection, Stop};
use crate::task;
use crate::work::Work;

/// Evaluates again, or starts the task's next attempt; finished work is never run again.
pub(super) fn retry(work: &mut Work<'_>, target: &IncidentTarget) -> Result<Answer, Stop> {
    open(work, target)?;
    let local = ids::local_of(&target.id).unwrap_or_default();
    work.with(&target.instance, |m| {
        if let Some(id) = &target.task {
            retry_task(m, id, local)?;
            close(m, target, "retried");
            return Ok(Answer::Done);
        }
        let stuck = m
            .instance()
            .tokens
            .iter()
            .find_map(|(token, state)| match &state.state {
                TokenState::Stuck(stuck) if stuck.incident == local => Some((*token, stuck.resume.clone())),
                _ => None,
            });
        close(m, target, "retried");
        // Without a token it holds a durable command, which the shell runs again.
        let Some((token, resume)) = stuck else {
            return Ok(Answer::Done);
        };
        m.emit(Event::TokenReady { token });
        match resume {
            Resume::Enter => nodes::advance(m)?,
            Resume::Leave {
                result,
                outcome,
                source,
            } => {
                let result = m.value(&result)?;
                nodes::resume(
                    m,
                    token,
                    Signal::Done(Done {
                        result,
                        outcome,
                        source,
                    }),
                )?;
            }
        }
        Ok(Answer::Done)
    })
}

fn retry_task(m: &mut Moves<'_, '_>, id: &ids::TaskId, local: u32) -> Result<(), Stop> {
    let now = m.now();
    let file = m.work.task_mut(id)?;
    if file.task.retired.is_some() || !file.task.incidents.contains(&local) {
        return Err(Rejection::conflict(
            "INCIDENT_CLOSED",
            format!("the incident of task {id} is not open"),
        )
        .into());
    }
    task::retry(file, local, now)?;
    let (attempt, tries) = (file.task.attempt, file.task.tries);
    m.emit(Event::AttemptEnded {
        task: id.local(),
        attempt,
        tries,
        code: "RETRIED".to_owned(),
        message: "an operator retried the incident".to_owned(),
        available_at: None,
    });
    Ok(())
}

/// `performed`: the step is COMPLETED with the result; `not_performed`: it may be granted again.
pub(super) fn resolve(
    work: &mut Work<'_>,
    target: &IncidentTarget,
    performed: bool,
    result: Option<&Value>,
    comment: &str,
) -> Result<Answer, Stop> {
    let (Some(id), Some(attempt), Some(sequence)) = (&target.task, target.attempt, target.sequence) else {
        let refusal = Rejection::conflict(
            "NOT_RESOLVABLE",
            format!("incident {} is not about a step's outcome", target.id),
        );
        return Err(refusal.hint("retry it instead").into());
    };
    if comment.trim().is_empty() {
        return Err(
            Rejection::invalid("COMMENT_REQUIRED", "say how you know: a comment is needed")
                .argument("comment")
                .into(),
        );
    }
    open(work, target)?;
    let (now, actor) = (work.env.now, work.env.actor.to_owned());
    work.with(&target.instance, |m| {
        let mut out = Vec::new();
        let file = m.work.task_mut(id)?;
        task_resolution(
            file, attempt, sequence, performed, result, comment, &actor, now, &mut out,
        )?;
        for effect in &out {
            if let Effect::Payload(new) = effect {
                m.work.payloads.insert(new.digest.clone(), new.value.clone());
            }
        }
        m.effects(out);
        close(m, target, if performed { "performed" } else { "not_performed" });
        Ok(Answer::Done)
    })
}

#[expect(
    clippy::too_many_arguments,
    reason = "the facts of one decision, passed on once"
)]
fn task_resolution(
    file: &mut task::TaskFile,
    attempt: u32,
    sequence: u32,
    performed: bool,
    result: Option<&Value>,
    comment: &str,
    actor: &str,
    now: i64,
    out: &mut Vec<Effect>,
) -> Result<(), Stop> {
    crate::journal::resolve_unknown(
        file,
        attempt,
        sequence,
        performed,
        result.cloned(),
        comment,
        actor,
        now,
        out,
    )?;
    Ok(())
}

/// Whether the incident is open; a notice holds nothing and only its step's facts may still be told.
fn open(work: &Work<'_>, target: &IncidentTarget) -> Result<(), Stop> {
    let local = ids::local_of(&target.id).unwrap_or_default();
    if target.notice || work.instance(&target.instance)?.incidents.contains(&local) {
        return Ok(());
    }
    Err(not_open(target).into())
}

fn close(m: &mut Moves<'_, '_>, target: &IncidentTarget, resolution: &str) {
    let local = ids::local_of(&target.id).unwrap_or_default();
    if target.notice || m.instance().incidents.contains(&local) {
        let by = m.work.env.actor.to_owned();
        m.effect(Effect::CloseIncident {
            id: target.id.clone(),
            by,
            resolution: resolution.to_owned(),
        });
    }
}

fn not_open(target: &IncidentTarget) -> Rejection {
    Rejection::conflict("INCIDENT_CLOSED", format!("incident {} is not open", target.id))
}
