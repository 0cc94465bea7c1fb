//! `parallel`: a fork starts every branch; a join waits for all tokens that can still come. A branch that ended
//! elsewhere no longer counts.

use std::collections::BTreeSet;

use legation_language::model::{Definition, Node, NodeKind, Parallel};

use super::NodeType;
use crate::instance::{Event, Token, TokenState, Wait};
use crate::moves::{Moves, Trouble};

impl NodeType for Parallel {
    fn enter(&self, m: &mut Moves<'_, '_>, token: u32, node: &Node) -> Result<(), Trouble> {
        match self {
            Self::Fork(branches) => fork(m, token, node, branches),
            Self::JoinAll => m.emit(Event::TokenWaits {
                token,
                wait: Wait::Join,
            }),
        }
        Ok(())
    }
}

/// The arriving token takes the first branch; the others get tokens of their own.
fn fork(m: &mut Moves<'_, '_>, token: u32, node: &Node, branches: &[String]) {
    let Some(mut forks) = m.token(token).map(|token| token.forks.clone()) else {
        return;
    };
    let scope = m.token(token).map_or(0, |token| token.scope);
    forks.push(m.number());
    let (first, rest) = branches
        .split_first()
        .map_or((None, branches), |(first, rest)| (Some(first), rest));
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

/// Fires a join that everything has come to that can (core §1): at least one token has arrived and no other live
/// token of its scope can reach it. Called when no token is READY: only then is it certain that none is on its way.
/// The flow has no circles, so a join never fires twice and no two joins wait for each other.
pub(crate) fn settle_joins(m: &mut Moves<'_, '_>) {
    let definition = m.definition.clone();
    let waits = |token: &&Token| token.state == TokenState::Waiting(Wait::Join);
    let joins: BTreeSet<(u32, String)> = m
        .instance()
        .tokens
        .values()
        .filter(waits)
        .map(|token| (token.scope, token.node.clone()))
        .collect();
    for (scope, join) in joins {
        if fire(m, &definition, scope, &join) {
            // What it released may change what the others wait for.
            return;
        }
    }
}

fn fire(m: &mut Moves<'_, '_>, definition: &Definition, scope: u32, join: &str) -> bool {
    let in_scope = m
        .instance()
        .tokens
        .iter()
        .filter(|(_, token)| token.scope == scope);
    let here = |token: &Token| token.node == join && token.state == TokenState::Waiting(Wait::Join);
    let (arrived, others): (Vec<_>, Vec<_>) = in_scope.partition(|(_, token)| here(token));
    if can_reach(
        definition,
        others.iter().map(|(_, token)| token.node.as_str()),
        join,
    ) {
        return false;
    }
    // A fork is over when no other token came through it.
    let is_open = |fork: &u32| others.iter().any(|(_, token)| token.forks.contains(fork));
    let forks: Vec<u32> = arrived
        .first()
        .map(|(_, token)| token.forks.iter().copied().filter(is_open).collect())
        .unwrap_or_default();
    let arrived: Vec<u32> = arrived.into_iter().map(|(id, _)| *id).collect();
    let Some((survivor, absorbed)) = arrived.split_first() else {
        return false;
    };
    for token in absorbed {
        m.end_token(*token);
    }
    match definition.node(join).and_then(|node| node.next.as_deref()) {
        Some(next) => m.goto(*survivor, next, Some(forks)),
        None => m.end_token(*survivor),
    }
    true
}

/// Whether one of `from` leads to `join`, over every edge: boundaries and error routes too.
fn can_reach<'n>(definition: &Definition, from: impl Iterator<Item = &'n str>, join: &str) -> bool {
    let mut seen = BTreeSet::new();
    let mut open: Vec<String> = from.map(str::to_owned).collect();
    while let Some(id) = open.pop() {
        if id == join {
            return true;
        }
        if !seen.insert(id.clone()) {
            continue;
        }
        open.extend(definition.node(&id).map(targets).unwrap_or_default());
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
            targets.extend(
                agent
                    .on_low_confidence
                    .iter()
                    .chain(&agent.on_invalid_output)
                    .cloned(),
            );
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
