//! Every code, with the exact place it is reported at.

use std::collections::BTreeSet;

use super::*;

/// A set of files and what is reported: `file: [warning] CODE line:column pointer`.
struct Case {
    files: &'static [(&'static str, &'static str)],
    expected: &'static [&'static str],
}

const CHILD: (&str, &str) = (
    "child.process.yaml",
    "metadata:
  variables: { orderId: { type: string }, note: { type: string, required: false } }
  outputs: { payout_id: { type: string } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: payments.payout, outputs: [payout_id] }
    - { id: done, type: end }
",
);

const SERVER: (&str, &str) = ("crm.server.yaml", CRM);

const CASES: &[Case] = &[
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - id: a\n      type: end\n      id: b\n    - { id: c, type: end, type: end }\n",
        )],
        expected: &[
            "a: DUPLICATE_KEY 5:7 /flow/nodes/0/id",
            "a: warning UNREACHABLE 6:7 /flow/nodes/1",
            "a: DUPLICATE_KEY 6:27 /flow/nodes/1/type",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: pay, type: engine-task, servce: x }\n    - { id: done, type: end }\nfoo: 1\n",
        )],
        expected: &[
            "a: MISSING_FIELD 3:7 /flow/nodes/0",
            "a: UNKNOWN_KEY 3:37 /flow/nodes/0/servce",
            "a: UNKNOWN_KEY 5:1 /foo",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: a, type: serviceTask }\n    - { id: b, type: subprocess }\n    - { id: c }\n    - { type: end }\n",
        )],
        expected: &[
            "a: UNKNOWN_NODE_TYPE 3:22 /flow/nodes/0/type",
            "a: NOT_YET 4:22 /flow/nodes/1/type",
            "a: MISSING_FIELD 5:7 /flow/nodes/2",
            "a: MISSING_FIELD 6:7 /flow/nodes/3",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow: { nodes: [{ id: a, type: end, error: 5, ui: [] }] }\nmetadata: x\n",
        )],
        expected: &[
            "a: WRONG_TYPE 1:44 /flow/nodes/0/error",
            "a: WRONG_TYPE 1:51 /flow/nodes/0/ui",
            "a: WRONG_TYPE 2:11 /metadata",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: a, type: agent, prompt: \"${1 + 1}\", max_turns: 99, model_timeout: soon, temperature: 2.5 }\n    - { id: done, type: end }\n",
        )],
        expected: &[
            "a: PROMPT_EXPRESSION 3:38 /flow/nodes/0/prompt",
            "a: INVALID_VALUE 3:60 /flow/nodes/0/max_turns",
            "a: INVALID_VALUE 3:79 /flow/nodes/0/model_timeout",
            "a: INVALID_VALUE 3:98 /flow/nodes/0/temperature",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - id: choose\n      type: exclusive\n      rules:\n        - { if: amount >, then: done }\n        - { if: \"${ a == }\", then: done }\n        - { else: done }\n    - id: done\n      type: end\n      closing: |\n        Fine\n        and ${1 +} so\n",
        )],
        expected: &[
            "a: EXPRESSION_INVALID 6:25 /flow/nodes/0/rules/0/if",
            "a: EXPRESSION_INVALID 7:26 /flow/nodes/0/rules/1/if",
            "a: EXPRESSION_INVALID 13:18 /flow/nodes/1/closing",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - id: wait\n      type: exclusive\n      rules:\n        - { if: \"l.all(a, l.all(b, l.all(c, l.all(d, a < b && c < d))))\", then: done }\n    - id: done\n      type: end\n",
        )],
        expected: &["a: EXPRESSION_COSTLY 6:18 /flow/nodes/0/rules/0/if"],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  entry: nowhere\n  nodes:\n    - { id: a, type: engine-task, service: x, next: dome, on_error: gone }\n    - { id: done, type: end }\n",
        )],
        expected: &["a: UNKNOWN_TARGET 2:10 /flow/entry"],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: a, type: engine-task, service: x, next: dome, on_error: gone, on_timeout: { after: 1h, then: s } }\n    - { id: done, type: end }\n    - { id: s, type: start, next: a }\n",
        )],
        expected: &[
            "a: UNKNOWN_TARGET 3:53 /flow/nodes/0/next",
            "a: UNKNOWN_TARGET 3:69 /flow/nodes/0/on_error",
            "a: UNKNOWN_TARGET 3:106 /flow/nodes/0/on_timeout/then",
            "a: warning UNREACHABLE 4:7 /flow/nodes/1",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - id: choose\n      type: exclusive\n      rules: [{ if: a, then: x }, { else: y }]\n    - { id: x, type: engine-task, service: s }\n    - { id: y, type: engine-task, service: s }\n",
        )],
        expected: &[
            "a: FALL_THROUGH 6:7 /flow/nodes/1",
            "a: NEXT_MISSING 7:7 /flow/nodes/2",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: a, type: engine-task, service: s, next: b }\n    - { id: b, type: exclusive, rules: [{ else: a }], next: a }\n",
        )],
        expected: &[
            "a: CYCLE 4:49 /flow/nodes/1/rules/0/else",
            "a: NEXT_NOT_ALLOWED 4:61 /flow/nodes/1/next",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: a, type: end }\n    - { id: a, type: end }\n",
        )],
        expected: &[
            "a: warning UNREACHABLE 4:7 /flow/nodes/1",
            "a: DUPLICATE_NODE 4:13 /flow/nodes/1/id",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "metadata:\n  variables:\n    - { name: now, type: string }\n    - { name: x, type: string }\n    - { name: x, type: number }\n    - { name: 9x, type: string }\n  outputs: { note: { type: string } }\nflow: { nodes: [{ id: a, type: end }] }\n",
        )],
        expected: &[
            "a: RESERVED_NAME 3:15 /metadata/variables/0/name",
            "a: DUPLICATE_NAME 5:15 /metadata/variables/2/name",
            "a: INVALID_VALUE 6:15 /metadata/variables/3/name",
            "a: RESERVED_NAME 7:14 /metadata/outputs/note",
            "a: OUTPUT_UNKNOWN 7:14 /metadata/outputs/note",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - id: ask\n      type: human\n      candidates: { users: [a] }\n      form: { type: object, properties: { now: {}, a-b: {}, fine: {} } }\n    - id: map\n      type: human\n      candidates: { users: [a] }\n      outputs: { fine: result.now }\n      form: { type: object, properties: { now: {} } }\n    - { id: done, type: end }\n",
        )],
        expected: &[
            "a: RESERVED_NAME 6:43 /flow/nodes/0/form/properties/now",
            "a: INVALID_VALUE 6:52 /flow/nodes/0/form/properties/a-b",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "metadata:\n  variables: { amount: { type: number }, a_outcome: { type: string } }\nflow:\n  nodes:\n    - { id: rule, type: decision, rules: [{ otherwise: { amount: 1 } }] }\n    - { id: a, type: engine-task, service: s, outputs: { b_outcome: result }, on_error: [{ then: done }] }\n    - { id: b, type: engine-task, service: s, outputs: [amount], on_error: done }\n    - { id: think, type: agent, prompt: x, result_variable: amount, next: done }\n    - { id: done, type: end }\n",
        )],
        expected: &[
            "a: LOCKED_NAME 5:58 /flow/nodes/0/rules/0/otherwise/amount",
            "a: NAME_COLLISION 6:13 /flow/nodes/1/id",
            "a: NAME_COLLISION 6:58 /flow/nodes/1/outputs/b_outcome",
            "a: LOCKED_NAME 8:61 /flow/nodes/3/result_variable",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "metadata:\n  outputs: { payout: { type: string } }\nflow:\n  nodes:\n    - { id: rule, type: decision, rules: [{ otherwise: { payouts: 1 } }] }\n    - { id: done, type: end, closing: \"It is ${payouts}, ${payout}\" }\n",
        )],
        expected: &[
            "a: OUTPUT_UNKNOWN 2:14 /metadata/outputs/payout",
            "a: CLOSING_REFERENCE 6:46 /flow/nodes/1/closing",
        ],
    },
    Case {
        files: &[
            CHILD,
            SERVER,
            (
                "a.process.yaml",
                "flow:\n  nodes:\n    - id: think\n      type: agent\n      prompt: x\n      tools:\n        - crm/get_custmer\n        - cmr/get_customer\n        - { ref: crm/create_ticket, policy: read }\n        - { ref: crm/close_account }\n        - { ref: crm/refund, approvers: [clerks], approval: required }\n        - { ref: crm/refund, approval: none }\n      delegates:\n        - nothing\n        - { process: child, outputs: [payoutid, message], approval: required }\n        - child\n      routes: { a: { then: done }, b: { then: done } }\n    - { id: done, type: end }\n",
            ),
        ],
        expected: &[
            "a: TOOL_NOT_FOUND 7:11 /flow/nodes/0/tools/0",
            "a: SERVER_NOT_FOUND 8:11 /flow/nodes/0/tools/1",
            "a: POLICY_LOOSENED 9:45 /flow/nodes/0/tools/2/policy",
            "a: APPROVERS_MISSING 10:11 /flow/nodes/0/tools/3",
            "a: POLICY_LOOSENED 11:41 /flow/nodes/0/tools/4/approvers",
            "a: FUNCTION_NAME 12:18 /flow/nodes/0/tools/5/ref",
            "a: POLICY_LOOSENED 12:40 /flow/nodes/0/tools/5/approval",
            "a: PROCESS_NOT_FOUND 14:11 /flow/nodes/0/delegates/0",
            "a: OUTPUT_UNKNOWN 15:39 /flow/nodes/0/delegates/1/outputs/0",
            "a: RESERVED_NAME 15:49 /flow/nodes/0/delegates/1/outputs/1",
            "a: OUTPUT_UNKNOWN 15:49 /flow/nodes/0/delegates/1/outputs/1",
            "a: APPROVERS_MISSING 15:69 /flow/nodes/0/delegates/1/approval",
            "a: FUNCTION_NAME 16:11 /flow/nodes/0/delegates/2",
            "a: warning DEPRECATED_FIELD 17:7 /flow/nodes/0/routes",
        ],
    },
    Case {
        files: &[
            (
                "open.process.yaml",
                "flow:\n  nodes:\n    - { id: pay, type: engine-task, service: s }\n    - { id: done, type: end }\n",
            ),
            (
                "a.process.yaml",
                "flow:\n  nodes:\n    - { id: think, type: agent, prompt: x, delegates: [{ process: open, outputs: [x] }] }\n    - { id: done, type: end }\n",
            ),
        ],
        expected: &["a: warning OUTPUT_NOT_PROVABLE 3:83 /flow/nodes/0/delegates/0/outputs/0"],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: think, type: agent, prompt: x, delegates: [a1, a2, a3, a4, a5, a6, a7, a8, a9] }\n    - { id: done, type: end }\n",
        )],
        expected: &["a: TOO_MANY_DELEGATES 3:55 /flow/nodes/0/delegates"],
    },
    Case {
        files: &[
            (
                "a.process.yaml",
                "flow:\n  nodes:\n    - { id: think, type: agent, prompt: x, delegates: [a, b] }\n    - { id: done, type: end }\n",
            ),
            (
                "b.process.yaml",
                "flow:\n  nodes:\n    - { id: call, type: call-process, process: a, inputs: {} }\n    - { id: done, type: end }\n",
            ),
        ],
        expected: &[
            "a: DELEGATION_CYCLE 3:56 /flow/nodes/0/delegates/0",
            "a: DELEGATION_CYCLE 3:59 /flow/nodes/0/delegates/1",
            "b: DELEGATION_CYCLE 3:48 /flow/nodes/0/process",
        ],
    },
    Case {
        files: &[
            (
                "a.process.yaml",
                "flow:\n  nodes:\n    - { id: call, type: call-process, process: b }\n    - { id: again, type: call-process, process: a }\n    - { id: done, type: end }\n",
            ),
            (
                "b.process.yaml",
                "flow:\n  nodes:\n    - { id: call, type: call-process, process: a }\n    - { id: done, type: end }\n",
            ),
        ],
        expected: &[
            "a: CALL_CYCLE 3:48 /flow/nodes/0/process",
            "a: CALL_CYCLE 4:49 /flow/nodes/1/process",
            "b: CALL_CYCLE 3:48 /flow/nodes/0/process",
        ],
    },
    Case {
        files: &[
            CHILD,
            (
                "a.process.yaml",
                "flow:\n  nodes:\n    - { id: call, type: call-process, process: child, inputs: { orderid: '1' }, outputs: [payoutid] }\n    - { id: done, type: end }\n",
            ),
        ],
        expected: &[
            "a: CALL_INPUT 3:63 /flow/nodes/0/inputs",
            "a: CALL_INPUT 3:65 /flow/nodes/0/inputs/orderid",
            "a: OUTPUT_UNKNOWN 3:91 /flow/nodes/0/outputs/0",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow: { nodes: [{ id: a, type: human, candidates: { groups: [x] }, form: { type: strin } }, { id: b, type: end }] }\n",
        )],
        expected: &["a: SCHEMA_INVALID 1:74 /flow/nodes/0/form"],
    },
    Case {
        files: &[
            ("a.process.yaml", "flow: { nodes: [{ id: a, type: end }] }\n"),
            ("b/a.process.yaml", "flow: { nodes: [{ id: a, type: end }] }\n"),
            (
                "x.server.yaml",
                "name: crm\ntransport: streamable-http\nurl: http://crm.example.com/mcp\ntools: {}\n",
            ),
            (
                "y.server.yaml",
                "name: crm\ntransport: stdio\ncommand: node\ncredential: crm_token\ntools: {}\n",
            ),
            ("agents/a.agent.md", "---\n"),
            ("notes.txt", "hello: 1\n"),
        ],
        expected: &[
            "agents/a.agent.md: NOT_YET 1:1",
            "b/a: DUPLICATE_DOCUMENT 1:1",
            "notes.txt: DOCUMENT_KIND 1:1",
            "x: INSECURE_URL 3:6 /url",
            "y: DUPLICATE_DOCUMENT 1:7 /name",
            "y: STDIO_COMMAND 3:10 /command",
            "y: NOT_YET 4:13 /credential",
        ],
    },
    Case {
        files: &[
            ("legation.toml", "[values]\nlimit = 5\n\n[models\n"),
            (
                "a.process.yaml",
                "flow:\n  nodes:\n    - { id: a, type: decision, rules: [{ when: values.limit > 1, then: {} }] }\n    - { id: b, type: end }\n",
            ),
        ],
        expected: &[
            "a: UNKNOWN_VALUE 3:48 /flow/nodes/0/rules/0/when",
            "legation.toml: TOML_SYNTAX 4:8",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "flow:\n  nodes:\n    - { id: a, type: timer, after: ${x} }\n",
        )],
        expected: &["a: YAML_SYNTAX 3:37 /flow/nodes/0"],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "metadata: { variables: { amount: { type: number } } }\nflow:\n  nodes:\n    - { id: a, type: agent, prompt: \"Pay ${amount} to ${who}\", inputs: { amount: amuont } }\n    - { id: b, type: end }\n",
        )],
        expected: &[
            "a: warning NAME_UNKNOWN 4:55 /flow/nodes/0/prompt",
            "a: warning NAME_UNKNOWN 4:82 /flow/nodes/0/inputs/amount",
        ],
    },
    Case {
        files: &[(
            "a.process.yaml",
            "metadata: { variables: { amount: { type: number } } }\nflow:\n  nodes:\n    - id: a\n      type: decision\n      rules:\n        - { when: amount > 1 && has(ordr.id), then: { ok: '${1 + nothing}' } }\n    - { id: wait, type: timer, after: \"${dely}\" }\n    - { id: pay, type: engine-task, service: p, inputs: [amount, curency], outputs: [] }\n    - { id: b, type: end }\n",
        )],
        expected: &[
            "a: warning NAME_UNKNOWN 7:37 /flow/nodes/0/rules/0/when",
            "a: warning NAME_UNKNOWN 7:66 /flow/nodes/0/rules/0/then/ok",
            "a: warning NAME_UNKNOWN 8:42 /flow/nodes/1/after",
            "a: warning NAME_UNKNOWN 9:66 /flow/nodes/2/inputs/1",
        ],
    },
];

