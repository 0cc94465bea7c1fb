//! Which variables an expression reads: deployment fetches only those, and checks that they exist.

use super::ast::{Kind, Node};
use crate::Value;

/// The paths, each once, in the order of the text.
pub(super) fn of(root: &Node) -> Vec<Vec<String>> {
    let mut found: Vec<Vec<String>> = Vec::new();
    visit(root, &mut Vec::new(), &mut |path, _| {
        if !found.contains(&path) {
            found.push(path);
        }
    });
    found
}

/// Every place that reads a path, with the offset of its first letter.
pub(super) fn places(root: &Node) -> Vec<(Vec<String>, usize)> {
    let mut places = Vec::new();
    visit(root, &mut Vec::new(), &mut |path, offset| {
        places.push((path, offset))
    });
    places
}

/// The path that this node is, if it is nothing else.
pub(super) fn path(node: &Node) -> Option<Vec<String>> {
    match &node.kind {
        Kind::Name(name) => Some(vec![name.clone()]),
        Kind::Select { from, field } => {
            let mut parts = path(from)?;
            parts.push(field.clone());
            Some(parts)
        }
        Kind::Index { from, index } => {
            let Kind::Literal(Value::String(field)) = &index.kind else {
                return None;
            };
            let mut parts = path(from)?;
            parts.push(field.clone());
            Some(parts)
        }
        _ => None,
    }
}

/// Tells every path that is read, with the place of its first letter.
fn visit<'a>(node: &'a Node, bound: &mut Vec<&'a str>, tell: &mut dyn FnMut(Vec<String>, usize)) {
    if let Some(path) = path(node) {
        if !bound.contains(&path[0].as_str()) {
            tell(path, beginning(node));
        }
        return;
    }
    let Kind::Macro {
        kind: _,
        over,
        item,
        condition,
        body,
    } = &node.kind
    else {
        for child in node.kind.children() {
            visit(child, bound, tell);
        }
        return;
    };
    visit(over, bound, tell);
    bound.push(item);
    if let Some(condition) = condition {
        visit(condition, bound, tell);
    }
    visit(body, bound, tell);
    bound.pop();
}

/// Where the name stands that a path begins with.
fn beginning(node: &Node) -> usize {
    match &node.kind {
        Kind::Select { from, .. } | Kind::Index { from, .. } => beginning(from),
        Kind::Name(_)
        | Kind::Literal(_)
        | Kind::List(_)
        | Kind::Map(_)
        | Kind::Has(_)
        | Kind::Not(_)
        | Kind::Negate(_)
        | Kind::And(_)
        | Kind::Or(_)
        | Kind::Arithmetic { .. }
        | Kind::Relation { .. }
        | Kind::Conditional { .. }
        | Kind::Call { .. }
        | Kind::Macro { .. } => node.offset,
    }
}
