//! `human`: work for people. Submitted fields are the result; an outcome chooses the way.

use legation_language::Value;
use legation_language::model::{CommentRule, Human, Node};

use super::{NodeType, Signal, finish, timer};
use crate::content::payload;
use crate::effect::{Effect, HumanKind, HumanTask, Outcome};
use crate::instance::{Event, Wait};
use crate::moves::{Moves, Trouble};

impl NodeType for Human {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        let shown = match &node.inputs {
            Some(mappings) => m.mapped(token, mappings, None)?,
            None => m.open_variables()?,
        };
        let due_at = match &self.due {
            Some(moment) => Some(timer::due_at(m, token, node, moment)?),
            None => None,
        };
        let (inputs, new) = payload(m.id().as_str(), Value::Map(shown));
        m.effect(Effect::Payload(new));
        let human = m.number();
        let outcomes = self.outcomes.iter().map(|outcome| Outcome {
            name: outcome.name.clone(),
            label: outcome.label.clone(),
            comment: comment_rule(outcome.comment).to_owned(),
        });
        let task = HumanTask {
            id: m.id().human(human),
            instance: m.id(),
            node: node.id.clone(),
            kind: HumanKind::Human,
            groups: self.groups.clone(),
            users: self.users.clone(),
            task: None,
            attempt: None,
            sequence: None,
            digest: None,
            target: node.name.clone(),
            inputs: Some(inputs),
            policy: None,
            form: self.form.clone(),
            outcomes: outcomes.collect(),
            priority: self.priority,
            due_at,
            created_at: m.now(),
        };
        m.effect(Effect::OpenHuman(Box::new(task)));
        m.emit(Event::TokenWaits {
            token,
            wait: Wait::Human { human },
        });
        Ok(())
    }

    fn resume(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node, signal: Signal) -> Result<(), Trouble> {
        let Signal::Done(done) = signal else {
            return m.leave(token, node);
        };
        let Some(name) = done.outcome.clone() else {
            return finish(m, token, node, done, None);
        };
        let Some(outcome) = self.outcomes.iter().find(|outcome| outcome.name == name) else {
            let message = format!("node {} has no outcome {name}", node.id);
            return Err(Trouble::Incident {
                code: "OUTCOME_NOT_FOUND",
                message,
            });
        };
        m.set_engine_name(&node.id, "outcome", Value::from(name.as_str()));
        m.emit(Event::OutcomeChosen {
            node: node.id.clone(),
            outcome: name,
        });
        let target = outcome.then.clone();
        finish(m, token, node, done, Some(&target))
    }
}

fn comment_rule(rule: CommentRule) -> &'static str {
    match rule {
        CommentRule::None => "none",
        CommentRule::Optional => "optional",
        CommentRule::Required => "required",
    }
}
