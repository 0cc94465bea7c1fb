//! Core §1, "Cancel": what an instance holds is let go at once, nothing below it moves from that commit, and a large
//! tree ends in slices that always converge.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::collections::BTreeMap;

use legation_kernel::commands::{Answer, BusinessError, Command};
use legation_kernel::effect::{Held, Mail};
use legation_kernel::ids::InstanceId;
use legation_kernel::instance::{Event, Status};
use legation_kernel::rejection::RejectionKind;
use legation_language::Value;
use proptest::prelude::*;
use support::{Leased, World};

const LEAF: &str = "
metadata: { key: leaf, variables: {} }
flow:
  nodes:
    - { id: work, type: engine-task, service: leaf, on_timeout: { after: 2h, then: done }, next: done }
    - { id: done, type: end }
";

/// A process that calls another so many times at once.
fn wide(key: &str, called: &str, times: u32) -> String {
    let ids: Vec<String> = (0..times).map(|n| format!("c{n}")).collect();
    let calls: String = ids
        .iter()
        .map(|id| format!("    - {{ id: {id}, type: call-process, process: {called}, next: join }}\n"))
        .collect();
    format!(
        "metadata: {{ key: {key} }}\nflow:\n  nodes:\n    - {{ id: fork, type: parallel, branches: [{}] }}\n{calls}    - {{ id: join, type: parallel, join: all }}\n    - {{ id: done, type: end }}\n",
        ids.join(", ")
    )
}

/// 1 + 12 + 12 × 20 instances.
fn large() -> World {
    over_leaves("top", &wide("top", "mid", 12), 20)
}

/// A process that calls `mid`, which calls so many leaves.
fn over_leaves(key: &str, process: &str, leaves: u32) -> World {
    World::new(&[
        ("leaf.process.yaml", LEAF),
        ("mid.process.yaml", &wide("mid", "leaf", leaves)),
        (&format!("{key}.process.yaml"), process),
    ])
}

fn cancel(instance: &InstanceId) -> Command {
    Command::Cancel {
        instance: instance.clone(),
        reason: "enough".to_owned(),
    }
}

fn over(world: &World) -> usize {
    world
        .tree
        .instances
        .values()
        .filter(|instance| instance.is_over())
        .count()
}

/// How many instances each command ended.
fn ends(world: &World) -> BTreeMap<u32, usize> {
    let mut ends = BTreeMap::new();
    for (id, rows) in &world.history {
        for (number, (_, events)) in world.commands[id].iter().zip(rows) {
            let ended = events
                .iter()
                .filter(|event| matches!(event, Event::InstanceEnded { .. }))
                .count();
            *ends.entry(*number).or_insert(0) += ended;
        }
    }
    ends
}

fn deliver_one(world: &mut World) -> bool {
    let Some(mail) = world.mail.pop_front() else {
        return false;
    };
    let command = match mail {
        Mail::ChildDone { child } => Command::ChildDone { child },
        Mail::Continue { instance } => Command::Continue { instance },
    };
    world.run(&command).expect("durable commands are not refused");
    true
}

/// Everything that a worker could say is answered with 410.
fn is_refused(world: &mut World, leased: &Leased) {
    let (task, caller) = (leased.task.clone(), leased.caller.clone());
    let error = BusinessError {
        code: "ODD".to_owned(),
        message: None,
        variables: BTreeMap::new(),
    };
    let calls = [
        leased.complete(&[]),
        leased.fail("no"),
        Command::Error {
            task: task.clone(),
            caller: caller.clone(),
            error,
        },
        Command::Heartbeat {
            task: task.clone(),
            caller: caller.clone(),
            duration_ms: 1_000,
        },
        Command::Release {
            task: task.clone(),
            caller: caller.clone(),
            after_ms: None,
            reason: None,
        },
        Command::Park { task, caller },
    ];
    for call in calls {
        let refused = world.run(&call).unwrap_err();
        assert_eq!(
            (refused.kind, refused.code),
            (RejectionKind::Gone, "WORK_RETIRED"),
            "{call:?}"
        );
    }
}

