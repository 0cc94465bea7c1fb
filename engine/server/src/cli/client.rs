//! The engine as the commands see it: HTTP with a key, answers as the API's types and as the text that came.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use legation_protocol::Problem;
use reqwest::{Method, RequestBuilder, Response};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::Global;

/// Where an engine is looked for when nothing says otherwise.
pub const DEFAULT_URL: &str = "http://127.0.0.1:8700";

/// The folder of data and keys that `dev` makes in a project.
pub const DATA_FOLDER: &str = ".legation";

/// The file in it that says where `dev` listens, while it does.
pub const URL_FILE: &str = "url";

/// An engine, and who asks it.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
    /// Where the key came from, for who is refused.
    origin: Option<String>,
}

/// An answer: its text for `--json`, and what it says.
pub struct Answer<T> {
    pub text: String,
    pub body: T,
}

/// The engine refused.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Refusal(pub Box<Problem>);

impl Client {
    /// # Errors
    /// When no key can be found.
    pub fn new(global: &Global) -> anyhow::Result<Self> {
        let here = std::env::current_dir()?;
        let url = global
            .url
            .clone()
            .filter(|url| !url.trim().is_empty())
            .or_else(|| url_of(&here))
            .unwrap_or_else(|| DEFAULT_URL.to_owned());
        let (key, origin) = key_for(global, &here)?;
        Ok(Self {
            origin: Some(origin),
            ..Self::with(&url, &key)?
        })
    }

    /// # Errors
    /// When the address is none.
    pub fn with(url: &str, key: &str) -> anyhow::Result<Self> {
        anyhow::ensure!(
            url.starts_with("http://") || url.starts_with("https://"),
            super::Usage(format!("{url} is no address of an engine; {DEFAULT_URL} is one"))
        );
        let http = reqwest::Client::builder()
            .connect_timeout(Duration::from_secs(5))
            .build()?;
        Ok(Self {
            http,
            url: url.trim_end_matches('/').to_owned(),
            key: key.trim().to_owned(),
            origin: None,
        })
    }

    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// # Errors
    /// [`Refusal`], or that the engine cannot be reached.
    pub async fn get<T: DeserializeOwned>(&self, path: &str) -> anyhow::Result<Answer<T>> {
        self.send(self.request(Method::GET, path)).await
    }

    /// # Errors
    /// [`Refusal`], or that the engine cannot be reached.
    pub async fn post<T: DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> anyhow::Result<Answer<T>> {
        self.send(self.request(Method::POST, path).json(body)).await
    }

    /// # Errors
    /// [`Refusal`], or that the engine cannot be reached.
    pub async fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.text(self.request(Method::DELETE, path)).await.map(drop)
    }

    /// Opens a stream of events.
    ///
    /// # Errors
    /// [`Refusal`], or that the engine cannot be reached.
    pub async fn stream(&self, path: &str) -> anyhow::Result<Response> {
        let response = self
            .request(Method::GET, path)
            .send()
            .await
            .map_err(|error| self.away(&error))?;
        if response.status().is_success() {
            return Ok(response);
        }
        Err(self.refusal(response).await)
    }

    fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.key)
    }

    async fn send<T: DeserializeOwned>(&self, request: RequestBuilder) -> anyhow::Result<Answer<T>> {
        let text = self.text(request).await?;
        let body = serde_json::from_str(&text).context("the engine's answer is not understood")?;
        Ok(Answer { text, body })
    }

    /// Says that it waits when the answer takes over a second.
    async fn text(&self, request: RequestBuilder) -> anyhow::Result<String> {
        let answer = async {
            let response = request.send().await.map_err(|error| self.away(&error))?;
            if response.status().is_success() {
                return Ok(response.text().await?);
            }
            Err(self.refusal(response).await)
        };
        tokio::pin!(answer);
        for second in 0_u32.. {
            match tokio::time::timeout(Duration::from_secs(1), &mut answer).await {
                Ok(answer) => return answer,
                Err(_) if second % 5 == 0 => tell!("waiting for the engine at {}", self.url),
                Err(_) => {}
            }
        }
        unreachable!("the loop ends with the answer")
    }

    fn away(&self, error: &reqwest::Error) -> anyhow::Error {
        let mut cause: &dyn std::error::Error = error;
        while let Some(source) = cause.source() {
            cause = source;
        }
        let url = &self.url;
        anyhow::anyhow!(
            "the engine at {url} cannot be reached ({cause}); `legation dev` starts one, --url names another"
        )
    }

    async fn refusal(&self, response: Response) -> anyhow::Error {
        let status = response.status();
        let text = response.text().await.unwrap_or_default();
        match serde_json::from_str::<Problem>(&text) {
            Ok(mut problem) => {
                problem.hint = whose_key(&problem, self.origin.as_deref())
                    .or_else(|| where_listed(problem.detail.as_deref()?))
                    .or(problem.hint);
                Refusal(Box::new(problem)).into()
            }
            Err(_) => anyhow::anyhow!(
                "the engine answers {status}: {}",
                text.chars().take(300).collect::<String>()
            ),
        }
    }
}

