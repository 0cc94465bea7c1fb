//! What keeps evaluation bounded: steps, bytes, depth, stack.

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::expr::Expr;

use super::{names, run};
use crate::expr::{Budget, MAX_RESULT_DEPTH, evaluate};

/// B6: what passes the static bound but runs too long stops with an error, never a panic.
#[test]
fn b6_a_costly_evaluation_stops_at_its_budget() {
    let mut names = names();
    names.insert("many".to_owned(), Value::list(0_u64..1_000));
    names.insert("long".to_owned(), Value::from("x".repeat(1_000_000)));
    for text in [
        "many.map(a, many.map(b, a + b)).size() > 0",
        "many.exists(a, many.exists(b, a + b < 0)) || true",
        "many.all(a, many.all(b, a + b >= 0)) && false",
        "many.map(a, long).size()",
        "many.map(a, long + long).size()",
        "many.map(a, many).size()",
        "many.filter(a, long.contains('y')).size()",
        "many.map(a, string(a).matches('^' + string(a)))",
        "long.replace('x', long)",
        "long.split('')",
        "many.map(a, string(a)).map(s, long.split('x').join(s)).size()",
        "many.filter(a, many == many.map(b, b)).size()",
        "many.filter(a, long in [long + 'y']).size()",
        "many.map(a, max([long, long]))",
        "many.map(a, {long: a})",
    ] {
        let expr = Expr::compile(text).unwrap();
        let mut budget = Budget::default();
        let error = evaluate(&expr, &names, &mut budget)
            .map(|value| value.kind())
            .unwrap_err();
        assert_eq!(error.message, "too costly: the step budget is used up", "{text}");
        assert_eq!(budget.left(), 0);
    }
    for text in [
        "many.filter(a, a > 500).map(a, a * 2).sum()",
        "long",
        "[long]",
        "long + long == long",
        "many",
    ] {
        let expr = Expr::compile(text).unwrap();
        evaluate(&expr, &names, &mut Budget::default()).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn a_budget_is_shared_by_several_evaluations() {
    let expr = Expr::compile("numbers.map(n, n)").unwrap();
    let mut budget = Budget::new(8);
    assert!(evaluate(&expr, &names(), &mut budget).is_ok());
    assert!(evaluate(&expr, &names(), &mut budget).is_ok());
    assert!(evaluate(&expr, &names(), &mut budget).is_err());
}

#[test]
fn a_result_that_nests_too_deep_to_be_stored_is_refused() {
    let nested = (1..MAX_RESULT_DEPTH).fold(Value::list(["x"]), |inner, _| Value::list([inner]));
    let names = BTreeMap::from([("deep".to_owned(), nested)]);
    let run = |text: &str| evaluate(&Expr::compile(text).unwrap(), &names, &mut Budget::default());
    assert!(run("deep").is_ok());
    assert!(run("[deep]").unwrap_err().message.contains("nests deeper"));
    assert!(run("deep + [deep]").unwrap_err().message.contains("nests deeper"));
}

#[test]
fn the_deepest_expressions_fit_a_small_stack() {
    let small = std::thread::Builder::new().stack_size(1024 * 1024);
    let work = || {
        let calls = format!("{}1{}", "abs(".repeat(31), ")".repeat(31));
        let maps = format!("{}1{}", "[1].map(x, ".repeat(31), ")".repeat(31));
        let ternary = format!("{}1", "yes ? 1 : ".repeat(60));
        for text in [
            calls,
            maps,
            ternary,
            "!".repeat(60) + "yes",
            format!("{}1{}", "[".repeat(60), "]".repeat(60)),
        ] {
            run(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
        }
    };
    small.spawn(work).unwrap().join().unwrap();
}
