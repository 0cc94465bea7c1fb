//! What the HTTP providers share: sending one request, telling unavailable from fatal, and reading
//! an answer line by line within a size and a time limit.

use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderMap};
use reqwest::{RequestBuilder, Response, StatusCode};

use super::ModelError;
use crate::http::OutgoingError;

/// The longest answer that is read, in bytes; a model's turn is far below.
const MAX_ANSWER: usize = 16 * 1024 * 1024;
/// How much of an error body is shown.
const MAX_ERROR: usize = 2048;

impl From<OutgoingError> for ModelError {
    fn from(error: OutgoingError) -> Self {
        Self::fatal(error.to_string())
    }
}

/// Bounds the whole turn; too slow is unavailable.
pub(super) async fn within<T>(
    limit: Duration,
    work: impl Future<Output = Result<T, ModelError>>,
) -> Result<T, ModelError> {
    match tokio::time::timeout(limit, work).await {
        Ok(done) => done,
        Err(_) => Err(ModelError::unavailable(format!(
            "no answer within {} ms",
            limit.as_millis()
        ))),
    }
}

/// Sends the body and returns the answer to read, or the reason why there is none.
pub(super) async fn send(request: RequestBuilder, body: Vec<u8>) -> Result<Lines, ModelError> {
    let response = request
        .header(CONTENT_TYPE, "application/json")
        .body(body)
        .send()
        .await
        .map_err(transport_error)?;
    let status = response.status();
    if status.is_success() {
        return Ok(Lines {
            response,
            buffer: Vec::new(),
            read: 0,
            done: false,
        });
    }
    let headers = response.headers().clone();
    let body = read_error(response).await;
    Err(status_error(status, &headers, &body))
}

pub(super) fn transport_error(error: reqwest::Error) -> ModelError {
    // The sources say what really happened ("connection refused"); the top line alone never does.
    let error = error.without_url();
    let mut message = error.to_string();
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        message = format!("{message}: {cause}");
        source = cause.source();
    }
    // What the rules of this process forbid, or what is no request at all, stays so.
    let fatal = error.is_redirect() || error.is_builder() || message.contains("no public address");
    if fatal {
        ModelError::fatal(message)
    } else {
        ModelError::unavailable(message)
    }
}

async fn read_error(mut response: Response) -> String {
    let mut bytes = Vec::new();
    while bytes.len() < MAX_ERROR {
        match response.chunk().await {
            Ok(Some(chunk)) => bytes.extend_from_slice(&chunk),
            Ok(None) | Err(_) => break,
        }
    }
    bytes.truncate(MAX_ERROR);
    String::from_utf8_lossy(&bytes).into_owned()
}

/// 429, quota, timeouts and every 5xx are unavailable; the rest is the caller's mistake.
pub(super) fn status_error(status: StatusCode, headers: &HeaderMap, body: &str) -> ModelError {
    let message = format!("HTTP {}: {}", status.as_u16(), error_text(body));
    let unavailable =
        status.is_server_error() || matches!(status.as_u16(), 402 | 408 | 409 | 423 | 425 | 429);
    if unavailable {
        return ModelError::Unavailable {
            message,
            retry_after: retry_after(headers, body),
        };
    }
    ModelError::Fatal { message }
}

fn error_text(body: &str) -> String {
    let parsed: Option<serde_json::Value> = serde_json::from_str(body).ok();
    let text = parsed.as_ref().and_then(|v| {
        let error = v.get("error").unwrap_or(v);
        error
            .get("message")
            .and_then(|m| m.as_str())
            .or_else(|| error.as_str())
    });
    let text = text.unwrap_or(body).trim();
    let end = text.char_indices().nth(500).map_or(text.len(), |(at, _)| at);
    text[..end].to_owned()
}

/// `retry-after-ms`, `retry-after` in seconds or as a date, or Gemini's `retryDelay`.
pub(super) fn retry_after(headers: &HeaderMap, body: &str) -> Option<Duration> {
    let header = |name: &str| headers.get(name).and_then(|v| v.to_str().ok()).map(str::trim);
    if let Some(ms) = header("retry-after-ms").and_then(|v| v.parse::<f64>().ok()) {
        return positive(ms / 1000.0);
    }
    if let Some(value) = header("retry-after") {
        if let Ok(seconds) = value.parse::<f64>() {
            return positive(seconds);
        }
        // By the provider's own clock: ours may differ.
        let date = |text: &str| {
            chrono::DateTime::parse_from_rfc2822(text)
                .ok()
                .map(|d| d.timestamp())
        };
        if let (Some(at), Some(now)) = (date(value), header("date").and_then(date)) {
            return Some(Duration::from_secs((at - now).max(0).unsigned_abs()));
        }
    }
    let parsed: serde_json::Value = serde_json::from_str(body).ok()?;
    let error = parsed.get("error").or_else(|| parsed.get(0)?.get("error"))?;
    let details = error.get("details")?.as_array()?;
    let delay = details.iter().find_map(|d| d.get("retryDelay")?.as_str())?;
    positive(delay.trim_end_matches('s').parse().ok()?)
}

