//! Golden logs: histories of every released format must replay to their snapshots for ever (I2, core §1).
//! `UPDATE_TRACES=1 cargo test -p legation-kernel --test traces` writes the logs of a new format; logs of a
//! released one are never written again.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::path::PathBuf;

use legation_kernel::commands::Command;
use legation_kernel::instance::{Event, INSTANCE_FORMAT, Instance, replay};
use legation_language::Value;
use serde::{Deserialize, Serialize};
use support::World;

#[derive(Serialize, Deserialize)]
struct Trace {
    format: u32,
    rows: Vec<(i64, Vec<Event>)>,
    snapshot: Instance,
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../specs/traces")
}

const EVERYTHING: &str = "
metadata: { key: everything, variables: { amount: { type: number }, secret: { type: string, sensitive: true } } }
flow:
  nodes:
    - id: rate
      type: decision
      rules: [ { when: amount > 10, then: { level: high } }, { otherwise: { level: low } } ]
    - { id: fork, type: parallel, branches: [work, wait] }
    - { id: work, type: engine-task, service: work, start_within: 2s, on_timeout: { after: 1h, then: join }, on_error: [ { code: ODD, then: join } ], next: join }
    - { id: wait, type: timer, after: 5s, next: join }
    - { id: join, type: parallel, join: all, next: choose }
    - { id: choose, type: exclusive, rules: [ { if: level == 'high', then: review }, { else: done } ] }
    - id: review
      type: human
      candidates: { groups: [staff] }
      outcomes: { ok: { then: call }, no: { then: done } }
    - { id: call, type: call-process, process: child, next: done }
    - { id: done, type: end, closing: 'done with ${amount}' }
";

const CHILD: &str = "
metadata: { key: child, variables: {} }
flow:
  nodes:
    - { id: work, type: engine-task, service: inner }
    - { id: bad, type: end, error: BAD }
";

/// Runs what the node types of today can do, with failures, alarms and an incident on the way.
fn story() -> World {
    let mut world = World::new(&[
        ("child.process.yaml", CHILD),
        ("everything.process.yaml", EVERYTHING),
    ]);
    world.start(
        "everything",
        &[("amount", Value::from(20_i64)), ("secret", Value::from("s"))],
    );
    world.pass(2_000);
    let leased = world.lease("work");
    world.run(&leased.fail("no")).unwrap();
    world.pass(400_000);
    world.complete("work", &[("receipt", Value::from("r"))]);
    let human = world.humans.keys().next().unwrap().clone();
    let complete = Command::CompleteHuman {
        human,
        person: World::person("alice", &["staff"]),
        outcome: Some("ok".to_owned()),
        variables: Default::default(),
        comment: Some("fine".to_owned()),
    };
    world.run(&complete).unwrap();
    world.complete("inner", &[]);
    world.check();
    world
}

const HALTED: &str = "
metadata: { key: halted, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [one, two, work] }
    - { id: one, type: call-process, process: halted_child, next: join }
    - { id: two, type: call-process, process: halted_child, next: join }
    - { id: work, type: engine-task, service: work, on_error: [ { code: ODD, then: bad } ], next: join }
    - { id: bad, type: end, error: NO_GOOD, closing: 'not ${amount}' }
    - { id: join, type: parallel, join: all }
    - { id: done, type: end }
";

const HALTED_CHILD: &str = "
metadata: { key: halted_child, variables: {} }
flow:
  nodes:
    - { id: work, type: engine-task, service: inner }
    - { id: done, type: end }
";

/// Ends with an error while its children still end, one a command, without anything sensitive.
fn halted() -> World {
    let files = [
        ("halted_child.process.yaml", HALTED_CHILD),
        ("halted.process.yaml", HALTED),
    ];
    let mut world = World::new(&files);
    world.ends = 1;
    world.start("halted", &[("amount", Value::from(20_i64))]);
    let leased = world.lease("work");
    let error = legation_kernel::commands::BusinessError {
        code: "ODD".to_owned(),
        message: None,
        variables: [("why".to_owned(), Value::from("late"))].into(),
    };
    world
        .run(&Command::Error {
            task: leased.task,
            caller: leased.caller,
            error,
        })
        .unwrap();
    assert!(world.instance(&World::root()).is_ending());
    world.deliver();
    assert!(world.status().is_over());
    world.check();
    world
}

#[test]
fn every_golden_log_replays_to_its_snapshot() {
    if std::env::var_os("UPDATE_TRACES").is_some() {
        write();
    }
    let mut read = 0;
    for version in std::fs::read_dir(folder()).unwrap() {
        for file in std::fs::read_dir(version.unwrap().path()).unwrap() {
            let path = file.unwrap().path();
            let trace: Trace = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
            assert!(
                trace.format <= INSTANCE_FORMAT,
                "{} is of a newer format",
                path.display()
            );
            let rows = trace.rows.iter().map(|(at, events)| (*at, events.as_slice()));
            assert_eq!(replay(rows).unwrap(), trace.snapshot, "{}", path.display());
            read += 1;
        }
    }
    assert!(read >= 4, "the golden logs are missing");
}

fn write() {
    let folder = folder().join(format!("v{INSTANCE_FORMAT}"));
    std::fs::create_dir_all(&folder).unwrap();
    let worlds = [story(), halted()];
    let mut instances: Vec<_> = worlds
        .iter()
        .flat_map(|world| world.tree.instances.iter().map(move |one| (world, one)))
        .collect();
    // The first of a process is the one that is kept.
    instances.sort_by(|(_, (a, _)), (_, (b, _))| b.cmp(a));
    for (world, (id, instance)) in instances {
        let trace = Trace {
            format: INSTANCE_FORMAT,
            rows: world.history[id].clone(),
            snapshot: Instance::clone(instance),
        };
        let path = folder.join(format!("{}.json", instance.process));
        std::fs::write(path, serde_json::to_string_pretty(&trace).unwrap() + "\n").unwrap();
    }
}

/// The state of a run in this version is what its own history says, event by event, through JSON and back.
#[test]
fn events_survive_the_way_through_the_database() {
    for (id, rows) in story().history.iter().chain(&halted().history) {
        let text = serde_json::to_string(rows).unwrap();
        let back: Vec<(i64, Vec<Event>)> = serde_json::from_str(&text).unwrap();
        assert_eq!(&back, rows, "{id}");
    }
}
