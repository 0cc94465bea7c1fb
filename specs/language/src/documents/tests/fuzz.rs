//! Whatever stands in a file, reading it reports problems and never panics.

use proptest::prelude::*;

use super::*;

const SEEDS: &[&str] = &[
    include_str!("../../../../../examples/refund/processes/complaint.process.yaml"),
    include_str!("../../../../../examples/refund/processes/refund_payout.process.yaml"),
    include_str!("../../../../../tests/page003/approval.process.yaml"),
    include_str!("../../../../../examples/refund/servers/crm.server.yaml"),
    "metadata: { variables: { order: { type: object } } }
flow:
  nodes:
    - { id: fork, type: parallel, branches: [a, b] }
    - { id: a, type: human, candidates: { groups: [x] }, due: 2d, outcomes: { y: { then: j }, n: { then: j } } }
    - { id: b, type: call-process, process: p, recursive: true, inputs: { order: order }, on_error: [{ code: X, then: j }], on_timeout: { after: 1h, then: j }, next: c }
    - { id: c, type: exclusive, rules: [{ if: \"order.total > 1\", then: t }, { else: j }] }
    - { id: t, type: timer, at: order.at, next: j }
    - { id: j, type: parallel, join: all }
    - { id: e, type: end, error: X, closing: \"For ${order.id}\" }
",
];

const WORDS: &[&str] = &[
    "${",
    "}",
    "{",
    "[",
    "]",
    ": ",
    "- ",
    "\n",
    "\n  ",
    "&a ",
    "*a",
    "|\n",
    "'",
    "\"",
    "type: ",
    "agent",
    "next: ",
    "rules",
    "end",
    "null",
    "~",
    "1e99",
    "<<: *a",
    "é",
    "\u{0}",
    "\t",
    "#",
    "? ",
    "!!str ",
    "---\n",
    "${a.b}",
    "then",
    "loop: 1",
    "delegates: [p]",
    "p",
    "inputs:",
    "0x",
    ".5",
    "🦀",
];

fn run(name: &str, text: &str) {
    let frozen = freeze(
        &files(&[(name, text), ("crm.server.yaml", CRM)]),
        &Options {
            origin: Origin::Local,
            env: None,
        },
        &Nothing,
    );
    for problem in &frozen.problems {
        assert!(problem.line >= 1 && problem.column >= 1, "{problem:?}");
    }
    // What is offered for deployment survives being stored.
    for process in &frozen.processes {
        let json = serde_json::to_string(&*process.definition).unwrap();
        assert_eq!(
            serde_json::from_str::<Definition>(&json).unwrap(),
            *process.definition
        );
    }
    drop(without_command(text));
}

fn boundary(text: &str, at: usize) -> usize {
    let mut at = at % (text.len() + 1);
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read_or_refused(text in "\\PC{0,200}") {
        run("p.process.yaml", &text);
        run("legation.toml", &text);
    }

    #[test]
    fn any_pieces_of_yaml_are_read_or_refused(pieces in proptest::collection::vec(0..WORDS.len(), 0..60)) {
        let text: String = pieces.into_iter().map(|piece| WORDS[piece]).collect();
        run("p.process.yaml", &text);
        run("x.server.yaml", &text);
        run("legation.toml", &text);
    }

    #[test]
    fn mutated_documents_are_read_or_refused(
        seed in 0..SEEDS.len(),
        edits in proptest::collection::vec((any::<usize>(), 0..4_usize, 0..WORDS.len(), 1..40_usize), 1..6),
    ) {
        let mut text = SEEDS[seed].to_owned();
        for (at, what, word, length) in edits {
            let from = boundary(&text, at);
            let to = boundary(&text, (from + length).min(text.len()));
            let (from, to) = (from.min(to), from.max(to));
            match what {
                0 => text.insert_str(from, WORDS[word]),
                1 => text.replace_range(from..to, ""),
                2 => text.replace_range(from..to, WORDS[word]),
                _ => {
                    let copy = text[from..to].to_owned();
                    text.push_str(&copy);
                }
            }
        }
        run("p.process.yaml", &text);
        run("p.server.yaml", &text);
    }
}
