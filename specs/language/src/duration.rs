//! Durations as people write them: ISO 8601 (`PT15M`, `P3D`) or short (`15m`, `0.5s`, `3d`). One parser, so that a
//! document, an input of type `duration` and an expression accept the same texts.

use rust_decimal::Decimal;

/// The longest duration: a hundred years of 365 days.
pub const MAX_MS: i64 = 100 * 365 * 86_400_000;

/// The milliseconds of a duration text. Parts below a millisecond are dropped.
///
/// Years and months are refused because they have no fixed length.
///
/// # Errors
/// A message that says what is wrong, without the text itself.
pub fn parse_ms(text: &str) -> Result<i64, &'static str> {
    let total = match text.strip_prefix('P') {
        Some(rest) => iso(rest)?,
        None => short(text)?,
    };
    let whole = i64::try_from(total.trunc()).map_err(|_| TOO_LONG)?;
    if whole > MAX_MS { Err(TOO_LONG) } else { Ok(whole) }
}

const TOO_LONG: &str = "is longer than a hundred years";
const FORM: &str = "is no duration: write ISO 8601 (`PT15M`) or a number with ms, s, m, h, d or w (`15m`)";

fn short(text: &str) -> Result<Decimal, &'static str> {
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or(FORM)?;
    let (number, unit) = text.split_at(unit_at);
    let unit_ms = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 604_800_000,
        _ => return Err(FORM),
    };
    times(number, unit_ms)
}

fn iso(rest: &str) -> Result<Decimal, &'static str> {
    let (days, clock) = match rest.split_once('T') {
        Some((_, "")) => return Err(FORM),
        Some((days, clock)) => (days, clock),
        None => (rest, ""),
    };
    if days.is_empty() && clock.is_empty() {
        return Err(FORM);
    }
    let from_days = parts(days, &[('W', 604_800_000), ('D', 86_400_000)])?;
    let from_clock = parts(clock, &[('H', 3_600_000), ('M', 60_000), ('S', 1_000)])?;
    from_days.checked_add(from_clock).ok_or(TOO_LONG)
}

/// Reads `<number><letter>` pairs, each letter once and in this order.
fn parts(mut text: &str, units: &[(char, i64)]) -> Result<Decimal, &'static str> {
    let mut units = units.iter();
    let mut total = Decimal::ZERO;
    while !text.is_empty() {
        let letter_at = text.find(|c: char| c.is_ascii_alphabetic()).ok_or(FORM)?;
        let (number, rest) = text.split_at(letter_at);
        let letter = rest.chars().next().ok_or(FORM)?;
        let Some((_, unit_ms)) = units.by_ref().find(|(unit, _)| *unit == letter) else {
            return Err(if letter == 'Y' || letter == 'M' {
                "has years or months, which have no fixed length: use days"
            } else {
                FORM
            });
        };
        total = total.checked_add(times(number, *unit_ms)?).ok_or(TOO_LONG)?;
        text = &rest[letter.len_utf8()..];
    }
    Ok(total)
}

fn times(number: &str, unit_ms: i64) -> Result<Decimal, &'static str> {
    let plain = number.bytes().all(|b| b.is_ascii_digit() || b == b'.');
    if !plain || !number.starts_with(|c: char| c.is_ascii_digit()) || number.ends_with('.') {
        return Err(FORM);
    }
    let number: Decimal = number.parse().map_err(|_| FORM)?;
    number.checked_mul(Decimal::from(unit_ms)).ok_or(TOO_LONG)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_writing_a_duration_are_read() {
        for (text, expected) in [
            ("15m", 900_000),
            ("0.5s", 500),
            ("3d", 259_200_000),
            ("250ms", 250),
            ("2w", 1_209_600_000),
            ("PT15M", 900_000),
            ("P30D", 2_592_000_000),
            ("P1DT2H3M4.5S", 93_784_500),
            ("PT0S", 0),
            ("P1W", 604_800_000),
        ] {
            assert_eq!(parse_ms(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "P",
            "PT",
            "P1",
            "1",
            "m",
            "-5m",
            "5 m",
            "5M",
            "P1M",
            "P1Y",
            "PT5D",
            "PT1M1H",
            "P1D1D",
            "1e3s",
            ".5s",
            "5.s",
            "P101W1000000000D",
            "99999999999999999999999999999d",
            "é",
        ] {
            assert!(parse_ms(text).is_err(), "{text}");
        }
    }
}
