//! Versions, pins and digests.

use super::*;

const CHILD: &str = "metadata:
  key: refund_payout
  description: Pays money back
  variables:
    orderId: { type: string }
    amount: { type: number, description: In euros }
    urgent: { type: boolean, required: false }
    currency: { type: string, default: EUR, enum: [EUR, USD] }
    when: { type: date, nullable: true }
    method: { type: string, input: false }
  outputs: { payout_id: { type: string } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: payments.payout, outputs: [payout_id] }
    - { id: done, type: end }
";

const PARENT: &str = "metadata:
  key: complaint
  variables: { orderId: { type: string } }
flow:
  nodes:
    - { id: think, type: agent, prompt: Help, delegates: [refund_payout] }
    - { id: done, type: end }
";

const CALLER: &str = "metadata:
  key: caller
  variables: { orderId: { type: string }, amount: { type: number }, when: { type: date }, urgent: { type: boolean, required: false } }
flow:
  nodes:
    - { id: call, type: call-process, process: refund_payout, outputs: [payout_id] }
    - { id: done, type: end }
";

fn delegate(project: &Project) -> crate::model::Delegate {
    let parent = project.process("complaint").unwrap().definition;
    agent_of(parent.node("think").unwrap()).delegates[0].clone()
}

#[test]
fn d5_a_child_of_the_set_or_of_the_project_is_pinned() {
    let mut project = Project::default();
    let deployed = project.deploy(&[("p.yaml", PARENT), ("c.yaml", CHILD)]);
    assert_eq!(
        deployed,
        [
            ("refund_payout".to_owned(), 1, true),
            ("complaint".to_owned(), 1, true)
        ]
    );
    assert_eq!(delegate(&project).version, 1);

    let changed = CHILD.replace("payments.payout", "payments.pay");
    assert_eq!(
        project.deploy(&[("c.yaml", &changed)]),
        [("refund_payout".to_owned(), 2, true)]
    );
    // Redeploying the child changes nothing for the deployed parent.
    assert_eq!(delegate(&project).version, 1);
    assert_eq!(
        project.deploy(&[("p.yaml", PARENT)]),
        [("complaint".to_owned(), 2, true)]
    );
    assert_eq!(delegate(&project).version, 2);
}

#[test]
fn an_unchanged_set_deploys_nothing_and_comments_change_nothing() {
    let mut project = Project::default();
    project.deploy(&[("p.yaml", PARENT), ("c.yaml", CHILD), ("crm.server.yaml", CRM)]);
    let again = [
        ("refund_payout".to_owned(), 1, false),
        ("complaint".to_owned(), 1, false),
    ];
    assert_eq!(
        project.deploy(&[("p.yaml", PARENT), ("c.yaml", CHILD), ("crm.server.yaml", CRM)]),
        again
    );
    let commented = format!("# a comment\n{CHILD}");
    assert_eq!(
        project.deploy(&[("p.yaml", PARENT), ("c.yaml", &commented)]),
        again
    );
    let frozen = freeze(&files(&[("crm.server.yaml", CRM)]), &Options::default(), &project);
    assert!(!frozen.servers[0].changed);
}

#[test]
fn a_changed_child_gives_its_unchanged_parents_of_the_set_a_new_version() {
    let mut project = Project::default();
    project.deploy(&[("p.yaml", PARENT), ("c.yaml", CHILD), ("d.yaml", CALLER)]);
    let changed = CHILD.replace("Pays money back", "Pays it back");
    let deployed = project.deploy(&[("p.yaml", PARENT), ("c.yaml", &changed), ("d.yaml", CALLER)]);
    assert!(
        deployed
            .iter()
            .all(|(_, version, changed)| *version == 2 && *changed),
        "{deployed:?}"
    );
    // Going back is a change too.
    assert_eq!(
        project.deploy(&[("c.yaml", CHILD)]),
        [("refund_payout".to_owned(), 3, true)]
    );
}

#[test]
fn a_tightened_server_changes_the_agents_that_bind_it() {
    let agent = "flow:
  nodes:
    - { id: think, type: agent, prompt: Help, tools: [crm/get_customer] }
    - { id: done, type: end }
";
    let mut project = Project::default();
    project.deploy(&[("a.process.yaml", agent), ("crm.server.yaml", CRM)]);
    assert_eq!(
        project.deploy(&[("a.process.yaml", agent)]),
        [("a".to_owned(), 1, false)]
    );
    let tight = CRM.replace(
        "get_customer: { policy: read }",
        "get_customer: { policy: write }",
    );
    assert_eq!(
        project.deploy(&[("a.process.yaml", agent), ("crm.server.yaml", &tight)]),
        [("a".to_owned(), 2, true)]
    );
}

#[test]
fn d3_parameters_describe_every_input_and_no_working_variable() {
    let mut project = Project::default();
    project.deploy(&[("p.yaml", PARENT), ("c.yaml", CHILD)]);
    let delegate = delegate(&project);
    assert_eq!(
        delegate.parameters.to_json(),
        concat!(
            r#"{"additionalProperties":false,"properties":{"#,
            r#""amount":{"description":"In euros","type":"number"},"#,
            r#""currency":{"default":"EUR","enum":["EUR","USD"],"type":"string"},"#,
            r#""orderId":{"type":"string"},"urgent":{"type":"boolean"},"#,
            r#""when":{"format":"date","type":["string","null"]}},"#,
            r#""required":["orderId","amount","when"],"type":"object"}"#
        )
    );
    assert_eq!(delegate.inputs.len(), 5);
    // Without `outputs` and `description`, the child's own.
    assert_eq!(delegate.outputs, ["payout_id"]);
    assert_eq!(
        delegate.description,
        "Pays money back. It runs as its own process; you continue with its outputs (payout_id) when it ends."
    );
}

