//! Journal steps and all that settles them: children, decisions, timers. Journaling never advances the process;
//! starting a child is the one exception (D41).

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::model::NodeKind;

use super::Answer;
use crate::effect::Effect;
use crate::ids::{InstanceId, TaskId, local_of};
use crate::instance::{Cause, Child, Event, Instance, Parent, TokenState, Wait};
use crate::journal::{self, Bindings, ChildEnd, ChildStart, Decision, JournalContext, Record, Settled};
use crate::moves::Moves;
use crate::rejection::{Rejection, Stop};
use crate::start::{ChildSpec, start_child};
use crate::task;
use crate::work::Work;

pub(super) fn run(work: &mut Work<'_>, id: &TaskId, record: &Record) -> Result<Answer, Stop> {
    let now = work.env.now;
    let recorded = work.with(&id.instance(), |m| {
        let (recorded, children) = with_journal(m, id, |cx, file, numbers, out| {
            let recorded = journal::record(cx, file, record, numbers, out)?;
            let children = recorded.children.clone();
            Ok((recorded, children))
        })?;
        start_children(m, id, children)?;
        Ok(recorded)
    })?;
    let file = work.task(id)?;
    let (state, waiting) = (task::status(file, now), task::waiting_for(file));
    Ok(Answer::Steps {
        recorded: Box::new(recorded),
        state,
        waiting,
    })
}

/// A person decided: an approved delegation starts its child in this transaction (D18).
pub(super) fn decide(
    m: &mut Moves<'_, '_>,
    id: &TaskId,
    approval: u32,
    decision: &Decision,
) -> Result<Option<InstanceId>, Stop> {
    let children = with_journal(m, id, |cx, file, numbers, out| {
        Ok(journal::decide(cx, file, approval, decision, cx.now, numbers, out)?.children)
    })?;
    let first = children.first().map(|child| child.child.clone());
    start_children(m, id, children)?;
    Ok(first)
}

/// A child ended: its step settles. False when no step waits for it any more (D21).
pub(super) fn settle_child(
    m: &mut Moves<'_, '_>,
    id: &TaskId,
    child: &InstanceId,
    end: &ChildEnd,
) -> Result<bool, Stop> {
    let now = m.now();
    let mut out = Vec::new();
    let settled = journal::settle_child(m.work.task_mut(id)?, child, end, now, &mut out)?;
    take(m, out);
    Ok(matches!(settled, Settled::Settled { .. }))
}

/// A place became free: the next queued delegation starts.
pub(super) fn start_queued(m: &mut Moves<'_, '_>, id: &TaskId) -> Result<(), Stop> {
    if m.work.task(id)?.task.retired.is_some() {
        return Ok(());
    }
    let children = with_journal(m, id, |cx, file, numbers, out| {
        journal::start_queued(cx, file, numbers, out)
    })?;
    start_children(m, id, children)
}

/// A timer that belongs to a WAIT step, or to nothing any more.
pub(super) fn wake(m: &mut Moves<'_, '_>, timer: u32) -> Result<(), Stop> {
    let now = m.now();
    let tasks: Vec<u32> = m
        .instance()
        .tokens
        .values()
        .filter_map(|token| match token.state {
            TokenState::Waiting(Wait::Task { task }) => Some(task),
            _ => None,
        })
        .collect();
    for task in tasks {
        let id = m.instance().id.task(task);
        let waits = m
            .work
            .task(&id)?
            .steps
            .iter()
            .any(|step| step.wait.is_some_and(|(_, waited)| waited == timer));
        if waits {
            journal::settle_wait(m.work.task_mut(&id)?, timer, now);
            return Ok(());
        }
    }
    Ok(())
}