#[test]
fn two_hundred_instances_end_in_the_commit_of_the_cancel_and_the_rest_follows() {
    let mut world = large();
    world.start("top", &[]);
    assert_eq!(world.tree.instances.len(), 253);
    let leased: Vec<Leased> = world
        .open("leaf")
        .iter()
        .step_by(40)
        .map(|task| world.lease_task(task))
        .collect();
    let answer = world.run(&cancel(&World::root())).unwrap();
    assert_eq!(
        answer,
        Answer::Ended {
            status: Status::Cancelling
        }
    );
    assert_eq!(over(&world), 200);
    world.check();
    for leased in &leased {
        is_refused(&mut world, leased);
    }
    let timer = world.timers.keys().next().unwrap().clone();
    world.timers.remove(&timer);
    assert_eq!(
        world.run(&Command::FireTimer { timer }).unwrap(),
        Answer::Nothing,
        "no token moves"
    );
    let again = world.run(&cancel(&World::root())).unwrap();
    assert!(matches!(again, Answer::Ended { .. }), "it may be repeated");
    while deliver_one(&mut world) {
        world.check();
    }
    assert_eq!((over(&world), world.status()), (253, Status::Cancelled));
    assert!(
        ends(&world).values().all(|ended| *ended <= 200),
        "{:?}",
        ends(&world)
    );
    assert!(world.timers.is_empty() && world.open("leaf").is_empty());
    assert!(world.instance(&World::root()).reason.as_deref() == Some("enough"));
    let done = world.run(&cancel(&World::root())).unwrap();
    assert_eq!(
        done,
        Answer::Ended {
            status: Status::Cancelled
        }
    );
    world.check();
}

/// D21: what was cancelled has no result that could be ignored, and is told once.
#[test]
fn a_child_that_its_parent_cancelled_is_recorded_as_ended() {
    for ends in [1, 3, 200] {
        let mut world = large();
        world.ends = ends;
        world.start("top", &[]);
        world.run(&cancel(&World::root())).unwrap();
        world.deliver();
        assert_eq!(world.status(), Status::Cancelled);
        for (id, instance) in &world.tree.instances {
            let told: Vec<&Event> = world.history[id].iter().flat_map(|(_, events)| events).collect();
            let ended = told
                .iter()
                .filter(|event| matches!(event, Event::ChildEnded { .. }))
                .count();
            let started = told
                .iter()
                .filter(|event| matches!(event, Event::ChildStarted { .. }))
                .count();
            assert_eq!(ended, started, "{id}");
            assert!(
                !told
                    .iter()
                    .any(|event| matches!(event, Event::ChildResultIgnored { .. })),
                "{id}"
            );
            assert!(instance.children.is_empty(), "{id}");
        }
    }
}

/// The token takes its route with the timeout, whatever has yet to end below; the instance itself waits for that.
#[test]
fn a_timeout_over_a_large_subtree_goes_its_way_at_once() {
    let parent = "
metadata: { key: parent }
flow:
  nodes:
    - { id: call, type: call-process, process: mid, on_timeout: { after: 1h, then: late }, next: done }
    - { id: late, type: engine-task, service: late, next: done }
    - { id: done, type: end }
";
    let mut world = over_leaves("parent", parent, 5);
    world.ends = 1;
    world.start("parent", &[]);
    let leaf = world.open("leaf").pop().unwrap();
    let leased = world.lease_task(&leaf);
    world.now += 60 * 60 * 1_000;
    let timer = world
        .timers
        .iter()
        .find(|(_, due)| **due <= world.now)
        .map(|(id, _)| id.clone())
        .unwrap();
    world.timers.remove(&timer);
    world.run(&Command::FireTimer { timer }).unwrap();
    assert_eq!(world.open("late").len(), 1, "in the same commit");
    assert!(over(&world) <= 1);
    let late = world.lease("late");
    world.run(&late.complete(&[])).unwrap();
    assert_eq!(world.status(), Status::Running, "something below it still ends");
    assert_eq!(
        world.run(&leased.complete(&[])).unwrap_err().kind,
        RejectionKind::Gone
    );
    while deliver_one(&mut world) {
        world.check();
    }
    assert_eq!(world.status(), Status::Completed);
    assert!(
        ends(&world).values().all(|ended| *ended <= 1),
        "{:?}",
        ends(&world)
    );
    world.check();
}

#[test]
fn an_error_end_keeps_its_code_while_the_rest_of_the_tree_ends() {
    let parent = "
metadata: { key: parent }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [call, work] }
    - { id: call, type: call-process, process: mid, next: join }
    - { id: work, type: engine-task, service: work, on_error: [ { code: NO, then: bad } ], next: join }
    - { id: bad, type: end, error: NO_GOOD, closing: 'no good' }
    - { id: join, type: parallel, join: all }
    - { id: done, type: end }
