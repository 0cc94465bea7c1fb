//! Timestamps and durations in milliseconds, and their texts.

use chrono::{DateTime, NaiveDate, SecondsFormat};
use legation_language::duration;

/// The years 0 to 9999, which RFC 3339 can write.
const FIRST: i64 = -62_167_219_200_000;
const LAST: i64 = 253_402_300_799_999;

/// Epoch milliseconds of an RFC 3339 text, or of a date at midnight UTC.
pub(super) fn parse(text: &str) -> Option<i64> {
    if let Ok(time) = DateTime::parse_from_rfc3339(text) {
        return in_range(Some(time.timestamp_millis()));
    }
    if text.len() != "2026-01-31".len() {
        return None;
    }
    let date = NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()?;
    in_range(Some(date.and_hms_opt(0, 0, 0)?.and_utc().timestamp_millis()))
}

pub(super) fn in_range(ms: Option<i64>) -> Option<i64> {
    ms.filter(|ms| (FIRST..=LAST).contains(ms))
}

/// RFC 3339 in UTC with milliseconds: texts of that form compare as the times do.
pub(super) fn print(ms: i64) -> String {
    DateTime::from_timestamp_millis(ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Milliseconds of a duration text; a leading `-` turns it round.
pub(super) fn parse_span(text: &str) -> Result<i64, &'static str> {
    match text.strip_prefix('-') {
        Some(rest) => duration::parse_ms(rest).map(|ms| -ms),
        None => duration::parse_ms(text),
    }
}

/// ISO 8601 in seconds, as the duration reader takes it back.
pub(super) fn print_span(ms: i64) -> String {
    let sign = if ms < 0 { "-" } else { "" };
    let (seconds, rest) = (ms.unsigned_abs() / 1_000, ms.unsigned_abs() % 1_000);
    let fraction = if rest == 0 {
        String::new()
    } else {
        format!(".{rest:03}")
    };
    format!("{sign}PT{seconds}{}S", fraction.trim_end_matches('0'))
}
