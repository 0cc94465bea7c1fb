//! `human`: work for people, with a form and buttons.

use super::{COMMON, NodeType, Reading, no_pins};
use crate::documents::activity::{self, ACTIVITY};
use crate::documents::approval;
use crate::documents::codes::Code;
use crate::documents::names;
use crate::documents::shape::{Field, Object, Shape, not_yet, optional, required};
use crate::documents::yaml::At;
use crate::model::{CommentRule, Human, HumanOutcome, NodeKind};

pub(super) const TYPE: NodeType = NodeType {
    name: "human",
    object: Object {
        name: "a `human` node",
        fields: &[COMMON, ACTIVITY, FIELDS],
    },
    read,
    pin: no_pins,
};

const FIELDS: &[Field] = &[
    required(
        "candidates",
        Shape::Object(&approval::CANDIDATES),
        "who may claim and decide",
    ),
    optional(
        "form",
        Shape::Either(&[Shape::JsonSchema, Shape::Text]),
        "a JSON Schema of what people fill in",
    ),
    optional(
        "outcomes",
        Shape::Map(&Shape::Object(&OUTCOME)),
        "2 to 6 buttons: name: {then, comment, label}",
    ),
    optional(
        "priority",
        activity::PRIORITY,
        "higher is shown first; 0 unless given",
    ),
    optional(
        "due",
        Shape::Either(&[Shape::Text, Shape::Object(&activity::MOMENT)]),
        "when it should be done",
    ),
    not_yet("assignee"),
    not_yet("evidence"),
    not_yet("quorum"),
    not_yet("exclude"),
];

const OUTCOME: Object = Object {
    name: "an outcome",
    fields: &[&[
        required("then", Shape::NodeId, "where the token goes"),
        optional(
            "comment",
            Shape::Word(&["none", "optional", "required"]),
            "optional unless given",
        ),
        optional("label", Shape::Text, "what the button says"),
    ]],
};

fn read<'a>(at: &At<'a>, reading: &mut Reading<'a, '_>) -> Option<NodeKind> {
    let (groups, users) = match at.get("candidates") {
        Some(candidates) => {
            let (groups, users) = approval::read_candidates(&candidates, reading.problems);
            if groups.is_empty() && users.is_empty() && candidates.is_map() {
                reading
                    .problems
                    .error(&candidates, Code::InvalidValue, "nobody is a candidate")
                    .hint("candidates:\n  groups: [finance]");
            }
            (groups, users)
        }
        None => (Vec::new(), Vec::new()),
    };
    let form = at.get("form");
    if let Some(form) = form.as_ref().filter(|form| form.text().is_some()) {
        let message = "forms by key are reserved for a later release";
        reading
            .problems
            .error(form, Code::NotYet, message)
            .hint("write the form's JSON Schema here");
    }
    // Unmapped, the fields become variables; nobody could send a form whose field can be none.
    if at.get("outputs").is_none()
        && let Some(fields) = form.as_ref().and_then(|form| form.get("properties"))
    {
        for (entry, field) in fields.entries() {
            names::check_pattern(&entry.key, &field.key(entry), reading.problems);
        }
    }
    let outcomes_at = at.get("outcomes");
    let outcomes: Vec<HumanOutcome> = match &outcomes_at {
        Some(outcomes) => outcomes
            .entries()
            .into_iter()
            .filter_map(|(entry, outcome)| {
                activity::check_outcome_name(&entry.key, &outcome.key(entry), reading.problems);
                Some(HumanOutcome {
                    name: entry.key.clone(),
                    then: reading.route(outcome.get("then"))?,
                    comment: match outcome.get("comment").as_ref().and_then(At::text) {
                        Some("none") => CommentRule::None,
                        Some("required") => CommentRule::Required,
                        _ => CommentRule::Optional,
                    },
                    label: activity::text(&outcome, "label"),
                })
            })
            .collect(),
        None => Vec::new(),
    };
    if let Some(at) = &outcomes_at {
        reading.routes_itself = true;
        if !(2..=6).contains(&at.entries().len()) && at.is_map() {
            reading
                .problems
                .error(at, Code::InvalidValue, "a human node has 2 to 6 outcomes");
        }
    }
    Some(NodeKind::Human(Box::new(Human {
        groups,
        users,
        form: form.map(|form| form.value()),
        outcomes,
        priority: activity::priority(at, reading.problems),
        due: at
            .get("due")
            .and_then(|due| activity::moment(&due, reading.problems)),
    })))
}
