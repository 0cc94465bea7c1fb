//! D18, D45, D46, B21: nothing runs, and no child exists, before a person approved the exact inputs.

use legation_kernel::effect::Effect;
use legation_kernel::journal::StepState;
use legation_kernel::task::{self, TaskState, WaitingKind};
use legation_language::Value;

use crate::bench::*;

fn transfer() -> legation_kernel::journal::StepInput {
    tool(1, "pay/transfer", Value::map([("amount", 900)]))
}

#[test]
fn d18_an_approved_delegation_starts_its_child_with_the_decision() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let answer = bench
        .send(&caller, delegation(1, "large_payout", refund()))
        .unwrap();
    assert_eq!(
        (answer.steps[0].state, answer.children.len()),
        (StepState::Proposed, 0)
    );
    assert!(answer.parked);
    assert_eq!(bench.status(), TaskState::AwaitingApproval);
    assert_eq!(task::waiting_for(&bench.file)[0].kind, WaitingKind::Approval);
    let approval = bench.approvals()[0].clone();
    assert_eq!(approval.groups, ["finance"]);
    assert_eq!(answer.steps[0].approval.as_deref(), Some(approval.id.as_str()));
    assert_eq!(approval.digest, bench.step(1).effective_digest);
    assert_eq!(
        bench.payloads.get(&approval.inputs.unwrap().digest),
        Ok(&refund()),
        "the exact inputs"
    );

    let decided = bench.decide_step(1, true, None).unwrap();
    assert_eq!(decided.children.len(), 1, "no worker is needed");
    assert_eq!(Value::Map(decided.children[0].inputs.clone()), refund());
    assert_eq!(
        (bench.state(1), bench.status()),
        (StepState::Started, TaskState::AwaitingChild)
    );
    assert!(matches!(bench.effects.last(), Some(Effect::CloseHuman(end)) if end.state == "COMPLETED"));
}

#[test]
fn d46_an_approved_tool_runs_with_the_arguments_of_its_grant() {
    let mut bench = Bench::new();
    let first = bench.lease("w1");
    let answer = bench.send(&first, transfer()).unwrap();
    assert_eq!(
        (
            answer.steps[0].arguments.as_ref(),
            answer.steps[0].idempotency_key.as_ref()
        ),
        (None, None)
    );
    let decided = bench.decide_step(1, true, Some("fine")).unwrap();
    assert!(decided.opened);
    assert_eq!(
        (bench.state(1), bench.status()),
        (StepState::Approved, TaskState::Open)
    );
    let second = bench.lease("w2");
    assert_eq!(
        bench.code(&second, done(transfer(), Value::Null)),
        "WRITE_AHEAD_REQUIRED"
    );
    let granted = bench.send(&second, transfer()).unwrap();
    assert_eq!(granted.steps[0].arguments, Some(Value::map([("amount", 900)])));
    assert!(granted.steps[0].idempotency_key.is_some());
    bench.send(&second, done(transfer(), Value::from("P-1"))).unwrap();
    assert_eq!(bench.state(1), StepState::Completed);
}

#[test]
fn d36_a_result_before_the_decision_is_refused() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    let read = tool(2, "crm/get_customer", Value::map([("id", "a")]));
    bench.batch(&caller, vec![transfer(), read]).unwrap();
    assert_eq!(
        bench.code(&caller, done(transfer(), Value::Null)),
        "APPROVAL_REQUIRED"
    );
}

#[test]
fn d45_a_rejection_needs_a_comment_which_the_model_reads() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, transfer()).unwrap();
    for comment in [None, Some("  ")] {
        assert_eq!(
            bench.decide_step(1, false, comment).unwrap_err().code,
            "COMMENT_REQUIRED"
        );
    }
    bench.decide_step(1, false, Some("too much")).unwrap();
    assert_eq!(
        (bench.state(1), bench.status()),
        (StepState::Rejected, TaskState::Open)
    );
    assert_eq!(bench.result(1).get("comment"), Some(&Value::from("too much")));
    assert_eq!(
        (
            bench.step(1).comment.as_deref(),
            bench.step(1).decided_by.as_deref()
        ),
        (Some("too much"), Some("alice"))
    );
}

