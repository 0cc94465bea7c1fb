//! Bad days B1 to B6: refused with a place, never a panic.

use super::*;

const END: &str = "    - { id: done, type: end }\n";

#[test]
fn b1_duplicate_and_unknown_keys_are_refused_with_their_places() {
    let text = "flow:\n  nodes:\n    - id: done\n      type: end\n      type: end\n      colour: red\n";
    assert_eq!(
        problems_of(text),
        "DUPLICATE_KEY 5:7 /flow/nodes/0/type\nUNKNOWN_KEY 6:7 /flow/nodes/0/colour"
    );
    let frozen = frozen(&[("p.process.yaml", text)]);
    assert_eq!(
        frozen.problems[0].hint.as_deref(),
        Some("the first one is in line 4")
    );
    assert!(frozen.processes.is_empty());
}

#[test]
fn b2_a_cycle_is_refused_naming_its_nodes() {
    let text = format!(
        "flow:
  nodes:
    - {{ id: a, type: engine-task, service: s }}
    - {{ id: b, type: exclusive, rules: [{{ if: x, then: done }}, {{ else: c }}] }}
    - {{ id: c, type: engine-task, service: s, next: a }}
{END}"
    );
    let frozen = frozen(&[("p.process.yaml", &text)]);
    assert_eq!(shown(&frozen.problems), "CYCLE 5:53 /flow/nodes/2/next");
    assert_eq!(
        frozen.problems[0].message,
        "the flow turns in a circle: a → b → c → a"
    );
    let itself = "flow: { nodes: [{ id: a, type: timer, after: 1s, next: a }] }";
    assert_eq!(problems_of(itself), "CYCLE 1:56 /flow/nodes/0/next");
}

#[test]
fn b2_two_circles_are_two_problems() {
    let text = "flow:
  nodes:
    - { id: fork, type: parallel, branches: [a, c] }
    - { id: a, type: timer, after: 1s, next: b }
    - { id: b, type: timer, after: 1s, next: a }
    - { id: c, type: timer, after: 1s, next: d }
    - { id: d, type: timer, after: 1s, next: c }
";
    assert_eq!(
        problems_of(text),
        "CYCLE 5:46 /flow/nodes/2/next\nCYCLE 7:46 /flow/nodes/4/next"
    );
}

#[test]
fn b3_unknown_targets_and_fall_through_are_refused() {
    let text = format!(
        "flow:
  nodes:
    - id: choose
      type: exclusive
      rules:
        - {{ if: x, then: left }}
        - {{ else: rigth }}
    - {{ id: start_here, type: engine-task, service: s }}
    - {{ id: left, type: engine-task, service: s }}
{END}"
    );
    assert_eq!(
        problems_of(&text),
        "UNKNOWN_TARGET 7:19 /flow/nodes/0/rules/1/else\n\
         FALL_THROUGH 8:7 /flow/nodes/1\n\
         warning UNREACHABLE 8:7 /flow/nodes/1"
    );
    let said = text.replace("rigth", "start_here").replace(
        "start_here, type: engine-task,",
        "start_here, next: left, type: engine-task,",
    );
    assert_eq!(problems_of(&said), "");
}

#[test]
fn b4_a_yaml_bomb_is_refused_before_it_is_built() {
    let mut bomb = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol, lol]\n".to_owned();
    for level in 1..=12 {
        let before = format!("*a{}", level - 1);
        let list = vec![before; 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{list}]\n"));
    }
    assert_eq!(problems_of(&bomb), "YAML_BOMB 5:40 /a4/6");

    let long = "x".repeat(100_000);
    let mut fat = format!("a: &a {long}\nb: [");
    fat.push_str(&vec!["*a"; 100].join(", "));
    fat.push_str("]\n");
    assert_eq!(problems_of(&fat), "YAML_BOMB 2:161 /b/39");

    let anchors: String = (0..60)
        .map(|level| format!("{}- &b{level}\n", " ".repeat(level)))
        .collect();
    let nested_anchors = anchors + &format!("{}- x\n", " ".repeat(60)).repeat(5_000);
    assert_eq!(
        frozen(&[("p.process.yaml", &nested_anchors)]).problems[0].code,
        Code::YamlBomb
    );

    let many = format!("x: [{}]", "1,".repeat(100_001));
    assert_eq!(
        frozen(&[("p.process.yaml", &many)]).problems[0].code,
        Code::YamlBomb
    );
}

#[test]
fn b4_deep_nesting_is_refused() {
    let flow = format!("x: {}{}", "[".repeat(64), "]".repeat(64));
    assert_eq!(
        problems_of(&flow),
        format!("YAML_DEPTH 1:67 /x{}", "/0".repeat(63))
    );
    let deeper = format!("x: {}", "[".repeat(100_000));
    assert!(matches!(
        frozen(&[("p.process.yaml", &deeper)]).problems[0].code,
        Code::YamlDepth
    ));
    let blocks: String = (0..2_000)
        .map(|level| format!("{}a:\n", " ".repeat(level % 700)))
        .collect();
    assert!(frozen(&[("p.process.yaml", &blocks)]).has_errors());
    // An alias may not smuggle depth in.
    let half = format!(
        "a: &a {}{}\nb: {}*a{}",
        "[".repeat(40),
        "]".repeat(40),
        "[".repeat(30),
        "]".repeat(30)
    );
    assert_eq!(
        frozen(&[("p.process.yaml", &half)]).problems[0].code,
        Code::YamlDepth
    );
}

