//! One file per node type, and this registry. A new type is a file here and a line in [`behaviour`].

mod agent;
mod call_process;
mod decision;
mod end;
mod engine_task;
mod exclusive;
mod human;
mod parallel;
mod start;
mod timer;

use legation_language::Value;
use legation_language::model::{Node, NodeKind};

use crate::instance::{Guard, Resume, Status};
use crate::moves::{Done, Moves, Trouble};
use crate::rejection::Stop;

pub(crate) use end::complete_instance;
pub(crate) use parallel::settle_joins;

/// What a waiting node is told.
#[derive(Clone, Debug)]
pub(crate) enum Signal {
    /// Its work is done: an external task, a human task.
    Done(Done),
    /// Its timer fired.
    Timer,
    /// Its child ended.
    Child(ChildEnd),
}

/// How a called child ended.
#[derive(Clone, Debug)]
pub(crate) struct ChildEnd {
    pub status: Status,
    pub outputs: Value,
    /// The code of its error end.
    pub error: Option<String>,
}

/// Data and behaviour of a node type together; the data is the frozen definition's.
pub(crate) trait NodeType {
    /// The token has arrived and is READY.
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble>;

    /// What the node waited for has come. By default the result is taken over and the token goes on.
    fn resume(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node, signal: Signal) -> Result<(), Trouble> {
        match signal {
            Signal::Done(done) => finish(m, token, node, done, None),
            Signal::Timer | Signal::Child(_) => m.leave(token, node),
        }
    }
}

/// The table of contents of the engine.
fn behaviour(kind: &NodeKind) -> &dyn NodeType {
    match kind {
        NodeKind::Start => &start::Start,
        NodeKind::End(end) => end,
        NodeKind::Agent(agent) => agent.as_ref(),
        NodeKind::EngineTask(task) => task,
        NodeKind::Decision(table) => table,
        NodeKind::Human(human) => human.as_ref(),
        NodeKind::CallProcess(call) => call.as_ref(),
        NodeKind::Exclusive(exclusive) => exclusive,
        NodeKind::Parallel(parallel) => parallel,
        NodeKind::Timer(moment) => moment,
    }
}

/// Takes the result over, then goes to `target`, or along `next`. When the result cannot be taken over, the
/// token is held with it: a retry never runs finished work again.
pub(crate) fn finish(
    m: &mut Moves<'_, '_>,
    token: u32,
    node: &Node,
    done: Done,
    target: Option<&str>,
) -> Result<(), Trouble> {
    match m.take_over(token, node, &done) {
        Ok(()) => {}
        Err(Trouble::Incident { code, message }) => {
            let result = m.content(done.result);
            let resume = Resume::Leave {
                result,
                outcome: done.outcome,
                source: done.source,
            };
            m.stick(token, code, message, resume);
            return Ok(());
        }
        Err(stop) => return Err(stop),
    }
    match target {
        Some(target) => {
            m.goto(token, target, None);
            Ok(())
        }
        None => m.leave(token, node),
    }
}

/// Tells a waiting node its news, then runs every READY token.
pub(crate) fn resume(m: &mut Moves<'_, '_>, token: u32, signal: Signal) -> Result<(), Stop> {
    let definition = m.definition.clone();
    let node = m.token(token).and_then(|token| definition.node(&token.node));
    if let Some(node) = node {
        let outcome = behaviour(&node.kind).resume(m, token, node, signal);
        stick_on_trouble(m, token, node, outcome)?;
    }
    advance(m)
}

/// Runs READY tokens, lowest first, until all wait or the budget of the command is used up.
pub(crate) fn advance(m: &mut Moves<'_, '_>) -> Result<(), Stop> {
    let definition = m.definition.clone();
    loop {
        if m.instance().is_over() || m.instance().is_ending() {
            return Ok(());
        }
        let Some((token, node_id)) = m.ready() else {
            settle_joins(m);
            if m.ready().is_some() {
                continue;
            }
            return complete_instance(m);
        };
        if m.work.left == 0 {
            m.go_on_later();
            return Ok(());
        }
        m.work.left -= 1;
        let Some(node) = definition.node(&node_id) else {
            let message = format!(
                "node {node_id} is not in version {} of the process",
                definition.version
            );
            m.stick(token, "NODE_UNKNOWN", message, Resume::Enter);
            continue;
        };
        let outcome = arm_timeout(m, token, node).and_then(|()| behaviour(&node.kind).enter(m, token, node));
        stick_on_trouble(m, token, node, outcome)?;
    }
}

fn arm_timeout(m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
    let Some(timeout) = &node.on_timeout else {
        return Ok(());
    };
    if m.token(token).is_some_and(|token| token.timeout.is_some()) {
        return Ok(());
    }
    let due_at = timer::due_at(m, token, node, &timeout.when)?;
    m.arm(node, due_at, Some(Guard::Timeout(token)));
    Ok(())
}

fn stick_on_trouble(
    m: &mut Moves<'_, '_>,
    token: u32,
    node: &Node,
    outcome: Result<(), Trouble>,
) -> Result<(), Stop> {
    match outcome {
        Ok(()) => Ok(()),
        Err(Trouble::Incident { code, message }) => {
            m.stick(token, code, message, Resume::Enter);
            Ok(())
        }
        Err(Trouble::Stop(stop)) => Err(m.with_reads(node, stop)),
    }
}
