//! The page's story in the kernel: an agent delegates, the child runs as its own instance, only declared outputs
//! come back (D12–D22, D40, D45–D47, D63).
#![expect(clippy::unwrap_used, reason = "tests")]

mod support;

use legation_kernel::commands::{Answer, Command};
use legation_kernel::ids::InstanceId;
use legation_kernel::instance::{Cause, Event, Status};
use legation_kernel::journal::{Record, StepInput, StepKind, StepState};
use legation_kernel::rejection::{Rejection, RejectionKind};
use legation_kernel::task::TaskState;
use legation_language::Value;
use support::{Leased, World, json};

const REFUND: &str = "
metadata:
  key: refund_payout
  variables:
    orderId: { type: string }
    amount: { type: number }
flow:
  nodes:
    - id: check_policy
      type: decision
      rules:
        - { when: amount <= 500, then: { allowed: true } }
        - { otherwise: { allowed: false } }
    - { id: allowed_, type: exclusive, rules: [ { if: allowed, then: pay }, { else: denied } ] }
    - { id: denied, type: end, error: REFUND_DENIED }
    - { id: pay, type: engine-task, service: payments.payout, next: done }
    - { id: done, type: end }
";

const COMPLAINT: &str = "
metadata: { key: complaint, variables: { customerId: { type: string } } }
flow:
  nodes:
    - id: triage
      type: agent
      model: scripted
      prompt: Handle the complaint from ${customerId}
      delegates:
        - { process: refund_payout, description: Refund a customer, outputs: [payout_id] }
      on_timeout: { after: 1h, then: late }
      next: notify
    - { id: late, type: engine-task, service: late, next: done }
    - { id: notify, type: engine-task, service: notify }
    - { id: done, type: end }
";

fn with_approval() -> String {
    COMPLAINT.replace(
        "outputs: [payout_id] }",
        "outputs: [payout_id], approval: required, approvers: [finance] }",
    )
}

fn world(complaint: &str) -> World {
    let mut world = World::new(&[
        ("refund.process.yaml", REFUND),
        ("complaint.process.yaml", complaint),
    ]);
    world.start("complaint", &[("customerId", Value::from("c-1"))]);
    world
}

fn input(
    sequence: u32,
    kind: StepKind,
    state: StepState,
    target: &str,
    request: Value,
    result: Option<Value>,
) -> StepInput {
    StepInput {
        sequence,
        kind,
        state,
        tool_ref: target.to_owned(),
        call: None,
        call_id: None,
        request,
        result,
        once: false,
    }
}

fn send(world: &mut World, leased: &Leased, steps: Vec<StepInput>) -> Result<Answer, Rejection> {
    let record = Record {
        caller: leased.caller.clone(),
        attempt: 1,
        single: steps.len() == 1,
        steps,
    };
    world.run(&Command::Steps {
        task: leased.task.clone(),
        record,
    })
}

