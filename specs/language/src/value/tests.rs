#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::BTreeMap;

use proptest::prelude::*;
use rust_decimal::Decimal;
use serde::{Deserialize, Serialize};

use super::{MAX_DEPTH, Value};

#[test]
fn digits_survive_reading_and_printing() {
    for (text, printed) in [
        ("0.1", "0.1"),
        ("1.0", "1"),
        ("-0", "0"),
        ("-0.00", "0"),
        ("1e3", "1000"),
        ("12.5E-3", "0.0125"),
        ("1e27", "1000000000000000000000000000"),
        ("1e-28", "0.0000000000000000000000000001"),
        ("0e999999999999999999999", "0"),
        ("1234567890123456789012345678", "1234567890123456789012345678"),
        ("0.1234567890123456789012345678", "0.1234567890123456789012345678"),
        ("1.5000000000000000000000000000000000000", "1.5"),
        ("9007199254740993", "9007199254740993"),
        ("18446744073709551615", "18446744073709551615"),
    ] {
        assert_eq!(Value::parse(text).unwrap().to_json(), printed, "{text}");
    }
}

#[test]
fn a_number_outside_28_digits_is_refused_with_its_place() {
    for text in [
        "12345678901234567890123456789",
        "0.12345678901234567890123456789",
        "1e28",
        "1e29",
        "1e-29",
        "8e28",
        "1e99999999999999999999",
        "-1e-99999999999999999999",
    ] {
        let error = Value::parse(&format!("[1, {text}]")).unwrap_err();
        assert_eq!((error.code, error.offset), ("NUMBER_RANGE", 4), "{text}");
    }
}

#[test]
fn what_is_no_json_is_refused_with_its_place() {
    for (text, offset) in [
        ("", 0),
        ("nul", 0),
        ("1 2", 2),
        ("[1,]", 3),
        ("[1 2]", 3),
        ("{a:1}", 1),
        ("{\"a\" 1}", 5),
        ("{\"a\":1,\"a\":2}", 7),
        ("{\"a\":1,}", 7),
        ("01", 0),
        ("1.", 2),
        (".5", 0),
        ("-", 1),
        ("1e", 2),
        ("+1", 0),
        ("\"abc", 0),
        ("\"a\nb\"", 2),
        ("\"\\x\"", 1),
        ("\"\\u12\"", 1),
        ("\"\\ud800\"", 1),
        ("\"\\udc00\"", 1),
        ("\"\\ud800\\u0041\"", 1),
        ("NaN", 0),
        ("\u{feff}1", 0),
    ] {
        let error = Value::parse(text).unwrap_err();
        assert_eq!(
            (error.code, error.offset),
            ("JSON_INVALID", offset),
            "{text:?}: {error}"
        );
    }
}

#[test]
fn depth_is_bounded_without_exhausting_the_stack() {
    let deep = |levels: usize| format!("{}{}", "[".repeat(levels), "]".repeat(levels));
    assert_eq!(Value::parse(&deep(MAX_DEPTH)).unwrap().depth(), MAX_DEPTH);
    assert_eq!(Value::parse(&deep(MAX_DEPTH + 1)).unwrap_err().offset, MAX_DEPTH);
    assert!(Value::parse(&"[{\"a\":".repeat(200_000)).is_err());
}