";
    let mut world = over_leaves("parent", parent, 5);
    world.ends = 2;
    world.start("parent", &[]);
    let leased = world.lease("work");
    let error = BusinessError {
        code: "NO".to_owned(),
        message: None,
        variables: BTreeMap::new(),
    };
    world
        .run(&Command::Error {
            task: leased.task,
            caller: leased.caller,
            error,
        })
        .unwrap();
    assert_eq!(world.status(), Status::Cancelling);
    world.run(&cancel(&World::root())).unwrap();
    world.deliver();
    let instance = world.instance(&World::root());
    assert_eq!(instance.status, Status::Failed);
    assert_eq!(instance.error.as_ref().unwrap().code, "NO_GOOD");
    assert!(instance.message.is_some());
    world.check();
}

/// Core §2, I5: a durable command that failed too often is an incident of its instance, and ends with it.
#[test]
fn the_incident_of_a_durable_command_is_the_instances_own() {
    let mut world = World::new(&[("leaf.process.yaml", LEAF)]);
    world.start("leaf", &[]);
    let held = Held::Mailbox("CONTINUE:1".to_owned());
    let give_up = Command::GiveUp {
        instance: World::root(),
        held: held.clone(),
        message: "no".to_owned(),
    };
    world.run(&give_up).unwrap();
    let target = world.target();
    assert_eq!(world.incidents[&target.id].held, Some(held));
    assert_eq!(world.instance(&World::root()).incidents.len(), 1);
    world
        .run(&Command::RetryIncident {
            target: target.clone(),
        })
        .unwrap();
    assert_eq!(
        world.run(&Command::RetryIncident { target }).unwrap_err().code,
        "INCIDENT_CLOSED"
    );
    assert!(world.instance(&World::root()).incidents.is_empty());
    world.run(&give_up).unwrap();
    world.run(&cancel(&World::root())).unwrap();
    assert!(world.incidents.is_empty());
    world.run(&give_up).unwrap();
    assert!(world.incidents.is_empty(), "what is over only gets a notice");
    assert_eq!(world.notices.len(), 1);
    world.check();
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever comes in between, and however little a command may end, a cancel ends the whole tree.
    #[test]
    fn a_cancel_always_converges(
        ends in 1_u32..6,
        budget in 1_u32..4,
        from_the_middle in any::<bool>(),
        choices in prop::collection::vec(any::<u32>(), 0..40),
    ) {
        let mut world = over_leaves("top", &wide("top", "mid", 3), 4);
        (world.ends, world.budget) = (ends, budget);
        world.start("top", &[]);
        let first = match world.tree.instances.keys().find(|id| id.as_str().matches('.').count() == 1) {
            Some(mid) if from_the_middle => mid.clone(),
            _ => World::root(),
        };
        let leased: Vec<Leased> = world.open("leaf").iter().map(|task| world.lease_task(task)).collect();
        world.run(&cancel(&first)).unwrap();
        for choice in choices {
            match choice % 4 {
                0 => {
                    let leased = &leased[(choice >> 2) as usize % leased.len()];
                    if let Err(refused) = world.run(&leased.complete(&[("x", Value::from(1_i64))])) {
                        prop_assert_eq!(refused.kind, RejectionKind::Gone);
                    }
                }
                1 if choice > u32::MAX / 2 => {
                    world.run(&cancel(&World::root())).unwrap();
                }
                _ => {
                    deliver_one(&mut world);
                }
            }
            world.check();
        }
        world.deliver();
        let below = format!("{}.", first.as_str());
        let of_it = |id: &InstanceId| *id == first || id.as_str().starts_with(&below);
        let mut cancelled = world.tree.instances.iter().filter(|(id, _)| of_it(id));
        prop_assert!(cancelled.all(|(_, instance)| instance.is_over()), "it ends without another cancel");
        world.run(&cancel(&World::root())).unwrap();
        world.deliver();
        prop_assert_eq!(over(&world), world.tree.instances.len());
        prop_assert!(world.status().is_over());
        prop_assert!(world.mail.is_empty() && world.timers.is_empty());
        world.check();
    }
}