/// A model turn that asks for one refund of this amount, as step `sequence`.
fn turn(world: &mut World, leased: &Leased, sequence: u32, amount: u32) {
    let request = json(r#"{"added":[{"role":"user","text":"go"}]}"#);
    let result = json(&format!(
        r#"{{"calls":[{{"tool":"delegate__refund_payout","arguments":{{"orderId":"5531","amount":{amount}}}}}],"usage":{{"inputTokens":5,"outputTokens":5}},"model":"scripted"}}"#
    ));
    let ask = input(
        sequence,
        StepKind::Model,
        StepState::Started,
        "model:scripted",
        request.clone(),
        None,
    );
    send(world, leased, vec![ask]).unwrap();
    let done = input(
        sequence,
        StepKind::Model,
        StepState::Completed,
        "model:scripted",
        request,
        Some(result),
    );
    send(world, leased, vec![done]).unwrap();
}

fn delegation(sequence: u32, arguments: &str) -> StepInput {
    let request = Value::map([("arguments", json(arguments))]);
    input(
        sequence,
        StepKind::Delegation,
        StepState::Started,
        "delegate:refund_payout",
        request,
        None,
    )
}

const ARGUMENTS: &str = r#"{"orderId":"5531","amount":89}"#;

fn delegated(world: &mut World) -> (Leased, InstanceId) {
    let leased = world.lease("agent");
    turn(world, &leased, 1, 89);
    let answer = send(world, &leased, vec![delegation(2, ARGUMENTS)]).unwrap();
    let Answer::Steps { recorded, state, .. } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(state, TaskState::AwaitingChild);
    let child = recorded.steps[0].child.clone().unwrap();
    (leased, child)
}

/// D12, D13, D15, D16, D17, D41, D47.
#[test]
fn a_delegation_runs_as_its_own_instance_and_gives_only_its_outputs_back() {
    let mut world = world(COMPLAINT);
    let (leased, child) = delegated(&mut world);
    assert!(world.open("agent").is_empty(), "parked: no lease, no slot");
    assert!(world.file(&leased.task).task.lease.is_none());
    let parent = world.instance(&child).parent.clone().unwrap();
    assert_eq!((parent.instance, parent.node.as_str()), (World::root(), "triage"));
    let Cause::Step {
        sequence,
        model,
        prompt_version,
        ..
    } = parent.cause
    else {
        panic!("a step started it")
    };
    assert_eq!((sequence, model.as_deref()), (2, Some("scripted")));
    assert_eq!(prompt_version.unwrap().len(), 12);
    assert_eq!(world.instance(&child).depth, 1);

    world.complete(
        "payments.payout",
        &[("payout_id", Value::from("P-55")), ("iban", Value::from("DE00"))],
    );
    assert_eq!(world.instance(&child).status, Status::Completed);
    let again = world.lease("agent");
    assert_eq!(again.task, leased.task);
    let step = world.file(&again.task).step(1, 2).unwrap().clone();
    assert_eq!(step.state, StepState::Completed);
    let result = world.tree.payloads.get(&step.result.unwrap().digest).unwrap();
    assert_eq!(result, &json(r#"{"payout_id":"P-55"}"#));
    turn_without_calls(&mut world, &again, 3);
    world.run(&again.answer(Value::from("refunded"), None)).unwrap();
    assert_eq!(world.variable("triage_result"), Some(Value::from("refunded")));
    assert_eq!(world.variable("iban"), None);
    world.complete("notify", &[]);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

fn turn_without_calls(world: &mut World, leased: &Leased, sequence: u32) {
    let request = json(r#"{"base":1,"added":[]}"#);
    let result = json(
        r#"{"text":"refunded","calls":[],"usage":{"inputTokens":1,"outputTokens":1},"model":"scripted"}"#,
    );
    let ask = input(
        sequence,
        StepKind::Model,
        StepState::Started,
        "model:scripted",
        request.clone(),
        None,
    );
    send(world, leased, vec![ask]).unwrap();
    let done = input(
        sequence,
        StepKind::Model,
        StepState::Completed,
        "model:scripted",
        request,
        Some(result),
    );
    send(world, leased, vec![done]).unwrap();
}

/// D16, architecture §7.1: the sentence has the actual status and the error end's code.
#[test]
fn a_child_that_ended_otherwise_is_told_as_a_sentence() {
    let mut world = world(COMPLAINT);
    let leased = world.lease("agent");
    turn(&mut world, &leased, 1, 900);
    send(
        &mut world,
        &leased,
        vec![delegation(2, r#"{"orderId":"5531","amount":900}"#)],
    )
    .unwrap();
    world.deliver();
    let step = world.file(&leased.task).step(1, 2).unwrap().clone();
    assert_eq!(step.state, StepState::Failed);
    let result = world
        .tree
        .payloads
        .get(&step.result.unwrap().digest)
        .unwrap()
        .to_json();
    assert!(result.contains("The delegated process ended FAILED"), "{result}");
    assert!(result.contains("REFUND_DENIED"), "{result}");
    assert!(result.contains("it returned nothing"), "{result}");
    assert_eq!(world.open("agent").len(), 1);
    world.check();
}

/// D10, D11: refused before anything is recorded, and the task goes on.
#[test]
fn a_delegation_that_does_not_fit_is_refused_and_records_nothing() {
    let mut world = world(COMPLAINT);
    let leased = world.lease("agent");
    turn(&mut world, &leased, 1, 89);
    let refused = send(&mut world, &leased, vec![delegation(2, r#"{"orderId":"5531"}"#)]).unwrap_err();
    assert_eq!(refused.code, "DELEGATION_INPUT_INVALID");
    assert_eq!(
        (refused.reason.as_deref(), refused.argument.as_deref()),
        (Some("missing-param"), Some("amount"))
    );
    assert!(refused.tool_error);
    let mut unbound = delegation(2, ARGUMENTS);
    unbound.tool_ref = "delegate:other".to_owned();
    let refused = send(&mut world, &leased, vec![unbound]).unwrap_err();
    assert_eq!((refused.code, refused.tool_error), ("TOOL_NOT_BOUND", true));
    assert_eq!(world.file(&leased.task).steps.len(), 1);
    assert_eq!(world.tree.instances.len(), 1);
    world.check();
}

/// D22, I8: the same request again is recognised, parked or not.
#[test]
fn a_repeated_delegation_starts_no_second_child() {
    let mut world = world(COMPLAINT);
    let (leased, child) = delegated(&mut world);
    for _ in 0..3 {
        let answer = send(&mut world, &leased, vec![delegation(2, ARGUMENTS)]).unwrap();
        let Answer::Steps { recorded, .. } = answer else {
            panic!()
        };
        assert_eq!(recorded.steps[0].child.as_ref(), Some(&child));
        assert!(
            recorded.steps[0].arguments.is_none(),
            "no grant outside the live lease"
        );
    }
    let other = send(
        &mut world,
        &leased,
        vec![delegation(2, r#"{"orderId":"1","amount":1}"#)],
    )
    .unwrap_err();
    assert!(
        ["LEASE_EXPIRED", "DIVERGENT_STEP"].contains(&other.code),
        "{other:?}"
    );
    assert_eq!(world.tree.instances.len(), 2);
    world.check();
}

/// D19: the child is cancelled with the parent.
#[test]
fn cancelling_the_parent_cancels_the_delegated_child() {
    let mut world = world(COMPLAINT);
    let (_, child) = delegated(&mut world);
    let payment = world.lease("payments.payout");
    world
        .run(&Command::Cancel {
            instance: World::root(),
            reason: "withdrawn".to_owned(),
        })
        .unwrap();
    world.deliver();
    assert_eq!(world.instance(&child).status, Status::Cancelled);
    assert_eq!(
        world.run(&payment.complete(&[])).unwrap_err().kind,
        RejectionKind::Gone
    );
    world.check();
}

/// D20: the agent's timeout cancels the child and takes the timeout route.
#[test]
fn the_agents_timeout_cancels_the_child_and_takes_its_route() {
    let mut world = world(COMPLAINT);
    let (_, child) = delegated(&mut world);
    world.pass(60 * 60 * 1_000);
    assert_eq!(world.instance(&child).status, Status::Cancelled);
    assert_eq!(world.open("late").len(), 1);
    world.complete("late", &[]);
    assert_eq!(world.status(), Status::Completed);
    world.check();
}

/// D21: ended in the moment before the cancel; the result is ignored and recorded.
#[test]
fn a_childs_result_after_the_cancel_is_ignored_and_recorded() {
    let mut world = world(COMPLAINT);
    let _ = delegated(&mut world);
    let payment = world.lease("payments.payout");
    world
        .run(&payment.complete(&[("payout_id", Value::from("P-1"))]))
        .unwrap();
    world
        .run(&Command::Cancel {
            instance: World::root(),
            reason: "withdrawn".to_owned(),
        })
        .unwrap();
    world.deliver();
    let last = world.history[&World::root()].last().unwrap();
    assert!(
        matches!(
            last.1.first(),
            Some(Event::ChildResultIgnored {
                status: Status::Completed,
                ..
            })
        ),
        "{last:?}"
    );
    assert_eq!(world.status(), Status::Cancelled);
    world.check();
}

fn proposed(world: &mut World) -> (Leased, String, String) {
    let leased = world.lease("agent");
    turn(world, &leased, 1, 89);
    let answer = send(world, &leased, vec![delegation(2, ARGUMENTS)]).unwrap();
    assert!(
        matches!(
            answer,
            Answer::Steps {
                state: TaskState::AwaitingApproval,
                ..
            }
        ),
        "{answer:?}"
    );
    let human = world.humans.values().next().unwrap();
    (leased, human.id.clone(), human.digest.clone().unwrap())
}

fn decide(
    leased: &Leased,
    human: &str,
    who: (&str, &[&str]),
    approved: bool,
    comment: Option<&str>,
    digest: &str,
) -> Command {
    Command::Decide {
        human: human.to_owned(),
        task: leased.task.clone(),
        person: World::person(who.0, who.1),
        approved,
        comment: comment.map(str::to_owned),
        digest: Some(digest.to_owned()),
    }
}

/// D18, D45, D46, B21: no child until somebody approves; then it starts in the deciding transaction.
#[test]
fn an_approved_delegation_starts_in_the_deciding_transaction() {
    let mut world = world(&with_approval());
    let (leased, human, digest) = proposed(&mut world);
    assert_eq!(world.tree.instances.len(), 1, "no child exists yet");
    let outsider = world
        .run(&decide(&leased, &human, ("eve", &["sales"]), true, None, &digest))
        .unwrap_err();
    assert_eq!(outsider.kind, RejectionKind::Forbidden);
    let stale = world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            true,
            None,
            "0000",
        ))
        .unwrap_err();
    assert_eq!(stale.code, "APPROVAL_CHANGED");
    let answer = world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            true,
            None,
            &digest,
        ))
        .unwrap();
    let Answer::Decided { child: Some(child) } = answer else {
        panic!("{answer:?}")
    };
    assert_eq!(world.instance(&child).status, Status::Running);
    let second = world
        .run(&decide(
            &leased,
            &human,
            ("bob", &["finance"]),
            true,
            None,
            &digest,
        ))
        .unwrap_err();
    assert_eq!(second.code, "ALREADY_DECIDED");
    let again = world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            true,
            None,
            &digest,
        ))
        .unwrap();
    assert_eq!(
        again,
        Answer::Decided {
            child: Some(child.clone())
        },
        "her own decision, whose answer was lost"
    );
    let changed = world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            false,
            Some("no"),
            &digest,
        ))
        .unwrap_err();
    assert_eq!(changed.code, "ALREADY_DECIDED");
    assert_eq!(world.tree.instances.len(), 2);
    world.complete("payments.payout", &[("payout_id", Value::from("P-9"))]);
    assert_eq!(world.open("agent").len(), 1);
    world.check();
}

/// D45: a rejection needs a comment, which the model reads; no child ever exists.
#[test]
fn a_rejection_needs_a_comment_and_opens_the_task() {
    let mut world = world(&with_approval());
    let (leased, human, digest) = proposed(&mut world);
    let bare = world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            false,
            None,
            &digest,
        ))
        .unwrap_err();
    assert_eq!(bare.code, "COMMENT_REQUIRED");
    world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            false,
            Some("ask again"),
            &digest,
        ))
        .unwrap();
    let step = world.file(&leased.task).step(1, 2).unwrap();
    assert_eq!(
        (step.state, step.comment.as_deref()),
        (StepState::Rejected, Some("ask again"))
    );
    assert_eq!(world.open("agent").len(), 1);
    assert_eq!(world.tree.instances.len(), 1);
    world.check();
}

