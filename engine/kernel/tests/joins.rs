//! Joins (core §1): over any flow that deploys, whatever the order of work, a join fires at most once and no instance
//! is left at a join that nothing can reach.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write;

use legation_kernel::instance::{Event, Status};
use proptest::prelude::*;
use support::World;

/// How often each node was left.
fn left(world: &World) -> BTreeMap<String, usize> {
    let mut left = BTreeMap::new();
    for (_, events) in &world.history[&World::root()] {
        for event in events {
            if let Event::TokenMoved { from, .. } = event {
                *left.entry(from.clone()).or_insert(0) += 1;
            }
        }
    }
    left
}

fn run(nodes: &str, order: &[u32]) -> World {
    let yaml = format!("metadata: {{ key: p, variables: {{}} }}\nflow:\n  nodes:\n{nodes}");
    let mut world = World::new(&[("p.process.yaml", &yaml)]);
    world.start("p", &[]);
    for place in 0.. {
        let open = world.open("work");
        if open.is_empty() {
            break;
        }
        let choice = order.get(place).copied().unwrap_or_default() as usize % open.len();
        let leased = world.lease_task(&open[choice]);
        world.run(&leased.complete(&[])).unwrap();
        world.deliver();
        world.check();
    }
    assert_eq!(
        world.status(),
        Status::Completed,
        "{:#?}",
        world.instance(&World::root()).tokens
    );
    world
}

#[test]
fn two_of_three_branches_that_meet_earlier_come_to_the_last_join_together() {
    let world = run(
        "    - { id: fork, type: parallel, branches: [a, b, c] }
    - { id: a, type: engine-task, service: work, next: first }
    - { id: b, type: engine-task, service: work, next: first }
    - { id: first, type: parallel, join: all, next: last }
    - { id: c, type: engine-task, service: work, next: last }
    - { id: last, type: parallel, join: all, next: pay }
    - { id: pay, type: engine-task, service: work }
    - { id: done, type: end }
",
        &[2, 0, 0],
    );
    assert_eq!(left(&world)["pay"], 1);
}

#[test]
fn a_join_waits_for_a_branch_that_has_yet_to_fork() {
    let world = run(
        "    - { id: outer, type: parallel, branches: [slow, inner] }
    - { id: inner, type: parallel, branches: [p, q] }
    - { id: p, type: engine-task, service: work, next: join }
    - { id: q, type: engine-task, service: work, next: join }
    - { id: slow, type: engine-task, service: work, next: late }
    - { id: late, type: parallel, branches: [r, s] }
    - { id: r, type: engine-task, service: work, next: join }
    - { id: s, type: engine-task, service: work, next: join }
    - { id: join, type: parallel, join: all, next: pay }
    - { id: pay, type: engine-task, service: work }
    - { id: done, type: end }
",
        &[1, 1, 0, 0, 0],
    );
    assert_eq!(left(&world)["pay"], 1);
}

/// A node of a random flow; targets are further on, so there are no circles.
#[derive(Clone, Debug)]
enum Kind {
    Task(u32),
    TaskWithTimeout(u32, u32),
    Choice(u32, u32),
    Fork(u32, u32, u32),
    Join(u32),
}

fn kind() -> impl Strategy<Value = Kind> {
    let far = 0_u32..6;
    prop_oneof![
        3 => far.clone().prop_map(Kind::Task),
        1 => (far.clone(), far.clone()).prop_map(|(a, b)| Kind::TaskWithTimeout(a, b)),
        1 => (far.clone(), far.clone()).prop_map(|(a, b)| Kind::Choice(a, b)),
        3 => (far.clone(), far.clone(), far.clone()).prop_map(|(a, b, c)| Kind::Fork(a, b, c)),
        3 => far.prop_map(Kind::Join),
    ]
}

fn write(kinds: &[Kind]) -> String {
    let count = kinds.len() as u32;
    let mut nodes = String::new();
    for (place, kind) in kinds.iter().enumerate() {
        let place = place as u32;
        let to = |far: &u32| {
            let at = place + 1 + far;
            if at < count {
                format!("n{at}")
            } else {
                "done".to_owned()
            }
        };
        let _ = match kind {
            Kind::Task(a) => writeln!(
                nodes,
                "    - {{ id: n{place}, type: engine-task, service: work, next: {} }}",
                to(a)
            ),
            Kind::TaskWithTimeout(a, b) => writeln!(
                nodes,
                "    - {{ id: n{place}, type: engine-task, service: work, on_timeout: {{ after: 1h, then: {} }}, next: {} }}",
                to(b),
                to(a)
            ),
            Kind::Choice(a, b) => writeln!(
                nodes,
                "    - {{ id: n{place}, type: exclusive, rules: [ {{ if: '{}', then: {} }}, {{ else: {} }} ] }}",
                place.is_multiple_of(2),
                to(a),
                to(b)
            ),
            Kind::Fork(a, b, c) => {
                let mut branches = vec![to(a), to(b), to(c)];
                branches.sort();
                branches.dedup();
                if branches.len() < 2 {
                    writeln!(
                        nodes,
                        "    - {{ id: n{place}, type: engine-task, service: work, next: {} }}",
                        branches[0]
                    )
                } else {
                    writeln!(
                        nodes,
                        "    - {{ id: n{place}, type: parallel, branches: [{}] }}",
                        branches.join(", ")
                    )
                }
            }
            Kind::Join(a) => writeln!(
                nodes,
                "    - {{ id: n{place}, type: parallel, join: all, next: {} }}",
                to(a)
            ),
        };
    }
    nodes + "    - { id: done, type: end }\n"
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_join_fires_at_most_once_and_never_waits_for_nothing(
        kinds in prop::collection::vec(kind(), 1..12),
        order in prop::collection::vec(any::<u32>(), 0..60),
    ) {
        let world = run(&write(&kinds), &order);
        let left = left(&world);
        for (place, kind) in kinds.iter().enumerate() {
            if matches!(kind, Kind::Join(_)) {
                let fired = left.get(&format!("n{place}")).copied().unwrap_or_default();
                prop_assert!(fired <= 1, "join n{place} fired {fired} times\n{}", write(&kinds));
            }
        }
    }
}
