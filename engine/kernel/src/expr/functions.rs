//! The functions: one arm each, numbers and conversions here, texts in their own file.

use std::cmp::Ordering;

use legation_language::Value;
use legation_language::expr::{Function, Node};
use legation_language::value::parse_number;
use regex::Regex;
use rust_decimal::{Decimal, RoundingStrategy};

use super::term::{Term, about, called, weight, with_article, wrong_kind};
use super::{Budget, EvalError, number, operators, text, time};

/// The evaluated arguments of a call, with their places.
pub(super) struct Args<'a> {
    pub(super) node: &'a Node,
    pub(super) nodes: &'a [Node],
    pub(super) terms: Vec<Term<'a>>,
}

impl<'a> Args<'a> {
    pub(super) fn text(&self, place: usize) -> Result<&str, EvalError> {
        self.terms[place].text(&self.nodes[place])
    }

    pub(super) fn number(&self, place: usize) -> Result<Decimal, EvalError> {
        self.terms[place].number(&self.nodes[place])
    }

    pub(super) fn list(&self, place: usize) -> Result<&[Value], EvalError> {
        self.terms[place].list(&self.nodes[place])
    }

    /// A whole number that fits.
    pub(super) fn whole(&self, place: usize) -> Result<i64, EvalError> {
        let number = self.number(place)?;
        let whole = if number.is_integer() {
            i64::try_from(number).ok()
        } else {
            None
        };
        whole.ok_or_else(|| self.wrong(place, "is no whole number that fits"))
    }

    pub(super) fn wrong(&self, place: usize, what: &str) -> EvalError {
        let node = &self.nodes[place];
        about(node, format!("{} {what}", called(node)))
    }

    fn wrong_kind(&self, place: usize, wanted: &str) -> EvalError {
        wrong_kind(&self.nodes[place], &self.terms[place], wanted)
    }

    fn pair(&self, place: usize) -> (&'a Node, &Term<'a>) {
        (&self.nodes[place], &self.terms[place])
    }
}

pub(super) fn call<'a>(
    function: Function,
    pattern: Option<&Regex>,
    args: &Args<'a>,
    budget: &mut Budget,
) -> Result<Term<'a>, EvalError> {
    Ok(match function {
        Function::Size => Term::own(size(args, budget)?),
        Function::Contains if args.terms[0].json().and_then(Value::as_str).is_none() => {
            Term::own(operators::contained(args.pair(1), args.pair(0), budget)?)
        }
        Function::Contains => Term::own(text::pair(args, budget, |text, part| text.contains(part))?),
        Function::StartsWith => Term::own(text::pair(args, budget, |text, part| text.starts_with(part))?),
        Function::EndsWith => Term::own(text::pair(args, budget, |text, part| text.ends_with(part))?),
        Function::Matches => Term::own(text::matches(args, pattern, budget)?),
        Function::LowerAscii => Term::own(text::changed(args, budget, str::to_ascii_lowercase)?),
        Function::UpperAscii => Term::own(text::changed(args, budget, str::to_ascii_uppercase)?),
        Function::Trim => Term::own(text::changed(args, budget, |text| text.trim().to_owned())?),
        Function::Split => Term::own(text::split(args, budget)?),
        Function::Join => Term::own(text::join(args, budget)?),
        Function::Replace => Term::own(text::replace(args, budget)?),
        Function::Substring => Term::own(text::substring(args, budget)?),
        Function::Int => Term::own(int(args)?),
        Function::String => Term::own(string(args, budget)?),
        Function::Number => Term::own(to_number(args)?),
        Function::Bool => Term::own(boolean(args)?),
        Function::Type => Term::own(args.terms[0].kind()),
        Function::Min => extreme(args, Ordering::Less, budget)?,
        Function::Max => extreme(args, Ordering::Greater, budget)?,
        Function::Sum => Term::own(sum(args, budget)?),
        Function::Abs => Term::own(args.number(0)?.abs()),
        Function::Ceil => Term::own(args.number(0)?.ceil()),
        Function::Floor => Term::own(args.number(0)?.floor()),
        Function::Round => Term::own(round(args)?),
        Function::Timestamp => timestamp(args)?,
        Function::Duration => span(args)?,
    })
}

fn size(args: &Args<'_>, budget: &mut Budget) -> Result<usize, EvalError> {
    match args.terms[0].json() {
        Some(Value::String(text)) => {
            budget.charge_bytes(text.len(), args.node)?;
            Ok(text.chars().count())
        }
        Some(Value::List(items)) => Ok(items.len()),
        Some(Value::Map(entries)) => Ok(entries.len()),
        _ => Err(args.wrong_kind(0, "a string, a list or an object")),
    }
}

