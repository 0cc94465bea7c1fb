//! The documents of a set in view of each other: which name each other in a circle, and in which order they freeze.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::codes::Code;
use super::delegates;
use super::nodes::pinned_call;
use super::pins::Known;
use super::problem::Problems;
use super::process::Process;
use super::yaml::At;
use crate::model::NodeKind;

/// One process names another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Link {
    Delegate,
    /// `call-process` with a version fixed at deployment.
    PinnedCall,
    /// `call-process` with `recursive`, or with the latest version at run time.
    LooseCall,
}

type Links = BTreeMap<String, Vec<(String, Link)>>;

/// Reports circles (D6), at every entry that closes one.
pub(super) fn check_cycles(processes: &[Process<'_>], known: &dyn Known, problems: &mut Problems) {
    let links = all_links(processes, known);
    for process in processes {
        if !is_on_circle(&process.key, &links) {
            continue;
        }
        for (target, link, at) in named(process) {
            if problems.is_full() {
                return;
            }
            if target == process.key && link != Link::Delegate {
                // Calling oneself is judged at the node.
                continue;
            }
            if let Some(path) = way_back(&target, &process.key, link, &links) {
                let first = std::iter::once(process.key.as_str());
                let names: Vec<&str> = first.chain(path.iter().map(String::as_str)).collect();
                let message = format!("the delegation leads back: {}", names.join(" → "));
                problems
                    .error(&at, Code::DelegationCycle, message)
                    .hint("move the shared part into a process of its own");
            } else if link == Link::PinnedCall && pinned_way_back(&target, &process.key, &links) {
                let message = format!(
                    "`{}` and `{target}` call each other, so neither version can be pinned",
                    process.key
                );
                problems
                    .error(&at, Code::CallCycle, message)
                    .hint("version: latest");
            }
        }
    }
}

/// What a document names: keys, how, and where.
fn named<'a>(process: &Process<'a>) -> Vec<(String, Link, At<'a>)> {
    let mut out = Vec::new();
    for draft in &process.drafts {
        let Some(node_type) = draft.node_type else {
            continue;
        };
        for entry in draft.at.get("delegates").iter().flat_map(At::items) {
            if let Some(at) = delegates::process_at(&entry) {
                out.extend(at.text().map(|key| (key.to_owned(), Link::Delegate, at.clone())));
            }
        }
        if node_type.name == "call-process"
            && let Some(at) = draft.at.get("process")
            && let Some(key) = at.text()
        {
            let link = if pinned_call(&draft.at) {
                Link::PinnedCall
            } else {
                Link::LooseCall
            };
            out.push((key.to_owned(), link, at.clone()));
        }
    }
    out
}

/// The links of the set, and of deployed processes that it reaches.
fn all_links(processes: &[Process<'_>], known: &dyn Known) -> Links {
    let mut links = Links::new();
    for process in processes {
        let list = named(process)
            .into_iter()
            .map(|(key, link, _)| (key, link))
            .collect();
        links.insert(process.key.clone(), list);
    }
    let mut open: Vec<String> = links.values().flatten().map(|(key, _)| key.clone()).collect();
    while let Some(key) = open.pop() {
        if links.contains_key(&key) {
            continue;
        }
        let list = known
            .process(&key)
            .map(|deployed| links_of(&deployed.definition))
            .unwrap_or_default();
        open.extend(list.iter().map(|(key, _)| key.clone()));
        links.insert(key, list);
    }
    links
}

fn links_of(definition: &crate::model::Definition) -> Vec<(String, Link)> {
    let mut out = Vec::new();
    for node in &definition.nodes {
        let delegates = match &node.kind {
            NodeKind::Agent(agent) => agent.delegates.as_slice(),
            NodeKind::EngineTask(task) => task.delegates.as_slice(),
            NodeKind::CallProcess(call) => {
                let link = if call.version.is_some() {
                    Link::PinnedCall
                } else {
                    Link::LooseCall
                };
                out.push((call.process.clone(), link));
                &[]
            }
            NodeKind::Start
            | NodeKind::End(_)
            | NodeKind::Decision(_)
            | NodeKind::Human(_)
            | NodeKind::Exclusive(_)
            | NodeKind::Parallel(_)
            | NodeKind::Timer(_) => &[],
        };
        out.extend(
            delegates
                .iter()
                .map(|delegate| (delegate.process.clone(), Link::Delegate)),
        );
    }
    out
}

/// Whether any links lead from this process back to it.
fn is_on_circle(home: &str, links: &Links) -> bool {
    let mut seen = BTreeSet::new();
    let mut open = vec![home];
    while let Some(key) = open.pop() {
        for (next, _) in links.get(key).into_iter().flatten() {
            if next == home {
                return true;
            }
            if seen.insert(next.as_str()) {
                open.push(next);
            }
        }
    }
    false
}

/// The keys from `from` back to `home` by a chain that a delegation is part of, the first link included.
fn way_back(from: &str, home: &str, first: Link, links: &Links) -> Option<Vec<String>> {
    let delegated = first == Link::Delegate;
    let mut seen = BTreeSet::from([(from.to_owned(), delegated)]);
    let mut open = VecDeque::from([(from.to_owned(), delegated, vec![from.to_owned()])]);
    while let Some((key, delegated, path)) = open.pop_front() {
        if key == home {
            if delegated {
                return Some(path);
            }
            continue;
        }
        for (next, link) in links.get(&key).into_iter().flatten() {
            let delegated = delegated || *link == Link::Delegate;
            if seen.insert((next.clone(), delegated)) {
                let mut path = path.clone();
                path.push(next.clone());
                open.push_back((next.clone(), delegated, path));
            }
        }
    }
    None
}

fn pinned_way_back(from: &str, home: &str, links: &Links) -> bool {
    let mut seen = BTreeSet::from([from.to_owned()]);
    let mut open = vec![from.to_owned()];
    while let Some(key) = open.pop() {
        if key == home {
            return true;
        }
        for (next, link) in links.get(&key).into_iter().flatten() {
            if *link == Link::PinnedCall && seen.insert(next.clone()) {
                open.push(next.clone());
            }
        }
    }
    false
}

/// Positions of the processes, children before those that pin them. Where a circle was reported, any order does.
pub(super) fn children_first(processes: &[Process<'_>]) -> Vec<usize> {
    let position: BTreeMap<&str, usize> = processes
        .iter()
        .enumerate()
        .map(|(index, process)| (process.key.as_str(), index))
        .collect();
    let mut waiting: Vec<(usize, BTreeSet<usize>)> = processes
        .iter()
        .enumerate()
        .map(|(index, process)| {
            let links = named(process);
            let pinned = links.iter().filter(|(_, link, _)| *link != Link::LooseCall);
            let children = pinned.filter_map(|(key, _, _)| position.get(key.as_str()).copied());
            (index, children.filter(|child| *child != index).collect())
        })
        .collect();
    let mut order = Vec::new();
    let mut done = vec![false; processes.len()];
    while !waiting.is_empty() {
        let ready = waiting
            .iter()
            .position(|(_, children)| children.iter().all(|child| done[*child]));
        let (next, _) = waiting.remove(ready.unwrap_or(0));
        done[next] = true;
        order.push(next);
    }
    order
}
