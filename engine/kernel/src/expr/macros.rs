//! The forms that evaluate their body once an element: `all exists exists_one filter map`. Over an object they
//! visit its keys.

use std::borrow::Cow;

use legation_language::Value;
use legation_language::expr::{Macro, Node};

use super::eval::{Env, Local, eval};
use super::term::{Term, weight, wrong_kind};
use super::{Budget, EvalError};

pub(super) struct Parts<'a> {
    pub(super) node: &'a Node,
    pub(super) kind: Macro,
    pub(super) item: &'a str,
    pub(super) condition: Option<&'a Node>,
    pub(super) body: &'a Node,
}

pub(super) fn run<'a>(
    parts: &Parts<'a>,
    over: &Node,
    over_term: Term<'a>,
    env: Env<'a>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    let elements = elements(over, over_term, budget)?;
    match parts.kind {
        Macro::All => quantify(parts, &elements, false, env, budget),
        Macro::Exists => quantify(parts, &elements, true, env, budget),
        Macro::ExistsOne => {
            let mut hits = 0_usize;
            for element in elements.iter() {
                hits += usize::from(holds(parts, parts.body, element, env, budget)?);
            }
            Ok(Term::own(hits == 1))
        }
        Macro::Filter => {
            let mut out = Vec::new();
            for element in elements.iter() {
                if holds(parts, parts.body, element, env, budget)? {
                    budget.charge_bytes(weight(element), parts.node)?;
                    out.push(element.clone());
                }
            }
            Ok(Term::own(out))
        }
        Macro::Map => map(parts, &elements, env, budget),
    }
}

fn elements<'a>(over: &Node, term: Term<'a>, budget: &mut Budget) -> Result<Cow<'a, [Value]>, EvalError> {
    match term {
        Term::Value(Cow::Borrowed(Value::List(items))) => Ok(Cow::Borrowed(items.as_slice())),
        Term::Value(Cow::Owned(Value::List(items))) => Ok(Cow::Owned(items)),
        other => {
            let entries = other.json().and_then(Value::as_map);
            let entries = entries.ok_or_else(|| wrong_kind(over, &other, "a list or an object"))?;
            budget.charge_bytes(entries.keys().map(|key| 16 + key.len()).sum(), over)?;
            Ok(Cow::Owned(
                entries.keys().map(|key| Value::from(key.as_str())).collect(),
            ))
        }
    }
}

/// The deciding answer of one element wins over errors of others, as with `&&` and `||`.
fn quantify<'a>(
    parts: &Parts<'_>,
    elements: &[Value],
    deciding: bool,
    env: Env<'_>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    let mut first_error = None;
    for element in elements {
        match holds(parts, parts.body, element, env, budget) {
            Ok(truth) if truth == deciding => return Ok(Term::own(deciding)),
            Ok(_) => {}
            Err(error) if error.exhausted => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or_else(|| Ok(Term::own(!deciding)), Err)
}

fn map<'a>(
    parts: &Parts<'_>,
    elements: &[Value],
    env: Env<'_>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    let mut out = Vec::new();
    for element in elements {
        if let Some(condition) = parts.condition
            && !holds(parts, condition, element, env, budget)?
        {
            continue;
        }
        charge(parts.body, budget)?;
        let local = Local {
            name: parts.item,
            value: element,
            outer: env.local,
        };
        let inner = Env {
            scope: env.scope,
            local: Some(&local),
        };
        out.push(eval(parts.body, inner, budget)?.kept(parts.body, budget)?);
    }
    Ok(Term::own(out))
}

fn holds(
    parts: &Parts<'_>,
    body: &Node,
    element: &Value,
    env: Env<'_>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    charge(body, budget)?;
    let local = Local {
        name: parts.item,
        value: element,
        outer: env.local,
    };
    let inner = Env {
        scope: env.scope,
        local: Some(&local),
    };
    eval(body, inner, budget)?.truth(body)
}

/// A visit costs a step, a long body more.
fn charge(body: &Node, budget: &mut Budget) -> Result<(), EvalError> {
    budget.charge(1 + body.size / 8, body)
}
