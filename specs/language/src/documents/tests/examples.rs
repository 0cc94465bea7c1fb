//! The page's documents and the refund example deploy as they are printed (D1, D2).

use super::*;

const PAGE: &[(&str, &str)] = &[
    (
        "refund_payout.process.yaml",
        include_str!("../../../../../tests/page003/refund_payout.process.yaml"),
    ),
    (
        "large_payout.process.yaml",
        include_str!("../../../../../tests/page003/large_payout.process.yaml"),
    ),
    (
        "complaint.process.yaml",
        include_str!("../../../../../tests/page003/complaint.process.yaml"),
    ),
    (
        "approval.process.yaml",
        include_str!("../../../../../tests/page003/approval.process.yaml"),
    ),
    (
        "crm.server.yaml",
        include_str!("../../../../../tests/page003/crm.server.yaml"),
    ),
];

const REFUND: &[(&str, &str)] = &[
    (
        "processes/complaint.process.yaml",
        include_str!("../../../../../examples/refund/processes/complaint.process.yaml"),
    ),
    (
        "processes/refund_payout.process.yaml",
        include_str!("../../../../../examples/refund/processes/refund_payout.process.yaml"),
    ),
    (
        "processes/large_payout.process.yaml",
        include_str!("../../../../../examples/refund/processes/large_payout.process.yaml"),
    ),
    (
        "servers/crm.server.yaml",
        include_str!("../../../../../examples/refund/servers/crm.server.yaml"),
    ),
];

fn keys(frozen: &Frozen) -> Vec<&str> {
    frozen
        .processes
        .iter()
        .map(|process| process.definition.key.as_str())
        .collect()
}

#[test]
fn d1_d2_the_documents_of_the_page_deploy_as_printed() {
    let frozen = frozen(PAGE);
    assert_eq!(
        shown(&frozen.problems),
        "warning OUTPUT_NOT_PROVABLE 12:46 /flow/nodes/0/delegates/0/outputs/0\n\
         warning OUTPUT_NOT_PROVABLE 14:21 /flow/nodes/0/delegates/0/outputs/0"
    );
    assert_eq!(
        keys(&frozen),
        ["large_payout", "approval", "refund_payout", "complaint"]
    );

    let child = &frozen.processes[2].definition;
    let inputs: Vec<&str> = child
        .variables
        .iter()
        .map(|declaration| declaration.name.as_str())
        .collect();
    assert_eq!(inputs, ["orderId", "amount", "currency"]);
    assert!(
        child
            .variables
            .iter()
            .all(|declaration| declaration.required && declaration.input)
    );
    assert_eq!(child.entry, "check_policy");
    let nexts: Vec<Option<&str>> = child.nodes.iter().map(|node| node.next.as_deref()).collect();
    assert_eq!(nexts, [Some("pay"), Some("done"), None]);

    let triage = frozen.processes[3].definition.node("triage").unwrap().clone();
    assert_eq!(triage.next.as_deref(), Some("notify_customer"));
    let agent = agent_of(&triage);
    assert_eq!(agent.model.as_deref(), Some("gemini-3.6-flash"));
    let tools: Vec<String> = agent
        .tools
        .iter()
        .map(crate::model::ToolBinding::reference)
        .collect();
    assert_eq!(tools, ["crm/get_customer", "crm/create_ticket"]);
    assert_eq!(agent.tools[1].function, "crm__create_ticket");
    assert!(agent.tools[1].idempotent);
    // D31: only what the prompt names.
    assert_eq!(triage.inputs.as_ref().unwrap().len(), 1);
    assert_eq!(agent.result_variable, "triage_result");
    assert_eq!(agent.max_tokens_total, Some(50_000));
}

#[test]
fn d3_d4_d7_a_delegate_is_offered_with_the_childs_inputs_and_named_outputs() {
    let frozen = frozen(PAGE);
    let triage = frozen.processes[3].definition.node("triage").unwrap().clone();
    let delegate = &agent_of(&triage).delegates[0];
    assert_eq!(delegate.function, "delegate__refund_payout");
    assert_eq!(delegate.version, 1);
    assert_eq!(delegate.outputs, ["payout_id"]);
    assert_eq!(
        delegate.description,
        "Refund a customer. It runs as its own process; you continue with its outputs (payout_id) when it ends."
    );
    assert_eq!(
        delegate.parameters.to_json(),
        r#"{"additionalProperties":false,"properties":{"amount":{"type":"number"},"currency":{"type":"string"},"orderId":{"type":"string"}},"required":["orderId","amount","currency"],"type":"object"}"#
    );
}

#[test]
fn d18_the_approval_of_the_page_is_frozen_with_its_approvers() {
    let frozen = frozen(PAGE);
    let triage = frozen.processes[1].definition.node("triage").unwrap().clone();
    let approval = agent_of(&triage).delegates[0].approval.clone().unwrap();
    assert_eq!(approval.groups, ["finance"]);
}

#[test]
fn the_refund_example_deploys_without_a_warning() {
    let local = Options {
        origin: Origin::Local,
        env: None,
    };
    let frozen = freeze(&files(REFUND), &local, &Nothing);
    assert_eq!(shown(&frozen.problems), "");
    assert_eq!(keys(&frozen), ["large_payout", "refund_payout", "complaint"]);
    let complaint = &frozen.processes[2].definition;
    assert_eq!(complaint.entry, "received");
    assert_eq!(complaint.outputs.len(), 1);
    assert_eq!(
        agent_of(complaint.node("triage").unwrap()).result_variable,
        "answer"
    );
    assert_eq!(frozen.commands[0].command, "node");
    assert_eq!(frozen.servers[0].server.name, "crm");
}

#[test]
fn the_refund_example_is_posted_without_the_servers_command() {
    let mut posted = files(REFUND);
    let frozen = freeze(&posted, &Options::default(), &Nothing);
    assert_eq!(
        shown(&frozen.problems),
        "STDIO_COMMAND 5:10 /command\nSTDIO_COMMAND 6:7 /args"
    );
    let server = posted.get_mut("servers/crm.server.yaml").unwrap();
    let lines = server.lines().count();
    *server = without_command(server);
    assert_eq!(server.lines().count(), lines);
    assert_eq!(
        shown(&freeze(&posted, &Options::default(), &Nothing).problems),
        ""
    );
    assert_eq!(
        without_command("{name: crm, command: node, args: [x]}"),
        r#"{"name":"crm"}"#
    );
    assert_eq!(without_command("- :"), "- :");
}

#[test]
fn a_frozen_definition_survives_its_serialised_form() {
    let local = Options {
        origin: Origin::Local,
        env: None,
    };
    for process in freeze(&files(REFUND), &local, &Nothing).processes {
        let text = serde_json::to_string(&*process.definition).unwrap();
        let read: Definition = serde_json::from_str(&text).unwrap();
        assert_eq!(read, *process.definition);
        assert_eq!(digest_of(&read), process.digest);
    }
}

#[test]
fn d1_variables_as_a_list_mean_the_same() {
    let map = "metadata:
  variables: { a: { type: string, description: x }, b: { type: number, required: false, sensitive: true } }
flow: { nodes: [{ id: done, type: end }] }";
    let list = "metadata:
  variables:
    - { name: a, type: string, description: x }
    - { name: b, type: number, required: false, sensitive: true }
flow: { nodes: [{ id: done, type: end }] }";
    assert_eq!(definition(map), definition(list));
    assert_eq!(
        frozen(&[("p.process.yaml", map)]).processes[0].digest,
        frozen(&[("p.process.yaml", list)]).processes[0].digest
    );
}