#[test]
fn b5_a_document_of_10_mib_is_refused_unread() {
    let large = format!(
        "# {}\nflow: {{ nodes: [{{ id: a, type: end }}] }}",
        "x".repeat(10 * 1024 * 1024)
    );
    assert_eq!(problems_of(&large), "DOCUMENT_TOO_LARGE 1:1");
    let toml = format!("# {}", "x".repeat(10 * 1024 * 1024));
    assert_eq!(
        frozen(&[("legation.toml", &toml)]).problems[0].code,
        Code::DocumentTooLarge
    );
    let fits = format!(
        "# {}\nflow: {{ nodes: [{{ id: a, type: end }}] }}",
        "x".repeat(1024 * 1024 - 100)
    );
    assert_eq!(problems_of(&fits), "");
}

#[test]
fn b6_a_costly_expression_is_refused_at_its_place() {
    let text = format!(
        "flow:
  nodes:
    - id: choose
      type: exclusive
      rules:
        - if: list.map(a, list.map(b, list.map(c, list.map(d, a + b + c + d)))).size() > 0
          then: done
{END}"
    );
    let frozen = frozen(&[("p.process.yaml", &text)]);
    let problem = &frozen.problems[0];
    assert_eq!((problem.code, problem.line), (Code::ExpressionCostly, 6));
    assert!(problem.column >= 15);
    assert_eq!(problem.pointer, "/flow/nodes/0/rules/0/if");
}

#[test]
fn a_flow_of_more_than_a_thousand_nodes_is_refused() {
    let nodes: String = (0..1_001)
        .map(|n| format!("    - {{ id: n{n}, type: timer, after: 1s }}\n"))
        .collect();
    assert_eq!(
        problems_of(&format!("flow:\n  nodes:\n{nodes}")),
        "TOO_MANY_NODES 3:5 /flow/nodes"
    );
    let nodes: String = (0..999)
        .map(|n| format!("    - {{ id: n{n}, type: timer, after: 1s }}\n"))
        .collect();
    assert_eq!(problems_of(&format!("flow:\n  nodes:\n{nodes}{END}")), "");
}

#[test]
fn thousands_of_problems_are_cut_short() {
    let keys: String = (0..5_000).map(|n| format!("k{n}: 1\n")).collect();
    let frozen = frozen(&[("p.process.yaml", &keys)]);
    assert_eq!(frozen.problems.len(), 500);
    assert!(frozen.has_errors());
}

#[test]
fn a_set_of_more_than_a_thousand_files_is_refused() {
    let set = (0..1_001)
        .map(|n| (format!("p{n}.yaml"), String::new()))
        .collect();
    let frozen = freeze(&set, &Options::default(), &Nothing);
    assert_eq!(shown(&frozen.problems), "TOO_MANY_DOCUMENTS 1:1");
}

/// Hostile documents within the size limit take no longer than reading them: no check is quadratic.
#[test]
fn large_hostile_documents_are_refused_quickly() {
    let began = std::time::Instant::now();
    let many = |count: usize, each: &dyn Fn(usize) -> String| (0..count).map(each).collect::<String>();
    let keys = many(45_000, &|n| format!("kee{n}: 1\n"));
    let names = many(45_000, &|n| format!("n{n}, "));
    let inputs = format!(
        "flow: {{ nodes: [{{ id: a, type: timer, after: 1s, next: x }}, {{ id: x, type: engine-task, service: s, outputs: [v], inputs: [{names}] }}, {{ id: d, type: end }}] }}"
    );
    let tools = format!(
        "flow: {{ nodes: [{{ id: a, type: agent, prompt: x, tools: [{names}] }}, {{ id: d, type: end }}] }}"
    );
    let forks = format!(
        "flow: {{ nodes: [{{ id: a, type: parallel, branches: [{names}] }}, {{ id: d, type: end }}] }}"
    );
    let variables = format!(
        "metadata: {{ variables: {{ {} }} }}",
        many(20_000, &|n| format!("v{n}: {{ type: string }}, "))
    );
    let wrong = many(15_000, &|n| format!("        - {{ if: a{n} >, then: d }}\n"));
    let rules = format!(
        "flow:\n  nodes:\n    - id: a\n      type: exclusive\n      rules:\n{wrong}    - {{ id: d, type: end }}\n"
    );
    let base = many(15_000, &|n| format!("  k{n}: 1\n"));
    let merged = format!("a: &a\n{base}b:\n  <<: *a\n{base}");
    for text in [&keys, &inputs, &tools, &forks, &variables, &rules, &merged] {
        assert!(!frozen(&[("p.process.yaml", text)]).problems.is_empty());
    }
    assert!(began.elapsed().as_secs() < 60, "{:?}", began.elapsed());
}