/// D45, B21: after a cancel the decision is gone.
#[test]
fn a_decision_after_the_cancel_is_gone() {
    let mut world = world(&with_approval());
    let (leased, human, digest) = proposed(&mut world);
    world
        .run(&Command::Cancel {
            instance: World::root(),
            reason: "withdrawn".to_owned(),
        })
        .unwrap();
    let late = world
        .run(&decide(
            &leased,
            &human,
            ("alice", &["finance"]),
            true,
            None,
            &digest,
        ))
        .unwrap_err();
    assert_eq!(late.kind, RejectionKind::Gone);
    assert!(world.humans.is_empty());
    world.check();
}

/// D63: over `max_concurrent` a delegation is queued; it starts when a sibling settles.
#[test]
fn the_excess_of_concurrent_delegations_waits_for_a_place() {
    let complaint = COMPLAINT.replace("model: scripted\n", "model: scripted\n      max_concurrent: 1\n");
    let mut world = world(&complaint);
    let leased = world.lease("agent");
    let request = json(r#"{"added":[]}"#);
    let result = json(
        r#"{"calls":[{"tool":"delegate__refund_payout","arguments":{"orderId":"a","amount":1}},{"tool":"delegate__refund_payout","arguments":{"orderId":"b","amount":2}}],"usage":{"inputTokens":1,"outputTokens":1},"model":"scripted"}"#,
    );
    let ask = input(
        1,
        StepKind::Model,
        StepState::Started,
        "model:scripted",
        request.clone(),
        None,
    );
    send(&mut world, &leased, vec![ask]).unwrap();
    let done = input(
        1,
        StepKind::Model,
        StepState::Completed,
        "model:scripted",
        request,
        Some(result),
    );
    send(&mut world, &leased, vec![done]).unwrap();
    let both = vec![
        delegation(2, r#"{"orderId":"a","amount":1}"#),
        delegation(3, r#"{"orderId":"b","amount":2}"#),
    ];
    let answer = send(&mut world, &leased, both).unwrap();
    let Answer::Steps { recorded, .. } = answer else {
        panic!()
    };
    assert_eq!(
        recorded.steps.iter().map(|step| step.queued).collect::<Vec<_>>(),
        [false, true]
    );
    assert_eq!(world.tree.instances.len(), 2);
    world.complete("payments.payout", &[("payout_id", Value::from("P-1"))]);
    assert_eq!(
        world.tree.instances.len(),
        3,
        "the queued one started with the settling commit"
    );
    assert!(world.open("agent").is_empty());
    world.complete("payments.payout", &[("payout_id", Value::from("P-2"))]);
    assert_eq!(world.open("agent").len(), 1);
    world.check();
}
