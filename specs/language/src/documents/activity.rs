//! The fields that all activities share, and the small readers that node types use. Values of a wrong kind were
//! reported by the shape check before; the readers here take what is usable and pass over the rest.

use std::collections::BTreeSet;

use rust_decimal::Decimal;

use super::codes::Code;
use super::names;
use super::nodes::Reading;
use super::problem::Problems;
use super::shape::{Field, Object, Shape, not_yet, optional, required};
use super::yaml::{At, Kind};
use crate::duration;
use crate::expr::Expr;
use crate::model::{Catch, Mapping, Moment, Retry, Source, Timeout};
use crate::types;

/// The fields of every activity.
pub(super) const ACTIVITY: &[Field] = &[
    optional(
        "inputs",
        Shape::Either(&[Shape::List(&Shape::Name), Shape::Map(&MAPPED)]),
        "name: expression, or a list of names; absent: all variables but sensitive ones",
    ),
    optional(
        "outputs",
        Shape::Either(&[Shape::List(&Shape::Name), Shape::Map(&MAPPED)]),
        "name: expression over `result`, or a list of names; absent: the whole result is merged",
    ),
    optional(
        "on_error",
        Shape::Either(&[Shape::NodeId, Shape::List(&Shape::Object(&CATCH))]),
        "where errors lead: a node id, or [{code, then}]",
    ),
    optional(
        "on_timeout",
        Shape::Object(&TIMEOUT),
        "interrupts, from entering the node, all waits included",
    ),
    optional(
        "retry",
        Shape::Object(&RETRY),
        "3 attempts, 5s doubling to 5m, jitter 0.2 unless given",
    ),
    not_yet("on_message"),
    not_yet("on_signal"),
    not_yet("on_timer"),
    not_yet("on_escalation"),
    not_yet("sla"),
    not_yet("loop"),
    not_yet("for_each"),
    not_yet("concurrency"),
    not_yet("rate"),
    not_yet("compensation"),
];

/// The right-hand side of a mapping: text is an expression, anything else a literal.
const MAPPED: Shape = Shape::Either(&[Shape::Expression, Shape::Literal]);

const CATCH: Object = Object {
    name: "an entry of `on_error`",
    fields: &[&[
        optional("code", Shape::Text, "the code to catch; absent: every code"),
        required("then", Shape::NodeId, "where the token goes"),
    ]],
};

const TIMEOUT: Object = Object {
    name: "`on_timeout`",
    fields: &[
        MOMENT_FIELDS,
        &[required("then", Shape::NodeId, "where the token goes")],
    ],
};

const RETRY: Object = Object {
    name: "`retry`",
    fields: &[&[
        optional(
            "max_attempts",
            Shape::Integer(1, 100),
            "how often it is tried in all",
        ),
        optional("backoff", Shape::Duration, "before the second attempt"),
        optional(
            "multiplier",
            Shape::Number(1, 10),
            "each back-off is this many times the one before",
        ),
        optional("max_backoff", Shape::Duration, "no back-off is longer"),
        optional(
            "jitter",
            Shape::Number(0, 1),
            "the part of a back-off that is left to chance",
        ),
    ]],
};

/// `after` or `at`.
pub(super) const MOMENT_FIELDS: &[Field] = &[
    optional(
        "after",
        Shape::Text,
        "a duration such as 15m, or `${…}` giving one",
    ),
    optional("at", Shape::Text, "a date-time, or an expression giving one"),
    not_yet("cron"),
];

pub(super) const MOMENT: Object = Object {
    name: "a moment",
    fields: &[MOMENT_FIELDS],
};

/// A number; an expression later.
pub(super) const PRIORITY: Shape = Shape::Either(&[Shape::Integer(-1_000_000, 1_000_000), Shape::Expression]);

/// What the shared fields say.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) inputs: Option<Vec<Mapping>>,
    pub(super) outputs: Option<Vec<Mapping>>,
    pub(super) on_error: Vec<Catch>,
    pub(super) on_timeout: Option<Timeout>,
    pub(super) retry: Retry,
}

/// Reads the shared fields of a node.
pub(super) fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Shared {
    Shared {
        inputs: at.get("inputs").map(|at| mappings(&at, reading.problems)),
        outputs: at.get("outputs").map(|at| mappings(&at, reading.problems)),
        on_error: catches(at, reading),
        on_timeout: timeout(at, reading),
        retry: retry(at, reading),
    }
}

