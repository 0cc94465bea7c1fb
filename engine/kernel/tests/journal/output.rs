//! D17, D42: the output contract.

use legation_kernel::task::{Completion, check_complete};
use legation_language::Value;
use legation_language::model::AgentOutcome;
use legation_language::types::{NoSchemas, SchemaCheck};

use crate::bench::*;

/// Wants an object with `answer` and nothing else.
struct Strict;

impl SchemaCheck for Strict {
    fn errors(&self, _: &Value, value: &Value) -> Vec<String> {
        let fits = value
            .as_map()
            .is_some_and(|map| map.len() == 1 && map.contains_key("answer"));
        if fits {
            Vec::new()
        } else {
            vec!["/answer: required".to_owned()]
        }
    }
}

fn check(bench: &mut Bench, result: &Value, outcome: Option<&str>) -> Completion {
    let agent = bench.agent.clone();
    check_complete(&mut bench.file, Some(&agent), result, outcome, &Strict).unwrap()
}

#[test]
fn complete_with_an_open_step_closes_nothing() {
    let mut bench = Bench::new();
    let caller = bench.lease("w1");
    bench.send(&caller, model(1)).unwrap();
    let agent = bench.agent.clone();
    let refusal = check_complete(&mut bench.file, Some(&agent), &Value::Null, None, &NoSchemas).unwrap_err();
    assert_eq!(refusal.code, "OPEN_STEP");
    assert!(bench.file.task.lease.is_some());
}

#[test]
fn d42_a_broken_contract_goes_back_twice_and_the_third_is_final() {
    let mut bench = Bench::new();
    bench.agent.output_schema = Some(Value::map([("type", "object")]));
    let errors = vec!["/answer: required".to_owned()];
    for _ in 0..2 {
        assert_eq!(
            check(&mut bench, &Value::from("hi"), None),
            Completion::Invalid {
                errors: errors.clone()
            }
        );
    }
    assert_eq!(
        check(&mut bench, &Value::from("hi"), None),
        Completion::InvalidFinal { errors }
    );
    let fits = Value::map([("answer", "yes")]);
    assert_eq!(
        check(&mut bench, &fits, None),
        Completion::Accept {
            result: fits,
            outcome: None
        }
    );
}

#[test]
fn d42_a_missing_or_low_confidence_is_routed() {
    let mut bench = Bench::new();
    bench.agent.output_schema = Some(Value::map([("type", "object")]));
    bench.agent.confidence_threshold = Some(object("0.8"));
    for json in [
        r#"{"answer":"yes"}"#,
        r#"{"answer":"yes","_confidence":0.79}"#,
        r#"{"answer":"yes","_confidence":"high"}"#,
    ] {
        let result = object(json);
        assert_eq!(
            check(&mut bench, &result, None),
            Completion::LowConfidence { result }
        );
    }
    let sure = object(r#"{"answer":"yes","_confidence":0.8}"#);
    assert_eq!(
        check(&mut bench, &sure, None),
        Completion::Accept {
            result: sure,
            outcome: None
        }
    );
}

#[test]
fn d42_an_outcome_is_one_of_the_nodes() {
    let mut bench = Bench::new();
    let outcome = |name: &str| AgentOutcome {
        name: name.to_owned(),
        then: "end".to_owned(),
        description: None,
        when: None,
    };
    let text = Value::from("hi");
    assert!(
        matches!(
            check(&mut bench, &text, Some("refund")),
            Completion::Invalid { .. }
        ),
        "the node has none"
    );
    bench.agent.outcomes = vec![outcome("refund"), outcome("reject")];
    for given in [None, Some("maybe")] {
        bench.file.task.invalid_outputs = 0;
        let Completion::Invalid { errors } = check(&mut bench, &text, given) else {
            panic!("accepted {given:?}")
        };
        assert!(errors[0].contains("refund, reject"));
    }
    let accepted = Completion::Accept {
        result: text.clone(),
        outcome: Some("refund".to_owned()),
    };
    assert_eq!(check(&mut bench, &text, Some("refund")), accepted);
}
