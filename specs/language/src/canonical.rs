//! Canonical JSON: one text for equal values, so that digests can be compared. RFC 8785 but for numbers, which
//! are the shortest exact decimal without an exponent, because ours never were doubles.

use std::fmt::Write as _;

use sha2::{Digest, Sha256};

use crate::value::{Value, push_number, push_string};

/// The canonical text: keys sorted by UTF-16 code units, no spaces, `1.0` as `1`, `-0` as `0`.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut out = String::new();
    write(value, &mut out);
    out
}

/// The SHA-256 of some bytes in lower-case hex.
#[must_use]
pub fn sha256_hex(bytes: impl AsRef<[u8]>) -> String {
    let mut out = String::with_capacity(64);
    for byte in Sha256::digest(bytes) {
        write!(out, "{byte:02x}").expect("writing to a String cannot fail");
    }
    out
}

/// The SHA-256 of the canonical text in lower-case hex: equal values have equal digests.
#[must_use]
pub fn digest(value: &Value) -> String {
    sha256_hex(canonical(value))
}

fn write(value: &Value, out: &mut String) {
    match value {
        Value::Null => out.push_str("null"),
        Value::Bool(truth) => out.push_str(if *truth { "true" } else { "false" }),
        Value::Number(number) => push_number(*number, out),
        Value::String(text) => push_string(text, out),
        Value::List(items) => {
            out.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                write(item, out);
            }
            out.push(']');
        }
        Value::Map(entries) => {
            // The map's own order is by UTF-8 bytes, which differs above U+FFFF.
            let mut entries: Vec<_> = entries.iter().collect();
            entries.sort_by(|(left, _), (right, _)| left.encode_utf16().cmp(right.encode_utf16()));
            out.push('{');
            for (index, (key, item)) in entries.into_iter().enumerate() {
                if index > 0 {
                    out.push(',');
                }
                push_string(key, out);
                out.push(':');
                write(item, out);
            }
            out.push('}');
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use super::*;

    fn canonical_of(text: &str) -> String {
        canonical(&Value::parse(text).unwrap())
    }

    #[test]
    fn canonical_text_follows_rfc_8785_but_for_numbers() {
        for (text, expected) in [
            (
                r#"{ "b" : 1, "a" : [ true, null ] }"#,
                r#"{"a":[true,null],"b":1}"#,
            ),
            ("[1.0, -0, 1e3, 0.10, 1E-7, 4.50]", "[1,0,1000,0.1,0.0000001,4.5]"),
            ("333333333.33333329", "333333333.33333329"),
            (
                r#""\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/""#,
                "\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"",
            ),
            (r#""\u007f\u2028""#, "\"\u{7f}\u{2028}\""),
            // The RFC's own sorting example (3.2.3).
            (
                r#"{"\u20ac":"Euro Sign","\r":"Carriage Return","\ufb33":"Hebrew Letter Dalet With Dagesh","1":"One","\ud83d\ude00":"Emoji: Grinning Face","\u0080":"Control","\u00f6":"Latin Small Letter O With Diaeresis"}"#,
                "{\"\\r\":\"Carriage Return\",\"1\":\"One\",\"\u{80}\":\"Control\",\"ö\":\"Latin Small Letter O With Diaeresis\",\"€\":\"Euro Sign\",\"😀\":\"Emoji: Grinning Face\",\"\u{fb33}\":\"Hebrew Letter Dalet With Dagesh\"}",
            ),
        ] {
            assert_eq!(canonical_of(text), expected, "{text}");
        }
    }

    #[test]
    fn canonical_text_is_stable_under_reading_it_again() {
        let text = canonical_of(r#"{"😀":[1.50,{"z":"\u0000","a":{}}],"דּ":12345678901234567890.12}"#);
        assert_eq!(canonical_of(&text), text);
    }

    #[test]
    fn digests_are_equal_for_equal_values_and_lower_case_hex() {
        assert_eq!(
            sha256_hex("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
        );
        let one = Value::parse(r#"{"a":1.0,"b":"x"}"#).unwrap();
        let same = Value::parse(r#"{"b":"x","a":1}"#).unwrap();
        let other = Value::parse(r#"{"b":"x","a":"1"}"#).unwrap();
        assert_eq!(digest(&one), digest(&same));
        assert_ne!(digest(&one), digest(&other));
    }
}
