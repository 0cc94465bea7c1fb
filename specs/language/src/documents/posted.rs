//! What `deploy` leaves out of a tool server's file before it posts it.

use super::problem::Problems;
use super::yaml::{self, At};

/// A server document without `command` and `args`, every other line in its place. A text that is no readable
/// server document comes back as it is, for the engine to judge.
#[must_use]
pub fn without_command(text: &str) -> String {
    let mut problems = Problems::default();
    let Some(source) = yaml::read("", text, &mut problems) else {
        return text.to_owned();
    };
    let root = At::root(&source);
    let entries = root.entries();
    let is_local = |key: &str| matches!(key, "command" | "args");
    if !entries.iter().any(|(entry, _)| is_local(&entry.key)) {
        return text.to_owned();
    }
    // Several keys in one line are a map in braces: then the lines cannot be kept, but the meaning is.
    let mut lines: Vec<u32> = entries.iter().map(|(entry, _)| entry.place.line).collect();
    lines.dedup();
    if lines.len() < entries.len() {
        let mut value = root.value();
        if let Some(map) = value.as_map_mut() {
            map.retain(|key, _| !is_local(key));
        }
        return value.to_json();
    }
    let mut dropped = Vec::new();
    for (index, (entry, _)) in entries.iter().enumerate() {
        if is_local(&entry.key) {
            let end = entries
                .get(index + 1)
                .map_or(u32::MAX, |(next, _)| next.place.line);
            dropped.push(entry.place.line..end);
        }
    }
    let kept = (1_u32..).zip(text.lines()).map(|(number, line)| {
        if dropped.iter().any(|range| range.contains(&number)) {
            ""
        } else {
            line
        }
    });
    let mut out = kept.collect::<Vec<_>>().join("\n");
    out.push('\n');
    out
}
