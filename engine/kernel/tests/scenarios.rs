//! What each node type does, as stories over a tree in memory. Every story ends with a replay of its history.
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use legation_kernel::commands::{Answer, Command};
use legation_kernel::instance::Status;
use legation_kernel::rejection::RejectionKind;
use legation_kernel::task::TaskState;
use legation_language::Value;
use support::{World, json};

const ORDER: &str = "
metadata:
  key: order
  variables:
    amount: { type: number }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay, retry: { max_attempts: 2, backoff: 1s, jitter: 0 } }
    - { id: size, type: exclusive, rules: [ { if: amount > 100, then: big }, { else: small } ] }
    - { id: big, type: engine-task, service: big, next: done }
    - { id: small, type: engine-task, service: small, next: done }
    - { id: done, type: end }
";

#[test]
fn a_token_goes_through_tasks_and_a_gateway_to_the_end() {
    let mut world = World::new(&[("order.process.yaml", ORDER)]);
    world.start("order", &[("amount", json("100.01"))]);
    world.complete("pay", &[("receipt", Value::from("r-1"))]);
    assert_eq!(world.variable("receipt"), Some(Value::from("r-1")));
    world.complete("big", &[]);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn a_start_names_what_is_missing_before_what_is_mistyped() {
    let mut world = World::new(&[("order.process.yaml", ORDER)]);
    let missing = world.try_start("order", &[]).unwrap_err();
    assert_eq!(
        (missing.code, missing.reason.as_deref()),
        ("INPUT_INVALID", Some("missing-param"))
    );
    let mistyped = world
        .try_start("order", &[("amount", Value::from("ten"))])
        .unwrap_err();
    assert_eq!(
        (mistyped.reason.as_deref(), mistyped.argument.as_deref()),
        (Some("invalid-param"), Some("amount"))
    );
    assert!(world.tree.instances.is_empty());
}

#[test]
fn a_repeated_complete_gets_the_same_answer_and_a_stale_lease_nothing() {
    let mut world = World::new(&[("order.process.yaml", ORDER)]);
    world.start("order", &[("amount", json("1"))]);
    let first = world.lease("pay");
    world.now += 30_001;
    let second = world.lease("pay");
    let stale = world.run(&first.complete(&[])).unwrap_err();
    assert_eq!(stale.kind, RejectionKind::Conflict);
    let answer = world.run(&second.complete(&[])).unwrap();
    assert!(matches!(
        answer,
        Answer::Closed {
            state: TaskState::Completed,
            ..
        }
    ));
    assert_eq!(world.run(&second.complete(&[])).unwrap(), answer);
    let gone = world
        .run(&second.complete(&[("other", Value::from(1_i64))]))
        .unwrap_err();
    assert_eq!((gone.kind, gone.code), (RejectionKind::Gone, "WORK_RETIRED"));
    assert_eq!(world.open("small").len(), 1);
    world.check();
}

#[test]
fn a_locked_input_is_not_written_and_the_lease_stands() {
    let mut world = World::new(&[("order.process.yaml", ORDER)]);
    world.start("order", &[("amount", json("5"))]);
    let leased = world.lease("pay");
    let refused = world.run(&leased.complete(&[("amount", json("6"))])).unwrap_err();
    assert_eq!(refused.code, "VARIABLE_LOCKED");
    let refused = world
        .run(&leased.complete(&[("no name", json("6"))]))
        .unwrap_err();
    assert_eq!(refused.code, "VARIABLE_NAME");
    world.run(&leased.complete(&[("amount", json("5.0"))])).unwrap();
    world.check();
}

#[test]
fn failures_back_off_then_open_an_incident_that_a_retry_ends() {
    let mut world = World::new(&[("order.process.yaml", ORDER)]);
    world.start("order", &[("amount", json("5"))]);
    let leased = world.lease("pay");
    let answer = world.run(&leased.fail("card machine is down")).unwrap();
    assert!(
        matches!(
            answer,
            Answer::Closed {
                state: TaskState::Open,
                attempt: 2,
                ..
            }
        ),
        "{answer:?}"
    );
    assert_eq!(
        world.run(&leased.fail("card machine is down")).unwrap(),
        answer,
        "a repeat counts once"
    );
    assert!(world.open("pay").is_empty(), "the back-off holds it");
    world.now += 1_000;
    let leased = world.lease("pay");
    let answer = world.run(&leased.fail("still down")).unwrap();
    assert!(
        matches!(
            answer,
            Answer::Closed {
                state: TaskState::Incident,
                ..
            }
        ),
        "{answer:?}"
    );
    let incident = world.incidents.values().next().unwrap();
    assert_eq!(incident.code, "WORK_FAILED");
    let target = world.target();
    world
        .run(&Command::RetryIncident {
            target: target.clone(),
        })
        .unwrap();
    assert_eq!(
        world.run(&Command::RetryIncident { target }).unwrap_err().code,
        "INCIDENT_CLOSED"
    );
    assert!(world.incidents.is_empty());
    world.complete("pay", &[]);
    world.complete("small", &[]);
    world.check();
}

#[test]
fn an_error_goes_to_the_catcher_with_its_code() {
    let yaml = "
metadata: { key: p, variables: {} }
flow:
  nodes:
    - { id: work-it, type: engine-task, service: t, on_error: [ { code: NO_STOCK, then: sorry } ], next: done }
    - { id: sorry, type: engine-task, service: sorry, next: done }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let leased = world.lease("t");
    let error = legation_kernel::commands::BusinessError {
        code: "NO_STOCK".to_owned(),
        message: None,
        variables: [("left".to_owned(), json("0"))].into(),
    };
    let command = Command::Error {
        task: leased.task.clone(),
        caller: leased.caller.clone(),
        error,
    };
    let answer = world.run(&command).unwrap();
    assert_eq!(world.run(&command).unwrap(), answer);
    assert_eq!(
        world.variable("work_it_error_code"),
        Some(Value::from("NO_STOCK"))
    );
    assert_eq!(world.variable("work_it_outcome"), Some(Value::from("error")));
    assert_eq!(world.variable("left"), Some(json("0")));
    world.complete("sorry", &[]);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn a_fork_joins_when_every_branch_has_come_or_ended_elsewhere() {
    let yaml = "
metadata: { key: p, variables: {} }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [a, b, c] }
    - { id: a, type: engine-task, service: a, next: join }
    - { id: b, type: engine-task, service: b, next: join }
    - { id: c, type: engine-task, service: c, next: away }
    - { id: join, type: parallel, join: all, next: last }
    - { id: away, type: end }
    - { id: last, type: engine-task, service: last, next: done }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    world.complete("a", &[]);
    assert!(world.open("last").is_empty());
    world.complete("b", &[]);
    assert_eq!(world.open("last").len(), 1, "c cannot reach the join");
    world.complete("c", &[]);
    world.complete("last", &[]);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn a_timeout_interrupts_and_takes_its_route() {
    let yaml = "
metadata: { key: p, variables: {} }
flow:
  nodes:
    - { id: slow, type: engine-task, service: slow, on_timeout: { after: 10s, then: late }, next: done }
    - { id: late, type: engine-task, service: late, next: done }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let leased = world.lease("slow");
    world.pass(10_000);
    assert_eq!(world.variable("slow_outcome"), Some(Value::from("timeout")));
    assert_eq!(world.run(&leased.complete(&[])).unwrap_err().code, "WORK_RETIRED");
    world.complete("late", &[]);
    assert_eq!(world.status(), Status::Completed);
    assert!(world.timers.is_empty());
    world.check();
}

#[test]
fn a_decision_records_the_rules_that_matched() {
    let yaml = "
metadata: { key: p, variables: { amount: { type: number } } }
flow:
  nodes:
    - id: check
      type: decision
      rules:
        - { when: amount <= 100, then: { level: low, fee: \"${amount * 0.1}\" } }
        - { otherwise: { level: high, fee: 25 } }
    - { id: wait, type: timer, after: 1s }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[("amount", json("0.3"))]);
    assert_eq!(world.variable("level"), Some(Value::from("low")));
    assert_eq!(world.variable("fee"), Some(json("0.03")), "decimals are exact");
    assert_eq!(world.status(), Status::Running);
    world.pass(1_000);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

#[test]
fn a_failed_expression_holds_the_token_and_names_no_value() {
    let yaml = "
metadata: { key: p, variables: { word: { type: string } } }
flow:
  nodes:
    - { id: choose, type: exclusive, rules: [ { if: word > 3, then: done }, { else: done } ] }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[("word", Value::from("tell-nobody"))]);
    let incident = world.incidents.values().next().unwrap();
    assert_eq!(incident.code, "EXPRESSION_FAILED");
    assert!(!incident.message.contains("tell-nobody"), "{}", incident.message);
    assert!(incident.message.contains("choose"), "{}", incident.message);
    world
        .run(&Command::Cancel {
            instance: World::root(),
            reason: "enough".to_owned(),
        })
        .unwrap();
    assert!(world.incidents.is_empty());
    world.check();
}

#[test]
fn a_person_completes_a_human_task_once() {
    let yaml = "
metadata: { key: p, variables: {} }
flow:
  nodes:
    - id: review
      type: human
      candidates: { groups: [legal] }
      outcomes:
        ok: { then: done }
        no: { then: stop, comment: required }
    - { id: stop, type: end, error: REFUSED }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    let human = world.humans.keys().next().unwrap().clone();
    let complete = |person, outcome: &str, comment: Option<&str>| Command::CompleteHuman {
        human: human.clone(),
        person,
        outcome: Some(outcome.to_owned()),
        variables: Default::default(),
        comment: comment.map(str::to_owned),
    };
    let outsider = world
        .run(&complete(World::person("eve", &["sales"]), "ok", None))
        .unwrap_err();
    assert_eq!(outsider.code, "NOT_A_CANDIDATE");
    let alice = World::person("alice", &["legal"]);
    assert_eq!(
        world.run(&complete(alice.clone(), "no", None)).unwrap_err().code,
        "COMMENT_REQUIRED"
    );
    assert_eq!(
        world
            .run(&complete(alice.clone(), "maybe", None))
            .unwrap_err()
            .code,
        "OUTCOME_REQUIRED"
    );
    world
        .run(&complete(alice.clone(), "no", Some("not signed")))
        .unwrap();
    assert_eq!(
        world.run(&complete(alice, "ok", None)).unwrap_err().kind,
        RejectionKind::Gone
    );
    assert_eq!(world.status(), Status::Failed);
    assert_eq!(
        world.instance(&World::root()).error.as_ref().unwrap().code,
        "REFUSED"
    );
    world.check();
}

/// Core §3: a task that nobody took in time raises an alarm, once, and goes on waiting.
#[test]
fn a_task_that_nobody_starts_in_time_raises_an_alarm() {
    let yaml = "
metadata: { key: p, variables: {} }
flow:
  nodes:
    - { id: a, type: engine-task, service: a, start_within: 10s }
    - { id: b, type: engine-task, service: b, start_within: 10s }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    world.pass(10_000);
    assert_eq!(
        world
            .notices
            .iter()
            .map(|notice| notice.code.as_str())
            .collect::<Vec<_>>(),
        ["NOT_STARTED"]
    );
    world.complete("a", &[]);
    let leased = world.lease("b");
    world.pass(10_000);
    assert_eq!(world.notices.len(), 1, "b was taken in time");
    world.run(&leased.complete(&[])).unwrap();
    assert_eq!(world.status(), Status::Completed);
    assert!(world.timers.is_empty());
    world.check();
}

/// What comes with an error is merged under its own names, so it is checked even where a node maps its result.
#[test]
fn an_error_brings_no_variable_that_a_result_could_not() {
    let yaml = "
metadata: { key: p, variables: { isbn: { type: string } } }
flow:
  nodes:
    - { id: work, type: engine-task, service: t, outputs: { x: result.y }, on_error: done, next: done }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[("isbn", Value::from("book"))]);
    let leased = world.lease("t");
    let error = |name: &str, value: &str| Command::Error {
        task: leased.task.clone(),
        caller: leased.caller.clone(),
        error: legation_kernel::commands::BusinessError {
            code: "ODD".to_owned(),
            message: None,
            variables: [(name.to_owned(), Value::from(value))].into_iter().collect(),
        },
    };
    assert_eq!(
        world.run(&error("no name", "x")).unwrap_err().code,
        "VARIABLE_NAME"
    );
    assert_eq!(
        world.run(&error("isbn", "another")).unwrap_err().code,
        "VARIABLE_LOCKED"
    );
    world.run(&error("stock", "none")).unwrap();
    assert_eq!(world.variable("stock"), Some(Value::from("none")));
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

/// language.md, `human`: unmapped, only the form's own names merge.
#[test]
fn a_form_writes_no_variable_that_it_does_not_ask_for() {
    let yaml = "
metadata: { key: p, variables: {} }
flow:
  nodes:
    - { id: work, type: engine-task, service: t }
    - { id: ask, type: human, candidates: { groups: [legal] }, form: { type: object, properties: { name: { type: string } } } }
    - { id: bare, type: human, candidates: { groups: [legal] } }
    - { id: mapped, type: human, candidates: { groups: [legal] }, outputs: { extra: result.limit } }
    - { id: done, type: end }
";
    let mut world = World::new(&[("p.process.yaml", yaml)]);
    world.start("p", &[]);
    world.complete("t", &[("limit", json("100"))]);
    for _ in ["ask", "bare", "mapped"] {
        let human = world.humans.keys().next().unwrap().clone();
        let submitted = [("name", Value::from("Ada")), ("limit", json("1000000"))];
        let complete = Command::CompleteHuman {
            human,
            person: World::person("alice", &["legal"]),
            outcome: None,
            variables: submitted
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
            comment: None,
        };
        world.run(&complete).unwrap();
    }
    assert_eq!(world.status(), Status::Completed);
    assert_eq!(world.variable("name"), Some(Value::from("Ada")));
    assert_eq!(world.variable("limit"), Some(json("100")));
    assert_eq!(world.variable("extra"), Some(json("1000000")));
    world.check();
}

/// Core §3: a repeat of a closing call is answered as the call was, whatever became of the task since.
#[test]
fn a_repeated_failure_is_answered_as_the_first_while_others_go_on() {
    let mut world = World::new(&[("order.process.yaml", ORDER)]);
    world.start("order", &[("amount", json("5"))]);
    let first = world.lease("pay");
    let answer = world.run(&first.fail("down")).unwrap();
    world.now += 1_000;
    let second = world.lease("pay");
    assert_eq!(
        world.run(&first.fail("down")).unwrap(),
        answer,
        "leased by another"
    );
    let held = world.run(&second.fail("down again")).unwrap();
    let target = world.target();
    world.run(&Command::RetryIncident { target }).unwrap();
    assert_eq!(
        world.run(&second.fail("down again")).unwrap(),
        held,
        "retried by an operator"
    );
    world.complete("pay", &[]);
    world.check();
}
