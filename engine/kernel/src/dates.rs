//! Times as texts: epoch milliseconds to RFC 3339 and back.

use chrono::{DateTime, SecondsFormat, Utc};

/// UTC with milliseconds, such as `2026-11-30T08:15:00.000Z`.
#[must_use]
pub fn rfc3339(epoch_ms: i64) -> String {
    DateTime::<Utc>::from_timestamp_millis(epoch_ms)
        .unwrap_or_default()
        .to_rfc3339_opts(SecondsFormat::Millis, true)
}

/// Epoch milliseconds of an RFC 3339 text; None when it is none.
#[must_use]
pub fn parse_rfc3339(text: &str) -> Option<i64> {
    DateTime::parse_from_rfc3339(text)
        .ok()
        .map(|time| time.timestamp_millis())
}
