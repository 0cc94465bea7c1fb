//! Properties over random valid processes and random orders of work: replay equals state (I2), tokens are
//! conserved and a finished instance holds nothing (I5), and a command's budget changes nothing but the number of
//! commands.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use std::fmt::Write;

use legation_kernel::commands::Command;
use legation_kernel::instance::{Instance, Status, TokenState};
use legation_language::Value;
use proptest::prelude::*;
use support::World;

/// A block of a structured process.
#[derive(Clone, Debug)]
enum Block {
    /// An external task, perhaps with a timeout that goes the same way.
    Task {
        timeout: bool,
        catches: bool,
    },
    Decision,
    Timer,
    /// An exclusive choice over the input.
    Choice(Vec<Block>, Vec<Block>),
    /// A fork with its join; a branch may end on its own.
    Parallel(Vec<(Vec<Block>, bool)>),
    Human,
    Call,
}

fn blocks(depth: u32) -> BoxedStrategy<Vec<Block>> {
    let leaf = prop_oneof![
        3 => (any::<bool>(), any::<bool>()).prop_map(|(timeout, catches)| Block::Task { timeout, catches }),
        2 => Just(Block::Decision),
        1 => Just(Block::Timer),
        1 => Just(Block::Human),
        1 => Just(Block::Call),
    ];
    if depth == 0 {
        return prop::collection::vec(leaf, 0..3).boxed();
    }
    let inner = blocks(depth - 1);
    let block = prop_oneof![
        4 => leaf,
        1 => (inner.clone(), inner.clone()).prop_map(|(a, b)| Block::Choice(a, b)),
        1 => prop::collection::vec((inner, any::<bool>()), 2..4).prop_map(Block::Parallel),
    ];
    prop::collection::vec(block, 0..4).boxed()
}

/// Writes blocks as nodes that go on to `next`; answers the id of the first node.
fn write(out: &mut String, count: &mut u32, blocks: &[Block], next: &str) -> String {
    let Some((first, rest)) = blocks.split_first() else {
        return next.to_owned();
    };
    let next = write(out, count, rest, next);
    *count += 1;
    let id = format!("n{count}");
    match first {
        Block::Task { timeout, catches } => {
            let timeout = if *timeout {
                format!(", on_timeout: {{ after: 5s, then: {next} }}")
            } else {
                String::new()
            };
            let catches = if *catches {
                format!(", on_error: {next}")
            } else {
                String::new()
            };
            let _ = writeln!(
                out,
                "    - {{ id: {id}, type: engine-task, service: work{timeout}{catches}, next: {next} }}"
            );
        }
        Block::Decision => {
            let _ = writeln!(
                out,
                "    - {{ id: {id}, type: decision, rules: [ {{ when: amount > 10, then: {{ {id}_x: 1 }} }}, {{ otherwise: {{ {id}_x: \"${{amount + 1}}\" }} }} ], next: {next} }}"
            );
        }
        Block::Timer => {
            let _ = writeln!(out, "    - {{ id: {id}, type: timer, after: 3s, next: {next} }}");
        }
        Block::Human => {
            let _ = writeln!(
                out,
                "    - {{ id: {id}, type: human, candidates: {{ groups: [staff] }}, next: {next} }}"
            );
        }
        Block::Call => {
            let _ = writeln!(
                out,
                "    - {{ id: {id}, type: call-process, process: child, inputs: {{ amount: amount }}, on_error: {next}, next: {next} }}"
            );
        }
        Block::Choice(a, b) => {
            let a = write(out, count, a, &next);
            let b = write(out, count, b, &next);
            let _ = writeln!(
                out,
                "    - {{ id: {id}, type: exclusive, rules: [ {{ if: amount > 5, then: {a} }}, {{ else: {b} }} ] }}"
            );
        }
        Block::Parallel(branches) => {
            let join = format!("{id}_join");
            let mut ids = Vec::new();
            for (place, (branch, ends)) in branches.iter().enumerate() {
                // The first branch always comes to the join, so there is one to fire.
                let target = if *ends && place > 0 {
                    "stop".to_owned()
                } else {
                    join.clone()
                };
                let first = write(out, count, branch, &target);
                // A branch needs a node of its own: a fork must not name the join twice.
                *count += 1;
                let head = format!("n{count}");
                let _ = writeln!(
                    out,
                    "    - {{ id: {head}, type: decision, rules: [ {{ otherwise: {{ {head}_x: 1 }} }} ], next: {first} }}"
                );
                ids.push(head);
            }
            let _ = writeln!(
                out,
                "    - {{ id: {id}, type: parallel, branches: [{}] }}",
                ids.join(", ")
            );
            let _ = writeln!(
                out,
                "    - {{ id: {join}, type: parallel, join: all, next: {next} }}"
            );
        }
    }
    id
}

const CHILD: &str = "
metadata: { key: child, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: work, type: engine-task, service: work }
    - { id: check, type: exclusive, rules: [ { if: amount > 15, then: bad }, { else: done } ] }
    - { id: bad, type: end, error: BAD }
    - { id: done, type: end }
";