fn short(problem: &Problem) -> String {
    let file = problem
        .file
        .trim_end_matches(".process.yaml")
        .trim_end_matches(".server.yaml");
    let warning = if problem.severity == Severity::Warning {
        "warning "
    } else {
        ""
    };
    let Problem {
        code,
        line,
        column,
        pointer,
        ..
    } = problem;
    format!("{file}: {warning}{} {line}:{column} {pointer}", code.as_str())
        .trim_end()
        .to_owned()
}

#[test]
fn every_problem_is_reported_with_its_place_and_all_at_once() {
    for case in CASES {
        let found: Vec<String> = frozen(case.files).problems.iter().map(short).collect();
        assert_eq!(found, case.expected, "{:#?}", case.files);
    }
}

/// The codes that a table of small documents cannot show are proved in `bad_days`.
#[test]
fn every_code_of_the_table_is_proved_by_a_document() {
    let elsewhere = [
        Code::DocumentTooLarge,
        Code::TooManyDocuments,
        Code::YamlBomb,
        Code::YamlDepth,
        Code::TooManyNodes,
    ];
    let mut shown: BTreeSet<Code> = elsewhere.into_iter().collect();
    for case in CASES {
        shown.extend(frozen(case.files).problems.iter().map(|problem| problem.code));
    }
    let missing: Vec<&str> = Code::ALL
        .iter()
        .filter(|code| !shown.contains(code))
        .map(|code| code.as_str())
        .collect();
    assert_eq!(missing, Vec::<&str>::new());
}

