//! The only function that changes an instance (I2). It decides nothing: an event that does not fit the state is
//! a defect of the history, reported as such.

use super::{Event, Guard, INSTANCE_FORMAT, Instance, Scope, Started, Status, Token, TokenState, Wait};

/// The state that a list of (time, events) leads to; None when it does not begin with a start.
#[must_use]
pub fn replay<'a>(rows: impl IntoIterator<Item = (i64, &'a [Event])>) -> Option<Instance> {
    let mut instance: Option<Instance> = None;
    for (at, events) in rows {
        for event in events {
            match (&mut instance, event) {
                (None, Event::InstanceStarted(started)) => instance = Some(apply_started(started, at)),
                (None, _) => return None,
                (Some(instance), event) => apply(instance, event, at),
            }
        }
        if let Some(instance) = &mut instance {
            instance.revision += 1;
        }
    }
    instance
}

/// A new instance, before its first token.
#[must_use]
pub(crate) fn apply_started(started: &Started, at: i64) -> Instance {
    Instance {
        format: INSTANCE_FORMAT,
        id: started.id.clone(),
        project: started.project.clone(),
        process: started.process.clone(),
        version: started.version,
        status: Status::Running,
        suspended: false,
        ending: None,
        reason: None,
        error: None,
        business_key: started.business_key.clone(),
        labels: started.labels.clone(),
        initiator: started.initiator.clone(),
        started_at: at,
        ended_at: None,
        updated_at: at,
        depth: started.depth,
        chain: started.chain.clone(),
        parent: started.parent.clone(),
        sealed: started.sealed,
        scopes: std::iter::once((0, Scope::default())).collect(),
        tokens: std::collections::BTreeMap::new(),
        children: std::collections::BTreeMap::new(),
        humans: std::collections::BTreeSet::new(),
        timers: std::collections::BTreeMap::new(),
        incidents: std::collections::BTreeSet::new(),
        next_local: 1,
        message: None,
        revision: 0,
    }
}

/// Takes one event into the state. `at` is the time of the command.
pub fn apply(instance: &mut Instance, event: &Event, at: i64) {
    instance.updated_at = at;
    match event {
        // Only the first event of a history; `replay` and the work set build the state from it.
        Event::InstanceStarted(_) => {}
        Event::VariableSet {
            scope,
            name,
            variable,
        } => {
            if let Some(scope) = instance.scopes.get_mut(scope) {
                scope.variables.insert(name.clone(), variable.clone());
            }
        }
        Event::TokenCreated {
            token,
            scope,
            node,
            activity,
            forks,
            from,
        } => {
            taken(instance, (*token).max(*activity));
            let token_state = Token {
                scope: *scope,
                node: node.clone(),
                activity: *activity,
                forks: forks.clone(),
                from: from.clone(),
                entered_at: at,
                state: TokenState::Ready,
                timeout: None,
                alarm: None,
            };
            instance.tokens.insert(*token, token_state);
        }
        Event::TokenMoved {
            token,
            node,
            activity,
            from,
            forks,
        } => {
            taken(instance, *activity);
            if let Some(token) = instance.tokens.get_mut(token) {
                token.node.clone_from(node);
                token.activity = *activity;
                token.from = Some(from.clone());
                token.entered_at = at;
                token.state = TokenState::Ready;
                token.timeout = None;
                token.alarm = None;
                if let Some(forks) = forks {
                    token.forks.clone_from(forks);
                }
            }
        }
        Event::TokenWaits { token, wait } => {
            if let Wait::Human { human: number }
            | Wait::Timer { timer: number }
            | Wait::Child { child: number } = wait
            {
                taken(instance, *number);
            }
            set_state(instance, *token, TokenState::Waiting(wait.clone()));
        }
        Event::TokenStuck {
            token,
            stuck,
            code: _,
        } => {
            set_state(instance, *token, TokenState::Stuck(stuck.clone()));
        }
        Event::TokenReady { token } => set_state(instance, *token, TokenState::Ready),
        Event::TokenEnded { token } => {
            instance.tokens.remove(token);
        }
        Event::TimerArmed {
            timer,
            due_at,
            guards,
        } => {
            taken(instance, *timer);
            instance.timers.insert(*timer, *due_at);
            match guards {
                Some(Guard::Timeout(token)) => {
                    if let Some(token) = instance.tokens.get_mut(token) {
                        token.timeout = Some(*timer);
                    }
                }
                Some(Guard::Start(token)) => {
                    if let Some(token) = instance.tokens.get_mut(token) {
                        token.alarm = Some(*timer);
                    }
                }
                None => {}
            }
        }
        Event::TimerFired { timer } | Event::TimerDisarmed { timer } => {
            instance.timers.remove(timer);
            for token in instance.tokens.values_mut() {
                token.timeout = token.timeout.filter(|armed| armed != timer);
                token.alarm = token.alarm.filter(|armed| armed != timer);
            }
        }
        Event::TaskCreated {
            token,
            task,
            topic: _,
        } => {
            taken(instance, *task);
            set_state(instance, *token, TokenState::Waiting(Wait::Task { task: *task }));
        }
        Event::HumanOpened {
            human,
            approval_of: _,
        } => {
            taken(instance, *human);
            instance.humans.insert(*human);
        }
        Event::HumanClosed { human, .. } => {
            instance.humans.remove(human);
        }
        Event::ChildStarted { child, running } => {
            taken(instance, *child);
            instance.children.insert(*child, running.clone());
        }
        Event::ChildEnded { child, status: _ } | Event::ChildResultIgnored { child, status: _ } => {
            instance.children.remove(child);
        }
        Event::IncidentOpened { incident, .. } => {
            taken(instance, *incident);
            instance.incidents.insert(*incident);
        }
        Event::IncidentClosed { incident, .. } => {
            instance.incidents.remove(incident);
        }
        Event::NoticeOpened { notice, .. } => taken(instance, *notice),
        Event::NumbersTaken { next } => taken(instance, next.saturating_sub(1)),
        Event::Sealed => instance.sealed = true,
        Event::ClosingRendered { message } => instance.message = Some(message.clone()),
        Event::InstanceEnding { reason, into } => {
            instance.status = Status::Cancelling;
            instance.reason = Some(reason.clone());
            instance.ending.clone_from(into);
        }
        Event::InstanceEnded {
            status,
            reason,
            error,
            message,
        } => {
            instance.status = *status;
            instance.ended_at = Some(at);
            instance.ending = None;
            instance.error.clone_from(error);
            instance.message.clone_from(message);
            if reason.is_some() {
                instance.reason.clone_from(reason);
            }
        }
        // Told for people; they change nothing that the kernel reads again.
        Event::AttemptEnded { .. }
        | Event::TaskEnded { .. }
        | Event::DecisionTaken { .. }
        | Event::BranchTaken { .. }
        | Event::ErrorRaised { .. }
        | Event::OutcomeChosen { .. } => {}
    }
}

fn set_state(instance: &mut Instance, token: u32, state: TokenState) {
    if let Some(token) = instance.tokens.get_mut(&token) {
        token.state = state;
    }
}

/// Local numbers only grow.
fn taken(instance: &mut Instance, number: u32) {
    instance.next_local = instance.next_local.max(number + 1);
}
