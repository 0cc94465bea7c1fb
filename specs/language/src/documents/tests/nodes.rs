//! What each node type freezes to.

use rust_decimal::Decimal;

use super::*;
use crate::Value;
use crate::model::{
    Approval, CommentRule, HitPolicy, Moment, Parallel, Policy, Retry, Source as From, ToolBinding,
};

fn flow(nodes: &str) -> String {
    format!(
        "metadata: {{ variables: {{ order: {{ type: object }}, amount: {{ type: number }}, y: {{ type: any, required: false }} }} }}\nflow:\n  nodes:\n{nodes}\n    - {{ id: done, type: end }}\n"
    )
}

#[test]
fn an_agent_gets_its_defaults() {
    let text = flow("    - { id: think-hard, type: agent, prompt: Say hello }");
    let node = node(&text, "think-hard");
    let agent = agent_of(&node);
    assert_eq!(agent.topic, "agent");
    assert_eq!(agent.result_variable, "think_hard_result");
    assert_eq!(
        (
            agent.max_turns,
            agent.max_steps,
            agent.max_tokens,
            agent.max_concurrent
        ),
        (8, 256, 4_096, 4)
    );
    assert_eq!(agent.max_tokens_total, None);
    assert_eq!(node.inputs, Some(Vec::new()));
    assert_eq!(agent.prompt_version.len(), 12);
    assert_eq!(node.retry, Retry::default());
}

