//! `parallel`: a fork starts every branch; a join waits for all branches of its fork that can still come. A
//! branch that ended elsewhere no longer counts.

use std::collections::BTreeSet;

use legation_language::model::{Definition, Node, NodeKind, Parallel};

use super::NodeType;
use crate::instance::{Event, TokenState, Wait};
use crate::moves::{Moves, Trouble};

impl NodeType for Parallel {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        match self {
            Self::Fork(branches) => fork(m, token, node, branches),
            Self::JoinAll => m.emit(Event::TokenWaits { token, wait: Wait::Join }),
        }
        Ok(())
    }
}

/// The arriving token takes the first branch; the others get tokens of their own.
fn fork(m: &mut Moves<'_, '_>, token: u32, node: &Node, branches: &[String]) {
    let Some(mut forks) = m.token(token).map(|token| token.forks.clone()) else { return };
    let scope = m.token(token).map_or(0, |token| token.scope);
    forks.push(m.number());
    let (first, rest) = branches.split_first().map_or((None, branches), |(first, rest)| (Some(first), rest));
    for branch in rest {
        let (number, activity) = (m.number(), m.number());
        m.emit(Event::TokenCreated {
            token: number,
            scope,
            node: branch.clone(),
            activity,
            forks: forks.clone(),
            from: Some(node.id.clone()),
        });
    }
    if let Some(first) = first {
        m.goto(token, first, Some(forks));
    }
}

/// Fires every join whose branches have all come. Called when no token is READY: only then is it certain that
/// none is on its way.
pub(crate) fn settle_joins(m: &mut Moves<'_, '_>) {
    let definition = m.definition.clone();
    let mut waiting: Vec<(u32, String, Vec<u32>)> = m
        .instance()
        .tokens
        .iter()
        .filter(|(_, token)| token.state == TokenState::Waiting(Wait::Join))
        .map(|(id, token)| (*id, token.node.clone(), token.forks.clone()))
        .collect();
    // Innermost first: an outer join may wait for what an inner one releases.
    waiting.sort_by_key(|(id, _, forks)| (std::cmp::Reverse(forks.len()), *id));
    let mut done: BTreeSet<(String, Option<u32>)> = BTreeSet::new();
    for (_, node, forks) in &waiting {
        let fork = forks.last().copied();
        if !done.insert((node.clone(), fork)) {
            continue;
        }
        if fire(m, &definition, node, fork) {
            // What it released may change what the others wait for.
            return;
        }
    }
}

fn fire(m: &mut Moves<'_, '_>, definition: &Definition, join: &str, fork: Option<u32>) -> bool {
    let mut arrived = Vec::new();
    for (id, token) in &m.instance().tokens {
        let here = token.node == join && token.state == TokenState::Waiting(Wait::Join);
        if here && (fork.is_none() || fork.is_some_and(|fork| token.forks.contains(&fork))) {
            arrived.push((*id, token.forks.clone()));
            continue;
        }
        let of_this_fork = fork.is_some_and(|fork| token.forks.contains(&fork));
        let of_an_outer_fork = arrived_shares(m, fork, &token.forks);
        if (of_this_fork && can_reach(definition, &token.node, join, true))
            || (of_an_outer_fork && !of_this_fork && can_reach(definition, &token.node, join, false))
        {
            return false;
        }
    }
    let Some((survivor, forks)) = arrived.first().cloned() else { return false };
    let outer: Vec<u32> = match fork.and_then(|fork| forks.iter().position(|f| *f == fork)) {
        Some(place) => forks[..place].to_vec(),
        None => Vec::new(),
    };
    for (token, _) in &arrived[1..] {
        m.end_token(*token);
    }
    let next = definition.node(join).and_then(|node| node.next.clone());
    match next {
        Some(next) => m.goto(survivor, &next, Some(outer)),
        None => m.end_token(survivor),
    }
    true
}

/// Whether a token that did not come through `fork` itself shares one of the forks around it.
fn arrived_shares(m: &Moves<'_, '_>, fork: Option<u32>, forks: &[u32]) -> bool {
    let around: BTreeSet<u32> = m
        .instance()
        .tokens
        .values()
        .filter(|token| fork.is_some_and(|fork| token.forks.contains(&fork)))
        .flat_map(|token| token.forks.iter().copied())
        .collect();
    forks.iter().any(|fork| around.contains(fork))
}

/// Whether `from` leads to `join`. Tokens of the join's own fork may take any path; tokens of an outer fork only
/// count when they come directly, not through another fork or join, which would be another pass.
fn can_reach(definition: &Definition, from: &str, join: &str, through_parallels: bool) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![from.to_owned()];
    while let Some(id) = open.pop() {
        if id == join {
            return true;
        }
        if !seen.insert(id.clone()) {
            continue;
        }
        let Some(node) = definition.node(&id) else { continue };
        if !through_parallels && matches!(node.kind, NodeKind::Parallel(_)) {
            continue;
        }
        open.extend(targets(node));
    }
    false
}

/// Every node that this one may send a token to.
pub(crate) fn targets(node: &Node) -> Vec<String> {
    let mut targets: Vec<String> = node.next.iter().cloned().collect();
    targets.extend(node.on_error.iter().map(|catch| catch.then.clone()));
    targets.extend(node.on_timeout.iter().map(|timeout| timeout.then.clone()));
    match &node.kind {
        NodeKind::Exclusive(exclusive) => {
            targets.extend(exclusive.rules.iter().map(|rule| rule.then.clone()));
            targets.extend(exclusive.otherwise.iter().cloned());
        }
        NodeKind::Parallel(Parallel::Fork(branches)) => targets.extend(branches.iter().cloned()),
        NodeKind::Agent(agent) => {
            targets.extend(agent.outcomes.iter().map(|outcome| outcome.then.clone()));
            targets.extend(agent.on_low_confidence.iter().chain(&agent.on_invalid_output).cloned());
        }
        NodeKind::Human(human) => targets.extend(human.outcomes.iter().map(|outcome| outcome.then.clone())),
        NodeKind::Start
        | NodeKind::End(_)
        | NodeKind::EngineTask(_)
        | NodeKind::Decision(_)
        | NodeKind::CallProcess(_)
        | NodeKind::Parallel(Parallel::JoinAll)
        | NodeKind::Timer(_) => {}
    }
    targets
}
