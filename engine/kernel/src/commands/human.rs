//! Decide an approval (D45, D46), complete a human task. A worker's credential never decides.

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::{Approval, CommentRule, Human, NodeKind};

use super::{Answer, journal};
use crate::effect::{Effect, HumanEnd};
use crate::ids::{self, InstanceId, TaskId};
use crate::instance::{Source, TokenState, Wait};
use crate::journal::{Decision, StepState};
use crate::moves::Done;
use crate::nodes::{self, Signal};
use crate::rejection::{Rejection, Stop};
use crate::work::Work;

/// Who decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    pub id: String,
    pub groups: Vec<String>,
    /// True for credentials of workers.
    pub worker: bool,
}

impl Person {
    /// `*` stands for every group; only a development engine gives it, to its `approver`.
    fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group || own == "*")
    }

    /// Being a candidate is what counts: a role in the project alone is not enough (D45).
    fn must_be_candidate(&self, groups: &[String], users: &[String]) -> Result<(), Rejection> {
        if self.worker {
            return Err(Rejection::forbidden(
                "WORKER_MAY_NOT_DECIDE",
                "a worker's key never decides",
            ));
        }
        if users.contains(&self.id) || groups.iter().any(|group| self.is_in(group)) {
            return Ok(());
        }
        let message = format!("{} is no candidate of this task", self.id);
        Err(Rejection::forbidden("NOT_A_CANDIDATE", message).hint(format!("it is for {}", groups.join(", "))))
    }
}

pub(super) fn decide(
    work: &mut Work<'_>,
    human: &str,
    task: &TaskId,
    person: &Person,
    approved: bool,
    comment: Option<&str>,
    digest: Option<&str>,
) -> Result<Answer, Stop> {
    let (instance, local) = locate(human)?;
    let open = work.instance(&instance)?.humans.contains(&local);
    let file = work.task(task)?;
    let Some(step) = file.steps.iter().rev().find(|step| step.approval == Some(local)) else {
        return Err(Rejection::not_found(format!("no approval {human}")).into());
    };
    let definition = work.definition(work.instance(&instance)?)?;
    let approval = definition
        .node(&file.task.node)
        .and_then(|node| approval_of(&node.kind, &step.tool_ref));
    let approval = approval.unwrap_or_default();
    person.must_be_candidate(&approval.groups, &approval.users)?;
    if !open {
        let same = step.decided_by.as_deref() == Some(person.id.as_str())
            && approved != (step.state == StepState::Rejected);
        if same {
            // The answer was lost on its way: it is given again.
            return Ok(Answer::Decided {
                child: step.child.clone(),
            });
        }
        return Err(closed(human, step.state).into());
    }
    let Some(digest) = digest else {
        let refusal = Rejection::invalid("DIGEST_REQUIRED", "a decision names the digest that it saw");
        return Err(refusal
            .argument("digest")
            .hint("read the task and send its digest back")
            .into());
    };
    let decision = Decision {
        approved,
        by: person.id.clone(),
        comment: comment.map(str::to_owned),
        digest: digest.to_owned(),
    };
    let child = work.with(&instance, |m| journal::decide(m, task, local, &decision))?;
    Ok(Answer::Decided { child })
}

/// The approval that a tool or delegate of this node is bound to.
fn approval_of(kind: &NodeKind, tool_ref: &str) -> Option<Approval> {
    let delegates = match kind {
        NodeKind::Agent(agent) => {
            if let Some(tool) = agent.tools.iter().find(|tool| tool.reference() == tool_ref) {
                return tool.approval.clone();
            }
            &agent.delegates
        }
        NodeKind::EngineTask(task) => &task.delegates,
        _ => return None,
    };
    let process = tool_ref.strip_prefix("delegate:")?;
    delegates
        .iter()
        .find(|delegate| delegate.process == process)
        .and_then(|delegate| delegate.approval.clone())
}

fn closed(human: &str, state: StepState) -> Rejection {
    match state {
        StepState::Withdrawn | StepState::Failed => {
            Rejection::gone("TASK_CLOSED", format!("{human} was withdrawn"))
        }
        _ => Rejection::conflict("ALREADY_DECIDED", format!("{human} is decided already")),
    }
}

