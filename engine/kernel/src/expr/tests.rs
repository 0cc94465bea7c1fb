#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod bounds;
mod functions;

use std::collections::BTreeMap;

use legation_language::Value;
use legation_language::expr::Expr;
use legation_language::template::Template;
use proptest::prelude::*;

use super::{Budget, EvalError, evaluate, evaluate_bool, render};

fn names() -> BTreeMap<String, Value> {
    let text = r#"{
        "amount": 620.50, "count": 3, "name": "Grüße, Ada", "empty": "", "yes": true, "no": false, "nothing": null,
        "order": {"id": "ORD-7", "lines": [{"sku": "a", "qty": 2, "price": 1.10}, {"sku": "b", "qty": 1, "price": 20}],
                  "and": 1, "note": null},
        "numbers": [3, 1, 2], "mixed": [1, "a", null], "secret": "hunter2",
        "now": "2026-11-30T08:15:00.000Z", "due": "2026-12-01T10:00:00+02:00", "day": "2026-12-01", "wait": "P1D",
        "true_text": "true", "whole_text": "42", "half_text": "4.5", "pattern": "^Gr"
    }"#;
    Value::parse(text).unwrap().as_map().unwrap().clone()
}

fn run(text: &str) -> Result<Value, EvalError> {
    let expr = Expr::compile(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    evaluate(&expr, &names(), &mut Budget::default())
}

fn check(table: &[(&str, &str)]) {
    for (text, expected) in table {
        let value = run(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(value.to_json(), *expected, "{text}");
    }
}

fn check_failures(table: &[(&str, &str)]) {
    for (text, expected) in table {
        let error = run(text).map(|value| value.to_json()).unwrap_err();
        assert_eq!(error.message, *expected, "{text}");
        assert_eq!(
            (error.code(), error.expression.as_str()),
            ("EXPRESSION_FAILED", *text)
        );
    }
}

#[test]
fn numbers_are_exact_decimals() {
    check(&[
        ("0.1 + 0.2 == 0.3", "true"),
        ("1 == 1.0", "true"),
        ("7 / 2 == 3.5", "true"),
        ("1 / 3", "0.3333333333333333333333333333"),
        ("2 / 3", "0.6666666666666666666666666667"),
        ("200 / 3", "66.66666666666666666666666667"),
        ("1 / 3 * 3", "0.9999999999999999999999999999"),
        ("-7 / 2", "-3.5"),
        ("7 % 3", "1"),
        ("-7 % 3", "-1"),
        ("7.5 % 2", "1.5"),
        ("2 + 3 * 4 - 10 / 4", "11.5"),
        ("10 - 3 - 2", "5"),
        ("2 * (3 + 4)", "14"),
        ("amount * 2", "1241"),
        ("-amount", "-620.5"),
        ("--count", "3"),
        ("-0 == 0 ? 0 - 0 : 1", "0"),
        ("9007199254740993 + 0.5", "9007199254740993.5"),
        (
            "1000000000000000000000000000 * 9.999999999999999999999999999",
            "9999999999999999999999999999",
        ),
        ("1e27 + 0.05", "1000000000000000000000000000"),
        ("1e27 + 0.5", "1000000000000000000000000000"),
        ("1e27 + 1.5", "1000000000000000000000000002"),
        ("1e-28 * 0.5", "0"),
        ("1e-28 * 1.5", "0.0000000000000000000000000002"),
        ("1e-20 * 1e-20", "0"),
        ("1e26 / 1e-1", "1000000000000000000000000000"),
        ("0x1F + 1u", "32"),
    ]);
    check_failures(&[
        ("1e27 * 10", "the number is outside 28 digits"),
        ("1e27 * 100", "the number is outside 28 digits"),
        (
            "9999999999999999999999999999 + 1",
            "the number is outside 28 digits",
        ),
        ("1e27 / 1e-27", "the number is outside 28 digits"),
        ("1 / 0", "division by zero: the value is 0"),
        ("amount % (count - 3)", "division by zero: the value is 0"),
        ("[1e27].map(x, x * x)", "the number is outside 28 digits"),
    ]);
}

#[test]
fn comparing_keeps_the_kinds_apart() {
    check(&[
        ("amount > 500 && amount <= 620.5", "true"),
        ("name == 'Grüße, Ada'", "true"),
        ("'a' < 'b'", "true"),
        ("nothing == null", "true"),
        ("nothing != null", "false"),
        ("amount == null", "false"),
        ("null == name", "false"),
        ("nothing == 5", "false"),
        ("nothing != 5", "true"),
        ("yes == true", "true"),
        ("order.lines[0] == {'sku': 'a', 'qty': 2.0, 'price': 1.1}", "true"),
        ("numbers == [3, 1, 2]", "true"),
        ("order.id in ['ORD-7', 'ORD-8']", "true"),
        ("1 in mixed && 'a' in mixed && null in mixed", "true"),
        ("'1' in mixed", "false"),
        ("'id' in order", "true"),
        ("'x' in order", "false"),
        ("amount ne 5 and not (yes eq no)", "true"),
        ("not amount == 5", "true"),
    ]);
    check_failures(&[
        ("amount == 'x'", "cannot compare `amount` (number) with a string"),
        ("order.id > 5", "cannot compare `order.id` (string) with a number"),
        ("5 < nothing", "cannot compare a number with `nothing` (null)"),
        (
            "order.lines[0].sku != order.lines",
            "cannot compare `order.lines[0].sku` (string) with `order.lines` (list)",
        ),
        ("yes < no", "cannot compare `yes` (boolean) with `no` (boolean)"),
        ("'a' in name", "`name` is a string, not a list or an object"),
        ("1 in order", "the value is a number, not a string"),
        (
            "amount + name",
            "cannot add `amount` (number) and `name` (string)",
        ),
        (
            "name - name",
            "cannot subtract `name` (string) and `name` (string)",
        ),
        ("numbers * 2", "cannot multiply `numbers` (list) and a number"),
        ("nothing + 1", "cannot add `nothing` (null) and a number"),
        ("-name", "`name` is a string, not a number"),
        ("!amount", "`amount` is a number, not a boolean"),
        ("amount ? 1 : 2", "`amount` is a number, not a boolean"),
    ]);
}

#[test]
fn and_and_or_absorb_errors_of_the_side_that_does_not_decide() {
    check(&[
        ("no && unknown", "false"),
        ("unknown && no", "false"),
        ("yes || unknown", "true"),
        ("unknown || yes", "true"),
        ("amount || yes", "true"),
        ("1 / 0 > 1 || unknown || yes", "true"),
        ("numbers.exists(n, n / (n - 1) > 1 || n == 2)", "true"),
        ("mixed.all(m, m > 1)", "false"),
        ("yes ? 1 : unknown", "1"),
    ]);
    check_failures(&[
        ("yes && unknown", "unknown name `unknown`"),
        ("unknown || no", "unknown name `unknown`"),
        ("unknown && other", "unknown name `unknown`"),
        ("amount && yes", "`amount` is a number, not a boolean"),
        (
            "mixed.exists(m, m > 5)",
            "cannot compare `m` (string) with a number",
        ),
    ]);
}

#[test]
fn fields_and_elements_are_read() {
    check(&[
        ("order.lines[1].price", "20"),
        ("order['id']", "\"ORD-7\""),
        ("order.and", "1"),
        ("order.lines[count - 2].sku", "\"b\""),
        ("{'a': {'b': [1, 2]}}.a.b[1]", "2"),
        ("[[1, 2], [3]][0][1.0]", "2"),
        ("has(order.id)", "true"),
        ("has(order.note)", "true"),
        ("has(order.x)", "false"),
        ("has(order.note.x)", "false"),
        ("has(order.x.y.z)", "false"),
        ("has(order['lines'][1].sku)", "true"),
        ("has(order.lines[2].sku)", "false"),
        ("has(unknown) || has(unknown.x)", "false"),
        ("has(amount)", "true"),
        ("numbers.filter(n, has(order.id) && n > 1)", "[3,2]"),
    ]);
    check_failures(&[
        ("unknown", "unknown name `unknown`"),
        ("unknown.id", "unknown name `unknown`"),
        ("order.x", "`order` has no field `x`"),
        ("order['x']", "`order.x` does not exist"),
        ("order[secret]", "that element of `order` does not exist"),
        ("order.note.x", "`order.note` is null, not an object"),
        ("name.x", "`name` is a string, not an object"),
        ("numbers[3]", "`numbers[3]` does not exist"),
        ("numbers[-1]", "`numbers[-1]` does not exist"),
        ("numbers[0.5]", "the index is no whole number"),
        ("numbers['a']", "the value is a string, not a number"),
        ("order[1]", "the value is a number, not a string"),
        ("amount[0]", "`amount` is a number, not a list or an object"),
        ("{secret: 1, 'hunter2': 2}", "the object has this key twice"),
        ("{1: 2}", "the value is a number, not a string"),
        ("has(name.x)", "`name` is a string, not an object"),
    ]);
}

#[test]
fn macros_visit_every_element() {
    check(&[
        ("numbers.all(n, n > 0)", "true"),
        ("numbers.exists(n, n > 2)", "true"),
        ("numbers.exists_one(n, n > 2)", "true"),
        ("numbers.exists_one(n, n > 1)", "false"),
        ("numbers.filter(n, n > 1)", "[3,2]"),
        ("numbers.map(n, n * 2)", "[6,2,4]"),
        ("numbers.map(n, n > 1, n * 2)", "[6,4]"),
        ("[].all(n, no) && ![].exists(n, yes)", "true"),
        ("order.lines.map(l, l.qty * l.price).sum()", "22.2"),
        ("sum(order.lines.map(l, l.price)) > amount", "false"),
        ("order.lines.filter(l, l.price > 2)[0].sku", "\"b\""),
        ("{'b': 1, 'a': 2}.map(k, k)", "[\"a\",\"b\"]"),
        ("numbers.map(n, numbers.filter(m, m < n))", "[[1,2],[],[1]]"),
        (
            "numbers.map(n, numbers.map(n, n + 1))",
            "[[4,2,3],[4,2,3],[4,2,3]]",
        ),
        ("numbers.map(amount, amount)", "[3,1,2]"),
        ("[numbers, [count]].map(list, size(list))", "[3,1]"),
        ("[1, 2] + [3]", "[1,2,3]"),
    ]);
    check_failures(&[
        (
            "amount.all(a, yes)",
            "`amount` is a number, not a list or an object",
        ),
        ("numbers.filter(n, n)", "`n` is a number, not a boolean"),
        ("numbers.map(n, n + m)", "unknown name `m`"),
        (
            "mixed.exists_one(m, m > 0)",
            "cannot compare `m` (string) with a number",
        ),
    ]);
}

#[test]
fn an_error_names_its_place_and_the_field_but_no_value() {
    let error = run("yes && order.id > 5").unwrap_err();
    assert_eq!((error.offset, error.name.as_deref()), (7, Some("order.id")));
    assert_eq!(
        error.to_string(),
        "cannot compare `order.id` (string) with a number at byte 7 of `yes && order.id > 5`"
    );
    for text in [
        "secret > 5",
        "secret.x",
        "-secret",
        "number(secret)",
        "timestamp(secret)",
        "duration(secret)",
        "bool(secret)",
        "secret[0]",
        "order[secret]",
        "{secret: 1, secret: 2}",
        "secret.matches(secret + '(')",
        "secret.substring(50)",
        "[secret].sum()",
        "[1].join(secret)",
        "max(secret, 1)",
        "secret in secret",
        "secret ? 1 : 2",
        "secret + 1",
        "[secret].map(s, s.x)",
        "int(secret)",
        "round(secret)",
        "order[order.id]",
        "numbers[int(amount)]",
    ] {
        let shown = run(text).unwrap_err().to_string();
        for value in ["hunter2", "ORD-7", "620"] {
            assert!(!shown.contains(value), "{text}: {shown}");
        }
    }
}

#[test]
fn a_yes_or_no_is_asked_for_by_its_own_name() {
    let ask = |text: &str| evaluate_bool(&Expr::compile(text).unwrap(), &names(), &mut Budget::default());
    assert_eq!(ask("${amount > 5}"), Ok(true));
    let error = ask("order.id").unwrap_err();
    assert_eq!(
        error.to_string(),
        "`order.id` is a string, not a boolean at byte 0 of `order.id`"
    );
}

#[test]
fn a_template_renders_to_text_unless_it_is_one_reference() {
    for (text, expected) in [
        ("${amount}", "620.5"),
        ("${order.lines[0]}", r#"{"price":1.1,"qty":2,"sku":"a"}"#),
        ("${nothing}", "null"),
        ("${timestamp(due)}", "\"2026-12-01T08:00:00.000Z\""),
        (
            "Order ${order.id}: ${amount} for ${name}",
            "\"Order ORD-7: 620.5 for Grüße, Ada\"",
        ),
        (
            "[${nothing}] ${yes} ${order.lines[1]} ${numbers} ${1.50}",
            r#""[] true {\"price\":20,\"qty\":1,\"sku\":\"b\"} [3,1,2] 1.5""#,
        ),
        ("$${amount} ${amount}", "\"${amount} 620.5\""),
        ("plain", "\"plain\""),
        ("", "\"\""),
    ] {
        let template = Template::parse(text).unwrap();
        let value = render(&template, &names(), &mut Budget::default()).unwrap();
        assert_eq!(value.to_json(), expected, "{text}");
    }
    let template = Template::parse("Hi ${name}, ${unknown}").unwrap();
    let error = render(&template, &names(), &mut Budget::default()).unwrap_err();
    assert_eq!(error.to_string(), "unknown name `unknown` at byte 0 of `unknown`");
    let long = Template::parse("a ${name}").unwrap();
    let names = BTreeMap::from([("name".to_owned(), Value::from("x".repeat(6_400)))]);
    assert!(render(&long, &names, &mut Budget::new(99)).is_err());
    assert!(render(&long, &names, &mut Budget::new(100)).is_ok());
}

proptest! {
    #[test]
    fn evaluating_near_expressions_never_panics(
        words in prop::collection::vec(prop::sample::select(vec![
            "amount", "numbers", "name", "order.lines", "x", "1", "2.5", "'s'", "(", ")", "[", "]", "+", "-", "*", "/",
            "%", "==", "<", "&&", "||", "!", " in ", "has(", "size(", ".map(x,", ".filter(x,", ".all(x,", "now",
            "timestamp(", "duration('1d')", ".split('", "')", ".substring(", ",", "round(", "[0]", "? 1 :", "null",
            "1e27", "max(",
        ]), 1..16)
    ) {
        if let Ok(expr) = Expr::compile(&words.concat())
            && let Ok(value) = evaluate(&expr, &names(), &mut Budget::default())
        {
            prop_assert_eq!(Value::parse(&value.to_json()).unwrap(), value);
        }
    }
}
