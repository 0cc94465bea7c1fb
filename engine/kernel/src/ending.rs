//! The end of instances (core §1, "Cancel"). What an instance holds itself is let go at once; it is over when nothing
//! below it runs any more. A command ends so many instances, from the leaves up; until the rest has followed by
//! mailbox they are CANCELLING, and nothing below one that is moves.

use crate::content::Content;
use crate::effect::{Effect, Mail};
use crate::ids::{InstanceId, owner_of};
use crate::instance::{Ending, Event, Failure, Status};
use crate::moves::Moves;
use crate::rejection::Stop;
use crate::work::Work;

/// Who hears of an instance's end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Told {
    /// Its parent, by mailbox.
    Mail,
    /// Its parent ends it in this very command.
    Directly,
}

impl Moves<'_, '_> {
    /// Ends the instance as CANCELLED, with everything below it. Repeatable: each time it comes further.
    pub(crate) fn cancel(&mut self, reason: &str) -> Result<(), Stop> {
        self.begin_cancel(reason);
        self.end_on(Told::Mail)
    }

    fn begin_cancel(&mut self, reason: &str) {
        if !self.instance().is_over() && !self.instance().is_ending() {
            self.emit(Event::InstanceEnding {
                reason: reason.to_owned(),
                into: None,
            });
        }
    }

    /// Ends the instance: every token is taken off with what it waits for, and a parent is told.
    pub(crate) fn end_all(
        &mut self,
        status: Status,
        reason: Option<String>,
        error: Option<Failure>,
        message: Option<Content>,
    ) -> Result<(), Stop> {
        let cause = reason.clone().unwrap_or_else(|| "the instance ended".to_owned());
        self.let_go_of_all(&cause)?;
        if self.end_children(&cause)? {
            self.end_as(
                Told::Mail,
                Ending {
                    status,
                    error,
                    message,
                },
                reason,
            );
            return Ok(());
        }
        let into = Some(Box::new(Ending {
            status,
            error,
            message,
        }));
        self.emit(Event::InstanceEnding { reason: cause, into });
        Ok(())
    }

    /// A slice of the end of an instance that is ending.
    pub(crate) fn go_on_ending(&mut self) -> Result<(), Stop> {
        self.end_on(Told::Mail)
    }

    fn end_on(&mut self, told: Told) -> Result<(), Stop> {
        if !self.instance().is_ending() {
            return Ok(());
        }
        let cause = self.instance().reason.clone().unwrap_or_default();
        self.let_go_of_all(&cause)?;
        if !self.end_children(&cause)? {
            return Ok(());
        }
        if self.work.ends_left == 0 {
            self.go_on_later();
            return Ok(());
        }
        let cancelled = Ending {
            status: Status::Cancelled,
            error: None,
            message: None,
        };
        let ending = self.instance().ending.as_deref().cloned().unwrap_or(cancelled);
        self.end_as(told, ending, Some(cause));
        Ok(())
    }

    fn end_as(&mut self, told: Told, ending: Ending, reason: Option<String>) {
        let Ending {
            status,
            error,
            message,
        } = ending;
        self.work.ends_left = self.work.ends_left.saturating_sub(1);
        self.emit(Event::InstanceEnded {
            status,
            reason,
            error,
            message,
        });
        if self.instance().parent.is_some() && told == Told::Mail {
            self.effect(Effect::Mail(Mail::ChildDone { child: self.id() }));
        }
    }

    /// Takes every token off with what it waits for but its children, and closes what else is open.
    fn let_go_of_all(&mut self, cause: &str) -> Result<(), Stop> {
        let tokens: Vec<u32> = self.instance().tokens.keys().copied().collect();
        for token in tokens {
            // Children end one by one, as many as the command may.
            self.let_go(token, cause)?;
            self.end_token(token);
        }
        let incidents: Vec<u32> = self.instance().incidents.iter().copied().collect();
        for incident in incidents {
            let id = self.instance().id.incident(incident);
            self.effect(Effect::CloseIncident {
                id,
                by: "engine".to_owned(),
                resolution: cause.to_owned(),
            });
        }
        Ok(())
    }

    /// Ends children while the command may; whether none of them runs any more.
    fn end_children(&mut self, cause: &str) -> Result<bool, Stop> {
        let children: Vec<u32> = self.instance().children.keys().copied().collect();
        let mut over = true;
        for child in children {
            if self.work.ends_left == 0 {
                self.go_on_later();
                return Ok(false);
            }
            over &= self.cancel_child(child, cause)?;
        }
        Ok(over)
    }

    /// Cancels a running child with a recorded reason (D19, D69); whether it is over. A child that had ended before
    /// stays as it is: its result will be ignored and recorded.
    pub(crate) fn cancel_child(&mut self, child: u32, cause: &str) -> Result<bool, Stop> {
        if !self.instance().children.contains_key(&child) {
            return Ok(true);
        }
        let id = self.instance().id.child(child);
        if self.work.instance(&id)?.is_over() {
            return Ok(true);
        }
        let reason = format!("parent: {cause}");
        let status = self.work.with(&id, |m| {
            m.begin_cancel(&reason);
            m.end_on(Told::Directly)?;
            Ok(m.instance().status)
        })?;
        if status.is_over() {
            self.emit(Event::ChildEnded { child, status });
        }
        Ok(status.is_over())
    }

    /// Whether a child still runs, or still ends.
    pub(crate) fn has_running_child(&self) -> Result<bool, Stop> {
        for child in self.instance().children.keys() {
            if !self.work.instance(&self.instance().id.child(*child))?.is_over() {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Below an instance that is ending nothing moves, though its slice has not come yet: what a command comes to there
/// ends first.
pub(crate) fn stop_below(work: &mut Work<'_>, id: &InstanceId) -> Result<(), Stop> {
    let mut above = owner_of(id.as_str());
    while let Some(ancestor) = above {
        let instance = work.instance(&ancestor)?;
        if instance.is_ending() && !work.instance(id)?.is_over() {
            let reason = format!("parent: {}", instance.reason.as_deref().unwrap_or("it ends"));
            return work.with(id, |m| m.cancel(&reason));
        }
        above = owner_of(ancestor.as_str());
    }
    Ok(())
}
