//! Computing and comparing. Kinds never mix silently: only a text beside a timestamp or duration is read as one.

use std::cmp::Ordering;

use legation_language::Value;
use legation_language::expr::{Arithmetic, Node, Relation};
use rust_decimal::Decimal;

use super::term::{Term, about, called, described, weight, wrong_kind};
use super::{Budget, EvalError, number, time};

/// Applies one operator; the nodes are the whole expression, the left and the right operand.
pub(super) fn compute<'a>(
    (whole, left, right): (&Node, &Node, &Node),
    operator: Arithmetic,
    one: Term<'a>,
    other: Term<'a>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    if let (Some(Value::Number(a)), Some(Value::Number(b))) = (one.json(), other.json()) {
        return numbers((whole, right), operator, *a, *b).map(Term::own);
    }
    let mismatch = || {
        let verb = match operator {
            Arithmetic::Add => "add",
            Arithmetic::Subtract => "subtract",
            Arithmetic::Multiply => "multiply",
            Arithmetic::Divide | Arithmetic::Remainder => "divide",
        };
        about(
            left,
            format!(
                "cannot {verb} {} and {}",
                described(left, &one),
                described(right, &other)
            ),
        )
    };
    match (operator, one.json(), other.json()) {
        (Arithmetic::Add, Some(Value::String(a)), Some(Value::String(b))) => {
            budget.charge_bytes(a.len() + b.len(), whole)?;
            return Ok(Term::own(format!("{a}{b}")));
        }
        (Arithmetic::Add, Some(Value::List(a)), Some(Value::List(b))) => {
            budget.charge_bytes(a.iter().chain(b).map(weight).sum(), whole)?;
            return Ok(Term::own([a.as_slice(), b.as_slice()].concat()));
        }
        _ => {}
    }
    let sum = match (operator, moment(&one, &other), moment(&other, &one)) {
        (Arithmetic::Add, Some(Term::Time(a)), Some(Term::Span(b)))
        | (Arithmetic::Add, Some(Term::Span(a)), Some(Term::Time(b))) => {
            time::in_range(a.checked_add(b)).map(Term::Time)
        }
        (Arithmetic::Add, Some(Term::Span(a)), Some(Term::Span(b))) => a.checked_add(b).map(Term::Span),
        (Arithmetic::Subtract, Some(Term::Time(a)), Some(Term::Span(b))) => {
            time::in_range(a.checked_sub(b)).map(Term::Time)
        }
        (Arithmetic::Subtract, Some(Term::Time(a)), Some(Term::Time(b)))
        | (Arithmetic::Subtract, Some(Term::Span(a)), Some(Term::Span(b))) => {
            a.checked_sub(b).map(Term::Span)
        }
        _ => return Err(mismatch()),
    };
    sum.ok_or_else(|| EvalError::at(whole, "the time is out of range"))
}

fn numbers(
    (whole, right): (&Node, &Node),
    operator: Arithmetic,
    a: Decimal,
    b: Decimal,
) -> Result<Decimal, EvalError> {
    let divides = matches!(operator, Arithmetic::Divide | Arithmetic::Remainder);
    if divides && b.is_zero() {
        return Err(about(right, format!("division by zero: {} is 0", called(right))));
    }
    let result = match operator {
        Arithmetic::Add => number::add(a, b),
        Arithmetic::Subtract => number::add(a, -b),
        Arithmetic::Multiply => number::multiply(a, b),
        Arithmetic::Divide => number::divide(a, b),
        Arithmetic::Remainder => a.checked_rem(b),
    };
    result.ok_or_else(|| EvalError::at(whole, "the number is outside 28 digits"))
}

/// A timestamp or duration; a text beside one is read as what fits it.
fn moment<'a>(term: &Term<'_>, beside: &Term<'_>) -> Option<Term<'a>> {
    match (term, beside) {
        (Term::Time(ms), _) => Some(Term::Time(*ms)),
        (Term::Span(ms), _) => Some(Term::Span(*ms)),
        (Term::Value(value), Term::Time(_) | Term::Span(_)) => {
            let text = value.as_str()?;
            time::parse(text)
                .map(Term::Time)
                .or_else(|| time::parse_span(text).ok().map(Term::Span))
        }
        (Term::Value(_), Term::Value(_)) => None,
    }
}

