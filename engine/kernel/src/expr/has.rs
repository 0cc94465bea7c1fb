//! `has(a.b.c)`: whether a path leads somewhere. What is absent or null on the way is a no, not an error.

use legation_language::expr::{Kind, Node};

use super::eval::{Env, element, eval, select};
use super::term::Term;
use super::{Budget, EvalError};

pub(super) fn probe<'a>(
    node: &'a Node,
    env: Env<'a>,
    budget: &mut Budget,
) -> Result<Option<Term<'a>>, EvalError> {
    let from = match &node.kind {
        Kind::Name(name) => return Ok(env.lookup(name).map(Term::Value)),
        Kind::Select { from, .. } | Kind::Index { from, .. } => from,
        _ => return eval(node, env, budget).map(Some),
    };
    let Some(container) = probe(from, env, budget)? else {
        return Ok(None);
    };
    if container.is_null() {
        return Ok(None);
    }
    match &node.kind {
        Kind::Select { from, field } => select(from, container, field),
        Kind::Index { from, index } => {
            let place = eval(index, env, budget)?;
            element(from, container, index, &place)
        }
        _ => Ok(None),
    }
}