/// Who is refused for the key asks next which one that was: several may be at hand, and the engine names none.
fn whose_key(problem: &Problem, origin: Option<&str>) -> Option<String> {
    let origin = origin?;
    match problem.code.as_str() {
        "UNAUTHENTICATED" => Some(format!("the key is {origin}; is it one of this engine?")),
        "FORBIDDEN" | "NOT_A_CANDIDATE" => {
            let hint = problem
                .hint
                .as_ref()
                .map(|hint| format!("{hint}; "))
                .unwrap_or_default();
            Some(format!("{hint}the key is {origin}, --as takes another"))
        }
        _ => None,
    }
}

/// Which command lists what was not found.
fn where_listed(detail: &str) -> Option<String> {
    let thing = detail.strip_prefix("no ")?.split(' ').next()?;
    let command = match thing {
        "instance" => "instances",
        "incident" => "incidents",
        "key" => "keys list",
        _ => return None,
    };
    Some(format!("`legation {command}` lists them"))
}

/// `?a=1&b=2` of what is given; empty when nothing is.
#[must_use]
pub fn query(pairs: &[(&str, Option<String>)]) -> String {
    let given = pairs
        .iter()
        .filter_map(|(name, value)| Some(format!("{name}={}", encode(value.as_ref()?))));
    let text = given.collect::<Vec<_>>().join("&");
    if text.is_empty() { text } else { format!("?{text}") }
}

/// Text as it may stand in a path segment or a query's value.
#[must_use]
pub fn encode(text: &str) -> String {
    use std::fmt::Write;
    text.bytes()
        .fold(String::with_capacity(text.len()), |mut out, byte| {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'~' => {
                    out.push(char::from(byte))
                }
                _ => {
                    let _ = write!(out, "%{byte:02X}");
                }
            }
            out
        })
}

/// The key, and where it came from. A named one wins over LEGATION_KEY, which wins over `dev`'s.
fn key_for(global: &Global, here: &Path) -> anyhow::Result<(String, String)> {
    let given = std::env::var("LEGATION_KEY")
        .ok()
        .filter(|key| !key.trim().is_empty());
    let name = match (&global.principal, given) {
        (None, Some(key)) => return Ok((key, "that of LEGATION_KEY".to_owned())),
        (Some(name), _) => name.as_str(),
        (None, None) => "dev",
    };
    if !name
        .chars()
        .all(|c| c.is_alphanumeric() || matches!(c, '-' | '_' | '.'))
    {
        return Err(super::Usage(format!("`{name}` is no name of a key")).into());
    }
    let file = format!("{name}.key");
    let Some(path) = upward(here, &file) else {
        let missing = format!("no key: there is no {DATA_FOLDER}/{file} in this folder or one above");
        let what_to_do = if global.principal.is_some() {
            "leave --as out to use LEGATION_KEY"
        } else {
            "go to a project that `legation dev` has run in, or set LEGATION_KEY"
        };
        return Err(super::Usage(format!("{missing}; {what_to_do}")).into());
    };
    let key = std::fs::read_to_string(&path)
        .with_context(|| format!("the key {} cannot be read", path.display()))?;
    Ok((key, path.display().to_string()))
}

fn url_of(here: &Path) -> Option<String> {
    let text = std::fs::read_to_string(upward(here, URL_FILE)?).ok()?;
    Some(text.trim().to_owned()).filter(|url| !url.is_empty())
}

/// `.legation/<file>` of the nearest folder upward that has one.
fn upward(here: &Path, file: &str) -> Option<PathBuf> {
    here.ancestors()
        .map(|folder| folder.join(DATA_FOLDER).join(file))
        .find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_is_refused_learns_which_key_was_used() {
        let refused = |code: &str, hint: Option<&str>| Problem {
            code: code.to_owned(),
            hint: hint.map(str::to_owned),
            ..Problem::default()
        };
        let told = |problem: &Problem| whose_key(problem, Some("dev.key"));
        assert_eq!(
            told(&refused("NOT_A_CANDIDATE", Some("it is for finance"))).as_deref(),
            Some("it is for finance; the key is dev.key, --as takes another")
        );
        assert!(told(&refused("UNAUTHENTICATED", None)).is_some_and(|hint| hint.contains("dev.key")));
        assert_eq!(told(&refused("LEASE_EXPIRED", None)), None);
        assert_eq!(whose_key(&refused("FORBIDDEN", None), None), None);
    }

    #[test]
    fn a_query_holds_what_is_given_and_escapes_it() {
        assert_eq!(query(&[("a", None)]), "");
        assert_eq!(
            query(&[("a", Some("x y&z".into())), ("b", None), ("c", Some("1".into()))]),
            "?a=x%20y%26z&c=1"
        );
    }
}