#[test]
fn codes_are_upper_snake_and_have_a_meaning() {
    for code in Code::ALL {
        assert!(
            code.as_str().bytes().all(|b| b.is_ascii_uppercase() || b == b'_'),
            "{code:?}"
        );
        assert!(
            !code.meaning().is_empty() && !code.meaning().ends_with('.'),
            "{code:?}"
        );
    }
}

#[test]
fn hints_show_what_to_write_instead() {
    for (text, expected) in [
        (
            "flow:\n  nodes:\n    - { id: a, type: bpmn:serviceTask }",
            "write\ntype: engine-task\nservice: payments.payout",
        ),
        (
            "flow:\n  nodes:\n    - { id: a, type: engin-task }",
            "did you mean `engine-task`?",
        ),
        (
            "flow:\n  nodes:\n    - { id: a, type: exclusiveGateway }",
            "write\ntype: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]",
        ),
        (
            "flow:\n  nodes:\n    - { id: a, type: engine-task, topic: x, service: y }\n    - { id: b, type: end }",
            "did you mean `service`?\ntype: engine-task\nservice: payments.payout",
        ),
        (
            "flow:\n  nodes:\n    - { id: a, type: engine-task, service: y, next: dne }\n    - { id: done, type: end }",
            "did you mean `done`?",
        ),
        (
            "flow:\n  nodes:\n    - { id: a, type: human, candidates: { groups: [x] }, outcomes: { ok: { next: b }, no: { then: b } } }\n    - { id: b, type: end }",
            "did you mean `then`?\nif: amount > 500\nthen: review",
        ),
        (
            "flow:\n  nodes:\n    - { id: a, type: timer, after: ${x} }",
            "put a text with `${` in quotes: YAML takes its brace for a map",
        ),
    ] {
        let hints: Vec<String> = frozen(&[("p.process.yaml", text)])
            .problems
            .into_iter()
            .filter_map(|problem| problem.hint)
            .collect();
        assert!(
            hints.iter().any(|hint| hint == expected),
            "{expected}\nis none of {hints:#?}"
        );
    }
}

#[test]
fn the_wire_form_of_a_problem_has_stable_names() {
    let problems = frozen(&[("p.process.yaml", "flow: { nodes: [{ id: a, type: xor }] }")]).problems;
    let text = serde_json::to_string(&problems[0]).unwrap();
    assert_eq!(
        text,
        r#"{"code":"UNKNOWN_NODE_TYPE","severity":"error","message":"there is no node type `xor`","file":"p.process.yaml","line":1,"column":32,"pointer":"/flow/nodes/0/type","hint":"write\ntype: exclusive\nrules: [{ if: amount > 500, then: review }, { else: pay }]"}"#
    );
}