/// Runs a journal decision with everything it may know of its instance.
fn with_journal<R>(
    m: &mut Moves<'_, '_>,
    id: &TaskId,
    act: impl FnOnce(&JournalContext<'_>, &mut task::TaskFile, &mut u32, &mut Vec<Effect>) -> Result<R, Stop>,
) -> Result<R, Stop> {
    let definition = m.definition.clone();
    let node_id = m.work.task(id)?.task.node.clone();
    let node = definition
        .node(&node_id)
        .ok_or_else(|| Rejection::not_found(format!("no node {node_id}")))?;
    let bindings = match &node.kind {
        NodeKind::Agent(agent) => Bindings::Agent(agent),
        NodeKind::EngineTask(task) => Bindings::EngineTask(task),
        _ => return Err(Rejection::not_found(format!("task {id} has no journal")).into()),
    };
    let mut numbers = m.numbers();
    let mut out = Vec::new();
    let instance = m.id();
    let chain = m.instance().chain.clone();
    let depth = m.instance().depth;
    let (now, max_depth, schemas) = (m.now(), m.work.env.max_depth, m.work.env.schemas);
    m.work.task_mut(id)?;
    let (file, payloads) = m.work.task_and_payloads(id)?;
    let cx = JournalContext {
        node: bindings,
        instance_id: &instance,
        depth,
        max_depth,
        chain: &chain,
        schemas,
        payloads,
        now,
    };
    let answer = act(&cx, file, &mut numbers, &mut out)?;
    m.set_numbers(numbers);
    take(m, out);
    Ok(answer)
}

/// Takes effects over; payloads are at hand for the rest of the command.
fn take(m: &mut Moves<'_, '_>, out: Vec<Effect>) {
    for effect in &out {
        if let Effect::Payload(new) = effect {
            m.work.payloads.insert(new.digest.clone(), new.value.clone());
        }
    }
    m.effects(out);
}

/// Starts the children that steps were granted.
fn start_children(m: &mut Moves<'_, '_>, id: &TaskId, children: Vec<ChildStart>) -> Result<(), Stop> {
    for start in children {
        let project = m.instance().project.clone();
        let definition = m
            .work
            .env
            .definitions
            .get(&project, &start.process, start.version)
            .ok_or_else(|| Stop::MissingDefinition(start.process.clone(), Some(start.version)))?;
        let file = m.work.task(id)?;
        let (node, attempt) = (file.task.node.clone(), file.task.attempt);
        let (model, prompt_version) = lineage(m, &node, file);
        let cause = Cause::Step {
            task: id.clone(),
            attempt,
            sequence: start.sequence,
            model,
            prompt_version,
        };
        let child = start.child.clone();
        let parent = Parent {
            instance: m.id(),
            node,
            cause,
        };
        start_child(
            m,
            ChildSpec {
                id: child.clone(),
                definition,
                inputs: start.inputs,
                parent,
            },
        )?;
        let local = local_of(child.as_str()).unwrap_or_default();
        let running = Child {
            process: start.process,
            step: Some((id.local(), attempt, start.sequence)),
        };
        m.emit(Event::ChildStarted {
            child: local,
            running,
        });
    }
    Ok(())
}

/// The model that the last turn used, and the prompt's version (D12).
fn lineage(m: &Moves<'_, '_>, node: &str, file: &task::TaskFile) -> (Option<String>, Option<String>) {
    let Some(NodeKind::Agent(agent)) = m.definition.node(node).map(|node| &node.kind) else {
        return (None, None);
    };
    let turn = file
        .steps
        .iter()
        .rev()
        .find_map(|step| step.tool_ref.strip_prefix("model:"));
    (
        turn.map(str::to_owned).or_else(|| agent.model.clone()),
        Some(agent.prompt_version.clone()),
    )
}

/// What the journal is told of a child's end.
pub(super) fn child_end(
    child: &Instance,
    outputs: BTreeMap<String, Value>,
    unset: Vec<String>,
    message: Option<String>,
) -> ChildEnd {
    ChildEnd {
        status: child.status,
        outputs,
        unset,
        message,
        error: child.error.as_ref().map(|error| error.code.clone()),
    }
}
