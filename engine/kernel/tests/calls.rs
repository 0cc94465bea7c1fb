//! `call-process`: children that give back, fail, are cancelled, or cannot be started; what a command may move.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use legation_kernel::commands::Command;
use legation_kernel::instance::Status;
use legation_language::Value;
use support::{World, json};

const CHILD: &str = "
metadata:
  key: child
  variables: { amount: { type: number } }
  outputs: { receipt: { type: string } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay }
    - { id: check, type: exclusive, rules: [ { if: amount > 10, then: too_much }, { else: done } ] }
    - { id: too_much, type: end, error: TOO_MUCH }
    - { id: done, type: end }
";

const PARENT: &str = "
metadata: { key: parent, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: call, type: call-process, process: child, inputs: { amount: amount }, on_error: [ { code: TOO_MUCH, then: sorry } ], next: done }
    - { id: sorry, type: engine-task, service: sorry, next: done }
    - { id: done, type: end }
";

#[test]
fn a_called_process_gives_its_outputs_back() {
    let mut world = World::new(&[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)]);
    world.start("parent", &[("amount", json("5"))]);
    world.complete(
        "pay",
        &[("receipt", Value::from("r")), ("secret", Value::from("s"))],
    );
    assert_eq!(world.status(), Status::Completed);
    assert_eq!(world.variable("receipt"), Some(Value::from("r")));
    assert_eq!(world.variable("secret"), None, "only declared outputs cross");
    world.check();
}

/// What a child gave back waits with the incident: a retry makes the outputs of it, and nothing is lost.
#[test]
fn outputs_of_a_call_that_could_not_be_made_are_made_at_the_retry() {
    let parent = "
metadata: { key: parent, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [call, other] }
    - { id: call, type: call-process, process: child, inputs: { amount: amount }, outputs: { receipt: receipt, sum: amount + fee }, next: join }
    - { id: other, type: engine-task, service: other, outputs: { fee: result.fee }, next: join }
    - { id: join, type: parallel, join: all }
    - { id: done, type: end }
";
    let mut world = World::new(&[("child.process.yaml", CHILD), ("parent.process.yaml", parent)]);
    world.start("parent", &[("amount", json("5"))]);
    world.complete("pay", &[("receipt", Value::from("r"))]);
    let incident = world.incidents.values().next().unwrap();
    assert_eq!(incident.code, "EXPRESSION_FAILED");
    let target = world.target();
    let retry = Command::RetryIncident { target };
    world.run(&retry).unwrap();
    assert_eq!(world.variable("receipt"), None, "the fee is still missing");
    let again = world.incidents.values().next().unwrap().clone();
    world.complete("other", &[("fee", json("2"))]);
    let Command::RetryIncident { mut target } = retry else {
        panic!("a retry")
    };
    target.id = again.id;
    world.run(&Command::RetryIncident { target }).unwrap();
    assert_eq!(world.variable("receipt"), Some(Value::from("r")));
    assert_eq!(world.variable("sum"), Some(json("7")));
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn a_childs_error_end_raises_its_code_at_the_call() {
    let mut world = World::new(&[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)]);
    world.start("parent", &[("amount", json("50"))]);
    world.complete("pay", &[("receipt", Value::from("r"))]);
    assert_eq!(world.variable("call_error_code"), Some(Value::from("TOO_MUCH")));
    assert_eq!(world.open("sorry").len(), 1);
    world.check();
}

/// D19, D69: the cascade has a reason at each level.
#[test]
fn cancelling_a_parent_cancels_its_child_with_a_reason() {
    let mut world = World::new(&[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)]);
    world.start("parent", &[("amount", json("5"))]);
    let leased = world.lease("pay");
    world
        .run(&Command::Cancel {
            instance: World::root(),
            reason: "customer left".to_owned(),
        })
        .unwrap();
    world.deliver();
    assert_eq!(world.status(), Status::Cancelled);
    let child = World::root().child(
        world
            .tree
            .instances
            .keys()
            .find_map(|id| (!id.is_root()).then(|| legation_kernel::ids::local_of(id.as_str()).unwrap()))
            .unwrap(),
    );
    assert_eq!(world.instance(&child).status, Status::Cancelled);
    assert!(
        world
            .instance(&child)
            .reason
            .as_ref()
            .unwrap()
            .contains("customer left")
    );
    assert_eq!(world.run(&leased.complete(&[])).unwrap_err().code, "WORK_RETIRED");
    world.check();
}

#[test]
fn an_output_that_was_never_set_fails_a_root() {
    let mut world = World::new(&[("child.process.yaml", CHILD)]);
    world.start("child", &[("amount", json("5"))]);
    world.complete("pay", &[]);
    assert_eq!(world.status(), Status::Failed);
    let error = world.instance(&World::root()).error.clone().unwrap();
    assert_eq!(
        (error.code.as_str(), error.reason.as_deref()),
        ("OUTPUT_INVALID", Some("missing-output"))
    );
    world.check();
}