#[test]
fn a_call_without_inputs_gets_the_variables_of_the_childs_names() {
    let mut project = Project::default();
    project.deploy(&[("c.yaml", CHILD), ("d.yaml", CALLER)]);
    let caller = project.process("caller").unwrap().definition;
    let node = caller.node("call").unwrap();
    let names: Vec<&str> = node
        .inputs
        .as_ref()
        .unwrap()
        .iter()
        .map(|mapping| mapping.name.as_str())
        .collect();
    // `urgent` may be absent here and is not required there.
    assert_eq!(names, ["orderId", "amount", "when"]);
    let NodeKind::CallProcess(call) = &node.kind else {
        panic!("a call")
    };
    assert_eq!(call.version, Some(1));
}

#[test]
fn a_recursive_or_latest_call_pins_no_version() {
    let text = "metadata: { key: countdown, variables: { n: { type: integer } } }
flow:
  nodes:
    - id: more
      type: exclusive
      rules: [{ if: n > 0, then: again }, { else: done }]
    - { id: again, type: call-process, process: countdown, recursive: true, inputs: { n: n - 1 }, next: done }
    - { id: done, type: end }
";
    let node = node(text, "again");
    let NodeKind::CallProcess(call) = &node.kind else {
        panic!("a call")
    };
    assert_eq!((call.version, call.recursive), (None, true));

    let ping = "flow: { nodes: [{ id: c, type: call-process, process: pong, version: latest }, { id: d, type: end }] }";
    let pong = "flow: { nodes: [{ id: c, type: call-process, process: ping }, { id: d, type: end }] }";
    let mut project = Project::default();
    let deployed = project.deploy(&[("ping.yaml", ping), ("pong.yaml", pong)]);
    assert_eq!(
        deployed,
        [("ping".to_owned(), 1, true), ("pong".to_owned(), 1, true)]
    );
}

#[test]
fn d6_a_chain_that_leads_back_through_deployed_processes_is_refused() {
    let first = "flow: { nodes: [{ id: t, type: agent, prompt: x, delegates: [b] }, { id: d, type: end }] }";
    let leaf = "flow: { nodes: [{ id: d, type: end }] }";
    let mut project = Project::default();
    project.deploy(&[("a.yaml", first), ("b.yaml", leaf)]);
    let back = "flow: { nodes: [{ id: t, type: agent, prompt: x, delegates: [a] }, { id: d, type: end }] }";
    let frozen = freeze(&files(&[("b.yaml", back)]), &Options::default(), &project);
    assert_eq!(
        shown(&frozen.problems),
        "DELEGATION_CYCLE 1:62 /flow/nodes/0/delegates/0"
    );
    assert_eq!(frozen.problems[0].message, "the delegation leads back: b → a → b");
}

#[test]
fn d65_function_names_are_sanitised_and_must_not_collide() {
    assert_eq!(function_name("crm", "get.customer/é"), "crm__get_customer__");
    let server = "name: crm
transport: stdio
tools: { get.customer: { policy: read }, get_customer: { policy: read }, "
        .to_owned()
        + &"x".repeat(64)
        + ": { policy: read } }\n";
    let long = "x".repeat(64);
    let agent = format!(
        "flow: {{ nodes: [{{ id: t, type: agent, prompt: x, tools: [crm/get.customer, crm/get_customer, crm/{long}] }}, {{ id: d, type: end }}] }}"
    );
    let frozen = frozen(&[("a.yaml", &agent), ("crm.server.yaml", &server)]);
    assert_eq!(
        shown(&frozen.problems),
        "FUNCTION_NAME 1:76 /flow/nodes/0/tools/1\nFUNCTION_NAME 1:94 /flow/nodes/0/tools/2"
    );
}

#[test]
fn one_broken_document_keeps_the_whole_set_from_deploying() {
    let frozen = frozen(&[
        ("a.yaml", PARENT),
        ("c.yaml", CHILD),
        ("b.yaml", "flow: { nodes: [] }"),
    ]);
    assert_eq!(shown(&frozen.problems), "INVALID_VALUE 1:16 /flow/nodes");
    assert!(frozen.processes.is_empty() && frozen.servers.is_empty());
}

#[test]
fn a_parent_of_a_broken_child_is_not_blamed() {
    let broken = CHILD.replace("type: end", "type: ende");
    let frozen = frozen(&[("p.yaml", PARENT), ("c.yaml", &broken)]);
    assert_eq!(
        shown(&frozen.problems),
        "UNKNOWN_NODE_TYPE 15:25 /flow/nodes/1/type"
    );
}

#[test]
fn a_process_is_known_by_its_key_else_by_the_stem_of_its_file() {
    let text = "flow: { nodes: [{ id: d, type: end }] }";
    assert_eq!(
        frozen(&[("processes/refund-1.process.yaml", text)]).processes[0]
            .definition
            .key,
        "refund-1"
    );
    assert_eq!(frozen(&[("posted", text)]).processes[0].definition.key, "posted");
    assert_eq!(
        shown(&frozen(&[("Refund.yaml", text)]).problems),
        "MISSING_FIELD 1:1"
    );
}
