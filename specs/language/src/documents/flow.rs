//! The order of the nodes: where each leads, that nothing runs into what it should not, and that nothing turns in
//! circles (language.md, "Flow order").

use std::collections::{BTreeMap, BTreeSet};

use super::codes::Code;
use super::problem::Problems;
use super::process::Draft;
use super::words;
use super::yaml::At;

/// Resolves `next` of every node, and answers the entry. `all_read` is false when some nodes of the list are not
/// among the drafts, so that their neighbours are unknown.
pub(super) fn check<'a>(
    drafts: &mut [Draft<'a>],
    entry: Option<At<'a>>,
    all_read: bool,
    problems: &mut Problems,
) -> Option<String> {
    let ids = index(drafts, problems);
    let entry = find_entry(drafts, entry, &ids, problems)?;
    let named = check_routes(drafts, &ids, problems);
    let mut edges: Vec<Vec<(usize, At<'a>)>> = Vec::new();
    for position in 0..drafts.len() {
        let next = next_of(position, drafts, &ids, &named, all_read, problems);
        let draft = &drafts[position];
        let mut ways: Vec<(usize, At<'a>)> = Vec::new();
        for route in &draft.routes {
            let target = ids
                .get(route.to.as_str())
                .filter(|target| !is_start(&drafts[**target]));
            ways.extend(target.map(|target| (*target, route.at.clone())));
        }
        if let Some(target) = next {
            ways.push((target, draft.next.clone().unwrap_or_else(|| draft.at.clone())));
        }
        edges.push(ways);
        let next_id = next.map(|target| drafts[target].id.clone());
        if let Some(node) = &mut drafts[position].node {
            node.next = next_id;
        }
    }
    check_cycles(drafts, &edges, problems);
    if all_read && drafts.iter().all(|draft| draft.node.is_some()) {
        check_reachable(drafts, &edges, entry, problems);
    }
    Some(drafts[entry].id.clone())
}

fn index(drafts: &[Draft<'_>], problems: &mut Problems) -> BTreeMap<String, usize> {
    let mut ids: BTreeMap<String, usize> = BTreeMap::new();
    for (position, draft) in drafts.iter().enumerate() {
        if let Some(first) = ids.get(&draft.id) {
            let place = draft.at.get("id").unwrap_or_else(|| draft.at.clone());
            let line = drafts[*first].at.place().line;
            problems
                .error(
                    &place,
                    Code::DuplicateNode,
                    format!("there are two nodes `{}`", draft.id),
                )
                .hint(format!("the first one is in line {line}"));
            continue;
        }
        ids.insert(draft.id.clone(), position);
    }
    ids
}

/// `flow.entry`, else the start node, else the first node.
fn find_entry(
    drafts: &[Draft<'_>],
    entry: Option<At<'_>>,
    ids: &BTreeMap<String, usize>,
    problems: &mut Problems,
) -> Option<usize> {
    let starts: Vec<usize> = (0..drafts.len())
        .filter(|position| is_start(&drafts[*position]))
        .collect();
    for extra in starts.iter().skip(1) {
        let message = "a process has one start node without a trigger";
        problems.error(&drafts[*extra].at, Code::DuplicateNode, message);
    }
    if let Some(at) = entry
        && let Some(id) = at.text()
    {
        let found = ids.get(id).copied();
        if found.is_none() {
            unknown_target(&at, id, ids, problems);
        }
        return found;
    }
    starts
        .first()
        .copied()
        .or(if drafts.is_empty() { None } else { Some(0) })
}

fn is_start(draft: &Draft<'_>) -> bool {
    draft.node_type.is_some_and(|node_type| node_type.name == "start")
}

fn unknown_target(at: &At<'_>, id: &str, ids: &BTreeMap<String, usize>, problems: &mut Problems) {
    // Comparing with every id is worth it for the problems that will be shown, not for thousands.
    let known: Vec<&str> = if problems.is_full() {
        Vec::new()
    } else {
        ids.keys().map(String::as_str).collect()
    };
    problems
        .error(at, Code::UnknownTarget, format!("there is no node `{id}`"))
        .maybe(words::nearest(id, &known).map(|near| format!("did you mean `{near}`?")));
}

/// Checks the targets of rules, branches, boundaries and outcomes (B3), and answers which nodes they name.
fn check_routes(
    drafts: &[Draft<'_>],
    ids: &BTreeMap<String, usize>,
    problems: &mut Problems,
) -> BTreeSet<usize> {
    let mut named = BTreeSet::new();
    for route in drafts.iter().flat_map(|draft| &draft.routes) {
        match ids.get(route.to.as_str()) {
            None => unknown_target(&route.at, &route.to, ids, problems),
            Some(target) if is_start(&drafts[*target]) => to_start(&route.at, problems),
            Some(target) => {
                named.insert(*target);
            }
        }
    }
    named
}

fn to_start(at: &At<'_>, problems: &mut Problems) {
    problems.error(at, Code::UnknownTarget, "nothing leads to a start node");
}

/// Where the token goes after this node, when its own fields do not route.
fn next_of(
    position: usize,
    drafts: &[Draft<'_>],
    ids: &BTreeMap<String, usize>,
    named: &BTreeSet<usize>,
    all_read: bool,
    problems: &mut Problems,
) -> Option<usize> {
    let draft = &drafts[position];
    if draft.routes_itself {
        if let Some(next) = &draft.next {
            problems
                .error(
                    next,
                    Code::NextNotAllowed,
                    format!("`{}` ends or routes by its own fields", draft.id),
                )
                .hint("leave `next` out");
        }
        return None;
    }
    if let Some(next) = &draft.next {
        let id = next.text()?;
        let target = ids.get(id).copied();
        match target {
            None => unknown_target(next, id, ids, problems),
            Some(target) if is_start(&drafts[target]) => to_start(next, problems),
            Some(_) => {}
        }
        return target;
    }
    // Of an unknown node, or beside one, nobody knows what follows.
    draft.node.as_ref()?;
    if !all_read {
        return None;
    }
    let target = position + 1;
    let Some(following) = drafts.get(target) else {
        problems
            .error(
                &draft.at,
                Code::NextMissing,
                format!("`{}` is the last node and leads nowhere", draft.id),
            )
            .hint("add `next`, or an end after it:\n- id: done\n  type: end");
        return None;
    };
    if is_start(following) {
        to_start(&draft.at, problems);
        return None;
    }
    if named.contains(&target) {
        let message = format!(
            "`{}` would run into `{}`, which a rule, branch, boundary or outcome names",
            draft.id, following.id
        );
        problems
            .error(&draft.at, Code::FallThrough, message)
            .hint(format!(
                "say where it goes: `next: {}` if it is meant",
                following.id
            ));
    }
    Some(target)
}

/// B2: reports each circle once, at the way that closes it.
fn check_cycles<'a>(drafts: &[Draft<'a>], edges: &[Vec<(usize, At<'a>)>], problems: &mut Problems) {
    const NEW: u8 = 0;
    const OPEN: u8 = 1;
    const DONE: u8 = 2;
    let mut state = vec![NEW; drafts.len()];
    let mut reported: BTreeSet<usize> = BTreeSet::new();
    for start in 0..drafts.len() {
        if state[start] != NEW {
            continue;
        }
        // The path from `start`, each node with the number of ways already tried.
        let mut path = vec![(start, 0)];
        state[start] = OPEN;
        while let Some((node, tried)) = path.last_mut() {
            let Some((target, at)) = edges[*node].get(*tried) else {
                state[*node] = DONE;
                path.pop();
                continue;
            };
            *tried += 1;
            if state[*target] == NEW {
                state[*target] = OPEN;
                path.push((*target, 0));
            } else if state[*target] == OPEN {
                let from = path.iter().position(|(node, _)| node == target).unwrap_or(0);
                let circle: Vec<usize> = path[from..].iter().map(|(node, _)| *node).collect();
                if !circle.iter().any(|node| reported.contains(node)) {
                    report_cycle(drafts, &circle, at, problems);
                }
                reported.extend(circle);
            }
        }
    }
}

fn report_cycle(drafts: &[Draft<'_>], circle: &[usize], at: &At<'_>, problems: &mut Problems) {
    let mut names: Vec<&str> = circle
        .iter()
        .take(12)
        .map(|node| drafts[*node].id.as_str())
        .collect();
    if circle.len() > 12 {
        names.push("…");
    }
    names.push(&drafts[circle[0]].id);
    problems
        .error(
            at,
            Code::Cycle,
            format!("the flow turns in a circle: {}", names.join(" → ")),
        )
        .hint("returning to a node needs `loop`, which is reserved for a later release");
}

fn check_reachable<'a>(
    drafts: &[Draft<'a>],
    edges: &[Vec<(usize, At<'a>)>],
    entry: usize,
    problems: &mut Problems,
) {
    let mut reached = BTreeSet::from([entry]);
    let mut open = vec![entry];
    while let Some(node) = open.pop() {
        for (target, _) in &edges[node] {
            if reached.insert(*target) {
                open.push(*target);
            }
        }
    }
    for (position, draft) in drafts.iter().enumerate() {
        if !reached.contains(&position) {
            let message = format!("no path leads to `{}`", draft.id);
            problems.warning(&draft.at, Code::Unreachable, message);
        }
    }
}