fn process(blocks: &[Block]) -> String {
    let mut nodes = String::new();
    let first = write(&mut nodes, &mut 0, blocks, "stop");
    format!(
        "metadata: {{ key: p, variables: {{ amount: {{ type: number }} }} }}\nflow:\n  entry: begin\n  nodes:\n    - {{ id: begin, type: start, next: {first} }}\n{nodes}    - {{ id: stop, type: end }}\n"
    )
}

/// One random step of the outside world; answers whether anything could be done.
fn step(world: &mut World, choice: u32) -> bool {
    let open = world.open("work");
    let humans: Vec<String> = world.humans.keys().cloned().collect();
    let options = open.len()
        + humans.len()
        + usize::from(!world.timers.is_empty())
        + usize::from(!world.mail.is_empty());
    if options == 0 {
        // Perhaps only a back-off holds things up.
        world.pass(400_000);
        return !world.open("work").is_empty();
    }
    let mut at = (choice >> 3) as usize % options;
    if at < open.len() {
        let leased = world.lease_task(&open[at]);
        let command = match choice % 8 {
            0 => leased.fail("no"),
            1 => {
                let error = legation_kernel::commands::BusinessError {
                    code: "ODD".to_owned(),
                    message: None,
                    variables: Default::default(),
                };
                Command::Error {
                    task: leased.task.clone(),
                    caller: leased.caller.clone(),
                    error,
                }
            }
            _ => leased.complete(&[("receipt", Value::from("done"))]),
        };
        world.run(&command).unwrap();
        return true;
    }
    at -= open.len();
    if at < humans.len() {
        let complete = Command::CompleteHuman {
            human: humans[at].clone(),
            person: World::person("alice", &["staff"]),
            outcome: None,
            variables: Default::default(),
            comment: None,
        };
        world.run(&complete).unwrap();
        return true;
    }
    at -= humans.len();
    if at == 0 && !world.timers.is_empty() {
        world.pass(3_000);
        return true;
    }
    world.deliver();
    true
}

/// Retries whatever is held, so that every run can end.
fn unblock(world: &mut World) -> bool {
    if world.incidents.is_empty() {
        return false;
    }
    let target = world.target();
    world.run(&Command::RetryIncident { target }).unwrap();
    true
}

fn run(yaml: &str, amount: u32, choices: &[u32], budget: u32, cancel_at: Option<usize>) -> World {
    let mut world = World::new(&[("child.process.yaml", CHILD), ("p.process.yaml", yaml)]);
    world.budget = budget;
    world.ends = budget;
    world.start("p", &[("amount", Value::from(i64::from(amount)))]);
    for (place, choice) in choices.iter().enumerate() {
        if cancel_at == Some(place) && !world.status().is_over() {
            world
                .run(&Command::Cancel {
                    instance: World::root(),
                    reason: "random".to_owned(),
                })
                .unwrap();
            world.deliver();
        }
        if world.status().is_over() {
            break;
        }
        step(&mut world, *choice);
        // With a small budget the rest of the command follows at once, as the shell does it.
        world.deliver();
        world.check();
    }
    world
}

/// What must not depend on how a run was cut into commands.
fn essence(world: &World) -> Vec<String> {
    let tell = |instance: &Instance| {
        let tokens: Vec<String> = instance
            .tokens
            .values()
            .map(|token| {
                format!(
                    "{}:{:?}",
                    token.node,
                    matches!(token.state, TokenState::Waiting(_))
                )
            })
            .collect();
        let names: Vec<&String> = instance.variables().keys().collect();
        format!("{} {:?} {tokens:?} {names:?}", instance.id, instance.status)
    };
    let mut told: Vec<String> = world
        .tree
        .instances
        .values()
        .map(|instance| tell(instance))
        .collect();
    told.sort();
    told
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// I2, I5: whatever happens in whatever order, replay equals state and nothing is left behind.
    #[test]
    fn any_order_of_work_keeps_the_books(
        blocks in blocks(2),
        amount in 0_u32..20,
        choices in prop::collection::vec(any::<u32>(), 0..60),
        cancel_at in prop::option::of(0_usize..60),
        budget in prop_oneof![Just(1_u32), Just(1_000)],
    ) {
        let world = run(&process(&blocks), amount, &choices, budget, cancel_at);
        world.check();
    }

    /// A budget of one transition a command ends in the same state as running to the waits at once.
    #[test]
    fn a_budget_of_one_equals_running_on(
        blocks in blocks(2),
        amount in 0_u32..20,
        choices in prop::collection::vec(any::<u32>(), 0..40),
    ) {
        let yaml = process(&blocks);
        let at_once = run(&yaml, amount, &choices, 1_000, None);
        let in_steps = run(&yaml, amount, &choices, 1, None);
        prop_assert_eq!(essence(&at_once), essence(&in_steps));
    }

    /// Every valid process can end: with work done and incidents retried, no token is stranded.
    #[test]
    fn every_process_ends_when_its_work_is_done(blocks in blocks(2), amount in 0_u32..20) {
        let mut world = run(&process(&blocks), amount, &[], 1_000, None);
        for _ in 0..400 {
            if world.status().is_over() {
                break;
            }
            if !step(&mut world, 7) && !unblock(&mut world) {
                break;
            }
            world.deliver();
        }
        prop_assert_eq!(world.status(), Status::Completed, "{:#?}", world.instance(&World::root()).tokens);
        world.check();
    }
}
