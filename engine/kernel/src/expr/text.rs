//! The functions over texts. Places count characters, not bytes; what is produced is paid for before it is made.

use legation_language::Value;
use regex::{Regex, RegexBuilder};

use super::functions::Args;
use super::term::with_article;
use super::{Budget, EvalError};

/// Memory one pattern that is computed may take, in bytes, and the steps that compiling it costs.
const PATTERN_SIZE: usize = 64 * 1024;
const PATTERN_STEPS: u64 = 2_000;

pub(super) fn pair(
    args: &Args<'_>,
    budget: &mut Budget,
    test: impl FnOnce(&str, &str) -> bool,
) -> Result<bool, EvalError> {
    let (text, part) = (args.text(0)?, args.text(1)?);
    budget.charge_bytes(text.len(), args.node)?;
    Ok(test(text, part))
}

pub(super) fn changed(
    args: &Args<'_>,
    budget: &mut Budget,
    change: impl FnOnce(&str) -> String,
) -> Result<String, EvalError> {
    let text = args.text(0)?;
    budget.charge_bytes(text.len(), args.node)?;
    Ok(change(text))
}

/// Whether the pattern occurs in the text; linear in the text's length.
pub(super) fn matches(
    args: &Args<'_>,
    pattern: Option<&Regex>,
    budget: &mut Budget,
) -> Result<bool, EvalError> {
    let text = args.text(0)?;
    budget.charge(text.len() as u64 / 16, args.node)?;
    if let Some(pattern) = pattern {
        return Ok(pattern.is_match(text));
    }
    let source = args.text(1)?;
    budget.charge(PATTERN_STEPS, args.node)?;
    let built = RegexBuilder::new(source).size_limit(PATTERN_SIZE).build();
    let pattern = built.map_err(|_| args.wrong(1, "is no regular expression, or too large a one"))?;
    Ok(pattern.is_match(text))
}

/// The parts between separators; an empty separator gives the characters.
pub(super) fn split(args: &Args<'_>, budget: &mut Budget) -> Result<Value, EvalError> {
    let (text, separator) = (args.text(0)?, args.text(1)?);
    let limit = limit(args, 2)?;
    let pieces = if separator.is_empty() {
        text.chars().count()
    } else {
        text.matches(separator).count() + 1
    };
    budget.charge(pieces.min(limit) as u64, args.node)?;
    budget.charge_bytes(text.len(), args.node)?;
    if limit == 0 {
        return Ok(Value::List(Vec::new()));
    }
    if !separator.is_empty() {
        return Ok(Value::list(text.splitn(limit, separator)));
    }
    let mut parts = Vec::new();
    let mut rest = text;
    while let Some(letter) = rest.chars().next() {
        if parts.len() + 1 == limit {
            parts.push(rest);
            break;
        }
        let (head, tail) = rest.split_at(letter.len_utf8());
        parts.push(head);
        rest = tail;
    }
    Ok(Value::list(parts))
}

pub(super) fn join(args: &Args<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    let items = args.list(0)?;
    let separator = if args.terms.len() > 1 { args.text(1)? } else { "" };
    budget.charge(items.len() as u64, args.node)?;
    let mut parts = Vec::with_capacity(items.len());
    for item in items {
        let text = item.as_str();
        let found = || {
            args.wrong(
                0,
                &format!("has {} in it, not only strings", with_article(item.kind())),
            )
        };
        parts.push(text.ok_or_else(found)?);
    }
    let length =
        parts.iter().map(|part| part.len()).sum::<usize>() + separator.len().saturating_mul(parts.len());
    budget.charge_bytes(length, args.node)?;
    Ok(parts.join(separator))
}

pub(super) fn replace(args: &Args<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    let (text, old, new) = (args.text(0)?, args.text(1)?, args.text(2)?);
    let limit = limit(args, 3)?;
    budget.charge_bytes(text.len(), args.node)?;
    let places = text.matches(old).count().min(limit);
    budget.charge_bytes(
        text.len().saturating_add(new.len().saturating_mul(places)),
        args.node,
    )?;
    Ok(text.replacen(old, new, places))
}

/// From a character on, up to but without another.
pub(super) fn substring(args: &Args<'_>, budget: &mut Budget) -> Result<String, EvalError> {
    let text = args.text(0)?;
    budget.charge_bytes(text.len(), args.node)?;
    let length = text.chars().count();
    let start = usize::try_from(args.whole(1)?).ok();
    let end = if args.terms.len() > 2 {
        usize::try_from(args.whole(2)?).ok()
    } else {
        Some(length)
    };
    match (start, end) {
        (Some(start), Some(end)) if start <= end && end <= length => {
            Ok(text.chars().skip(start).take(end - start).collect())
        }
        _ => Err(args.wrong(0, "is shorter than the places asked for")),
    }
}

/// How many at most; absent or negative means all.
fn limit(args: &Args<'_>, place: usize) -> Result<usize, EvalError> {
    if args.terms.len() <= place {
        return Ok(usize::MAX);
    }
    Ok(usize::try_from(args.whole(place)?).unwrap_or(usize::MAX))
}
