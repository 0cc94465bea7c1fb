#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use super::*;

fn declared(name: &str, kind: Type) -> Declaration {
    Declaration {
        name: name.to_owned(),
        kind,
        input: true,
        required: true,
        nullable: false,
        locked: true,
        sensitive: false,
        default: None,
        choices: None,
        schema: None,
        description: None,
    }
}

fn given(text: &str) -> BTreeMap<String, Value> {
    Value::parse(text).unwrap().as_map().unwrap().clone()
}

#[test]
fn every_type_takes_its_values_and_no_others() {
    for (kind, good, bad) in [
        (Type::String, r#"["", "1"]"#, "[1, true, null, {}, []]"),
        (
            Type::Integer,
            "[0, -3, 2.0, 12345678901234567890]",
            r#"["1", 1.5, true, null]"#,
        ),
        (Type::Number, "[0, 0.1, -2]", r#"["0.1", false, null]"#),
        (Type::Boolean, "[true, false]", r#"["true", 0, 1, null]"#),
        (
            Type::Date,
            r#"["2026-01-31", "2024-02-29", "2000-02-29"]"#,
            r#"["2026-02-29", "1900-02-29", "2026-13-01", "2026-00-10", "2026-1-1", "2026-01-31T00:00:00Z", "20260131--", "2026-01-+1", 1]"#,
        ),
        (
            Type::DateTime,
            r#"["2026-01-31T12:00:00Z", "2026-01-31T12:00:00.123+02:00", "2016-12-31T23:59:60Z"]"#,
            r#"["2026-01-31", "2026-01-31T12:00:00", "2026-01-31 12:00:00Z", "2026-01-31T24:00:00Z", "2026-01-31T12:00:00.Z", "2026-01-31T12:00:00+0200", "2026-01-31T1é:00:00Z"]"#,
        ),
        (
            Type::Duration,
            r#"["PT15M", "15m", "0.5s"]"#,
            r#"["15", "P1M", 15]"#,
        ),
        (Type::Object, "[{}]", r#"[[], "{}", null]"#),
        (Type::List, "[[]]", r#"[{}, "[]", null]"#),
        (Type::Any, r#"[1, "a", null, {}, []]"#, "[]"),
    ] {
        let declaration = declared("x", kind);
        for value in Value::parse(good).unwrap().as_list().unwrap() {
            assert_eq!(
                check(&declaration, value, &NoSchemas),
                Ok(()),
                "{kind:?} {value:?}"
            );
        }
        for value in Value::parse(bad).unwrap().as_list().unwrap() {
            let problem = check(&declaration, value, &NoSchemas).unwrap_err();
            assert_eq!(problem.reason, Reason::InvalidParam, "{kind:?} {value:?}");
            assert_eq!(problem.argument, "x");
        }
    }
}

#[test]
fn null_needs_nullable_and_enum_needs_a_listed_value() {
    let mut declaration = declared("colour", Type::String);
    declaration.nullable = true;
    declaration.choices = Some(vec!["red".into(), "blue".into()]);
    assert_eq!(check(&declaration, &Value::Null, &NoSchemas), Ok(()));
    assert_eq!(check(&declaration, &"red".into(), &NoSchemas), Ok(()));
    let problem = check(&declaration, &"secret".into(), &NoSchemas).unwrap_err();
    assert_eq!(problem.message, r#"`colour` must be one of "red", "blue""#);
}

#[test]
fn missing_comes_before_mistyped_and_unknown_names_are_refused() {
    let mut optional = declared("note", Type::String);
    optional.required = false;
    let mut working = declared("approved", Type::Boolean);
    working.input = false;
    let declarations = [
        declared("orderId", Type::String),
        declared("amount", Type::Number),
        optional,
        working,
    ];

    let problem = check_inputs(&declarations, &given(r#"{"orderId": 1}"#), &NoSchemas).unwrap_err();
    assert_eq!(
        (problem.reason, problem.argument.as_str()),
        (Reason::MissingParam, "amount")
    );
    assert_eq!(problem.reason.as_str(), "missing-param");

    let problem = check_inputs(
        &declarations,
        &given(r#"{"orderId": 1, "amount": 2}"#),
        &NoSchemas,
    )
    .unwrap_err();
    assert_eq!(
        (problem.reason, problem.argument.as_str()),
        (Reason::InvalidParam, "orderId")
    );
    assert_eq!(problem.message, "`orderId` must be a string, not a number");

    for unknown in [
        r#"{"orderId": "1", "amount": 2, "x": 1}"#,
        r#"{"orderId": "1", "amount": 2, "approved": true}"#,
    ] {
        let problem = check_inputs(&declarations, &given(unknown), &NoSchemas).unwrap_err();
        assert_eq!(problem.reason.as_str(), "invalid-param");
        assert!(
            problem
                .message
                .ends_with("is not an input; the inputs are orderId, amount, note"),
            "{problem}"
        );
    }
}

#[test]
fn defaults_fill_what_was_not_given() {
    let mut currency = declared("currency", Type::String);
    currency.default = Some("EUR".into());
    let mut count = declared("count", Type::Integer);
    count.input = false;
    count.default = Some(0.into());
    let declarations = [currency, count];
    assert_eq!(
        check_inputs(&declarations, &given("{}"), &NoSchemas).unwrap(),
        given(r#"{"currency": "EUR", "count": 0}"#)
    );
    assert_eq!(
        check_inputs(&declarations, &given(r#"{"currency": "USD"}"#), &NoSchemas).unwrap(),
        given(r#"{"currency": "USD", "count": 0}"#)
    );
}

#[test]
fn messages_hold_no_value() {
    let mut declaration = declared("pin", Type::Date);
    declaration.schema = Some(Value::parse(r#"{"maxLength": 3}"#).unwrap());
    let problem = check(&declaration, &"hunter2".into(), &NoSchemas).unwrap_err();
    assert!(!problem.message.contains("hunter2"));
}
