//! Writing numbers and strings as JSON: numbers as their shortest exact decimal, strings escaped as RFC 8785 does.

use std::fmt::{self, Write as _};

use rust_decimal::Decimal;

use super::Value;

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.to_json())
    }
}

/// The shortest exact decimal: no exponent, no trailing zeros, no `-0`.
pub(crate) fn push_number(number: Decimal, out: &mut String) {
    if number.is_zero() {
        out.push('0');
        return;
    }
    write!(out, "{}", number.normalize()).expect("writing to a String cannot fail");
}

/// A JSON string with the escapes of RFC 8785: only what JSON demands, short forms where it has them.
pub(crate) fn push_string(text: &str, out: &mut String) {
    out.push('"');
    for letter in text.chars() {
        match letter {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\u{8}' => out.push_str("\\b"),
            '\t' => out.push_str("\\t"),
            '\n' => out.push_str("\\n"),
            '\u{c}' => out.push_str("\\f"),
            '\r' => out.push_str("\\r"),
            control if control < ' ' => {
                write!(out, "\\u{:04x}", u32::from(control)).expect("writing to a String cannot fail");
            }
            other => out.push(other),
        }
    }
    out.push('"');
}