/// `{name: expression}` or `[name]`.
fn mappings(at: &At<'_>, problems: &mut Problems) -> Vec<Mapping> {
    let mut out: Vec<Mapping> = Vec::new();
    let mut seen = BTreeSet::new();
    for item in at.items() {
        let Some(name) = item.text() else { continue };
        if !seen.insert(name) {
            problems.error(&item, Code::DuplicateName, format!("`{name}` stands twice"));
            continue;
        }
        // A bad name was reported by the shape check.
        if let Ok(expression) = Expr::compile(name) {
            out.push(Mapping {
                name: name.to_owned(),
                from: Source::Expression(expression),
            });
        }
    }
    for (entry, value) in at.entries() {
        names::check_pattern(&entry.key, &value.key(entry), problems);
        let from = match &value.tree.kind {
            Kind::Text(text) => match Expr::compile(text) {
                Ok(expression) => Source::Expression(expression),
                Err(_) => continue,
            },
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => {
                Source::Literal(value.value())
            }
        };
        out.push(Mapping {
            name: entry.key.clone(),
            from,
        });
    }
    out
}

/// Where the `index`-th mapping stands: the key of a map, the element of a list.
pub(super) fn mapping_place<'a>(at: &At<'a>, index: usize) -> At<'a> {
    if let Some((entry, value)) = at.entries().into_iter().nth(index) {
        return value.key(entry);
    }
    at.items().into_iter().nth(index).unwrap_or_else(|| at.clone())
}

/// A list that a person can still read.
const MAX_CATCHES: usize = 50;

fn catches<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Vec<Catch> {
    let Some(at) = at.get("on_error") else {
        return Vec::new();
    };
    if at.text().is_some() {
        return reading
            .route(Some(at))
            .map(|then| Catch { code: None, then })
            .into_iter()
            .collect();
    }
    if at.items().len() > MAX_CATCHES {
        let message = format!("`on_error` has at most {MAX_CATCHES} entries");
        reading.problems.error(&at, Code::InvalidValue, message);
        return Vec::new();
    }
    let mut out: Vec<Catch> = Vec::new();
    for item in at.items() {
        let code = item
            .get("code")
            .and_then(|code| error_code(&code, reading.problems));
        let Some(then) = reading.route(item.get("then")) else {
            continue;
        };
        let hidden = out.iter().any(|catch| catch.code.is_none() || catch.code == code);
        if hidden {
            reading
                .problems
                .error(
                    &item,
                    Code::DuplicateName,
                    "an entry before this one catches the same errors",
                )
                .hint("put the entry without `code` last");
        }
        out.push(Catch { code, then });
    }
    out
}

fn timeout<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<Timeout> {
    let at = at.get("on_timeout")?;
    let then = reading.route(at.get("then"));
    let when = moment(&at, reading.problems);
    Some(Timeout {
        when: when?,
        then: then?,
    })
}

fn retry<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Retry {
    let normal = Retry::default();
    // D42's old names, accepted with a warning on agents.
    let old_attempts = at
        .get("max_attempts")
        .map(|_| integer(at, "max_attempts", normal.max_attempts));
    let old_backoff = at
        .get("retry_backoff_ms")
        .map(|_| integer(at, "retry_backoff_ms", normal.backoff_ms));
    let Some(retry) = at.get("retry") else {
        let backoff_ms = old_backoff.unwrap_or(normal.backoff_ms);
        return Retry {
            max_attempts: old_attempts.unwrap_or(normal.max_attempts),
            backoff_ms,
            max_backoff_ms: normal.max_backoff_ms.max(backoff_ms),
            ..normal
        };
    };
    let backoff_ms = duration(&retry, "backoff").unwrap_or(normal.backoff_ms);
    let max_backoff_ms = duration(&retry, "max_backoff").unwrap_or(normal.max_backoff_ms.max(backoff_ms));
    if max_backoff_ms < backoff_ms {
        reading.problems.error(
            &retry,
            Code::InvalidValue,
            "`max_backoff` is shorter than `backoff`",
        );
    }
    Retry {
        max_attempts: integer(&retry, "max_attempts", normal.max_attempts),
        backoff_ms,
        multiplier_percent: percent(&retry, "multiplier", normal.multiplier_percent),
        max_backoff_ms,
        jitter_percent: percent(&retry, "jitter", normal.jitter_percent),
    }
}

/// `after` or `at` of a map, or a text that is one of both.
pub(super) fn moment(at: &At<'_>, problems: &mut Problems) -> Option<Moment> {
    if at.text().is_some() {
        let is_date = at
            .text()
            .is_some_and(|text| types::is_date_time(text) || text.trim_start().starts_with("${"));
        return if is_date {
            at_moment(at, problems)
        } else {
            after_moment(at, problems)
        };
    }
    match (at.get("after"), at.get("at")) {
        (Some(after), None) => after_moment(&after, problems),
        (None, Some(at)) => at_moment(&at, problems),
        (Some(_), Some(_)) => {
            problems.error(at, Code::InvalidValue, "write either `after` or `at`");
            None
        }
        (None, None) => {
            if at.is_map() && at.get("cron").is_none() {
                problems
                    .error(at, Code::MissingField, "`after` or `at` is needed")
                    .hint("after: 15m");
            }
            None
        }
    }
}