#[test]
fn d46_a_decision_on_something_else_is_refused() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, transfer()).unwrap();
    let stale = decision("alice", true, None, "0000");
    assert_eq!(bench.decide_as(1, &stale).unwrap_err().code, "APPROVAL_CHANGED");
    assert_eq!(bench.state(1), StepState::Proposed);
}

#[test]
fn d46_the_digest_names_target_version_and_arguments_not_who_sent_them() {
    let digest = |version: u32, arguments: Value| {
        let mut bench = Bench::new();
        bench.agent.delegates[1].version = version;
        let caller = bench.lease("w1");
        bench
            .send(&caller, delegation(1, "large_payout", arguments))
            .unwrap();
        bench.step(1).effective_digest.clone().unwrap()
    };
    let short = object(r#"{"orderId":"5531","amount":89.0}"#);
    assert_eq!(
        digest(7, refund()),
        digest(7, short),
        "the same effective arguments"
    );
    assert_ne!(digest(7, refund()), digest(8, refund()));
    assert_ne!(
        digest(7, refund()),
        digest(7, object(r#"{"orderId":"5531","amount":90}"#))
    );
}

#[test]
fn b21_the_second_approver_is_told_that_it_is_decided() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench
        .send(&caller, delegation(1, "large_payout", refund()))
        .unwrap();
    bench.decide_step(1, true, None).unwrap();
    let file = bench.file.clone();
    let digest = bench.step(1).effective_digest.clone().unwrap();
    for (by, approved) in [("bob", true), ("bob", false), ("alice", false)] {
        let late = decision(by, approved, Some("no"), &digest);
        assert_eq!(bench.decide_as(1, &late).unwrap_err().code, "ALREADY_DECIDED");
    }
    let again = bench.decide_step(1, true, None).unwrap();
    assert!(
        again.children.is_empty(),
        "the same decision again starts no second child"
    );
    assert_eq!(bench.file, file);
}

#[test]
fn d45_a_decision_after_the_end_is_gone() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, transfer()).unwrap();
    let now = bench.now;
    bench.decide(|_, file, numbers, out| {
        task::retire(
            file,
            task::TaskOutcome::Cancelled,
            "the node timed out",
            now,
            numbers,
            out,
        )
    });
    assert_eq!(bench.state(1), StepState::Withdrawn);
    assert!(
        bench
            .effects
            .iter()
            .any(|effect| matches!(effect, Effect::CloseHuman(end) if end.state == "CANCELLED"))
    );
    assert_eq!(bench.decide_step(1, true, None).unwrap_err().code, "WORK_RETIRED");
}

#[test]
fn d63_an_approved_delegation_over_the_limit_is_queued() {
    let mut bench = Bench::new();
    bench.agent.max_concurrent = 1;
    let caller = bench.lease("w1");
    let steps = vec![
        delegation(1, "refund_payout", refund()),
        delegation(2, "large_payout", refund()),
    ];
    bench.batch(&caller, steps).unwrap();
    assert!(bench.decide_step(2, true, None).unwrap().children.is_empty());
    assert!(bench.step(2).queued);
    let child = bench.step(1).child.clone().unwrap();
    let (_, started) = bench.child_ends(&child, &completed(&[]));
    assert_eq!(started, [bench.step(2).child.clone().unwrap()]);
}

#[test]
fn a_decision_while_a_worker_is_busy_is_news_at_its_park() {
    let mut bench = Bench::handler();
    let caller = bench.lease("w1");
    let steps = vec![
        checkpoint(1, false),
        delegation(2, "large_payout", refund()),
        delegation(3, "refund_payout", refund()),
    ];
    bench.batch(&caller, steps).unwrap();
    bench.decide_step(2, false, Some("no")).unwrap();
    assert!(bench.file.task.news);
    assert_eq!(bench.status(), TaskState::Locked);
}
