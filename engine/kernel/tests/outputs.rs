//! Core §3: what a node's `outputs` cannot be made of is refused while its sender still holds the work, and the
//! work is never stuck with it. What is wrong in the process itself stays an incident.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use legation_kernel::commands::{Answer, Command};
use legation_kernel::instance::Status;
use legation_kernel::rejection::RejectionKind;
use legation_language::Value;
use support::{World, json};

fn process(outputs: &str) -> String {
    format!(
        "
metadata: {{ key: p, variables: {{ rate: {{ type: number }}, total: {{ type: number, input: false }} }} }}
flow:
  nodes:
    - {{ id: work, type: engine-task, service: t, outputs: {outputs} }}
    - {{ id: done, type: end }}
"
    )
}

/// Outputs, what was sent, the code of the refusal, the output at fault, and what the message names.
const REFUSED: &[(&str, &str, &str, &str, &[&str])] = &[
    (
        "{ no: result.receipt }",
        r#"{"recipt":1}"#,
        "OUTPUT_INVALID",
        "no",
        &["output no", "result.receipt", "recipt"],
    ),
    (
        "{ no: receipt }",
        r#"{"recipt":1}"#,
        "OUTPUT_INVALID",
        "no",
        &["receipt", "given were recipt"],
    ),
    (
        "{ no: receipt }",
        "{}",
        "OUTPUT_INVALID",
        "no",
        &["no name was given"],
    ),
    (
        "{ a: result.a, b: result.b }",
        r#"{"a":1}"#,
        "OUTPUT_INVALID",
        "b",
        &["output b"],
    ),
    (
        "{ sum: result.net * rate }",
        r#"{"net":"ten"}"#,
        "OUTPUT_INVALID",
        "sum",
        &["result.net * rate"],
    ),
    (
        "{ sum: net * rate }",
        r#"{"net":[1]}"#,
        "OUTPUT_INVALID",
        "sum",
        &["given were net"],
    ),
    (
        "{ deep: result.a.b }",
        r#"{"a":{"c":1}}"#,
        "OUTPUT_INVALID",
        "deep",
        &["`b`"],
    ),
    (
        "{ total: result.total }",
        r#"{"total":"ten"}"#,
        "VARIABLE_TYPE",
        "total",
        &["output total", "a number"],
    ),
];

#[test]
fn a_result_of_which_an_output_cannot_be_made_is_refused_and_the_lease_stands() {
    for (outputs, sent, code, output, named) in REFUSED {
        let mut world = World::new(&[("p.process.yaml", &process(outputs))]);
        world.start("p", &[("rate", json("2"))]);
        let leased = world.lease("t");
        let sent = json(sent);
        let pairs: Vec<(&str, Value)> = sent
            .as_map()
            .unwrap()
            .iter()
            .map(|(name, value)| (name.as_str(), value.clone()))
            .collect();
        let before = world.file(&leased.task).clone();
        let refused = world.run(&leased.complete(&pairs)).unwrap_err();
        assert_eq!(
            (refused.kind, refused.code),
            (RejectionKind::Invalid, *code),
            "{outputs}"
        );
        assert_eq!(refused.argument.as_deref(), Some(*output), "{outputs}");
        for name in *named {
            assert!(refused.message.contains(name), "{outputs}: {}", refused.message);
        }
        assert_eq!(world.file(&leased.task), &before, "{outputs}: nothing changed");
        assert!(world.incidents.is_empty(), "{outputs}");
        let mended = [
            ("receipt", "r"),
            ("a", "{\"b\":1}"),
            ("b", "1"),
            ("net", "5"),
            ("total", "7"),
        ];
        let mended: Vec<(&str, Value)> = mended
            .iter()
            .map(|(name, text)| (*name, Value::parse(text).unwrap_or(Value::from(*text))))
            .collect();
        world.run(&leased.complete(&mended)).unwrap();
        assert_eq!(world.status(), Status::Completed, "{outputs}");
        world.check();
    }
}

/// Whatever else the process says about the name: its caller's outputs, a variable of its own, a node further on.
#[test]
fn a_listed_output_that_was_not_sent_is_refused_also_where_the_process_declares_it() {
    for declared in [
        "outputs: { receipt: { type: string } }",
        "variables: { receipt: { type: string, input: false } }",
        "variables: { receipt: { type: string, required: false } }",
        "name: Nothing declared",
    ] {
        let yaml = format!(
            "
metadata: {{ key: p, {declared} }}
flow:
  nodes:
    - {{ id: work, type: engine-task, service: t, outputs: [receipt] }}
    - {{ id: again, type: engine-task, service: u, outputs: [receipt] }}
    - {{ id: done, type: end }}
"
        );
        let mut world = World::new(&[("p.process.yaml", &yaml)]);
        world.start("p", &[]);
        let leased = world.lease("t");
        let refused = world
            .run(&leased.complete(&[("recipt", json("1"))]))
            .map(|_| "accepted")
            .unwrap_err();
        assert_eq!(
            (refused.code, refused.argument.as_deref()),
            ("OUTPUT_INVALID", Some("receipt")),
            "{declared}"
        );
        assert!(world.incidents.is_empty(), "{declared}");
    }
}

#[test]
fn no_refusal_of_a_result_holds_a_value_of_it() {
    let mut world = World::new(&[("p.process.yaml", &process("{ sum: result.net * rate }"))]);
    world.start("p", &[("rate", json("2"))]);
    let leased = world.lease("t");
    let refused = world
        .run(&leased.complete(&[("net", Value::from("tell-nobody"))]))
        .unwrap_err();
    assert!(!format!("{refused:?}").contains("tell-nobody"), "{refused:?}");
}

