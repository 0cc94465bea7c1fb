//! "Did you mean": the nearest known word, and what people call our things elsewhere (BPMN, Camunda, APL).

/// Words of other engines for node types: the word, and the two lines to write instead.
const TYPES: &[(&str, &str)] = &[
    ("startevent", "type: start\nnext: first_step"),
    ("noneevent", "type: start\nnext: first_step"),
    ("endevent", "type: end\nclosing: It is done."),
    ("errorendevent", "type: end\nerror: CODE"),
    ("errorend", "type: end\nerror: CODE"),
    ("servicetask", "type: engine-task\nservice: payments.payout"),
    ("externaltask", "type: engine-task\nservice: payments.payout"),
    ("sendtask", "type: engine-task\nservice: mail.send"),
    ("task", "type: engine-task\nservice: payments.payout"),
    ("job", "type: engine-task\nservice: payments.payout"),
    ("connector", "type: engine-task\nservice: payments.payout"),
    ("usertask", "type: human\ncandidates: { groups: [finance] }"),
    ("humantask", "type: human\ncandidates: { groups: [finance] }"),
    ("humaninput", "type: human\ncandidates: { groups: [finance] }"),
    ("manualtask", "type: human\ncandidates: { groups: [finance] }"),
    ("form", "type: human\ncandidates: { groups: [finance] }"),
    (
        "approvalgate",
        "type: human\noutcomes: { approve: { then: pay }, reject: { then: close } }",
    ),
    (
        "approval",
        "type: human\noutcomes: { approve: { then: pay }, reject: { then: close } }",
    ),
    (
        "exclusivegateway",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "xor",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "condition",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "conditional",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "gateway",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "switch",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "router",
        "type: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    ("parallelgateway", "type: parallel\nbranches: [first, second]"),
    ("fork", "type: parallel\nbranches: [first, second]"),
    ("and", "type: parallel\nbranches: [first, second]"),
    ("join", "type: parallel\njoin: all"),
    ("merge", "type: parallel\njoin: all"),
    ("callactivity", "type: call-process\nprocess: refund_payout"),
    ("calledelement", "type: call-process\nprocess: refund_payout"),
    ("call", "type: call-process\nprocess: refund_payout"),
    (
        "businessruletask",
        "type: decision\nrules: [{ when: amount <= 100, then: { method: instant } }]",
    ),
    (
        "decisiontable",
        "type: decision\nrules: [{ when: amount <= 100, then: { method: instant } }]",
    ),
    (
        "rule",
        "type: decision\nrules: [{ when: amount <= 100, then: { method: instant } }]",
    ),
    (
        "dmn",
        "type: decision\nrules: [{ when: amount <= 100, then: { method: instant } }]",
    ),
    ("timerevent", "type: timer\nafter: 15m"),
    ("intermediatetimerevent", "type: timer\nafter: 15m"),
    ("intermediatecatchevent", "type: timer\nafter: 15m"),
    ("delay", "type: timer\nafter: 15m"),
    ("sleep", "type: timer\nafter: 15m"),
    (
        "aitask",
        "type: agent\nprompt: Handle the complaint from ${customerId}",
    ),
    (
        "aiagent",
        "type: agent\nprompt: Handle the complaint from ${customerId}",
    ),
    (
        "llm",
        "type: agent\nprompt: Handle the complaint from ${customerId}",
    ),
    (
        "prompt",
        "type: agent\nprompt: Handle the complaint from ${customerId}",
    ),
    ("messagecatch", "type: receive\nmessage: payment_received"),
    ("receivetask", "type: receive\nmessage: payment_received"),
    ("messagethrow", "type: emit\nmessage: payment_received"),
    ("webhook", "type: start\nwebhook: { path: complaints }"),
    ("scripttask", "type: script\ntool: total"),
    (
        "inclusivegateway",
        "type: inclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
    ),
    (
        "eventbasedgateway",
        "type: event-gateway\nevents: [{ message: paid, then: ship }, { timer: 3d, then: remind }]",
    ),
    ("subprocess", "type: subprocess\nflow: { nodes: [] }"),
];

/// Words of other engines for keys: the word, ours, and the two lines that show it.
const KEYS: &[(&str, &str, &str)] = &[
    ("topic", "service", "type: engine-task\nservice: payments.payout"),
    (
        "task_type",
        "service",
        "type: engine-task\nservice: payments.payout",
    ),
    ("steps", "nodes", "flow:\n  nodes: []"),
    ("tasks", "nodes", "flow:\n  nodes: []"),
    ("start", "entry", "flow:\n  entry: check_policy"),
    (
        "called_element",
        "process",
        "type: call-process\nprocess: refund_payout",
    ),
    (
        "process_key",
        "process",
        "type: call-process\nprocess: refund_payout",
    ),
    (
        "subprocess",
        "process",
        "type: call-process\nprocess: refund_payout",
    ),
    (
        "candidate_groups",
        "candidates",
        "candidates:\n  groups: [finance]",
    ),
    ("candidate_users", "candidates", "candidates:\n  users: [alice]"),
    ("groups", "candidates", "candidates:\n  groups: [finance]"),
    ("assignees", "candidates", "candidates:\n  users: [alice]"),
    (
        "conditions",
        "rules",
        "rules:\n  - { if: amount > 500, then: review }",
    ),
    ("cases", "rules", "rules:\n  - { if: amount > 500, then: review }"),
    (
        "routes",
        "rules",
        "rules:\n  - { if: amount > 500, then: review }",
    ),
    ("condition", "if", "if: amount > 500\nthen: review"),
    (
        "condition",
        "when",
        "when: amount <= 100\nthen: { method: instant }",
    ),
    ("expression", "if", "if: amount > 500\nthen: review"),
    ("default", "else", "rules:\n  - else: pay"),
    ("target", "then", "if: amount > 500\nthen: review"),
    ("goto", "then", "if: amount > 500\nthen: review"),
    ("next", "then", "if: amount > 500\nthen: review"),
    ("then", "next", "id: pay\nnext: done"),
    ("outgoing", "next", "id: pay\nnext: done"),
    ("on_success", "next", "id: pay\nnext: done"),
    ("output", "then", "when: amount <= 100\nthen: { method: instant }"),
    ("duration", "after", "type: timer\nafter: 15m"),
    ("delay", "after", "type: timer\nafter: 15m"),
    (
        "system",
        "instructions",
        "prompt: Handle it for ${customerId}\ninstructions: You work in support.",
    ),
    (
        "system_prompt",
        "instructions",
        "prompt: Handle it for ${customerId}\ninstructions: You work in support.",
    ),
    (
        "user_prompt",
        "prompt",
        "type: agent\nprompt: Handle it for ${customerId}",
    ),
    (
        "output_variable",
        "result_variable",
        "type: agent\nresult_variable: answer",
    ),
    (
        "result",
        "result_variable",
        "type: agent\nresult_variable: answer",
    ),
    (
        "response_format",
        "output_schema",
        "output_schema:\n  type: object",
    ),
    ("schema", "output_schema", "output_schema:\n  type: object"),
    ("mcp", "tools", "type: agent\ntools: [crm/get_customer]"),
    ("functions", "tools", "type: agent\ntools: [crm/get_customer]"),
    (
        "sub_processes",
        "delegates",
        "delegates:\n  - { process: refund_payout, outputs: [payout_id] }",
    ),
    ("retries", "retry", "retry:\n  max_attempts: 3"),
    ("on_failure", "on_error", "on_error:\n  - { then: close }"),
    ("catch", "on_error", "on_error:\n  - { then: close }"),
    (
        "timeout",
        "on_timeout",
        "on_timeout:\n  { after: 1h, then: close }",
    ),
    ("error_code", "error", "type: end\nerror: CODE"),
    ("input", "inputs", "inputs:\n  amount: order.total"),
    ("input_mapping", "inputs", "inputs:\n  amount: order.total"),
    ("input_mappings", "inputs", "inputs:\n  amount: order.total"),
    ("output_mapping", "outputs", "outputs:\n  payout_id: result.id"),
    ("output_mappings", "outputs", "outputs:\n  payout_id: result.id"),
    (
        "inputs",
        "variables",
        "metadata:\n  variables: { amount: { type: number } }",
    ),
    (
        "parameters",
        "variables",
        "metadata:\n  variables: { amount: { type: number } }",
    ),
    ("id", "key", "metadata:\n  key: refund_payout"),
];

/// Comparing with more would cost more than the hint is worth.
const MAX_CANDIDATES: usize = 1_000;

/// The known word nearest to this one, if any is near enough to be a slip.
pub(super) fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    // Comparing is quadratic in the length, and no slip of the pen is this long.
    if word.len() > 64 {
        return None;
    }
    let word_plain = plain(word);
    known
        .iter()
        .take(MAX_CANDIDATES)
        .filter(|candidate| candidate.len() <= 64)
        .map(|candidate| {
            (
                strsim::damerau_levenshtein(&word_plain, &plain(candidate)),
                *candidate,
            )
        })
        .filter(|(distance, candidate)| *distance <= 1 + candidate.len() / 4 && *distance < candidate.len())
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// The hint for an unknown key among these known ones.
pub(super) fn key_hint(key: &str, known: &[&str]) -> Option<String> {
    let plain_key = plain(key);
    let elsewhere = KEYS
        .iter()
        .find(|(word, ours, _)| plain(word) == plain_key && known.contains(ours));
    if let Some((_, ours, lines)) = elsewhere {
        return Some(format!("did you mean `{ours}`?\n{lines}"));
    }
    nearest(key, known).map(|word| format!("did you mean `{word}`?"))
}

/// The hint for an unknown node type.
pub(super) fn type_hint(word: &str, known: &[&str]) -> Option<String> {
    let plain_word = plain(word);
    let elsewhere = TYPES.iter().find(|(theirs, _)| *theirs == plain_word);
    if let Some((_, lines)) = elsewhere {
        return Some(format!("write\n{lines}"));
    }
    nearest(word, known).map(|word| format!("did you mean `{word}`?"))
}

/// `bpmn:serviceTask`, `service-task` and `ServiceTask` are one word.
fn plain(word: &str) -> String {
    let word = word.rsplit(':').next().unwrap_or(word);
    word.chars()
        .filter(char::is_ascii_alphanumeric)
        .map(|c| c.to_ascii_lowercase())
        .collect()
}
