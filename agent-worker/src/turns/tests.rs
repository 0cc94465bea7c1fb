#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

use serde_json::{Value, json};

use super::*;

mod reads;

/// The page's agent: a read, a write that a person approves, a delegation.
pub(crate) fn agent() -> AgentNode {
    let tool = |name: &str, policy: &str, idempotency: &str| {
        json!({ "server": "crm", "tool": name, "function": format!("crm__{name}"), "policy": policy,
            "approval": policy == "approval_required", "idempotency": idempotency })
    };
    let delegate = json!({ "process": "refund_payout", "version": 1, "function": "delegate__refund_payout",
        "description": "Pays a refund.", "parameters": { "type": "object" }, "outputs": ["payout_id"],
        "approval": false });
    let node = json!({
        "model": "scripted", "prompt": "p", "userMessage": "Handle the complaint of C-1.",
        "instructions": "Be kind.", "promptVersion": "abc", "resultVariable": "r", "maxTurns": 8, "maxSteps": 256,
        "maxConcurrent": 4, "servers": [{ "name": "crm", "transport": "stdio" }],
        "tools": [tool("get_customer", "read", "none"), tool("note", "write", "key"), tool("pay", "write", "none"),
            tool("close", "approval_required", "key")],
        "delegates": [delegate],
    });
    read(node)
}

