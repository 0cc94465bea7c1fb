//! The processes that are measured, deployed by the command itself.

use std::collections::BTreeMap;

/// A and A1: one task for any worker.
pub const ONE_TASK: &str = "bench_one_task";
/// B: nothing between start and end.
pub const EMPTY: &str = "bench_empty";
/// C: an agent's journal.
pub const JOURNAL: &str = "bench_journal";
/// D: an agent that delegates to [`ONE_TASK`].
pub const DELEGATES: &str = "bench_delegates";

/// The topic of [`ONE_TASK`].
pub const TOPIC: &str = "bench.work";

/// Files for `POST /v1/deployments`.
pub fn files() -> BTreeMap<String, String> {
    let process = |key: &str, body: &str| {
        let text = format!("version: legation/v1\nmetadata:\n  key: {key}\n{body}");
        (format!("processes/{key}.process.yaml"), text)
    };
    BTreeMap::from([
        process(
            ONE_TASK,
            "  variables:
    order: { type: string }
    text: { type: string }
  outputs:
    done: { type: string }
flow:
  nodes:
    - { id: begun, type: start }
    - { id: work, type: engine-task, service: bench.work, outputs: [done] }
    - { id: ended, type: end }
",
        ),
        process(
            EMPTY,
            "  variables:
    order: { type: string }
    text: { type: string }
flow:
  nodes:
    - { id: begun, type: start }
    - { id: ended, type: end }
",
        ),
        process(
            JOURNAL,
            "  variables:
    order: { type: string }
    text: { type: string }
flow:
  nodes:
    - { id: begun, type: start }
    - id: work
      type: agent
      model: bench
      prompt: Handle ${order}
      tools: [bench/look_up]
      max_turns: 32
      max_steps: 400
      result_variable: answer
    - { id: ended, type: end }
",
        ),
        process(
            DELEGATES,
            "  variables:
    order: { type: string }
    text: { type: string }
flow:
  nodes:
    - { id: begun, type: start }
    - id: work
      type: agent
      model: bench
      prompt: Handle ${order}
      delegates:
        - { process: bench_one_task, description: Do the work, outputs: [done] }
      max_turns: 32
      max_steps: 400
      result_variable: answer
    - { id: ended, type: end }
",
        ),
        (
            "servers/bench.server.yaml".to_owned(),
            "name: bench
description: What the journal's steps name; nobody calls it
transport: stdio
tools:
  look_up:
    policy: read
    description: Look something up
"
            .to_owned(),
        ),
    ])
}

/// The variables of a start: 1 KB in all, which is kept in the row.
pub fn variables(number: u64) -> String {
    let text = "x".repeat(960);
    format!(r#"{{"order":"ORD-{number:08}","text":"{text}"}}"#)
}

/// The body of a start.
pub fn start(process: &str, number: u64) -> String {
    format!(r#"{{"process":"{process}","variables":{}}}"#, variables(number))
}
