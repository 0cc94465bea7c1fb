//! `approval` and `approvers`: the same words on tools, delegates and server tools.

use super::activity;
use super::codes::Code;
use super::problem::Problems;
use super::shape::{Field, Object, Shape, not_yet, optional};
use super::yaml::At;
use crate::model::Approval;

pub(super) const FIELDS: &[Field] = &[
    optional(
        "approval",
        Shape::Either(&[Shape::Word(&["none", "required"]), Shape::Object(&APPROVAL)]),
        "whether a person must agree before it runs",
    ),
    optional(
        "approvers",
        Shape::List(&Shape::Text),
        "groups of which one member must agree",
    ),
];

const APPROVAL: Object = Object {
    name: "`approval`",
    fields: &[&[
        optional(
            "approvers",
            Shape::List(&Shape::Text),
            "groups of which one member must agree",
        ),
        optional(
            "candidates",
            Shape::Object(&CANDIDATES),
            "groups and users who may agree",
        ),
        not_yet("when"),
        not_yet("quorum"),
        not_yet("exclude"),
        not_yet("expires"),
        not_yet("allow_edits"),
    ]],
};

pub(super) const CANDIDATES: Object = Object {
    name: "`candidates`",
    fields: &[&[
        optional("groups", Shape::List(&Shape::Text), "names of groups"),
        optional("users", Shape::List(&Shape::Text), "names of people"),
    ]],
};

/// What a document says about approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Asked {
    /// It says nothing.
    Nothing,
    /// `approval: none`
    None,
    /// `approval: required`, or the map form; the approvers may stand elsewhere (the server's document).
    Required(Approval),
}

pub(super) fn read(at: &At<'_>, problems: &mut Problems) -> Asked {
    let approvers_at = at.get("approvers");
    let mut approval = Approval {
        groups: names(at, "approvers", problems),
        users: Vec::new(),
    };
    let Some(asked) = at.get("approval") else {
        if let Some(approvers) = approvers_at {
            problems
                .error(
                    &approvers,
                    Code::InvalidValue,
                    "approvers are named, but no approval is required",
                )
                .hint("approval: required");
        }
        return Asked::Nothing;
    };
    if asked.text() == Some("none") {
        if let Some(approvers) = approvers_at {
            problems.error(
                &approvers,
                Code::InvalidValue,
                "approvers are named, but `approval` is none",
            );
        }
        return Asked::None;
    }
    approval.groups.extend(names(&asked, "approvers", problems));
    if let Some(candidates) = asked.get("candidates") {
        let (groups, users) = read_candidates(&candidates, problems);
        approval.groups.extend(groups);
        approval.users.extend(users);
    }
    dedupe(&mut approval.groups);
    dedupe(&mut approval.users);
    Asked::Required(approval)
}

pub(super) fn read_candidates(at: &At<'_>, problems: &mut Problems) -> (Vec<String>, Vec<String>) {
    (names(at, "groups", problems), names(at, "users", problems))
}

/// The longest name of a person or group, as for the keys that the engine makes.
const MAX_NAME: usize = 100;

/// Names of groups or people. What no person or group can be called would wait for ever: a template above all.
fn names(at: &At<'_>, key: &str, problems: &mut Problems) -> Vec<String> {
    let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '*' | '/' | ':');
    for item in at.get(key).map(|at| at.items()).unwrap_or_default() {
        let Some(name) = item.text() else { continue };
        if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
            let start: String = name.chars().take(40).collect();
            let message = format!("nobody can be called `{start}`");
            problems
                .error(&item, Code::InvalidValue, message)
                .hint("a name has 1 to 100 letters, digits and . _ - @ / : and is no expression");
        }
    }
    activity::texts(at, key)
}

/// Reports an approval that nobody can give.
pub(super) fn check_approvers(approval: &Approval, at: &At<'_>, problems: &mut Problems) {
    if approval.groups.is_empty() && approval.users.is_empty() {
        let place = at.get("approval").unwrap_or_else(|| at.clone());
        problems
            .error(
                &place,
                Code::ApproversMissing,
                "an approval is required, but nobody may give it",
            )
            .hint("approvers: [finance]");
    }
}

/// Keeps the first of each.
fn dedupe(names: &mut Vec<String>) {
    let mut seen = std::collections::BTreeSet::new();
    names.retain(|name| seen.insert(name.clone()));
}
