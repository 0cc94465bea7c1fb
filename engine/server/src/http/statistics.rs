//! `/v1/processes/{key}/versions/{version}/statistics`: what stands where now, and how the newest instances went.

use std::collections::{BTreeMap, HashMap};

use axum::Json as Answer;
use axum::extract::{Path, State};
use legation_kernel::dates::rfc3339;
use legation_kernel::instance::{Event, Instance, Status};
use legation_protocol::statistics::{NodeStatistics, ProcessStatistics};
use legation_store::Key;
use legation_store::statistics::{self, Happened, Recent, Version};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::Result;
use super::{load, processes};

/// The instances whose visits are measured.
const MEASURED: i64 = 200;

/// The active instances whose tokens are looked at.
const MOST_ACTIVE: i64 = 500;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(process_statistics))
}

/// What stands at each node of a version now, and how long the visits of its newest instances took. At most 200
/// instances are measured, and the tokens of at most 500 active ones looked at.
#[utoipa::path(get, path = "/v1/processes/{key}/versions/{version}/statistics", tag = "processes",
    params(("key" = String, Path), ("version" = u32, Path)), responses((status = 200, body = ProcessStatistics)))]
async fn process_statistics(
    State(http): State<Http>,
    who: Who,
    Path(version): Path<(String, String)>,
) -> Result<Answer<ProcessStatistics>> {
    who.need(Role::Read)?;
    let row = processes::find_version(&http, &who, version).await?;
    let of = Version {
        project: who.project(),
        process: &row.key,
        version: row.version,
    };
    let mut read = http.app().db().read().await?;
    let newest = statistics::newest(&mut read, &of, MEASURED).await?;
    let keys: Vec<Key> = newest.iter().map(|row| Key::new(&row.root, &row.id)).collect();
    let happened = statistics::happened(&mut read, &keys).await?;
    let (active, more_active) = statistics::active(&mut read, &of, MOST_ACTIVE).await?;
    let incidents = statistics::incidents(&mut read, &of).await?;
    drop(read);

    let mut nodes: BTreeMap<String, Node> = BTreeMap::new();
    for visit in visits(&happened)? {
        nodes.entry(visit.node.clone()).or_default().visit(&visit);
    }
    for row in &active {
        let instance: Instance = load::parse("instances", &row.id, &row.snapshot)?;
        for token in instance.tokens.values() {
            nodes.entry(token.node.clone()).or_default().active += 1;
        }
    }
    for (node, open) in incidents {
        nodes.entry(node).or_default().incidents += open.unsigned_abs();
    }
    Ok(Answer(ProcessStatistics {
        process: row.key,
        version: u32::try_from(row.version).unwrap_or_default(),
        instances: u32::try_from(newest.len()).unwrap_or(u32::MAX),
        since: newest
            .iter()
            .map(|row: &Recent| row.started_at)
            .min()
            .map(rfc3339),
        more_active,
        nodes: nodes.into_iter().map(|(id, node)| node.view(id)).collect(),
    }))
}

/// A token's stay at a node.
#[derive(Debug, PartialEq)]
struct Visit {
    node: String,
    from: i64,
    /// When the flow went on. None: it is still there, or was ended from outside.
    to: Option<i64>,
    /// It met an error or an incident.
    failed: bool,
}

#[derive(Default)]
struct Node {
    active: u64,
    incidents: u64,
    visits: u64,
    failed: u64,
    took: Vec<u64>,
}

impl Node {
    fn visit(&mut self, visit: &Visit) {
        self.visits += 1;
        self.failed += u64::from(visit.failed);
        if let Some(to) = visit.to {
            self.took.push(to.saturating_sub(visit.from).unsigned_abs());
        }
    }

    fn view(mut self, node_id: String) -> NodeStatistics {
        self.took.sort_unstable();
        NodeStatistics {
            node_id,
            active: self.active,
            incidents: self.incidents,
            visits: self.visits,
            failed: self.failed,
            p50_ms: percentile(&self.took, 50),
            p95_ms: percentile(&self.took, 95),
        }
    }
}

