//! The event feed as it comes in, and how its events are told.

use std::collections::BTreeMap;

use anyhow::Context;
use legation_protocol::Json;
use legation_protocol::events::FeedEvent;
use reqwest::Response;

use super::client::{Client, encode};
use super::print::{self, Ink};

/// Server-sent events of one tree.
pub struct Feed {
    response: Response,
    text: Vec<u8>,
    /// The last event's id, to go on after it.
    pub last: String,
}

impl Feed {
    /// Everything of the tree after an event, then what comes.
    ///
    /// # Errors
    /// When the engine refuses or is away.
    pub async fn open(client: &Client, root: &str, after: &str) -> anyhow::Result<Self> {
        let path = format!("/v1/events?rootId={}&after={}", encode(root), encode(after));
        Ok(Self {
            response: client.stream(&path).await?,
            text: Vec::new(),
            last: after.to_owned(),
        })
    }

    /// The next event; nothing when the engine ended the stream. May be dropped half-way without losing one.
    ///
    /// # Errors
    /// When the connection breaks.
    pub async fn next(&mut self) -> anyhow::Result<Option<FeedEvent>> {
        loop {
            while let Some(message) = take(&mut self.text) {
                if let Some(event) = self.read(&message)? {
                    return Ok(Some(event));
                }
            }
            match self.response.chunk().await.context("the event feed broke off")? {
                Some(bytes) => self.text.extend_from_slice(&bytes),
                None => return Ok(None),
            }
        }
    }

    fn read(&mut self, message: &str) -> anyhow::Result<Option<FeedEvent>> {
        let (id, data) = fields(message);
        if let Some(id) = id {
            self.last = id;
        }
        if data.is_empty() {
            return Ok(None);
        }
        Ok(Some(
            serde_json::from_str(&data).context("an event of the feed is not understood")?,
        ))
    }
}

/// The first whole message, taken out.
fn take(text: &mut Vec<u8>) -> Option<String> {
    let end = text.windows(2).position(|pair| pair == b"\n\n")?;
    let message = text.drain(..end + 2).collect::<Vec<u8>>();
    Some(String::from_utf8_lossy(&message).into_owned())
}

fn fields(message: &str) -> (Option<String>, String) {
    let value = |line: &str| line.strip_prefix(' ').unwrap_or(line).to_owned();
    let mut id = None;
    let mut data: Vec<String> = Vec::new();
    for line in message.lines() {
        if let Some(text) = line.strip_prefix("id:") {
            id = Some(value(text));
        } else if let Some(text) = line.strip_prefix("data:") {
            data.push(value(text));
        }
    }
    (id, data.join("\n"))
}

/// Events that only say how the engine counts.
#[must_use]
pub fn is_bookkeeping(event: &FeedEvent) -> bool {
    matches!(event.kind.as_str(), "TOKEN_ENDED" | "NODE_WAITS")
}

/// One event as a line.
#[must_use]
pub fn line(event: &FeedEvent, ink: Ink) -> String {
    let process = event.process.as_deref().unwrap_or_default();
    let place = event
        .node_id
        .as_ref()
        .map(|node| format!("{node}: "))
        .unwrap_or_default();
    let what = what(&event.kind, event.sequence, event.data.as_ref(), ink);
    format!("{} {process:<16} {place}{what}", ink.dim(print::clock(&event.at)))
}

/// What happened, and to what: `step 4 delegate:refund_payout completed`, `variable set amount = 89`.
#[must_use]
pub fn what(kind: &str, sequence: Option<u32>, data: Option<&Json>, ink: Ink) -> String {
    let data = data.and_then(|data| serde_json::from_str::<BTreeMap<String, Json>>(data.get()).ok());
    let mut data = data.unwrap_or_default();
    data.remove("token");
    let mut text = |name: &str| {
        let value = data.remove(name)?;
        Some(serde_json::from_str::<String>(value.get()).unwrap_or_else(|_| print::short(&value, 100)))
    };
    let words = match (sequence, kind) {
        (Some(sequence), kind) => {
            let state = print::words(kind.strip_prefix("STEP_").unwrap_or(kind));
            let target = text("toolRef").unwrap_or_default();
            text("kind");
            format!("step {sequence} {target} {state}")
        }
        (None, "VARIABLE_SET") => match (text("name"), text("value")) {
            (Some(name), Some(value)) => format!(
                "variable set {name} {}",
                ink.dim(&format!("= {}", print::cut(&value, 100)))
            ),
            (name, _) => format!("variable set {}", name.unwrap_or_default()),
        },
        (None, kind) => print::words(kind),
    };
    if data.is_empty() {
        return words;
    }
    let rest = serde_json::to_string(&data).unwrap_or_default();
    format!("{words} {}", ink.dim(&print::cut(&rest, 120)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_read_like_sentences() {
        let what = |kind, sequence, data: &str| {
            super::what(
                kind,
                sequence,
                serde_json::from_str::<Json>(data).ok().as_ref(),
                Ink::none(),
            )
        };
        let step = r#"{"kind":"DELEGATION","toolRef":"delegate:refund_payout","child":"x.i5"}"#;
        assert_eq!(
            what("STEP_COMPLETED", Some(4), step),
            r#"step 4 delegate:refund_payout completed {"child":"x.i5"}"#
        );
        assert_eq!(
            what("VARIABLE_SET", None, r#"{"name":"amount","value":89.90}"#),
            "variable set amount = 89.90"
        );
        assert_eq!(what("NODE_ENTERED", None, r#"{"token":1}"#), "node entered");
    }

    #[test]
    fn messages_are_taken_whole_however_they_are_cut() {
        let mut text = b": hello\n\nid: 7\nevent: X\ndata: {\"a\":\ndata: 1}\n\nid: 8\nda".to_vec();
        let first = take(&mut text).expect("a comment");
        assert_eq!(fields(&first), (None, String::new()));
        let second = take(&mut text).expect("a message");
        assert_eq!(fields(&second), (Some("7".to_owned()), "{\"a\":\n1}".to_owned()));
        assert_eq!(take(&mut text), None);
        text.extend_from_slice(b"ta: {}\n\n");
        assert_eq!(
            fields(&take(&mut text).expect("the rest")),
            (Some("8".to_owned()), "{}".to_owned())
        );
    }
}
