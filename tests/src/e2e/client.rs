//! The HTTP API as a test calls it, under the key of one principal.

use serde_json::{Value, json};

use super::wait::until;

/// A caller with a key.
#[derive(Clone)]
pub struct Client {
    http: reqwest::Client,
    url: String,
    key: String,
}

/// A status and a body.
#[derive(Clone, Debug)]
pub struct Answer {
    pub status: u16,
    pub body: Value,
}

impl Client {
    /// # Panics
    /// When no HTTP client can be made.
    #[must_use]
    pub fn new(url: &str, key: &str) -> Self {
        let http = reqwest::Client::builder()
            .no_proxy()
            .build()
            .expect("an HTTP client");
        Self {
            http,
            url: url.to_owned(),
            key: key.to_owned(),
        }
    }

    /// `None` when the engine cannot be reached or the connection broke.
    pub async fn try_call(
        &self,
        method: &str,
        path: &str,
        body: Option<&Value>,
        key: Option<&str>,
    ) -> Option<Answer> {
        let method = method.parse().expect("a method");
        let mut request = self
            .http
            .request(method, format!("{}{path}", self.url))
            .bearer_auth(&self.key);
        if let Some(body) = body {
            request = request.json(body);
        }
        if let Some(key) = key {
            request = request.header("idempotency-key", key);
        }
        let answer = request.send().await.ok()?;
        let status = answer.status().as_u16();
        let text = answer.text().await.ok()?;
        let body = serde_json::from_str(&text).unwrap_or(Value::String(text));
        Some(Answer { status, body })
    }

    /// # Panics
    /// When the answer is no success.
    pub async fn get(&self, path: &str) -> Value {
        let answer = self.try_call("GET", path, None, None).await;
        let answer = answer.unwrap_or_else(|| panic!("GET {path} was not answered"));
        assert!(answer.status < 300, "GET {path}: {answer:?}");
        answer.body
    }

    /// # Panics
    /// When the answer is no success.
    pub async fn post(&self, path: &str, body: Value) -> Value {
        let answer = self.try_call("POST", path, Some(&body), None).await;
        let answer = answer.unwrap_or_else(|| panic!("POST {path} was not answered"));
        assert!(answer.status < 300, "POST {path} {body}: {answer:?}");
        answer.body
    }

    /// Deploys documents: path in the project and text.
    ///
    /// # Panics
    /// When there is any error in them.
    pub async fn deploy(&self, files: &[(&str, &str)]) {
        let files: serde_json::Map<String, Value> = files
            .iter()
            .map(|(path, text)| ((*path).to_owned(), json!(text)))
            .collect();
        let body = json!({ "files": files });
        let answer = self.try_call("POST", "/v1/deployments", Some(&body), None).await;
        let answer = answer.expect("a deployment is answered");
        assert_eq!(answer.status, 200, "{:#}", answer.body["problems"]);
    }

    /// Starts a process; the id of the instance.
    pub async fn start(&self, process: &str, variables: Value) -> String {
        let started = self
            .post(
                "/v1/instances",
                json!({ "process": process, "variables": variables }),
            )
            .await;
        started["id"].as_str().expect("an id").to_owned()
    }

    /// Waits until an instance has ended, and gives it. The engine may be away meanwhile.
    pub async fn ended(&self, id: &str) -> Value {
        until(&format!("{id} to end"), async || {
            let answer = self
                .try_call("GET", &format!("/v1/instances/{id}"), None, None)
                .await?;
            let over = ["COMPLETED", "FAILED", "CANCELLED"].contains(&answer.body["status"].as_str()?);
            over.then_some(answer.body)
        })
        .await
    }

    /// All instances of a process.
    pub async fn instances(&self, process: &str) -> Vec<Value> {
        let listed = self.get(&format!("/v1/instances?process={process}")).await;
        listed["instances"].as_array().expect("a list").clone()
    }

    /// Every step of every task of an instance, in the order of creation.
    pub async fn journal(&self, id: &str) -> Vec<Value> {
        let listed = self.get(&format!("/v1/instances/{id}/journal")).await;
        let tasks = listed["tasks"]
            .as_array()
            .unwrap_or_else(|| panic!("no tasks in {listed}"));
        tasks
            .iter()
            .flat_map(|task| task["steps"].as_array().cloned().unwrap_or_default())
            .collect()
    }

    /// Waits for the approval that an instance asks for.
    pub async fn approval(&self, id: &str) -> Value {
        until(&format!("{id} to ask for an approval"), async || {
            let path = format!("/v1/tasks?kind=approval&instanceId={id}");
            let answer = self.try_call("GET", &path, None, None).await?;
            answer.body["tasks"].get(0).cloned()
        })
        .await
    }

    /// Decides an approval on what it shows.
    pub async fn decide(&self, task: &Value, outcome: &str) -> Answer {
        let id = task["id"].as_str().expect("an id");
        let shown = self.get(&format!("/v1/tasks/{id}")).await;
        let body =
            json!({ "outcome": outcome, "comment": "as agreed", "digest": shown["approval"]["digest"] });
        let answer = self
            .try_call("POST", &format!("/v1/tasks/{id}/decision"), Some(&body), None)
            .await;
        answer.expect("a decision is answered")
    }
}
