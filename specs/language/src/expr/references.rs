//! Which variables an expression reads: deployment fetches only those, and checks that they exist.

use super::ast::{Kind, Node};
use crate::Value;

/// The paths, each once, in the order of the text.
pub(super) fn of(root: &Node) -> Vec<Vec<String>> {
    let mut found = Vec::new();
    visit(root, &mut Vec::new(), &mut found);
    found
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

fn visit<'a>(node: &'a Node, bound: &mut Vec<&'a str>, found: &mut Vec<Vec<String>>) {
    if let Some(path) = path(node) {
        if !bound.contains(&path[0].as_str()) && !found.contains(&path) {
            found.push(path);
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
            visit(child, bound, found);
        }
        return;
    };
    visit(over, bound, found);
    bound.push(item);
    if let Some(condition) = condition {
        visit(condition, bound, found);
    }
    visit(body, bound, found);
    bound.pop();
}
