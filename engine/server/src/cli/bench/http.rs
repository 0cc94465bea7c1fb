//! A light HTTP/1.1 client: one connection, one call at a time, buffers kept. A full client costs the load about four
//! times as much, and on the machine that is measured the load takes its time from the engine.

use anyhow::{Context, bail};
use serde::de::DeserializeOwned;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// More than any answer of a scenario.
const MOST_BYTES: usize = 16 * 1024 * 1024;

/// An engine's address and a key for it.
#[derive(Clone, Debug)]
pub struct Target {
    /// `host:port`
    pub host: String,
    pub key: String,
}

impl Target {
    /// Reads `http://host:port`.
    ///
    /// # Errors
    /// For any other address: the load does not speak TLS.
    pub fn new(url: &str, key: &str) -> anyhow::Result<Self> {
        let host = url.strip_prefix("http://").map(|rest| rest.trim_end_matches('/'));
        let host = host.filter(|host| host.contains(':') && !host.contains('/'));
        let host = host.with_context(|| format!("{url} is not of the form http://HOST:PORT"))?;
        Ok(Self {
            host: host.to_owned(),
            key: key.trim().to_owned(),
        })
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.host)
    }
}

/// One kept connection.
pub struct Connection {
    stream: TcpStream,
    /// What every request says.
    head: String,
    out: Vec<u8>,
    input: Vec<u8>,
}

/// Where an answer stands in the buffer.
struct Answer {
    status: u16,
    body: std::ops::Range<usize>,
}

impl Connection {
    pub async fn open(target: &Target) -> anyhow::Result<Self> {
        let stream = TcpStream::connect(&target.host)
            .await
            .with_context(|| format!("{} cannot be reached", target.host))?;
        stream.set_nodelay(true)?;
        let head = format!(
            "host: {}\r\nauthorization: Bearer {}\r\ncontent-type: application/json\r\n",
            target.host, target.key
        );
        Ok(Self {
            stream,
            head,
            out: Vec::with_capacity(4096),
            input: Vec::with_capacity(16 * 1024),
        })
    }

    /// Posts JSON and reads the answer.
    ///
    /// # Errors
    /// When the connection breaks or the engine refuses: a measured call must succeed.
    pub async fn post<T: DeserializeOwned>(&mut self, path: &str, body: &str) -> anyhow::Result<T> {
        let answer = self.call("POST", path, body).await?;
        let bytes = &self.input[answer.body];
        if !(200..300).contains(&answer.status) {
            bail!(
                "{path} answered {}: {}",
                answer.status,
                String::from_utf8_lossy(bytes)
            );
        }
        serde_json::from_slice(bytes).with_context(|| format!("{path} answered something else"))
    }

    /// The status of a GET.
    pub async fn get(&mut self, path: &str) -> anyhow::Result<u16> {
        Ok(self.call("GET", path, "").await?.status)
    }

    async fn call(&mut self, method: &str, path: &str, body: &str) -> anyhow::Result<Answer> {
        use std::io::Write;
        self.out.clear();
        write!(
            self.out,
            "{method} {path} HTTP/1.1\r\n{}content-length: {}\r\n\r\n{body}",
            self.head,
            body.len()
        )?;
        self.stream.write_all(&self.out).await?;
        self.input.clear();
        let (status, start, length) = loop {
            self.more().await?;
            if let Some(end) = end_of_head(&self.input) {
                let (status, length) = head(&self.input[..end])?;
                break (status, end, length);
            }
        };
        if length > MOST_BYTES {
            bail!("{path} answered {length} bytes");
        }
        while self.input.len() < start + length {
            self.more().await?;
        }
        Ok(Answer {
            status,
            body: start..start + length,
        })
    }

    async fn more(&mut self) -> anyhow::Result<()> {
        if self.stream.read_buf(&mut self.input).await? == 0 {
            bail!("the engine closed the connection");
        }
        Ok(())
    }
}

fn end_of_head(bytes: &[u8]) -> Option<usize> {
    bytes
        .windows(4)
        .position(|four| four == b"\r\n\r\n")
        .map(|at| at + 4)
}

/// Status and length of the body.
fn head(bytes: &[u8]) -> anyhow::Result<(u16, usize)> {
    let text = std::str::from_utf8(bytes).context("the answer's head is no text")?;
    let mut lines = text.split("\r\n");
    let status = lines
        .next()
        .and_then(|line| line.split(' ').nth(1))
        .and_then(|status| status.parse().ok())
        .context("the answer has no status")?;
    for line in lines {
        let Some((name, value)) = line.split_once(':') else {
            continue;
        };
        if name.eq_ignore_ascii_case("content-length") {
            return Ok((status, value.trim().parse()?));
        }
    }
    bail!("the answer has no length")
}

#[cfg(test)]
mod tests {
    #![expect(clippy::unwrap_used, reason = "tests")]
    use super::*;

    #[test]
    fn an_answers_head_tells_status_and_length() {
        let text = b"HTTP/1.1 201 Created\r\nContent-Length: 7\r\n\r\n{\"a\":1}";
        let end = end_of_head(text).unwrap();
        assert_eq!(head(&text[..end]).unwrap(), (201, 7));
        assert_eq!(&text[end..], b"{\"a\":1}");
    }

    #[test]
    fn an_address_with_a_path_or_tls_is_refused() {
        assert_eq!(
            Target::new("http://127.0.0.1:8700/", "k").unwrap().host,
            "127.0.0.1:8700"
        );
        assert!(Target::new("https://127.0.0.1:8700", "k").is_err());
        assert!(Target::new("http://127.0.0.1:8700/v1", "k").is_err());
    }
}
