//! A sensitive value stands in no row as it is (core §2, "Payloads"): not in snapshots, events, tasks, steps, people's
//! tasks or incidents, by whatever way it got there.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use legation_kernel::commands::{BusinessError, Command};
use legation_kernel::instance::Status;
use legation_language::Value;
use support::World;

const SECRET: &str = "tell-nobody-0815";

/// Everything of a world that becomes a column; payloads are encrypted and stay out.
fn columns(world: &World) -> String {
    let mut text = serde_json::to_string(&world.history.values().collect::<Vec<_>>()).unwrap();
    for instance in world.tree.instances.values() {
        text += &serde_json::to_string(instance.as_ref()).unwrap();
    }
    for file in world.tree.tasks.values() {
        text += &serde_json::to_string(&file.task).unwrap();
        for step in &file.steps {
            text += &serde_json::to_string(step.as_ref()).unwrap();
        }
    }
    text += &serde_json::to_string(&world.humans).unwrap();
    text + &format!("{:?} {:?} {:?}", world.incidents, world.notices, world.mail)
}

fn hidden(world: &World) {
    let columns = columns(world);
    if let Some(at) = columns.find(SECRET) {
        panic!(
            "…{}…",
            &columns[at.saturating_sub(300)..(at + 40).min(columns.len())]
        );
    }
    world.check();
}

const CHILD: &str = "
metadata: { key: child, variables: { note: { type: string } }, outputs: { echo: { type: string } } }
flow:
  nodes:
    - { id: repeat, type: decision, rules: [ { otherwise: { echo: '${note}' } } ] }
    - { id: work, type: engine-task, service: inner, inputs: { note: note } }
    - { id: done, type: end, closing: 'it was ${note}' }
";

const EVERYWHERE: &str = "
metadata: { key: everywhere, variables: { iban: { type: string, sensitive: true }, count: { type: integer, input: false } } }
flow:
  nodes:
    - { id: copy, type: decision, rules: [ { otherwise: { copied: '${iban}' } } ] }
    - { id: pay, type: engine-task, service: pay, inputs: { account: iban }, outputs: { told: result.said, count: result.count } }
    - { id: look, type: human, candidates: { groups: [staff] }, inputs: { account: iban } }
    - { id: call, type: call-process, process: child, inputs: { note: iban } }
    - { id: odd, type: engine-task, service: odd, on_error: done, next: done }
    - { id: done, type: end, closing: 'paid to ${iban}' }
";

#[test]
fn a_sensitive_input_stands_in_no_row_wherever_it_is_copied() {
    let odd = EVERYWHERE.replace("count: result.count", "count: copied");
    let mut world = World::new(&[("child.process.yaml", CHILD), ("everywhere.process.yaml", &odd)]);
    let secret = || Value::from(SECRET);
    world.start("everywhere", &[("iban", secret())]);
    hidden(&world);
    // The result cannot be taken over, by no fault of the worker: an incident holds it with the token.
    world.complete("pay", &[("said", secret())]);
    assert_eq!(world.incidents.values().next().unwrap().code, "VARIABLE_TYPE");
    hidden(&world);

    let mut world = World::new(&[
        ("child.process.yaml", CHILD),
        ("everywhere.process.yaml", EVERYWHERE),
    ]);
    world.start("everywhere", &[("iban", secret())]);
    world.complete("pay", &[("said", secret()), ("count", Value::from(1_i64))]);
    let human = world.humans.keys().next().unwrap().clone();
    let complete = Command::CompleteHuman {
        human,
        person: World::person("alice", &["staff"]),
        outcome: None,
        variables: Default::default(),
        comment: None,
    };
    world.run(&complete).unwrap();
    hidden(&world);
    world.complete("inner", &[("heard", secret())]);
    hidden(&world);
    let leased = world.lease("odd");
    let error = BusinessError {
        code: "ODD".to_owned(),
        message: None,
        variables: [("seen".to_owned(), secret())].into_iter().collect(),
    };
    world
        .run(&Command::Error {
            task: leased.task,
            caller: leased.caller,
            error,
        })
        .unwrap();
    assert_eq!(world.status(), Status::Completed);
    hidden(&world);
    assert_eq!(world.variable("echo"), Some(secret()));
    assert_eq!(world.variable("seen"), Some(secret()));
}

/// The parent declares nothing: what it got from a child that does is kept as carefully.
#[test]
fn what_a_child_with_secrets_gives_back_stands_in_no_row() {
    let child = "
metadata: { key: child, variables: {}, outputs: { iban: { type: string, sensitive: true } } }
flow:
  nodes:
    - { id: ask, type: engine-task, service: ask }
    - { id: done, type: end }
";
    let parent = "
metadata: { key: parent, variables: {} }
flow:
  nodes:
    - { id: call, type: call-process, process: child, outputs: { account: result.iban } }
    - { id: copy, type: decision, rules: [ { otherwise: { copied: '${account}' } } ] }
    - { id: pay, type: engine-task, service: pay, inputs: { account: account } }
    - { id: done, type: end }
";
    let mut world = World::new(&[("child.process.yaml", child), ("parent.process.yaml", parent)]);
    world.start("parent", &[]);
    world.complete("ask", &[("iban", Value::from(SECRET))]);
    hidden(&world);
    world.complete("pay", &[]);
    assert_eq!(world.variable("copied"), Some(Value::from(SECRET)));
    hidden(&world);
}
