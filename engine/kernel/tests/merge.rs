//! What a result may write (language.md, "Built-in names" and "Variables"; core §1).
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use legation_kernel::commands::{BusinessError, Command};
use legation_kernel::instance::Status;
use legation_language::Value;
use support::{Leased, World};

const MERGED: &str = "
metadata:
  key: p
  variables:
    amount: { type: integer }
flow:
  nodes:
    - { id: w, type: engine-task, service: w, on_error: review, next: review }
    - id: review
      type: human
      candidates: { groups: [finance] }
      outcomes: { good: { then: done }, bad: { then: done } }
    - { id: done, type: end }
";

/// Every way in which a worker names variables.
fn sent(leased: &Leased, name: &str, value: &Value) -> [Command; 2] {
    let error = BusinessError {
        code: "ODD".to_owned(),
        message: None,
        variables: [(name.to_owned(), value.clone())].into_iter().collect(),
    };
    [
        leased.complete(&[(name, value.clone())]),
        Command::Error {
            task: leased.task.clone(),
            caller: leased.caller.clone(),
            error,
        },
    ]
}

#[track_caller]
fn refused(world: &mut World, leased: &Leased, name: &str, value: &Value, code: &str) {
    for command in sent(leased, name, value) {
        let refusal = world.run(&command).unwrap_err();
        assert_eq!(
            (refusal.code, refusal.argument.as_deref()),
            (code, Some(name)),
            "{refusal}"
        );
    }
}

#[test]
fn a_worker_writes_no_built_in_name_and_the_lease_stands() {
    let mut world = World::new(&[("p.process.yaml", MERGED)]);
    world.start("p", &[("amount", Value::from(1_i64))]);
    let leased = world.lease("w");
    let names = [
        "instance", "root", "node", "item", "index", "result", "error", "payload", "values", "now", "true",
        "false", "null", "in", "and", "or", "not", "eq", "ne",
    ];
    for name in names {
        refused(&mut world, &leased, name, &Value::from("forged"), "VARIABLE_NAME");
    }
    world
        .run(&leased.complete(&[("nowadays", Value::from(1_i64))]))
        .unwrap();
    world.check();
}

#[test]
fn a_worker_does_not_foretell_what_the_engine_will_write() {
    let mut world = World::new(&[("p.process.yaml", MERGED)]);
    world.start("p", &[("amount", Value::from(1_i64))]);
    let leased = world.lease("w");
    for name in ["review_outcome", "w_outcome", "w_error_code"] {
        refused(&mut world, &leased, name, &Value::from("good"), "VARIABLE_LOCKED");
    }
    // A name of that form is nobody's where no node writes it.
    world
        .run(&leased.complete(&[("other_outcome", Value::from("good"))]))
        .unwrap();
    world.check();
}

#[test]
fn a_result_does_not_answer_for_built_in_names_in_the_nodes_own_outputs() {
    let yaml = "
metadata: { key: p }
flow:
  nodes:
    - id: w
      type: engine-task
      service: w
      outputs: { whose: instance.process, at: now, where: node.id, top: root.key, said: result.now }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let forged = Value::map([("process", "forged"), ("id", "forged"), ("key", "forged")]);
    let names = ["instance", "node", "root"].map(|name| (name, forged.clone()));
    let all: Vec<(&str, Value)> = names
        .into_iter()
        .chain([("now", Value::from("forged"))])
        .collect();
    world.complete("w", &all);
    assert_eq!(world.status(), Status::Completed);
    assert_eq!(world.variable("whose"), Some(Value::from("p")));
    assert_eq!(world.variable("where"), Some(Value::from("w")));
    assert_eq!(world.variable("top"), Some(Value::from("p")));
    assert_ne!(world.variable("at"), Some(Value::from("forged")));
    assert_eq!(
        world.variable("said"),
        Some(Value::from("forged")),
        "by its full name it is the worker's word"
    );
    world.check();
}

fn text(bytes: usize) -> Value {
    Value::from("x".repeat(bytes))
}

const MIB: usize = 1024 * 1024;