pub(crate) fn read<T: serde::de::DeserializeOwned>(value: Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

fn view(mut value: Value) -> StepView {
    let fields = value.as_object_mut().unwrap();
    fields.entry("requestDigest").or_insert(json!("d"));
    fields
        .entry("startedAt")
        .or_insert(json!("2026-01-01T00:00:00.000Z"));
    read(value)
}

fn model(sequence: u32, base: Option<u32>, added: Value, result: Value) -> StepView {
    let mut request = json!({ "added": added });
    if let Some(base) = base {
        request["base"] = json!(base);
    }
    view(
        json!({ "sequence": sequence, "kind": "MODEL", "state": "COMPLETED", "toolRef": "model:scripted",
        "request": request, "result": result }),
    )
}

fn first(calls: Value) -> StepView {
    model(
        1,
        None,
        json!([{ "role": "user", "text": "hello" }]),
        json!({ "calls": calls, "model": "m" }),
    )
}

fn call(tool: &str, id: &str) -> Value {
    json!({ "tool": tool, "arguments": { "id": "C-1" }, "callId": id })
}

fn answer(sequence: u32, index: u32, state: &str, more: Value) -> StepView {
    let mut step = json!({ "sequence": sequence, "kind": "TOOL", "state": state, "toolRef": "crm/get_customer",
        "call": { "step": 1, "index": index }, "request": { "arguments": { "id": "C-1" } },
        "arguments": { "id": "C-1" } });
    for (name, value) in more.as_object().unwrap() {
        step[name] = value.clone();
    }
    view(step)
}

fn decide_on(steps: Vec<StepView>) -> Action {
    next(&agent(), &[], &Ledger::of(steps), &Local::default())
}

fn conversation_of(action: Action) -> Vec<Message> {
    let Action::AskModel { conversation, .. } = action else {
        panic!("{action:?}")
    };
    conversation
}

fn answers_of(action: Action) -> Vec<crate::models::Answer> {
    let conversation = conversation_of(action);
    let Some(Message::Answers(answers)) = conversation.last() else {
        panic!("{conversation:?}")
    };
    answers.clone()
}

#[test]
fn an_empty_journal_asks_the_model_with_the_user_message_only_d43() {
    let Action::AskModel {
        sequence,
        conversation,
        open,
        ..
    } = decide_on(vec![])
    else {
        panic!()
    };
    assert_eq!((sequence, open), (1, None));
    assert!(matches!(&conversation[..], [Message::User(text)] if text == "Handle the complaint of C-1."));
    assert_eq!(system_message(&agent()), "Be kind.");
}

#[test]
fn a_new_attempt_is_told_what_earlier_ones_did_d33() {
    let prior = answer(
        4,
        0,
        "COMPLETED",
        json!({ "kind": "DELEGATION", "toolRef": "delegate:refund_payout",
        "result": { "payout_id": "P-55" } }),
    );
    let action = next(&agent(), &[prior], &Ledger::default(), &Local::default());
    let conversation = conversation_of(action);
    let Message::User(text) = &conversation[0] else {
        panic!()
    };
    assert!(
        text.contains("delegate:refund_payout") && text.contains(r#"{"payout_id":"P-55"}"#),
        "{text}"
    );
}

#[test]
fn all_calls_of_a_turn_start_in_one_batch_d63() {
    let turn = first(json!([
        call("crm__get_customer", "a"),
        call("delegate__refund_payout", "b")
    ]));
    let Action::Start(steps) = decide_on(vec![turn]) else {
        panic!()
    };
    let sent: Vec<(u32, StepKind, &str, u32)> = steps
        .iter()
        .map(|s| (s.sequence, s.kind, s.tool_ref.as_str(), s.call.unwrap().index))
        .collect();
    assert_eq!(
        sent,
        [
            (2, StepKind::Tool, "crm/get_customer", 0),
            (3, StepKind::Delegation, "delegate:refund_payout", 1)
        ]
    );
}

#[test]
fn repeated_and_missing_call_ids_do_no_harm_d62_b19() {
    let mut none = call("crm__get_customer", "x");
    none.as_object_mut().unwrap().remove("callId");
    let turn = first(json!([
        call("crm__get_customer", "same"),
        call("crm__get_customer", "same"),
        none
    ]));
    let Action::Start(steps) = decide_on(vec![turn.clone()]) else {
        panic!()
    };
    assert_eq!(
        steps.iter().map(|s| s.call.unwrap().index).collect::<Vec<_>>(),
        [0, 1, 2]
    );
    let done = |sequence, index, text: &str| {
        answer(
            sequence,
            index,
            "COMPLETED",
            json!({ "result": { "text": text } }),
        )
    };
    // Results in another order than the calls: each answer still finds its own call.
    let answers = answers_of(decide_on(vec![
        turn,
        done(4, 0, "one"),
        done(3, 1, "two"),
        done(2, 2, "three"),
    ]));
    let read: Vec<(&str, &str)> = answers.iter().map(|a| (a.id.as_str(), a.text.as_str())).collect();
    assert_eq!(
        read,
        [("call_1_0", "one"), ("call_1_1", "two"), ("call_1_2", "three")]
    );
}

#[test]
fn unknown_tools_and_bad_arguments_are_journaled_like_any_call_d61_b19() {
    let turn = first(json!([
        { "tool": "crm__drop_tables", "arguments": {} },
        { "tool": "delegate__nobody", "arguments": {} },
        { "tool": "shell exec!", "arguments": {} },
        { "tool": "", "arguments": {} },
        { "tool": "crm__get_customer", "arguments": "id=C-1" },
        { "tool": "crm__get_customer", "arguments": [1] },
    ]));
    let Action::Start(steps) = decide_on(vec![turn]) else {
        panic!()
    };
    let sent: Vec<(&str, &str)> = steps
        .iter()
        .map(|s| (s.tool_ref.as_str(), s.request.as_ref().unwrap().get()))
        .collect();
    assert_eq!(
        sent,
        [
            ("crm/drop_tables", r#"{"arguments":{}}"#),
            ("delegate:nobody", r#"{"arguments":{}}"#),
            ("unknown/shell_exec_", r#"{"arguments":{}}"#),
            ("unknown/unnamed", r#"{"arguments":{}}"#),
            ("crm/get_customer", r#"{"argumentsText":"id=C-1"}"#),
            ("crm/get_customer", r#"{"argumentsText":"[1]"}"#),
        ]
    );
}

#[test]
fn waiting_steps_park_and_settled_ones_resume_the_same_conversation_d13_d16() {
    let turn = first(json!([
        call("crm__get_customer", "a"),
        call("delegate__refund_payout", "b")
    ]));
    let read = answer(2, 0, "COMPLETED", json!({ "result": { "text": "x" } }));
    let child = |state: &str, more: Value| {
        let mut all = json!({ "kind": "DELEGATION", "toolRef": "delegate:refund_payout" });
        for (name, value) in more.as_object().unwrap() {
            all[name] = value.clone();
        }
        answer(3, 1, state, all)
    };
    for state in ["STARTED", "PROPOSED"] {
        let action = decide_on(vec![turn.clone(), read.clone(), child(state, json!({}))]);
        assert!(matches!(action, Action::Park), "{state}: {action:?}");
    }
    let done = child("COMPLETED", json!({ "result": { "payout_id": "P-55" } }));
    let Action::AskModel {
        sequence,
        request,
        conversation,
        ..
    } = decide_on(vec![turn, read, done])
    else {
        panic!()
    };
    assert_eq!((sequence, request.base), (4, Some(1)));
    assert_eq!(request.added[1].get(), r#"{"role":"answer","step":3}"#);
    assert_eq!(conversation.len(), 3);
}

#[test]
fn approved_and_cut_off_tools_are_granted_again_before_they_run() {
    let turn = first(json!([
        call("crm__get_customer", "a"),
        call("crm__get_customer", "b")
    ]));
    let steps = vec![
        turn,
        answer(2, 0, "APPROVED", json!({ "toolRef": "crm/close" })),
        answer(3, 1, "STARTED", json!({ "policy": "write" })),
    ];
    let Action::Grant(sent) = decide_on(steps.clone()) else {
        panic!()
    };
    assert_eq!(
        sent.iter().map(|s| (s.sequence, s.state)).collect::<Vec<_>>(),
        [(2, StepState::Started), (3, StepState::Started)]
    );
    assert_eq!(
        sent[0].request.as_ref().unwrap().get(),
        r#"{"arguments":{"id":"C-1"}}"#
    );
    // What runs under this lease is not granted twice, and is waited for.
    let local = Local {
        running: BTreeSet::from([2, 3]),
        repair: None,
    };
    assert!(matches!(
        next(&agent(), &[], &Ledger::of(steps), &local),
        Action::Wait
    ));
}

#[test]
fn an_open_model_step_is_asked_again_under_its_own_request() {
    let mut open = first(json!([]));
    open.state = StepState::Started;
    open.result = None;
    let Action::AskModel {
        sequence,
        open,
        conversation,
        ..
    } = decide_on(vec![open])
    else {
        panic!()
    };
    assert_eq!((sequence, open.as_deref()), (1, Some("model:scripted")));
    assert!(matches!(&conversation[..], [Message::User(text)] if text == "hello"));
}

#[test]
fn a_failed_model_step_is_asked_again_under_a_new_number() {
    let mut failed = first(json!([]));
    failed.state = StepState::Failed;
    failed.result = Some(raw_of(&json!({ "error": "busy", "deferred": true })));
    let ledger = Ledger::of([failed.clone()]);
    assert_eq!(ledger.deferrals(), 1);
    let Action::AskModel { sequence, open, .. } = decide_on(vec![failed]) else {
        panic!()
    };
    assert_eq!((sequence, open), (2, None));
}

#[test]
fn a_refused_answer_goes_back_to_the_model_after_a_paid_delegation_b19() {
    let turn = first(json!([call("delegate__refund_payout", "a")]));
    let paid = answer(
        2,
        0,
        "COMPLETED",
        json!({ "kind": "DELEGATION", "result": { "payout_id": "P-1" } }),
    );
    let last = model(
        3,
        Some(1),
        json!([{ "role": "answer", "step": 2 }]),
        json!({ "text": "rubbish", "model": "m" }),
    );
    let local = Local {
        repair: Some("Your answer was refused".to_owned()),
        ..Local::default()
    };
    let action = next(&agent(), &[], &Ledger::of([turn, paid, last]), &local);
    let conversation = conversation_of(action);
    assert_eq!(conversation.len(), 5);
    assert!(matches!(&conversation[2], Message::Answers(a) if a[0].text.contains("P-1")));
    assert!(matches!(conversation.last(), Some(Message::User(text)) if text == "Your answer was refused"));
}

#[test]
fn empty_answers_are_sent_back_twice_and_then_fail() {
    let empty = |sequence, base| model(sequence, base, json!([]), json!({ "text": " ", "model": "m" }));
    let mut steps = vec![empty(1, None)];
    for sequence in 2..4 {
        assert!(matches!(decide_on(steps.clone()), Action::AskModel { .. }));
        steps.push(empty(sequence, Some(sequence - 1)));
    }
    assert!(matches!(
        decide_on(steps),
        Action::Fail {
            code: "EMPTY_ANSWER",
            ..
        }
    ));
}

#[test]
fn a_journal_that_points_forward_is_refused_not_followed() {
    let bad = model(
        1,
        Some(1),
        json!([]),
        json!({ "calls": [call("crm__get_customer", "a")], "model": "m" }),
    );
    let steps = vec![
        bad,
        answer(2, 0, "COMPLETED", json!({ "result": { "text": "x" } })),
    ];
    assert!(matches!(
        decide_on(steps),
        Action::Fail {
            code: "JOURNAL_UNREADABLE",
            ..
        }
    ));
}
