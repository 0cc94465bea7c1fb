//! The walk over the tree. Its depth is bounded by the parser; its length by the budget.

use std::borrow::Cow;
use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::expr::{Kind, Node};

use super::term::{Term, about, called, path, wrong_kind};
use super::{Budget, EvalError, Scope, functions, has, macros, operators};

/// The names of the process, and over them those that macros bind.
#[derive(Clone, Copy)]
pub(super) struct Env<'a> {
    pub(super) scope: &'a dyn Scope,
    pub(super) local: Option<&'a Local<'a>>,
}

/// A name bound by a macro, inner ones first.
pub(super) struct Local<'a> {
    pub(super) name: &'a str,
    pub(super) value: &'a Value,
    pub(super) outer: Option<&'a Local<'a>>,
}

impl<'a> Env<'a> {
    pub(super) fn new(scope: &'a dyn Scope) -> Self {
        Self { scope, local: None }
    }

    pub(super) fn lookup(&self, name: &str) -> Option<Cow<'a, Value>> {
        let mut local = self.local;
        while let Some(bound) = local {
            if bound.name == name {
                return Some(Cow::Borrowed(bound.value));
            }
            local = bound.outer;
        }
        self.scope.lookup(name)
    }
}

pub(super) fn eval<'a>(node: &'a Node, env: Env<'a>, budget: &mut Budget) -> Result<Term<'a>, EvalError> {
    match &node.kind {
        Kind::Literal(value) => Ok(Term::borrow(value)),
        Kind::Name(name) => match env.lookup(name) {
            Some(value) => Ok(Term::Value(value)),
            None => Err(about(node, format!("unknown name `{name}`"))),
        },
        Kind::List(items) => {
            budget.charge(items.len() as u64, node)?;
            let mut out = Vec::with_capacity(items.len());
            for item in items {
                out.push(eval(item, env, budget)?.kept(item, budget)?);
            }
            Ok(Term::own(out))
        }
        Kind::Map(entries) => map(node, entries, env, budget),
        Kind::Select { from, field } => {
            let object = eval(from, env, budget)?;
            select(from, object, field)?
                .ok_or_else(|| about(node, format!("{} has no field `{field}`", called(from))))
        }
        Kind::Index { from, index } => {
            let container = eval(from, env, budget)?;
            let place = eval(index, env, budget)?;
            let missing = if path(node).is_some() {
                called(node)
            } else {
                format!("that element of {}", called(from))
            };
            element(from, container, index, &place)?
                .ok_or_else(|| about(node, format!("{missing} does not exist")))
        }
        Kind::Has(inner) => Ok(Term::own(has::probe(inner, env, budget)?.is_some())),
        Kind::Not(operand) => Ok(Term::own(!eval(operand, env, budget)?.truth(operand)?)),
        Kind::Negate(operand) => Ok(Term::own(-eval(operand, env, budget)?.number(operand)?)),
        Kind::And(operands) => decide(operands, false, env, budget),
        Kind::Or(operands) => decide(operands, true, env, budget),
        Kind::Arithmetic { first, rest } => {
            let mut total = eval(first, env, budget)?;
            for (operator, operand) in rest {
                let next = eval(operand, env, budget)?;
                total = operators::compute((node, first, operand), *operator, total, next, budget)?;
            }
            Ok(total)
        }
        Kind::Relation {
            relation,
            left,
            right,
        } => {
            let (one, other) = (eval(left, env, budget)?, eval(right, env, budget)?);
            operators::relate(*relation, (left, &one), (right, &other), budget).map(Term::own)
        }
        Kind::Conditional {
            condition,
            then,
            otherwise,
        } => {
            let branch = if eval(condition, env, budget)?.truth(condition)? {
                then
            } else {
                otherwise
            };
            eval(branch, env, budget)
        }
        Kind::Call {
            function,
            args,
            pattern,
        } => {
            budget.charge(1, node)?;
            let mut terms = Vec::with_capacity(args.len());
            for arg in args {
                terms.push(eval(arg, env, budget)?);
            }
            functions::call(
                *function,
                pattern.as_ref(),
                &functions::Args {
                    node,
                    nodes: args,
                    terms,
                },
                budget,
            )
        }
        Kind::Macro {
            kind,
            over,
            item,
            condition,
            body,
        } => {
            let parts = macros::Parts {
                node,
                kind: *kind,
                item,
                condition: condition.as_deref(),
                body,
            };
            let over_term = eval(over, env, budget)?;
            macros::run(&parts, over, over_term, env, budget)
        }
    }
}

/// `&&` and `||`: the deciding value wins over errors of the other operands, whatever their order; a budget
/// that is used up stays an error.
fn decide<'a>(
    operands: &'a [Node],
    deciding: bool,
    env: Env<'a>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    let mut first_error = None;
    for operand in operands {
        match eval(operand, env, budget).and_then(|term| term.truth(operand)) {
            Ok(truth) if truth == deciding => return Ok(Term::own(deciding)),
            Ok(_) => {}
            Err(error) if error.exhausted => return Err(error),
            Err(error) => first_error = first_error.or(Some(error)),
        }
    }
    first_error.map_or_else(|| Ok(Term::own(!deciding)), Err)
}

fn map<'a>(
    node: &'a Node,
    entries: &'a [(Node, Node)],
    env: Env<'a>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    budget.charge(entries.len() as u64, node)?;
    let mut out = BTreeMap::new();
    for (key_node, value_node) in entries {
        let key_term = eval(key_node, env, budget)?;
        let key = key_term.text(key_node)?;
        budget.charge_bytes(key.len(), key_node)?;
        let value = eval(value_node, env, budget)?.kept(value_node, budget)?;
        if out.insert(key.to_owned(), value).is_some() {
            return Err(EvalError::at(key_node, "the object has this key twice"));
        }
    }
    Ok(Term::own(out))
}

/// The field of an object, or nothing when it has none.
pub(super) fn select<'a>(from: &Node, object: Term<'a>, field: &str) -> Result<Option<Term<'a>>, EvalError> {
    match object {
        Term::Value(Cow::Borrowed(Value::Map(entries))) => Ok(entries.get(field).map(Term::borrow)),
        Term::Value(Cow::Owned(Value::Map(mut entries))) => Ok(entries.remove(field).map(Term::own)),
        other => Err(wrong_kind(from, &other, "an object")),
    }
}

/// The element of a list or the entry of an object, or nothing when it has none.
pub(super) fn element<'a>(
    from: &Node,
    container: Term<'a>,
    index: &Node,
    place: &Term<'_>,
) -> Result<Option<Term<'a>>, EvalError> {
    match container {
        Term::Value(Cow::Borrowed(Value::List(items))) => Ok(list_place(index, place)?
            .and_then(|place| items.get(place))
            .map(Term::borrow)),
        Term::Value(Cow::Owned(Value::List(mut items))) => match list_place(index, place)? {
            Some(place) if place < items.len() => Ok(Some(Term::own(items.swap_remove(place)))),
            _ => Ok(None),
        },
        Term::Value(ref value) if value.as_map().is_some() => {
            select(from, container.clone(), place.text(index)?)
        }
        other => Err(wrong_kind(from, &other, "a list or an object")),
    }
}

fn list_place(index: &Node, place: &Term<'_>) -> Result<Option<usize>, EvalError> {
    let number = place.number(index)?;
    if !number.is_integer() {
        return Err(about(index, "the index is no whole number"));
    }
    Ok(usize::try_from(number).ok())
}