#[test]
fn a_value_has_at_most_one_mebibyte() {
    let mut world = World::new(&[("p.process.yaml", MERGED)]);
    world.start("p", &[("amount", Value::from(1_i64))]);
    let leased = world.lease("w");
    refused(&mut world, &leased, "big", &text(MIB), "VARIABLE_TOO_LARGE");
    let nested = Value::List(vec![text(MIB / 2), text(MIB / 2)]);
    refused(&mut world, &leased, "big", &nested, "VARIABLE_TOO_LARGE");
    world.run(&leased.complete(&[("big", text(MIB - 2))])).unwrap();
    world.check();
}

#[test]
fn a_start_takes_no_larger_value_than_a_result() {
    let yaml = "
metadata: { key: p, variables: { note: { type: string } } }
flow: { nodes: [ { id: done, type: end } ] }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    assert_eq!(
        world.try_start("p", &[("note", text(MIB))]).unwrap_err().code,
        "VARIABLE_TOO_LARGE"
    );
    assert!(world.tree.instances.is_empty());
    world.start("p", &[("note", text(MIB - 2))]);
    world.check();
}

#[test]
fn the_variables_of_an_instance_have_at_most_eight_mebibytes_together() {
    let steps: String = (0..9)
        .map(|n| format!("    - {{ id: w{n}, type: engine-task, service: w }}\n"))
        .collect();
    let yaml = format!("metadata: {{ key: p }}\nflow:\n  nodes:\n{steps}    - {{ id: done, type: end }}\n");
    let mut world = World::new(&[("p.process.yaml", &yaml)]);
    world.start("p", &[]);
    let names = ["a", "b", "c", "d", "e", "f", "g", "h"];
    for name in names {
        world.complete("w", &[(name, text(MIB - 10))]);
    }
    let leased = world.lease("w");
    let refusal = world.run(&leased.complete(&[("i", text(2_000))])).unwrap_err();
    assert_eq!(refusal.code, "VARIABLE_TOO_LARGE");
    // In the place of another there is room.
    world
        .run(&leased.complete(&[("a", text(2_000)), ("i", text(2_000))]))
        .unwrap();
    world.check();
}

#[test]
fn what_a_node_maps_is_bounded_as_well() {
    let yaml = "
metadata: { key: p }
flow:
  nodes:
    - { id: w, type: engine-task, service: w, outputs: { both: first + second } }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let leased = world.lease("w");
    let half = text(MIB / 2);
    let refusal = world
        .run(&leased.complete(&[("first", half.clone()), ("second", half)]))
        .unwrap_err();
    assert_eq!(refusal.code, "VARIABLE_TOO_LARGE");
    assert_eq!(world.variable("both"), None);
    world
        .run(&leased.complete(&[("first", text(10)), ("second", text(10))]))
        .unwrap();
    world.check();
}

/// Core §2, "Payloads": what a node reads is loaded together, not one value after the other.
#[test]
fn a_command_asks_for_all_its_payloads_at_once() {
    let names: Vec<String> = (0..30).map(|n| format!("v{n}")).collect();
    let sum = names.join(" + ");
    let inputs: String = names.iter().map(|name| format!("{name}: {name}, ")).collect();
    let outputs: String = names
        .iter()
        .map(|name| format!("{name}: {{ type: string }}, "))
        .collect();
    let yaml = format!(
        "
metadata: {{ key: p, variables: {{}}, outputs: {{ {outputs} }} }}
flow:
  nodes:
    - {{ id: begin, type: engine-task, service: begin }}
    - {{ id: all, type: engine-task, service: all }}
    - {{ id: some, type: engine-task, service: some, inputs: {{ {inputs} }} }}
    - {{ id: made, type: engine-task, service: made, outputs: {{ sum: '{sum}' }} }}
    - {{ id: done, type: end }}
"
    );
    let mut world = World::new(&[("p.process.yaml", &yaml)]);
    world.start("p", &[]);
    let large: Vec<(&str, Value)> = names.iter().map(|name| (name.as_str(), text(2_000))).collect();
    for topic in ["begin", "all", "some", "made"] {
        let before = world.loads;
        let leased = world.lease(topic);
        let sent: &[(&str, Value)] = if topic == "begin" { &large } else { &[] };
        world.run(&leased.complete(sent)).unwrap();
        assert!(
            world.loads - before <= 2,
            "{topic}: {} loads",
            world.loads - before
        );
    }
    assert_eq!(world.status(), legation_kernel::instance::Status::Completed);
    world.check();
}
