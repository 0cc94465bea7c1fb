//! `decision`: rules in a table, evaluated in the transaction.

use super::{COMMON, NodeType, Reading, no_pins};
use crate::documents::activity::{self, ACTIVITY};
use crate::documents::codes::Code;
use crate::documents::names;
use crate::documents::shape::{Field, Object, Shape, not_yet, optional, required};
use crate::documents::yaml::At;
use crate::model::{Column, DecisionRule, DecisionTable, HitPolicy, NodeKind, Source};
use crate::template::Template;

pub(super) const TYPE: NodeType = NodeType {
    name: "decision",
    object: Object {
        name: "a `decision` node",
        fields: &[COMMON, ACTIVITY, FIELDS],
    },
    read,
    pin: no_pins,
};

const FIELDS: &[Field] = &[
    required(
        "rules",
        Shape::List(&Shape::Object(&RULE)),
        "the table; the last may be `otherwise`",
    ),
    optional(
        "hit_policy",
        Shape::Word(&["FIRST", "UNIQUE", "ANY", "PRIORITY", "COLLECT"]),
        "which matching rules count; FIRST unless given",
    ),
    optional(
        "aggregate",
        Shape::Word(&["sum", "min", "max", "count"]),
        "what COLLECT makes of its lists",
    ),
    not_yet("decision"),
];

const RULE: Object = Object {
    name: "a rule of a decision",
    fields: &[&[
        optional("when", Shape::Expression, "the rule matches when this is true"),
        optional("then", Shape::Map(&Shape::Literal), "column: value, or `${…}`"),
        optional(
            "otherwise",
            Shape::Map(&Shape::Literal),
            "the columns when no rule matches",
        ),
        optional(
            "priority",
            Shape::Integer(-1_000_000, 1_000_000),
            "for the hit policy PRIORITY; highest wins",
        ),
    ]],
};

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    let rules_at = at.get("rules")?;
    let mut rules = Vec::new();
    let mut otherwise: Option<Vec<Column>> = None;
    for rule in rules_at.items() {
        if let Some(columns) = rule.get("otherwise") {
            if rule.get("when").is_some() || rule.get("then").is_some() {
                let message = "a rule is either `when` and `then`, or `otherwise`";
                reading.problems.error(&rule, Code::InvalidValue, message);
            }
            if otherwise.is_some() {
                reading
                    .problems
                    .error(&rule, Code::InvalidValue, "a decision has one `otherwise`");
            }
            otherwise = Some(read_columns(&columns, reading));
            continue;
        }
        let when = rule.get("when").and_then(|when| activity::expression(&when));
        match (rule.get("when"), rule.get("then")) {
            (Some(_), Some(columns)) => {
                let then = read_columns(&columns, reading);
                let priority = activity::integer(&rule, "priority", 0);
                if let Some(when) = when {
                    rules.push(DecisionRule { when, then, priority });
                }
            }
            _ if rule.is_map() => {
                reading
                    .problems
                    .error(
                        &rule,
                        Code::MissingField,
                        "a rule needs `when` and `then`, or `otherwise`",
                    )
                    .hint("{ when: amount <= 100, then: { method: instant } }");
            }
            _ => {}
        }
    }
    if rules_at.items().is_empty() {
        reading.problems.error(
            &rules_at,
            Code::InvalidValue,
            "a decision needs at least one rule",
        );
    }
    let hit_policy = read_hit_policy(at, reading);
    Some(NodeKind::Decision(DecisionTable {
        hit_policy,
        rules,
        otherwise,
    }))
}

fn read_columns<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Vec<Column> {
    let mut columns = Vec::new();
    for (entry, value) in at.entries() {
        names::check_pattern(&entry.key, &value.key(entry), reading.problems);
        if let Some(from) = read_column(&value, reading) {
            columns.push(Column {
                name: entry.key.clone(),
                value: from,
            });
        }
    }
    columns
}

/// A literal, or one whole `${…}`.
fn read_column<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<Source> {
    let Some(text) = at.text().filter(|text| text.contains("${")) else {
        return Some(Source::Literal(at.value()));
    };
    match Template::parse(text) {
        Ok(template) => match template.single() {
            Some(expression) => Some(Source::Expression(expression.clone())),
            None if template.expressions().next().is_none() => {
                let plain: String = template
                    .parts()
                    .iter()
                    .map(|part| match part {
                        crate::template::Part::Text(text) => text.as_str(),
                        crate::template::Part::Expr { .. } => "",
                    })
                    .collect();
                Some(Source::Literal(plain.into()))
            }
            None => {
                reading
                    .problems
                    .error(at, Code::InvalidValue, "a column is a value or one whole `${…}`")
                    .hint("join texts inside it: \"${'REF-' + orderId}\"");
                None
            }
        },
        Err(error) => {
            crate::documents::shape::report(at, error, reading.problems);
            None
        }
    }
}

fn read_hit_policy<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> HitPolicy {
    let policy = at.get("hit_policy");
    let aggregate = at.get("aggregate");
    let policy_text = policy.as_ref().and_then(At::text).unwrap_or("FIRST");
    if let Some(aggregate) = &aggregate
        && policy_text != "COLLECT"
    {
        reading
            .problems
            .error(
                aggregate,
                Code::InvalidValue,
                "`aggregate` belongs to the hit policy COLLECT",
            )
            .hint("hit_policy: COLLECT");
    }
    match (policy_text, aggregate.as_ref().and_then(At::text)) {
        ("UNIQUE", _) => HitPolicy::Unique,
        ("ANY", _) => HitPolicy::Any,
        ("PRIORITY", _) => HitPolicy::Priority,
        ("COLLECT", Some("sum")) => HitPolicy::CollectSum,
        ("COLLECT", Some("min")) => HitPolicy::CollectMin,
        ("COLLECT", Some("max")) => HitPolicy::CollectMax,
        ("COLLECT", Some("count")) => HitPolicy::CollectCount,
        ("COLLECT", _) => HitPolicy::Collect,
        _ => HitPolicy::First,
    }
}
