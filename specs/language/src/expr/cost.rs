//! The worst case of an expression before it ever runs, so that a costly one is refused at deployment with its
//! place (B6) and not found out by a stopped engine.

use super::ExprError;
use super::ast::{Kind, Node, Relation};

/// The most steps an expression may need in the worst case: a filter inside a filter passes, a third level
/// over lists of unknown length does not.
pub const MAX_STATIC_COST: u64 = 50_000_000;

/// What a list of unknown length is taken to hold.
const UNKNOWN_LENGTH: u64 = 1_000;
/// A call or a search reads text or elements; they are cheap ones.
const CALL: u64 = 10;
const SEARCH: u64 = 100;

/// The cost, or `EXPRESSION_COSTLY` at the outermost macro that makes it so.
pub(super) fn check(root: &Node) -> Result<u64, ExprError> {
    let total = cost(root);
    if total <= MAX_STATIC_COST {
        return Ok(total);
    }
    let message = format!("expression may take {total} steps, more than {MAX_STATIC_COST}");
    let mut error = ExprError::new(message, costliest(root).offset);
    error.code = ExprError::COSTLY;
    Err(error.hint(format!(
        "every list of unknown length counts as {UNKNOWN_LENGTH} elements: nest fewer macros, or do it in a task"
    )))
}

fn cost(node: &Node) -> u64 {
    let below = |nodes: Vec<&Node>| nodes.into_iter().map(cost).fold(0, u64::saturating_add);
    match &node.kind {
        Kind::Macro {
            kind: _,
            over,
            item: _,
            condition,
            body,
        } => {
            let each = below(condition.as_deref().into_iter().chain([&**body]).collect());
            let all = length(over).saturating_mul(each.saturating_add(1));
            cost(over).saturating_add(all).saturating_add(1)
        }
        Kind::Call { .. } => below(node.kind.children()).saturating_add(CALL),
        Kind::Relation {
            relation: Relation::In,
            left: _,
            right,
        } => below(node.kind.children()).saturating_add(length(right).min(SEARCH)),
        _ => below(node.kind.children()).saturating_add(1),
    }
}

/// How many elements a node may have at most.
fn length(node: &Node) -> u64 {
    match &node.kind {
        Kind::List(items) => items.len() as u64,
        Kind::Map(entries) => entries.len() as u64,
        Kind::Macro { over, .. } => length(over),
        Kind::Arithmetic { first, rest } => rest.iter().fold(length(first), |sum, (_, operand)| {
            sum.saturating_add(length(operand))
        }),
        Kind::Conditional {
            condition: _,
            then,
            otherwise,
        } => length(then).max(length(otherwise)),
        _ => UNKNOWN_LENGTH,
    }
}

/// Goes down while a single child still carries more than the limit by itself.
fn costliest(root: &Node) -> &Node {
    let mut here = root;
    while !matches!(here.kind, Kind::Macro { .. }) {
        let Some(worst) = here.kind.children().into_iter().max_by_key(|child| cost(child)) else {
            break;
        };
        if cost(worst) <= MAX_STATIC_COST {
            break;
        }
        here = worst;
    }
    here
}
