//! A start, by whoever starts: inputs are checked, the entry gets a token, and it runs to its first waits.

use std::collections::BTreeMap;
use std::sync::Arc;

use legation_language::model::Definition;
use legation_language::{Value, types};

use crate::ids::InstanceId;
use crate::instance::{Event, Parent, Source, Started, apply_started};
use crate::moves::Moves;
use crate::nodes;
use crate::rejection::{Rejection, Stop};
use crate::work::{Touched, Work};

/// A child's start counts as so many moves of the command's budget: 50 starts in a command of 500 moves (core §1,
/// "Bounded commands").
const MOVES: u32 = 10;

/// A child to start below the instance at hand.
pub(crate) struct ChildSpec {
    pub id: InstanceId,
    pub definition: Arc<Definition>,
    pub inputs: BTreeMap<String, Value>,
    pub parent: Parent,
}

/// Starts a child in the transaction of its parent.
///
/// # Errors
/// 422 when the inputs do not fit.
pub(crate) fn start_child(m: &mut Moves<'_, '_>, spec: ChildSpec) -> Result<(), Stop> {
    m.work.left = m.work.left.saturating_sub(MOVES);
    let parent = m.instance();
    let mut chain = parent.chain.clone();
    chain.push(spec.definition.key.clone());
    let started = Started {
        id: spec.id,
        project: parent.project.clone(),
        process: spec.definition.key.clone(),
        version: spec.definition.version,
        business_key: parent.business_key.clone(),
        labels: parent.labels.clone(),
        initiator: parent.initiator.clone(),
        depth: parent.depth + 1,
        chain,
        parent: Some(spec.parent),
        sealed: m.holds_secrets(),
    };
    start(m.work, &spec.definition, started, spec.inputs)
}

/// Starts an instance in this work set.
///
/// # Errors
/// 422 `INPUT_INVALID` with reason `missing-param` or `invalid-param`, or `VARIABLE_TOO_LARGE`.
pub(crate) fn start(
    work: &mut Work<'_>,
    definition: &Definition,
    started: Started,
    inputs: BTreeMap<String, Value>,
) -> Result<(), Stop> {
    let variables =
        types::check_inputs(&definition.variables, &inputs, work.env.schemas).map_err(|problem| {
            Rejection::invalid("INPUT_INVALID", problem.message.clone())
                .because(problem.reason.as_str())
                .argument(problem.argument.clone())
        })?;
    let id = started.id.clone();
    let source = Source::actor(work.env.actor);
    let instance = apply_started(&started, work.env.now);
    let touched = Touched {
        next: instance.next_local,
        instance,
        events: vec![Event::InstanceStarted(Box::new(started))],
        fresh: true,
    };
    work.insert(touched);
    work.with(&id, |m| {
        m.check_sizes(&variables)?;
        for (name, value) in variables {
            let locked = m.definition.is_locked_input(&name);
            m.set(&name, value, locked, &source);
        }
        let (token, activity) = (m.number(), m.number());
        let node = m.definition.entry.clone();
        m.emit(Event::TokenCreated {
            token,
            scope: 0,
            node,
            activity,
            forks: Vec::new(),
            from: None,
        });
        nodes::advance(m)
    })
}