pub(super) fn relate(
    relation: Relation,
    (left, one): (&Node, &Term<'_>),
    (right, other): (&Node, &Term<'_>),
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    let pair = ((left, one), (right, other));
    match relation {
        Relation::Equal => equal(pair.0, pair.1, budget),
        Relation::NotEqual => equal(pair.0, pair.1, budget).map(|same| !same),
        Relation::Less => compare(pair.0, pair.1, budget).map(Ordering::is_lt),
        Relation::LessOrEqual => compare(pair.0, pair.1, budget).map(Ordering::is_le),
        Relation::Greater => compare(pair.0, pair.1, budget).map(Ordering::is_gt),
        Relation::GreaterOrEqual => compare(pair.0, pair.1, budget).map(Ordering::is_ge),
        Relation::In => contained((left, one), (right, other), budget),
    }
}

fn equal(
    (left, one): (&Node, &Term<'_>),
    (right, other): (&Node, &Term<'_>),
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    if let (Some(a), Some(b)) = (one.json(), other.json()) {
        if a.is_null() || b.is_null() {
            return Ok(a.is_null() && b.is_null());
        }
        if a.kind() == b.kind() {
            budget.charge_bytes(weight(a).min(weight(b)), left)?;
            return Ok(a == b);
        }
    }
    if one.is_null() || other.is_null() {
        return Ok(false);
    }
    match (moment(one, other), moment(other, one)) {
        (Some(Term::Time(a)), Some(Term::Time(b))) | (Some(Term::Span(a)), Some(Term::Span(b))) => Ok(a == b),
        _ => Err(incomparable((left, one), (right, other))),
    }
}

fn compare(
    (left, one): (&Node, &Term<'_>),
    (right, other): (&Node, &Term<'_>),
    budget: &mut Budget,
) -> Result<Ordering, EvalError> {
    match (one.json(), other.json()) {
        (Some(Value::String(a)), Some(Value::String(b))) => {
            budget.charge_bytes(a.len().min(b.len()), left)?;
            Ok(a.cmp(b))
        }
        _ => order(one, other).ok_or_else(|| incomparable((left, one), (right, other))),
    }
}

/// The order of two terms of a kind that has one.
pub(super) fn order(one: &Term<'_>, other: &Term<'_>) -> Option<Ordering> {
    match (one.json(), other.json()) {
        (Some(Value::Number(a)), Some(Value::Number(b))) => return Some(a.cmp(b)),
        (Some(Value::String(a)), Some(Value::String(b))) => return Some(a.cmp(b)),
        _ => {}
    }
    match (moment(one, other)?, moment(other, one)?) {
        (Term::Time(a), Term::Time(b)) | (Term::Span(a), Term::Span(b)) => Some(a.cmp(&b)),
        _ => None,
    }
}

fn incomparable((left, one): (&Node, &Term<'_>), (right, other): (&Node, &Term<'_>)) -> EvalError {
    about(
        left,
        format!(
            "cannot compare {} with {}",
            described(left, one),
            described(right, other)
        ),
    )
}

/// Whether a list has an equal element or an object the key; elements of other kinds are just not equal.
pub(super) fn contained(
    (left, one): (&Node, &Term<'_>),
    (right, other): (&Node, &Term<'_>),
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    match other.json() {
        Some(Value::List(items)) => {
            budget.charge(items.len() as u64 / 16, right)?;
            let wanted = one.clone().kept(left, budget)?;
            for item in items {
                if matches!(item, Value::List(_) | Value::Map(_) | Value::String(_)) {
                    budget.charge_bytes(weight(item).min(weight(&wanted)), right)?;
                }
                if *item == wanted {
                    return Ok(true);
                }
            }
            Ok(false)
        }
        Some(Value::Map(entries)) => Ok(entries.contains_key(one.text(left)?)),
        _ => Err(wrong_kind(right, other, "a list or an object")),
    }
}