#[test]
fn d31_d43_placeholders_become_inputs_and_references() {
    let text = flow(
        "    - id: think
      type: agent
      prompt: Order ${order.id} of ${order.customer.name}, ${amount}
      instructions: Be kind to ${order.customer.name}. Money is $${ not a reference.",
    );
    let node = node(&text, "think");
    let inputs: Vec<(String, String)> = node
        .inputs
        .iter()
        .flatten()
        .map(|mapping| match &mapping.from {
            From::Expression(expression) => (mapping.name.clone(), expression.source().to_owned()),
            From::Literal(_) => panic!("an expression"),
        })
        .collect();
    let order = "{'customer': {'name': order.customer.name}, 'id': order.id}".to_owned();
    assert_eq!(
        inputs,
        [
            ("order".to_owned(), order),
            ("amount".to_owned(), "amount".to_owned())
        ]
    );
    assert_eq!(
        agent_of(&node).instructions.as_deref(),
        Some("Be kind to `order.customer.name`. Money is ${ not a reference.")
    );
}

#[test]
fn d43_an_expression_in_instructions_is_refused_too() {
    let text = flow("    - { id: t, type: agent, prompt: x, instructions: \"${amount * 2}\" }");
    assert_eq!(
        problems_of(&text),
        "PROMPT_EXPRESSION 4:55 /flow/nodes/0/instructions"
    );
}

#[test]
fn d38_a_node_tightens_a_tools_policy() {
    let text = flow(
        "    - id: t
      type: agent
      prompt: x
      tools:
        - crm/get_customer
        - { ref: crm/create_ticket, approval: required, approvers: [support] }
        - { ref: crm/close_account, approval: { candidates: { groups: [support], users: [alice] } } }
        - crm/refund",
    );
    let node = node(&text, "t");
    let tools = &agent_of(&node).tools;
    let policies: Vec<Policy> = tools.iter().map(|tool| tool.policy).collect();
    assert_eq!(
        policies,
        [
            Policy::Read,
            Policy::ApprovalRequired,
            Policy::ApprovalRequired,
            Policy::ApprovalRequired
        ]
    );
    let groups = |tool: &ToolBinding| tool.approval.clone().unwrap().groups;
    assert_eq!(groups(&tools[1]), ["support"]);
    assert_eq!(
        tools[2].approval,
        Some(Approval {
            groups: vec!["support".into()],
            users: vec!["alice".into()]
        })
    );
    assert_eq!(groups(&tools[3]), ["finance", "board"]);
    let narrower = text.replace(
        "- crm/refund",
        "- { ref: crm/refund, approval: required, approvers: [board] }",
    );
    let node = super::node(&narrower, "t");
    assert_eq!(groups(&agent_of(&node).tools[3]), ["board"]);
}

#[test]
fn d42_old_names_are_accepted_with_a_warning() {
    let text = flow(
        "    - { id: t, type: agent, prompt: x, max_attempts: 5, retry_backoff_ms: 1000, timeout_ms: 60000 }",
    );
    assert_eq!(
        problems_of(&text),
        "warning DEPRECATED_FIELD 4:40 /flow/nodes/0/max_attempts\n\
         warning DEPRECATED_FIELD 4:57 /flow/nodes/0/retry_backoff_ms\n\
         warning DEPRECATED_FIELD 4:81 /flow/nodes/0/timeout_ms"
    );
    let node = node(&text, "t");
    assert_eq!((node.retry.max_attempts, node.retry.backoff_ms), (5, 1_000));
    assert_eq!(agent_of(&node).model_timeout_ms, Some(60_000));
}

#[test]
fn d42_outcomes_route_and_take_no_next() {
    let text = flow(
        "    - id: t
      type: agent
      prompt: x
      confidence_threshold: 0.80
      on_low_confidence: ask
      outcomes:
        refund: { then: pay, description: Money back, when: amount < 100 }
        close: { then: done }
    - { id: pay, type: engine-task, service: s, next: done }
    - { id: ask, type: human, candidates: { groups: [x] }, next: done }",
    );
    let definition = definition(&text);
    let node = definition.node("t").unwrap();
    assert_eq!(node.next, None);
    let agent = agent_of(node);
    assert_eq!(agent.outcomes[0].then, "pay");
    assert_eq!(agent.outcomes[0].when.as_ref().unwrap().source(), "amount < 100");
    assert_eq!(
        agent.confidence_threshold,
        Some(Value::Number(Decimal::new(80, 2)))
    );
    assert_eq!(engine_written(node), ["t_outcome"]);
    let with_next = text.replace("prompt: x", "prompt: x\n      next: done");
    assert_eq!(
        problems_of(&with_next),
        "NEXT_NOT_ALLOWED 7:13 /flow/nodes/0/next"
    );
}

#[test]
fn an_engine_task_reads_its_fields() {
    let text = flow(
        "    - id: pay
      type: engine-task
      name: Pay
      service: payments.payout
      priority: 7
      start_within: 10m
      headers: { region: EU, limit: 0.10 }
      max_steps: 20
      ui: { x: 10, y: -5 }
      inputs: { total: order.total, fixed: 3, list: [1], text: \"'EUR'\" }
      outputs: [payout_id]
      on_error:
        - { code: CARD_DECLINED, then: ask }
        - { then: done }
      on_timeout: { at: order.deadline, then: done }
      retry: { max_attempts: 2, backoff: 1s, multiplier: 1.5, max_backoff: 10s, jitter: 0.1 }
      next: done
    - { id: ask, type: human, candidates: { users: [alice] }, next: done }",
    );
    let node = node(&text, "pay");
    let NodeKind::EngineTask(task) = &node.kind else {
        panic!("a task")
    };
    assert_eq!(
        (task.service.as_str(), task.priority, task.max_steps),
        ("payments.payout", 7, 20)
    );
    assert_eq!(task.start_within_ms, Some(600_000));
    assert_eq!(task.headers["limit"], Value::Number(Decimal::new(10, 2)));
    let inputs = node.inputs.unwrap();
    assert_eq!(
        inputs.iter().map(|m| m.name.as_str()).collect::<Vec<_>>(),
        ["total", "fixed", "list", "text"]
    );
    assert!(matches!(inputs[0].from, From::Expression(_)) && matches!(inputs[1].from, From::Literal(_)));
    assert_eq!(node.on_error[0].code.as_deref(), Some("CARD_DECLINED"));
    assert!(matches!(node.on_timeout.unwrap().when, Moment::At(_)));
    assert_eq!(
        node.retry,
        Retry {
            max_attempts: 2,
            backoff_ms: 1_000,
            multiplier_percent: 150,
            max_backoff_ms: 10_000,
            jitter_percent: 10
        }
    );
    assert_eq!(node.ui.unwrap().y, -5);
}

#[test]
fn decisions_read_literals_expressions_and_hit_policies() {
    let text = flow(
        "    - id: rule
      type: decision
      hit_policy: PRIORITY
      rules:
        - { when: amount <= 100, then: { method: instant, fee: 0.10, twice: \"${amount * 2}\", raw: \"$${x}\" }, priority: 3 }
        - { when: true, then: { method: null } }
        - { otherwise: { method: held } }",
    );
    let node = node(&text, "rule");
    let NodeKind::Decision(table) = &node.kind else {
        panic!("a decision")
    };
    assert_eq!(table.hit_policy, HitPolicy::Priority);
    assert_eq!(table.rules[0].priority, 3);
    let column = |name: &str| {
        &table.rules[0]
            .then
            .iter()
            .find(|column| column.name == name)
            .unwrap()
            .value
    };
    assert_eq!(*column("method"), From::Literal("instant".into()));
    assert_eq!(*column("fee"), From::Literal(Value::Number(Decimal::new(10, 2))));
    assert_eq!(*column("raw"), From::Literal("${x}".into()));
    assert!(matches!(column("twice"), From::Expression(_)));
    assert_eq!(table.rules[1].then[0].value, From::Literal(Value::Null));
    assert_eq!(table.rules[1].when.source(), "true");
    assert!(table.otherwise.is_some());

    for (policy, expected) in [
        ("FIRST", HitPolicy::First),
        ("UNIQUE", HitPolicy::Unique),
        ("ANY", HitPolicy::Any),
        ("COLLECT", HitPolicy::Collect),
        ("COLLECT, aggregate: sum", HitPolicy::CollectSum),
        ("COLLECT, aggregate: count", HitPolicy::CollectCount),
    ] {
        let text = flow(&format!(
            "    - {{ id: rule, type: decision, hit_policy: {policy}, rules: [{{ otherwise: {{}} }}] }}"
        ));
        let NodeKind::Decision(table) = super::node(&text, "rule").kind else {
            panic!("a decision")
        };
        assert_eq!(table.hit_policy, expected);
    }
    let bad = flow(
        "    - { id: rule, type: decision, aggregate: sum, rules: [{ when: y }, { then: {} }, { otherwise: {}, when: y }, { when: y, then: { a: \"b ${c}\" } }] }",
    );
    assert_eq!(
        problems_of(&bad),
        "INVALID_VALUE 4:46 /flow/nodes/0/aggregate\n\
         MISSING_FIELD 4:59 /flow/nodes/0/rules/0\n\
         MISSING_FIELD 4:72 /flow/nodes/0/rules/1\n\
         INVALID_VALUE 4:86 /flow/nodes/0/rules/2\n\
         INVALID_VALUE 4:136 /flow/nodes/0/rules/3/then/a"
    );
}

#[test]
fn humans_have_candidates_forms_and_outcomes() {
    let text = flow(
        "    - id: review
      type: human
      candidates: { groups: [finance], users: [alice] }
      form: { type: object, properties: { approved: { type: boolean } } }
      priority: 2
      due: 2d
      outcomes:
        approve: { then: done, label: Yes please }
        reject: { then: done, comment: required }",
    );
    let node = node(&text, "review");
    let NodeKind::Human(human) = &node.kind else {
        panic!("a human")
    };
    assert_eq!(human.groups, ["finance"]);
    assert_eq!(human.due, Some(Moment::After(172_800_000)));
    assert_eq!(human.outcomes[0].comment, CommentRule::Optional);
    assert_eq!(human.outcomes[1].comment, CommentRule::Required);
    assert_eq!(engine_written(&node), ["review_outcome"]);
    let bad = flow(
        "    - { id: r, type: human, candidates: {}, form: by_key, outcomes: { only: { then: done } } }",
    );
    assert_eq!(
        problems_of(&bad),
        "INVALID_VALUE 4:41 /flow/nodes/0/candidates\n\
         NOT_YET 4:51 /flow/nodes/0/form\n\
         INVALID_VALUE 4:69 /flow/nodes/0/outcomes"
    );
}

/// A task for a name that no person or group can have waits for ever, and one of any length fits no index.
#[test]
fn who_may_decide_has_a_name_that_somebody_can_have() {
    let long = "x".repeat(101);
    for name in ["\"${boss}\"", "\"finance team\"", "\"\"", &long] {
        let bad = flow(&format!(
            "    - {{ id: r, type: human, candidates: {{ groups: [{name}], users: [alice, {name}] }} }}"
        ));
        let problems = problems_of(&bad);
        let pointers: Vec<_> = problems
            .lines()
            .filter_map(|line| line.split(' ').nth(2))
            .collect();
        assert_eq!(
            pointers,
            [
                "/flow/nodes/0/candidates/groups/0",
                "/flow/nodes/0/candidates/users/1"
            ],
            "{problems}"
        );
    }
}

#[test]
fn forks_joins_and_timers_read_their_fields() {
    let text = flow(
        "    - { id: fork, type: parallel, branches: [a, b, c, d] }
    - { id: a, type: timer, after: 15m, next: join }
    - { id: b, type: timer, after: \"${order.delay}\", next: join }
    - { id: c, type: timer, at: 2026-01-31T12:00:00Z, next: join }
    - { id: d, type: timer, at: order.at, next: join }
    - { id: join, type: parallel, join: all }",
    );
    let definition = definition(&text);
    let kind = |id: &str| &definition.node(id).unwrap().kind;
    assert!(matches!(kind("fork"), NodeKind::Parallel(Parallel::Fork(ids)) if ids.len() == 4));
    assert!(matches!(kind("join"), NodeKind::Parallel(Parallel::JoinAll)));
    assert_eq!(*kind("a"), NodeKind::Timer(Moment::After(900_000)));
    assert!(matches!(kind("b"), NodeKind::Timer(Moment::AfterExpression(_))));
    assert!(matches!(kind("c"), NodeKind::Timer(Moment::At(e)) if e.source() == "'2026-01-31T12:00:00Z'"));
    assert!(matches!(kind("d"), NodeKind::Timer(Moment::At(e)) if e.source() == "order.at"));
    assert_eq!(definition.node("join").unwrap().next.as_deref(), Some("done"));

    let bad = flow(
        "    - { id: x, type: parallel, branches: [done] }
    - { id: y, type: parallel, join: first }
    - { id: z, type: parallel, join: { n_of: 2 } }
    - { id: q, type: parallel }
    - { id: t, type: timer }
    - { id: u, type: timer, after: 5, at: x }
    - { id: v, type: timer, after: delay, cron: x }",
    );
    assert_eq!(
        problems_of(&bad),
        "INVALID_VALUE 4:42 /flow/nodes/0/branches\n\
         NOT_YET 5:38 /flow/nodes/1/join\n\
         NOT_YET 6:38 /flow/nodes/2/join\n\
         MISSING_FIELD 7:7 /flow/nodes/3\n\
         MISSING_FIELD 8:7 /flow/nodes/4\n\
         INVALID_VALUE 9:7 /flow/nodes/5\n\
         WRONG_TYPE 9:36 /flow/nodes/5/after\n\
         INVALID_VALUE 10:36 /flow/nodes/6/after\n\
         NOT_YET 10:43 /flow/nodes/6/cron"
    );
}

#[test]
fn ends_have_codes_and_closings() {
    let text = "metadata: { variables: { a: { type: string } } }
flow: { nodes: [{ id: x, type: end, error: NO_FUNDS, closing: 'No ${a}' }] }";
    let NodeKind::End(end) = node(text, "x").kind else {
        panic!("an end")
    };
    assert_eq!(end.error.as_deref(), Some("NO_FUNDS"));
    assert_eq!(end.closing.unwrap().source(), "No ${a}");
    let bad = "flow: { nodes: [{ id: x, type: end, error: 'no funds', terminate: true, next: x }] }";
    assert_eq!(
        problems_of(bad),
        "INVALID_VALUE 1:44 /flow/nodes/0/error\n\
         NOT_YET 1:56 /flow/nodes/0/terminate\n\
         NEXT_NOT_ALLOWED 1:79 /flow/nodes/0/next"
    );
}

/// Every field and node type of the language that this release does not have is named, not ignored.
#[test]
fn what_is_reserved_for_later_is_refused_by_name() {
    for (node_type, base, fields) in [
        (
            "engine-task",
            "service: s",
            "on_message on_signal on_timer on_escalation sla loop for_each concurrency rate compensation",
        ),
        (
            "agent",
            "prompt: x",
            "agent subagents workflows transitions requires max_calls budget_usd loop_guard evidence session",
        ),
        ("start", "name: s", "schedule webhook message signal variables"),
        ("end", "name: s", "terminate emit"),
        ("decision", "rules: [{ otherwise: {} }]", "decision"),
        (
            "human",
            "candidates: { groups: [x] }",
            "assignee evidence quorum exclude",
        ),
        ("timer", "after: 1s", "cron"),
        ("parallel", "join: all", "rest"),
    ] {
        for field in fields.split(' ') {
            let text = format!(
                "flow:\n  nodes:\n    - {{ id: n, type: {node_type}, {base}, {field}: 1 }}\n    - {{ id: d, type: end }}\n"
            );
            let found = frozen(&[("p.process.yaml", &text)]).problems;
            let problem = found.iter().find(|problem| problem.code == Code::NotYet);
            assert!(
                problem.is_some_and(|p| p.message.contains(&format!("`{field}`"))),
                "{node_type} {field}: {found:#?}"
            );
        }
    }
    for node_type in [
        "script",
        "inclusive",
        "event-gateway",
        "receive",
        "emit",
        "wait",
        "subprocess",
        "event-subprocess",
        "compensate",
        "plan",
    ] {
        let text = format!("flow: {{ nodes: [{{ id: n, type: {node_type} }}] }}");
        assert_eq!(
            problems_of(&text),
            "NOT_YET 1:32 /flow/nodes/0/type",
            "{node_type}"
        );
    }
    for field in [
        "policy",
        "retention",
        "search",
        "disabled",
        "labels",
        "tag",
        "owner",
        "category",
    ] {
        let text = format!("metadata: {{ {field}: x }}\nflow: {{ nodes: [{{ id: n, type: end }}] }}");
        assert_eq!(problems_of(&text), format!("NOT_YET 1:13 /metadata/{field}"));
    }
    for (text, place) in [
        (
            "tools: [{ service: t, input_schema: {} }]",
            "NOT_YET 1:60 /flow/nodes/0/tools/0/service\nNOT_YET 1:72 /flow/nodes/0/tools/0/input_schema",
        ),
        (
            "on_delegation_failure: recover",
            "NOT_YET 1:73 /flow/nodes/0/on_delegation_failure",
        ),
    ] {
        let text = format!(
            "flow: {{ nodes: [{{ id: n, type: agent, prompt: x, {text} }}, {{ id: d, type: end }}] }}"
        );
        assert_eq!(problems_of(&text), place);
    }
}