pub(super) fn complete(
    work: &mut Work<'_>,
    human: &str,
    person: &Person,
    outcome: Option<&str>,
    variables: &BTreeMap<String, Value>,
    comment: Option<&str>,
) -> Result<Answer, Stop> {
    let (instance, local) = locate(human)?;
    let waiting = work.instance(&instance)?.tokens.iter().find_map(|(id, token)| {
        (token.state == TokenState::Waiting(Wait::Human { human: local })).then(|| (*id, token.node.clone()))
    });
    let Some((token, node_id)) = waiting else {
        return Err(Rejection::gone("TASK_CLOSED", format!("{human} is not open any more")).into());
    };
    let definition = work.definition(work.instance(&instance)?)?;
    let Some(node) = definition.node(&node_id) else {
        return Err(Rejection::not_found(format!("no node {node_id}")).into());
    };
    let NodeKind::Human(data) = &node.kind else {
        return Err(Rejection::not_found(format!("no human task {human}")).into());
    };
    person.must_be_candidate(&data.groups, &data.users)?;
    check_outcome(data, outcome, comment)?;
    if let Some(form) = &data.form {
        let errors = work.env.schemas.errors(form, &Value::Map(variables.clone()));
        if !errors.is_empty() {
            let mut refusal = Rejection::invalid(
                "FORM_INVALID",
                format!(
                    "the form has {} error{}",
                    errors.len(),
                    if errors.len() == 1 { "" } else { "s" }
                ),
            );
            refusal.errors = errors;
            return Err(refusal.into());
        }
    }
    let source = Source {
        node: Some(node.id.clone()),
        actor: Some(person.id.clone()),
        ..Source::default()
    };
    let result = match &node.outputs {
        Some(_) => variables.clone(),
        None => of_the_form(data, variables),
    };
    work.with(&instance, |m| {
        m.check_result(node, &result)?;
        let done = Done {
            result: Value::Map(result),
            outcome: outcome.map(str::to_owned),
            source,
        };
        m.check_outputs(token, node, &done)?;
        m.effect(Effect::CloseHuman(HumanEnd {
            id: human.to_owned(),
            state: "COMPLETED",
            by: Some(person.id.clone()),
            outcome: outcome.map(str::to_owned),
            comment: comment.map(str::to_owned),
            at: m.now(),
        }));
        nodes::resume(m, token, Signal::Done(done))
    })?;
    Ok(Answer::Decided { child: None })
}

/// Unmapped, only the form's own names merge: nobody writes other variables of the process through a form.
fn of_the_form(data: &Human, submitted: &BTreeMap<String, Value>) -> BTreeMap<String, Value> {
    let fields = data
        .form
        .as_ref()
        .and_then(|form| form.get("properties"))
        .and_then(Value::as_map);
    let asked = |name: &str| fields.is_some_and(|fields| fields.contains_key(name));
    submitted
        .iter()
        .filter(|(name, _)| asked(name))
        .map(|(name, value)| (name.clone(), value.clone()))
        .collect()
}

fn check_outcome(data: &Human, outcome: Option<&str>, comment: Option<&str>) -> Result<(), Rejection> {
    let names: Vec<&str> = data
        .outcomes
        .iter()
        .map(|outcome| outcome.name.as_str())
        .collect();
    let Some(name) = outcome else {
        if names.is_empty() {
            return Ok(());
        }
        let refusal = Rejection::invalid("OUTCOME_REQUIRED", format!("choose one of {}", names.join(", ")));
        return Err(refusal.argument("outcome"));
    };
    let Some(chosen) = data.outcomes.iter().find(|outcome| outcome.name == name) else {
        let refusal = Rejection::invalid("OUTCOME_REQUIRED", format!("`{name}` is no outcome of this task"));
        return Err(refusal
            .argument("outcome")
            .hint(format!("choose one of {}", names.join(", "))));
    };
    if chosen.comment == CommentRule::Required && comment.is_none_or(|comment| comment.trim().is_empty()) {
        return Err(
            Rejection::invalid("COMMENT_REQUIRED", format!("outcome {name} needs a comment"))
                .argument("comment"),
        );
    }
    Ok(())
}

fn locate(human: &str) -> Result<(InstanceId, u32), Rejection> {
    match (ids::owner_of(human), ids::local_of(human)) {
        (Some(instance), Some(local)) => Ok((instance, local)),
        _ => Err(Rejection::not_found(format!("no task {human}"))),
    }
}
