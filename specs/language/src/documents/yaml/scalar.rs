//! What a plain scalar means: YAML 1.2's core schema, so `yes` is text and `010` is ten.

use super::Kind;
use crate::value::parse_number;

/// The meaning of an unquoted scalar.
///
/// # Errors
/// A number that has more than 28 significant digits or is no finite number.
pub(super) fn plain(text: &str) -> Result<Kind, &'static str> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Kind::Null,
        "true" | "True" | "TRUE" => Kind::Bool(true),
        "false" | "False" | "FALSE" => Kind::Bool(false),
        ".inf" | ".Inf" | ".INF" | "+.inf" | "-.inf" | ".nan" | ".NaN" | ".NAN" => {
            return Err("infinities and NaN are no numbers here");
        }
        _ => match number(text)? {
            Some(kind) => kind,
            None => Kind::Text(text.to_owned()),
        },
    })
}

fn number(text: &str) -> Result<Option<Kind>, &'static str> {
    const RANGE: &str = "the number has more than 28 digits";
    for (prefix, radix) in [("0x", 16), ("0o", 8)] {
        if let Some(digits) = text.strip_prefix(prefix)
            && !digits.is_empty()
            && digits.chars().all(|c| c.is_digit(radix))
        {
            let whole = i64::from_str_radix(digits, radix).map_err(|_| RANGE)?;
            return Ok(Some(Kind::Number(whole.into())));
        }
    }
    let (sign, digits) = match text.as_bytes() {
        [b'-', ..] => ("-", &text[1..]),
        [b'+', ..] => ("", &text[1..]),
        _ => ("", text),
    };
    let (mantissa, exponent) = match digits.split_once(['e', 'E']) {
        Some((mantissa, exponent)) => (mantissa, Some(exponent)),
        None => (digits, None),
    };
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all_digits = |part: &str| part.bytes().all(|b| b.is_ascii_digit());
    let exponent_digits = exponent.map(|e| e.strip_prefix(['+', '-']).unwrap_or(e));
    let is_number = all_digits(whole)
        && all_digits(fraction)
        && !(whole.is_empty() && fraction.is_empty())
        && exponent_digits.is_none_or(|e| !e.is_empty() && all_digits(e));
    if !is_number {
        return Ok(None);
    }
    // As JSON writes it: no leading zeros, at least one digit on both sides of the point.
    let whole = whole.trim_start_matches('0');
    let whole = if whole.is_empty() { "0" } else { whole };
    let fraction = if fraction.is_empty() {
        String::new()
    } else {
        format!(".{fraction}")
    };
    let exponent = exponent.map(|e| format!("e{e}")).unwrap_or_default();
    let number = parse_number(&format!("{sign}{whole}{fraction}{exponent}")).map_err(|_| RANGE)?;
    Ok(Some(Kind::Number(number)))
}
