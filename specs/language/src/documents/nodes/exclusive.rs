//! `exclusive`: the first true rule wins.

use super::{COMMON, NodeType, Reading, no_pins};
use crate::documents::activity;
use crate::documents::codes::Code;
use crate::documents::shape::{Field, Object, Shape, optional, required};
use crate::documents::yaml::At;
use crate::model::{Branch, Exclusive, NodeKind};

pub(super) const TYPE: NodeType = NodeType {
    name: "exclusive",
    object: Object {
        name: "an `exclusive` node",
        fields: &[COMMON, FIELDS],
    },
    read,
    pin: no_pins,
};

const FIELDS: &[Field] = &[required(
    "rules",
    Shape::List(&Shape::Object(&RULE)),
    "{ if: …, then: id } in order; the last may be { else: id }",
)];

const RULE: Object = Object {
    name: "a rule of an exclusive node",
    fields: &[&[
        optional("if", Shape::Expression, "must give true or false"),
        optional("then", Shape::NodeId, "where the token goes when it is true"),
        optional("else", Shape::NodeId, "where the token goes when no rule is true"),
    ]],
};

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    reading.routes_itself = true;
    let rules_at = at.get("rules")?;
    let mut rules = Vec::new();
    let mut otherwise = None;
    for rule in rules_at.items() {
        match (rule.get("if"), rule.get("then"), rule.get("else")) {
            (None, None, Some(target)) => {
                if otherwise.is_some() {
                    reading
                        .problems
                        .error(&rule, Code::InvalidValue, "an exclusive node has one `else`");
                }
                otherwise = reading.route(Some(target));
            }
            (Some(condition), Some(target), None) => {
                let when = activity::expression(&condition);
                if let (Some(when), Some(then)) = (when, reading.route(Some(target))) {
                    rules.push(Branch { when, then });
                }
            }
            _ if rule.is_map() => {
                reading
                    .problems
                    .error(
                        &rule,
                        Code::MissingField,
                        "a rule needs `if` and `then`, or `else` alone",
                    )
                    .hint("{ if: amount > 500, then: review }");
            }
            _ => {}
        }
    }
    if rules_at.items().is_empty() {
        reading.problems.error(
            &rules_at,
            Code::InvalidValue,
            "an exclusive node needs at least one rule",
        );
    }
    Some(NodeKind::Exclusive(Exclusive { rules, otherwise }))
}