/// The worker did its part: its work is kept with the incident, and a retry helps when the variable is there.
#[test]
fn what_another_branch_has_yet_to_write_is_no_fault_of_the_worker() {
    let yaml = "
metadata: { key: p }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [first, second] }
    - { id: first, type: engine-task, service: first, outputs: { sum: result.net + other }, next: join }
    - { id: second, type: engine-task, service: second, outputs: { other: result.other }, next: join }
    - { id: join, type: parallel, join: all }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let refused = {
        let leased = world.lease("first");
        world.run(&leased.complete(&[("net", json("1"))])).unwrap_err()
    };
    assert_eq!(
        refused.code, "OUTPUT_INVALID",
        "it reads the result, so its sender is told"
    );

    let yaml = yaml.replace("result.net + other", "other + 1");
    let mut world = World::new(&[("p.process.yaml", &yaml)]);
    world.start("p", &[]);
    world.complete("first", &[]);
    let incident = world.incidents.values().next().unwrap();
    assert_eq!(incident.code, "EXPRESSION_FAILED");
    let target = world.target();
    world.complete("second", &[("other", json("4"))]);
    world.run(&Command::RetryIncident { target }).unwrap();
    assert_eq!(world.variable("sum"), Some(json("5")));
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn a_form_of_which_an_output_cannot_be_made_leaves_the_task_open() {
    let yaml = "
metadata: { key: p }
flow:
  nodes:
    - id: ask
      type: human
      candidates: { groups: [legal] }
      outcomes: { ok: { then: done }, no: { then: done } }
      outputs: { limit: result.limit, said: ask_outcome }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let human = world.humans.keys().next().unwrap().clone();
    let complete = |name: &str| Command::CompleteHuman {
        human: human.clone(),
        person: World::person("alice", &["legal"]),
        outcome: Some("ok".to_owned()),
        variables: [(name.to_owned(), json("10"))].into(),
        comment: None,
    };
    let refused = world.run(&complete("limt")).unwrap_err();
    assert_eq!(
        (refused.code, refused.argument.as_deref()),
        ("OUTPUT_INVALID", Some("limit"))
    );
    assert_eq!(world.humans.len(), 1);
    world.run(&complete("limit")).unwrap();
    assert_eq!(world.variable("said"), Some(Value::from("ok")));
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

/// D42: the model reads what is wrong and corrects itself; the third time counts as a failure.
#[test]
fn an_agents_result_of_which_an_output_cannot_be_made_breaks_its_contract() {
    let yaml = "
metadata: { key: p }
flow:
  nodes:
    - id: triage
      type: agent
      model: scripted
      prompt: Triage.
      result_variable: triage_result
      retry: { max_attempts: 2, backoff: 1s, jitter: 0 }
      outputs: { amount: triage_result.amount }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let leased = world.lease("agent");
    for _ in 0..2 {
        let answer = world.run(&leased.answer(json(r#"{"sum":1}"#), None)).unwrap();
        let Answer::InvalidOutput { errors } = answer else {
            panic!("{answer:?}")
        };
        assert!(
            errors[0].contains("output amount") && errors[0].contains("given were sum"),
            "{errors:?}"
        );
    }
    let answer = world.run(&leased.answer(json(r#"{"sum":1}"#), None)).unwrap();
    assert!(matches!(answer, Answer::Closed { attempt: 2, .. }), "{answer:?}");
    world.now += 1_000;
    let leased = world.lease("agent");
    world.run(&leased.answer(json(r#"{"amount":1}"#), None)).unwrap();
    assert_eq!(world.variable("amount"), Some(json("1")));
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn an_output_of_another_type_at_the_end_is_named_with_its_type() {
    let yaml = "
metadata: { key: p, variables: {}, outputs: { fee: { type: number }, text: { type: string } } }
flow:
  nodes:
    - { id: work, type: engine-task, service: t }
    - { id: done, type: end }
";
    for (sent, reason, named) in [
        (
            [("fee", json("\"ten\"")), ("text", json("\"n\""))].as_slice(),
            "invalid-return",
            ["fee", "a number"],
        ),
        (
            [("fee", json("10"))].as_slice(),
            "missing-output",
            ["text", "a string"],
        ),
    ] {
        let mut world = World::new(&[("p.process.yaml", yaml)]);
        world.start("p", &[]);
        world.complete("t", sent);
        let instance = world.instance(&World::root());
        assert_eq!(instance.status, Status::Failed);
        let error = instance.error.as_ref().unwrap();
        assert_eq!(
            (error.code.as_str(), error.reason.as_deref()),
            ("OUTPUT_INVALID", Some(reason))
        );
        let told = instance.reason.as_deref().unwrap();
        assert!(named.iter().all(|name| told.contains(name)), "{told}");
        world.check();
    }
}

/// Core §1: an answer that takes another way is bounded like any other.
#[test]
fn an_unsure_answer_has_at_most_the_size_of_a_variable() {
    let yaml = "
metadata: { key: p }
flow:
  nodes:
    - id: triage
      type: agent
      model: scripted
      prompt: Triage.
      result_variable: triage_result
      confidence_threshold: 0.8
      output_schema: { type: object }
      on_low_confidence: review
      next: done
    - { id: review, type: engine-task, service: review, next: done }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let leased = world.lease("agent");
    let unsure = |text: String| Value::map([("_confidence", json("0.1")), ("text", Value::from(text))]);
    let refused = world
        .run(&leased.answer(unsure("x".repeat(1024 * 1024)), None))
        .unwrap_err();
    assert_eq!(refused.code, "VARIABLE_TOO_LARGE");
    world
        .run(&leased.answer(unsure("short".to_owned()), None))
        .unwrap();
    world.complete("review", &[]);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}