/// The value that so many of a hundred do not exceed (nearest rank).
fn percentile(sorted: &[u64], of_hundred: usize) -> Option<u64> {
    let rank = (sorted.len() * of_hundred).div_ceil(100);
    sorted.get(rank.max(1) - 1).copied()
}

/// The visits of every instance; the rows of one are in order.
fn visits(rows: &[Happened]) -> Result<Vec<Visit>> {
    let mut by_instance: BTreeMap<&str, Vec<&Happened>> = BTreeMap::new();
    for row in rows {
        by_instance.entry(&row.instance).or_default().push(row);
    }
    let mut all = Vec::new();
    for (instance, rows) in by_instance {
        let mut open: HashMap<u32, Visit> = HashMap::new();
        for row in rows {
            let events: Vec<Event> = load::parse("history", instance, &row.events)?;
            follow(&events, row.at, &mut open, &mut all);
        }
        all.extend(open.into_values());
    }
    Ok(all)
}

/// Takes the events of one command in.
fn follow(events: &[Event], at: i64, open: &mut HashMap<u32, Visit>, done: &mut Vec<Visit>) {
    let is_stopped = events.iter().any(|event| match event {
        Event::InstanceEnding { .. } => true,
        Event::InstanceEnded { status, .. } => *status == Status::Cancelled,
        _ => false,
    });
    let enter = |node: &str| Visit {
        node: node.to_owned(),
        from: at,
        to: None,
        failed: false,
    };
    let fail = |open: &mut HashMap<u32, Visit>, node: &str| {
        let here = open.values_mut().filter(|visit| visit.node == node);
        here.for_each(|visit| visit.failed = true);
    };
    for event in events {
        match event {
            Event::TokenCreated { token, node, .. } => {
                open.insert(*token, enter(node));
            }
            Event::TokenMoved { token, node, .. } => {
                let left = open.insert(*token, enter(node));
                done.extend(left.map(|visit| Visit {
                    to: Some(at),
                    ..visit
                }));
            }
            Event::TokenEnded { token } => {
                let left = open.remove(token);
                let to = (!is_stopped).then_some(at);
                done.extend(left.map(|visit| Visit { to, ..visit }));
            }
            Event::TokenStuck { token, .. } => {
                if let Some(visit) = open.get_mut(token) {
                    visit.failed = true;
                }
            }
            Event::IncidentOpened { node, .. } | Event::ErrorRaised { node, .. } => fail(open, node),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_percentile_is_a_value_that_was_measured() {
        assert_eq!(percentile(&[], 50), None);
        assert_eq!(percentile(&[7], 95), Some(7));
        let hundred: Vec<u64> = (1..=100).collect();
        assert_eq!(
            (percentile(&hundred, 50), percentile(&hundred, 95)),
            (Some(50), Some(95))
        );
        assert_eq!(percentile(&[1, 2, 3], 50), Some(2));
    }

    #[test]
    fn a_visit_lasts_until_the_token_goes_on_and_a_cancelled_one_has_no_duration() {
        let moved = |token, node: &str| Event::TokenMoved {
            token,
            node: node.to_owned(),
            activity: 1,
            from: "a".to_owned(),
            forks: None,
        };
        let created = Event::TokenCreated {
            token: 1,
            scope: 0,
            node: "a".to_owned(),
            activity: 1,
            forks: Vec::new(),
            from: None,
        };
        let (mut open, mut done) = (HashMap::new(), Vec::new());
        follow(&[created], 10, &mut open, &mut done);
        follow(&[moved(1, "b")], 25, &mut open, &mut done);
        let raised = Event::ErrorRaised {
            node: "b".to_owned(),
            code: "NO".to_owned(),
            message: None,
            caught_by: None,
        };
        follow(&[raised], 30, &mut open, &mut done);
        let ending = Event::InstanceEnding {
            reason: "no longer wanted".to_owned(),
            into: None,
        };
        follow(
            &[ending, Event::TokenEnded { token: 1 }],
            40,
            &mut open,
            &mut done,
        );
        let visit = |node: &str, from, to, failed| Visit {
            node: node.to_owned(),
            from,
            to,
            failed,
        };
        assert!(open.is_empty());
        assert_eq!(
            done,
            [visit("a", 10, Some(25), false), visit("b", 25, None, true)]
        );
    }
}