#[test]
fn escapes_and_surrogates_are_read() {
    let value = Value::parse(r#""\"\\\/\b\f\n\r\t\u0041\u0000\ud83d\ude00é""#).unwrap();
    assert_eq!(value.as_str().unwrap(), "\"\\/\u{8}\u{c}\n\r\tA\u{0}😀é");
    assert_eq!(value.to_json(), "\"\\\"\\\\/\\b\\f\\n\\r\\tA\\u0000😀é\"");
}

#[test]
fn a_pointer_follows_keys_and_indexes() {
    let value = Value::parse(r#"{"a/b":[{"~":7}],"":1}"#).unwrap();
    assert_eq!(value.pointer("/a~1b/0/~0"), Some(&Value::from(7)));
    assert_eq!(value.pointer("/"), Some(&Value::from(1)));
    assert_eq!(value.pointer(""), Some(&value));
    for missing in ["a", "/a~1b/00", "/a~1b/1", "/a~1b/-1", "/x", "//y"] {
        assert_eq!(value.pointer(missing), None, "{missing}");
    }
}

#[test]
fn accessors_answer_only_their_own_kind() {
    assert_eq!(Value::parse("2.0").unwrap().as_i64(), Some(2));
    assert_eq!(Value::parse("2.5").unwrap().as_i64(), None);
    assert_eq!(Value::parse("-1").unwrap().as_u64(), None);
    assert_eq!(Value::from("2").as_i64(), None);
    assert_eq!(Value::parse("1.0").unwrap(), Value::parse("1").unwrap());
    let kinds: Vec<_> = ["null", "true", "1", "\"\"", "[]", "{}"]
        .map(|text| Value::parse(text).unwrap().kind())
        .into();
    assert_eq!(kinds, ["null", "boolean", "number", "string", "list", "object"]);
}

#[derive(Serialize, Deserialize, PartialEq, Debug)]
struct Holder {
    plain: Value,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    maybe: Option<Value>,
    many: Vec<Value>,
    named: BTreeMap<String, Value>,
}

#[test]
fn a_value_keeps_its_digits_inside_serde_structures() {
    let text = r#"{"plain":0.1234567890123456789012345678,"maybe":[1.10,{"x":null}],"many":[9007199254740993,"a"],"named":{"k":12345678901234567890.12345}}"#;
    let holder: Holder = serde_json::from_str(text).unwrap();
    assert_eq!(holder.maybe.as_ref().unwrap().to_json(), r#"[1.1,{"x":null}]"#);
    let printed = serde_json::to_string(&holder).unwrap();
    assert_eq!(printed, text.replace("1.10", "1.1"));
    assert_eq!(
        serde_json::from_slice::<Holder>(printed.as_bytes()).unwrap(),
        holder
    );
    assert_eq!(
        serde_json::from_reader::<_, Holder>(printed.as_bytes()).unwrap(),
        holder
    );
    let error = serde_json::from_str::<Holder>(r#"{"plain":1e99,"many":[],"named":{}}"#).unwrap_err();
    assert!(error.to_string().contains("NUMBER_RANGE"), "{error}");
    let error =
        serde_json::from_str::<Holder>(r#"{"plain":{"a":1,"a":2},"many":[],"named":{}}"#).unwrap_err();
    assert!(error.to_string().contains("duplicate key"), "{error}");
}

#[test]
fn serde_json_values_convert_both_ways() {
    let text = r#"{"a":[1,-2,18446744073709551615,0.1,1e3,null,true,"x"]}"#;
    let theirs: serde_json::Value = serde_json::from_str(text).unwrap();
    let ours = Value::try_from(&theirs).unwrap();
    assert_eq!(ours, Value::parse(text).unwrap());
    assert_eq!(serde_json::Value::from(&ours)["a"][3], serde_json::json!(0.1));
    assert_eq!(serde_json::Value::from(&ours)["a"][4], serde_json::json!(1000));
    assert_eq!(
        Value::try_from(&serde_json::json!(1e300)).unwrap_err().code,
        "NUMBER_RANGE"
    );
    assert_eq!(
        serde_json::to_value(&ours).unwrap(),
        serde_json::Value::from(&ours)
    );
    assert_eq!(serde_json::from_value::<Value>(theirs).unwrap(), ours);
}

#[test]
fn yaml_values_convert() {
    let yaml: serde_yaml::Value =
        serde_yaml::from_str("a: 0.1\nb: [1, -2.50, 1e3, 'x', ~, true]\n3: n\ntrue: t\n").unwrap();
    let ours = Value::try_from(&yaml).unwrap();
    assert_eq!(
        ours.to_json(),
        r#"{"3":"n","a":0.1,"b":[1,-2.5,1000,"x",null,true],"true":"t"}"#
    );
    for (bad, code) in [
        (".nan", "NUMBER_RANGE"),
        (".inf", "NUMBER_RANGE"),
        ("1e300", "NUMBER_RANGE"),
        ("!x 1", "JSON_INVALID"),
        ("{1: a, '1': b}", "JSON_INVALID"),
        ("{[1]: a}", "JSON_INVALID"),
    ] {
        let yaml: serde_yaml::Value = serde_yaml::from_str(bad).unwrap();
        assert_eq!(Value::try_from(&yaml).unwrap_err().code, code, "{bad}");
    }
}

fn any_value() -> impl Strategy<Value = Value> {
    let number = (
        -9_999_999_999_999_999_999_999_999_999_i128..=9_999_999_999_999_999_999_999_999_999,
        0_u32..=28,
    )
        .prop_map(|(mantissa, scale)| Value::Number(Decimal::from_i128_with_scale(mantissa, scale)));
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        number,
        any::<String>().prop_map(Value::String),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Value::List),
            prop::collection::btree_map(any::<String>(), inner, 0..8).prop_map(Value::Map),
        ]
    })
}

proptest! {
    #[test]
    fn printing_and_reading_gives_the_same_value(value in any_value()) {
        let text = value.to_json();
        prop_assert_eq!(&Value::parse(&text).unwrap(), &value);
        prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
    }

    #[test]
    fn reading_any_text_never_panics(text in "[\\[\\]{}\",:\\\\ud8c0-9eE.+\\-tfn é\\PC]{0,40}") {
        if let Ok(value) = Value::parse(&text) {
            prop_assert_eq!(Value::parse(&value.to_json()).unwrap(), value);
        }
    }

    #[test]
    fn whatever_we_accept_serde_json_accepts(text in "[\\[\\]{}\",:0-9eE.\\-tfnulr a]{0,12}") {
        if Value::parse(&text).is_ok() {
            prop_assert!(serde_json::from_str::<serde_json::Value>(&text).is_ok());
        }
    }
}