/// Core §2, "Time": two engines may disagree by a second, an instance never goes back.
#[test]
fn an_instance_lives_on_when_the_clock_goes_back() {
    let mut world = World::new(&[("child.process.yaml", CHILD), ("parent.process.yaml", PARENT)]);
    world.start("parent", &[("amount", json("5"))]);
    let leased = world.lease("pay");
    world.now -= 900;
    world
        .run(&leased.complete(&[("receipt", Value::from("r"))]))
        .unwrap();
    world.deliver();
    assert_eq!(world.status(), Status::Completed);
    for rows in world.history.values() {
        assert!(rows.is_sorted_by_key(|(at, _)| *at), "{rows:?}");
    }
    world.check();
}

/// Core §2, "Bounded commands": the budget is the command's, however many instances it moves.
#[test]
fn a_command_moves_no_further_than_its_budget_even_through_children() {
    let child = "
metadata: { key: child, variables: {} }
flow:
  nodes:
    - { id: a, type: decision, rules: [ { otherwise: { x: 1 } } ] }
    - { id: b, type: decision, rules: [ { otherwise: { x: 2 } } ] }
    - { id: done, type: end }
";
    let parent = "
metadata: { key: parent, variables: {} }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [one, two, three] }
    - { id: one, type: call-process, process: child, next: join }
    - { id: two, type: call-process, process: child, next: join }
    - { id: three, type: call-process, process: child, next: join }
    - { id: join, type: parallel, join: all }
    - { id: done, type: end }
";
    let mut world = World::new(&[("child.process.yaml", child), ("parent.process.yaml", parent)]);
    world.budget = 4;
    world.start("parent", &[]);
    let moved = |events: &Vec<legation_kernel::instance::Event>| {
        events
            .iter()
            .filter(|event| matches!(event, legation_kernel::instance::Event::TokenMoved { .. }))
            .count()
    };
    let mut by_command = std::collections::BTreeMap::new();
    for (id, rows) in &world.history {
        for (number, (_, events)) in world.commands[id].iter().zip(rows) {
            *by_command.entry(*number).or_insert(0) += moved(events);
        }
    }
    assert!(by_command.values().all(|moves| *moves <= 4 + 1), "{by_command:?}");
    assert!(by_command.len() > 3, "{by_command:?}");
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

/// Core §1, "Bounded commands": a child's start counts as ten moves, so that a command of 500 starts 50 at most.
#[test]
fn a_command_starts_a_tenth_of_its_budget_in_children() {
    let child = "
metadata: { key: child, variables: {} }
flow:
  nodes:
    - { id: done, type: end }
";
    let names: Vec<String> = (0..50).map(|number| format!("c{number}")).collect();
    let calls: Vec<String> = names
        .iter()
        .map(|name| format!("    - {{ id: {name}, type: call-process, process: child, next: join }}"))
        .collect();
    let parent = format!(
        "
metadata: {{ key: parent, variables: {{}} }}
flow:
  nodes:
    - {{ id: fork, type: parallel, branches: [{}] }}
{}
    - {{ id: join, type: parallel, join: all }}
    - {{ id: done, type: end }}
",
        names.join(", "),
        calls.join("\n"),
    );
    let mut world = World::new(&[("child.process.yaml", child), ("parent.process.yaml", &parent)]);
    world.budget = 100;
    world.start("parent", &[]);
    let mut by_command = std::collections::BTreeMap::new();
    for (id, commands) in &world.commands {
        if *id != World::root() {
            *by_command.entry(commands[0]).or_insert(0) += 1;
        }
    }
    assert_eq!(by_command.values().sum::<u32>(), 50);
    assert!(by_command.values().all(|starts| *starts <= 10), "{by_command:?}");
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

/// language.md, `call-process`: a process that is not there is an error like any other of the node.
#[test]
fn a_called_process_that_is_not_deployed_is_an_error_that_can_be_caught() {
    for caught in [true, false] {
        let code = if caught { "CHILD_START_REFUSED" } else { "TOO_MUCH" };
        let parent = PARENT.replace("TOO_MUCH", code);
        let mut world = World::new(&[("child.process.yaml", CHILD), ("parent.process.yaml", &parent)]);
        world.remove("child");
        world.start("parent", &[("amount", json("5"))]);
        assert_eq!(world.tree.instances.len(), 1);
        if caught {
            assert_eq!(
                world.variable("call_error_code"),
                Some(Value::from("CHILD_START_REFUSED"))
            );
            world.complete("sorry", &[]);
            assert_eq!(world.status(), Status::Completed);
        } else {
            let incident = world.incidents.values().next().unwrap();
            assert!(
                incident.message.contains("CHILD_START_REFUSED"),
                "{}",
                incident.message
            );
        }
        world.check();
    }
}
