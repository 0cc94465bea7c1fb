//! The event feed as it comes in, and how its events are told.

use anyhow::Context;
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

/// One event as a line.
#[must_use]
pub fn line(event: &FeedEvent, ink: Ink) -> String {
    let place = event
        .node_id
        .as_ref()
        .map(|node| format!("{node}: "))
        .unwrap_or_default();
    let step = event
        .sequence
        .map(|sequence| format!(" #{sequence}"))
        .unwrap_or_default();
    let data = event
        .data
        .as_ref()
        .map(|data| print::short(data, 120))
        .filter(|data| data != "{}" && data != "null");
    let data = data
        .map(|data| format!(" {}", ink.dim(&data)))
        .unwrap_or_default();
    let process = event.process.as_deref().unwrap_or_default();
    format!(
        "{} {process:<16} {place}{}{step}{data}",
        ink.dim(print::clock(&event.at)),
        print::words(&event.kind)
    )
}

#[cfg(test)]
mod tests {
    use super::*;

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