fn positive(seconds: f64) -> Option<Duration> {
    Duration::try_from_secs_f64(seconds.max(0.0)).ok()
}

/// The answer, line by line.
pub(super) struct Lines {
    response: Response,
    buffer: Vec<u8>,
    read: usize,
    done: bool,
}

impl Lines {
    /// True when the answer is a stream of events; some servers ignore the wish and send one object.
    pub(super) fn is_event_stream(&self) -> bool {
        let kind = self
            .response
            .headers()
            .get(CONTENT_TYPE)
            .and_then(|v| v.to_str().ok());
        kind.is_some_and(|k| k.starts_with("text/event-stream"))
    }

    /// The next line without its end, or none after the last one.
    pub(super) async fn next(&mut self) -> Result<Option<String>, ModelError> {
        loop {
            if let Some(end) = self.buffer.iter().position(|b| *b == b'\n') {
                let line: Vec<u8> = self.buffer.drain(..=end).collect();
                return Ok(Some(text(&line)));
            }
            if self.done {
                let rest = std::mem::take(&mut self.buffer);
                return Ok((!rest.is_empty()).then(|| text(&rest)));
            }
            self.fill().await?;
        }
    }

    /// The `data:` of the next event; none after the last one.
    pub(super) async fn next_event(&mut self) -> Result<Option<String>, ModelError> {
        let mut data = String::new();
        while let Some(line) = self.next().await? {
            if let Some(part) = line.strip_prefix("data:") {
                if !data.is_empty() {
                    data.push('\n');
                }
                data.push_str(part.strip_prefix(' ').unwrap_or(part));
            } else if line.is_empty() && !data.is_empty() {
                return Ok(Some(data));
            }
        }
        Ok((!data.is_empty()).then_some(data))
    }

    /// The whole answer.
    pub(super) async fn whole(mut self) -> Result<String, ModelError> {
        while !self.done {
            self.fill().await?;
        }
        Ok(text(&self.buffer))
    }

    async fn fill(&mut self) -> Result<(), ModelError> {
        match self.response.chunk().await.map_err(transport_error)? {
            None => self.done = true,
            Some(chunk) => {
                self.read += chunk.len();
                if self.read > MAX_ANSWER {
                    return Err(ModelError::fatal(format!(
                        "the answer is larger than {MAX_ANSWER} bytes"
                    )));
                }
                self.buffer.extend_from_slice(&chunk);
            }
        }
        Ok(())
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes)
        .trim_end_matches(['\n', '\r'])
        .to_owned()
}

/// Reads one JSON object of a provider's answer.
pub(super) fn read<'a, T: serde::Deserialize<'a>>(text: &'a str) -> Result<T, ModelError> {
    serde_json::from_str(text).map_err(|e| ModelError::unavailable(format!("the answer cannot be read: {e}")))
}

/// A stream that stopped before its last event.
pub(super) fn cut_off() -> ModelError {
    ModelError::unavailable("the answer ended in the middle")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]
mod tests {
    use super::*;

    #[test]
    fn retry_after_is_read_in_every_form() {
        let headers = |name: &'static str, value: &str| {
            let mut map = HeaderMap::new();
            map.insert(name, value.parse().unwrap());
            map
        };
        assert_eq!(
            retry_after(&headers("retry-after", "7"), ""),
            Some(Duration::from_secs(7))
        );
        assert_eq!(
            retry_after(&headers("retry-after-ms", "1500"), ""),
            Some(Duration::from_millis(1500))
        );
        let mut date = headers("retry-after", "Wed, 21 Oct 2015 07:28:30 GMT");
        date.insert("date", "Wed, 21 Oct 2015 07:28:00 GMT".parse().unwrap());
        assert_eq!(retry_after(&date, ""), Some(Duration::from_secs(30)));
        let gemini = r#"{"error":{"code":429,"details":[{"@type":"x"},{"retryDelay":"34.5s"}]}}"#;
        assert_eq!(
            retry_after(&HeaderMap::new(), gemini),
            Some(Duration::from_millis(34_500))
        );
        assert_eq!(retry_after(&HeaderMap::new(), "busy"), None);
    }
}
