//! A task as it is created, and an agent node with one tool and one delegate of every kind.

use legation_kernel::ids::TaskId;
use legation_kernel::task::{TASK_FORMAT, Task};
use legation_language::Value;
use legation_language::model::{
    Agent, Approval, Declaration, Delegate, OnParentEnd, Policy, ToolBinding, Type,
};
use legation_language::template::Template;

pub fn task(id: TaskId) -> Task {
    Task {
        format: TASK_FORMAT,
        id,
        token: 1,
        node: "triage".to_owned(),
        topic: "agent".to_owned(),
        agent: true,
        priority: 0,
        created_at: 999_000,
        attempt: 1,
        tries: 0,
        lease_no: 0,
        lease: None,
        ended_lease: None,
        available_at: None,
        parked: false,
        expiries: 0,
        deferrals: 0,
        invalid_outputs: 0,
        retired: None,
        incidents: Default::default(),
        closing: None,
        idempotency_key: String::new(),
        inputs: None,
        traceparent: None,
        next_settled: 1,
        journal_bytes: 0,
        tokens_used: 0,
        news: false,
    }
}

pub fn agent() -> Agent {
    Agent {
        topic: "agent".to_owned(),
        model: Some("gemini-3.6-flash".to_owned()),
        fallback_models: Vec::new(),
        prompt: Template::parse("Handle the complaint.").unwrap(),
        instructions: None,
        prompt_version: "0123456789ab".to_owned(),
        tools: vec![
            binding("crm", "get_customer", Policy::Read, true),
            binding("crm", "create_ticket", Policy::Write, false),
            binding("pay", "refund", Policy::Write, true),
            ToolBinding {
                approval: Some(finance()),
                ..binding("pay", "transfer", Policy::ApprovalRequired, true)
            },
        ],
        delegates: vec![
            delegate("refund_payout", None),
            delegate("large_payout", Some(finance())),
            Delegate {
                max_depth: Some(1),
                ..delegate("shallow", None)
            },
        ],
        result_variable: "triage_result".to_owned(),
        output_schema: None,
        confidence_threshold: None,
        on_low_confidence: None,
        on_invalid_output: None,
        outcomes: Vec::new(),
        temperature: None,
        max_tokens: 1024,
        model_timeout_ms: None,
        max_turns: 8,
        max_steps: 256,
        max_tokens_total: Some(50_000),
        max_concurrent: 4,
    }
}

fn finance() -> Approval {
    Approval {
        groups: vec!["finance".to_owned()],
        users: Vec::new(),
    }
}

fn binding(server: &str, tool: &str, policy: Policy, idempotent: bool) -> ToolBinding {
    ToolBinding {
        server: server.to_owned(),
        tool: tool.to_owned(),
        function: format!("{server}__{tool}"),
        policy,
        idempotent,
        approval: None,
        description: None,
        input_schema_sha256: None,
        timeout_ms: None,
    }
}

fn delegate(process: &str, approval: Option<Approval>) -> Delegate {
    let declare = |name: &str, kind: Type, required: bool, default: Option<Value>| Declaration {
        name: name.to_owned(),
        kind,
        input: true,
        required,
        nullable: false,
        locked: true,
        sensitive: false,
        default,
        choices: None,
        schema: None,
        description: None,
    };
    Delegate {
        process: process.to_owned(),
        version: 7,
        function: format!("delegate__{process}"),
        description: String::new(),
        inputs: vec![
            declare("orderId", Type::String, true, None),
            declare("amount", Type::Number, true, None),
            declare("currency", Type::String, false, Some(Value::from("EUR"))),
        ],
        parameters: Value::Null,
        outputs: vec!["payout_id".to_owned()],
        approval,
        max_depth: None,
        on_parent_end: OnParentEnd::Cancel,
        closing_agent: false,
    }
}