fn after_moment(at: &At<'_>, problems: &mut Problems) -> Option<Moment> {
    let text = at.text()?;
    if text.trim_start().starts_with("${") {
        return compile(at, text, problems).map(Moment::AfterExpression);
    }
    match duration::parse_ms(text) {
        Ok(ms) => Some(Moment::After(ms)),
        Err(message) => {
            problems
                .error(at, Code::InvalidValue, format!("`{text}` {message}"))
                .hint("a variable that holds a duration is written `${name}`");
            None
        }
    }
}

fn at_moment(at: &At<'_>, problems: &mut Problems) -> Option<Moment> {
    let text = at.text()?;
    if types::is_date_time(text) {
        return Expr::compile(&format!("'{text}'")).ok().map(Moment::At);
    }
    compile(at, text, problems).map(Moment::At)
}

fn compile(at: &At<'_>, text: &str, problems: &mut Problems) -> Option<Expr> {
    match Expr::compile(text) {
        Ok(expression) => Some(expression),
        Err(error) => {
            super::shape::report(at, error, problems);
            None
        }
    }
}

/// An expression that the shape check has already judged; `true` and `5` are expressions too.
pub(super) fn expression(at: &At<'_>) -> Option<Expr> {
    match &at.tree.kind {
        Kind::Text(text) => Expr::compile(text).ok(),
        Kind::Bool(_) | Kind::Number(_) => Expr::compile(&at.value().to_json()).ok(),
        Kind::Null | Kind::List(_) | Kind::Map(_) => None,
    }
}

/// `[A-Za-z][A-Za-z0-9_.-]*`, at most 64: error codes are the author's words and travel in answers.
pub(super) fn error_code(at: &At<'_>, problems: &mut Problems) -> Option<String> {
    let code = at.text()?;
    if is_word(code) {
        return Some(code.to_owned());
    }
    problems
        .error(at, Code::InvalidValue, format!("`{code}` is no error code"))
        .hint("letters, digits, `_`, `.` and `-`, at most 64, such as CARD_DECLINED");
    None
}

/// Outcomes are chosen by name in answers, so they follow the rule of error codes.
pub(super) fn check_outcome_name(name: &str, at: &At<'_>, problems: &mut Problems) {
    if !is_word(name) {
        problems
            .error(
                at,
                Code::InvalidValue,
                format!("`{name}` is no name of an outcome"),
            )
            .hint("letters, digits, `_`, `.` and `-`, at most 64, such as approve");
    }
}

fn is_word(text: &str) -> bool {
    let good = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'.' | b'-');
    text.len() <= 64 && text.bytes().all(good) && text.starts_with(|c: char| c.is_ascii_alphabetic())
}

pub(super) fn text(at: &At<'_>, key: &str) -> Option<String> {
    at.get(key)?.text().map(str::to_owned)
}

/// The texts of a list.
pub(super) fn texts(at: &At<'_>, key: &str) -> Vec<String> {
    let items = at.get(key).map(|at| at.items()).unwrap_or_default();
    items.iter().filter_map(At::text).map(str::to_owned).collect()
}

/// Milliseconds.
pub(super) fn duration(at: &At<'_>, key: &str) -> Option<i64> {
    duration::parse_ms(at.get(key)?.text()?).ok()
}

/// A whole number that the shape check has bounded.
pub(super) fn integer<T: TryFrom<i64>>(at: &At<'_>, key: &str, absent: T) -> T {
    let number = at.get(key).and_then(|at| at.value().as_i64());
    number
        .and_then(|number| T::try_from(number).ok())
        .unwrap_or(absent)
}

/// `priority`, 0 unless given.
pub(super) fn priority(at: &At<'_>, problems: &mut Problems) -> i32 {
    if let Some(priority) = at.get("priority").filter(|at| at.number().is_none()) {
        let message = "a `priority` by expression is reserved for a later release";
        problems
            .error(&priority, Code::NotYet, message)
            .hint("priority: 10");
    }
    integer(at, "priority", 0)
}

fn percent(at: &At<'_>, key: &str, absent: u32) -> u32 {
    let number = at.get(key).and_then(|at| at.number());
    let percent = number.and_then(|number| number.checked_mul(Decimal::ONE_HUNDRED));
    percent
        .and_then(|percent| u32::try_from(percent.round()).ok())
        .unwrap_or(absent)
}