fn int(args: &Args<'_>) -> Result<Decimal, EvalError> {
    match &args.terms[0] {
        Term::Time(ms) => return Ok(Decimal::from(ms.div_euclid(1_000))),
        Term::Span(ms) => return Ok(Decimal::from(ms / 1_000)),
        Term::Value(_) => {}
    }
    let number = to_number(args)?;
    if args.terms[0].json().and_then(Value::as_str).is_some() && !number.is_integer() {
        return Err(args.wrong(0, "is no whole number"));
    }
    Ok(number.trunc())
}

fn to_number(args: &Args<'_>) -> Result<Decimal, EvalError> {
    match args.terms[0].json() {
        Some(Value::Number(number)) => Ok(*number),
        Some(Value::String(text)) => parse_number(text).map_err(|_| args.wrong(0, "is no text of a number")),
        _ => Err(args.wrong_kind(0, "a number or its text")),
    }
}

fn string(args: &Args<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    let text = match &args.terms[0] {
        Term::Value(value) => match value.as_ref() {
            Value::String(text) => text.clone(),
            Value::Null => return Err(args.wrong_kind(0, "a value with a text")),
            other => other.to_json(),
        },
        moment => match moment.clone().into_value() {
            Value::String(text) => text,
            other => other.to_json(),
        },
    };
    budget.charge_bytes(text.len(), args.node)?;
    Ok(text)
}

fn boolean(args: &Args<'_>) -> Result<bool, EvalError> {
    match args.terms[0].json() {
        Some(Value::Bool(truth)) => Ok(*truth),
        Some(Value::String(text)) if text == "true" => Ok(true),
        Some(Value::String(text)) if text == "false" => Ok(false),
        Some(Value::String(_)) => Err(args.wrong(0, "is neither `true` nor `false`")),
        _ => Err(args.wrong_kind(0, "a boolean or its text")),
    }
}

/// The least or greatest of the arguments, or of the one list that is given.
fn extreme<'a>(args: &Args<'a>, wanted: Ordering, budget: &mut Budget) -> Result<Term<'a>, EvalError> {
    let terms = match args.terms.as_slice() {
        [only] if only.json().and_then(Value::as_list).is_some() => {
            let items = only.list(&args.nodes[0])?;
            budget.charge(items.len() as u64, args.node)?;
            items.iter().map(Term::borrow).collect()
        }
        several => several.to_vec(),
    };
    let mut best: Option<&Term<'_>> = None;
    for term in &terms {
        let against = best.unwrap_or(term);
        let order = operators::order(term, against).ok_or_else(|| {
            let (one, other) = (with_article(term.kind()), with_article(against.kind()));
            EvalError::at(args.node, format!("cannot compare {one} with {other}"))
        })?;
        if best.is_none() || order == wanted {
            best = Some(term);
        }
    }
    let best = best.ok_or_else(|| args.wrong(0, "is an empty list"))?;
    if let Term::Value(value) = best {
        budget.charge_bytes(weight(value), args.node)?;
    }
    Ok(match best {
        Term::Value(value) => Term::own(value.as_ref().clone()),
        Term::Time(ms) => Term::Time(*ms),
        Term::Span(ms) => Term::Span(*ms),
    })
}

fn sum(args: &Args<'_>, budget: &mut Budget) -> Result<Decimal, EvalError> {
    let items = args.list(0)?;
    budget.charge(items.len() as u64, args.node)?;
    let mut total = Decimal::ZERO;
    for item in items {
        let number = item.as_decimal();
        let number = number.ok_or_else(|| {
            args.wrong(
                0,
                &format!("has {} in it, not only numbers", with_article(item.kind())),
            )
        })?;
        total = number::add(total, number)
            .ok_or_else(|| EvalError::at(args.node, "the number is outside 28 digits"))?;
    }
    Ok(total)
}

fn round(args: &Args<'_>) -> Result<Decimal, EvalError> {
    let number = args.number(0)?;
    let digits = if args.terms.len() > 1 { args.whole(1)? } else { 0 };
    let digits = u32::try_from(digits).ok().filter(|digits| *digits <= 28);
    let digits = digits.ok_or_else(|| args.wrong(1, "is not between 0 and 28"))?;
    Ok(number.round_dp_with_strategy(digits, RoundingStrategy::MidpointNearestEven))
}

fn timestamp<'a>(args: &Args<'_>) -> Result<Term<'a>, EvalError> {
    if let Term::Time(ms) = &args.terms[0] {
        return Ok(Term::Time(*ms));
    }
    let ms = time::parse(args.text(0)?);
    ms.map(Term::Time)
        .ok_or_else(|| args.wrong(0, "is no RFC 3339 time, such as 2026-12-01T08:00:00Z"))
}

fn span<'a>(args: &Args<'_>) -> Result<Term<'a>, EvalError> {
    if let Term::Span(ms) = &args.terms[0] {
        return Ok(Term::Span(*ms));
    }
    time::parse_span(args.text(0)?)
        .map(Term::Span)
        .map_err(|what| args.wrong(0, what))
}
