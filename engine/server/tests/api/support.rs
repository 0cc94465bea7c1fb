//! One engine a test: its router, its clock, and callers with keys.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use std::collections::HashMap;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use legation_protocol::keys::PrincipalKind;
use legation_server::app::{App, Parts};
use legation_server::chance::Chance;
use legation_server::cipher::Master;
use legation_server::clock::Clock;
use legation_server::http::{self, NewKey, Settings};
use legation_store::Dialect;
use legation_store::projects::{self, ProjectRow};
use legation_store::testing::TestDb;
use serde_json::{Value, json};
use tower::ServiceExt;

/// 2026-11-30T06:00:00Z
pub const START: i64 = 1_796_018_400_000;

/// A running engine. Dropped, it fails the test if any request met an internal error.
pub struct TestApp {
    pub app: App,
    router: Router,
    keys: HashMap<&'static str, String>,
    internal: AtomicU32,
    _db: TestDb,
}

/// An answer.
#[derive(Debug)]
pub struct Answer {
    pub status: u16,
    pub headers: HeaderMap,
    pub text: String,
    pub body: Value,
}

impl Answer {
    /// The body of a good answer.
    #[track_caller]
    pub fn ok(self) -> Value {
        assert!(self.status < 300, "{}: {}", self.status, self.text);
        self.body
    }

    /// The body of a refusal with this status and code.
    #[track_caller]
    pub fn refused(self, status: u16, code: &str) -> Value {
        assert_eq!(
            (self.status, self.body["code"].as_str()),
            (status, Some(code)),
            "{}",
            self.text
        );
        assert_eq!(self.headers["content-type"], "application/problem+json");
        assert_eq!(self.body["status"], status);
        self.body
    }
}

impl TestApp {
    /// An engine with the callers `dev` (every role), `alice` (a person of `finance`), `bob` (a person of none),
    /// `payer` (a worker of `payments.payout`), `agent` (a worker of `agent` and `customers.*`) and `stranger`
    /// (every role in another project).
    pub async fn new() -> Self {
        let test = TestDb::new(database()).await;
        let parts = Parts::new(
            test.db.clone(),
            Clock::fake(START),
            Chance::seeded(7),
            Master::new([7; 32]),
        );
        let app = App::start(parts);
        let mut tx = test.db.begin_write().await.unwrap();
        for id in ["default", "other"] {
            let row = ProjectRow {
                id: id.to_owned(),
                name: id.to_owned(),
                created_at: START,
            };
            projects::insert(&mut tx, &row).await.unwrap();
        }
        tx.commit().await.unwrap();
        let router = http::router(app.clone(), Settings::default());
        let mut test = Self {
            app,
            router,
            keys: HashMap::new(),
            internal: AtomicU32::new(0),
            _db: test,
        };
        let (person, worker) = (PrincipalKind::Person, PrincipalKind::Worker);
        test.key("dev", "default", person, &[], &["admin"], &[]).await;
        test.key("alice", "default", person, &["finance"], &["read"], &[])
            .await;
        test.key("bob", "default", person, &[], &["read"], &[]).await;
        test.key("payer", "default", worker, &[], &[], &["payments.payout"])
            .await;
        test.key("agent", "default", worker, &[], &[], &["agent", "customers.*"])
            .await;
        test.key("stranger", "other", person, &["finance"], &["admin"], &[])
            .await;
        test
    }

    pub async fn key(
        &mut self,
        name: &'static str,
        project: &str,
        kind: PrincipalKind,
        groups: &[&str],
        roles: &[&str],
        topics: &[&str],
    ) {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect();
        let new = NewKey {
            project: project.to_owned(),
            principal: name.to_owned(),
            kind,
            groups: texts(groups),
            roles: texts(roles),
            topics: texts(topics),
            expires_at: None,
            secret: None,
        };
        let created = http::create_key(&self.app, &new).await.unwrap();
        self.keys.insert(name, created.secret);
    }

    pub async fn get(&self, who: &str, path: &str) -> Answer {
        self.send(self.request(who, "GET", path).body(Body::empty()).unwrap())
            .await
    }

    pub async fn post(&self, who: &str, path: &str, body: Value) -> Answer {
        let request = self
            .request(who, "POST", path)
            .header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_string())).unwrap())
            .await
    }

    /// A body as it is, for bodies that serde_json would not write.
    pub async fn post_text(&self, who: &str, path: &str, body: &str) -> Answer {
        let request = self
            .request(who, "POST", path)
            .header("content-type", "application/json");
        self.send(request.body(Body::from(body.to_owned())).unwrap())
            .await
    }

    /// A request with the caller's key.
    pub fn request(&self, who: &str, method: &str, path: &str) -> axum::http::request::Builder {
        let key = self.keys.get(who).map_or(who, String::as_str);
        Request::builder()
            .method(method)
            .uri(path)
            .header("authorization", format!("Bearer {key}"))
    }

    pub async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (status, headers) = (response.status(), response.headers().clone());
        if status == StatusCode::INTERNAL_SERVER_ERROR {
            self.internal.fetch_add(1, Ordering::SeqCst);
        }
        let bytes = axum::body::to_bytes(response.into_body(), usize::MAX)
            .await
            .unwrap();
        let text = String::from_utf8(bytes.into()).unwrap();
        let body = serde_json::from_str(&text).unwrap_or(Value::Null);
        Answer {
            status: status.as_u16(),
            headers,
            text,
            body,
        }
    }

    /// The router, for answers that are streams.
    pub fn router(&self) -> Router {
        self.router.clone()
    }

    /// Deploys documents as `dev`.
    pub async fn deploy(&self, files: &[(&str, &str)]) -> Value {
        let files: serde_json::Map<String, Value> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), json!(text)))
            .collect();
        self.post("dev", "/v1/deployments", json!({ "files": files }))
            .await
            .ok()
    }

    /// Starts an instance as `dev`; gives its id.
    pub async fn start(&self, process: &str, variables: Value) -> String {
        let body = json!({ "process": process, "variables": variables });
        let started = self.post("dev", "/v1/instances", body).await.ok();
        started["id"].as_str().unwrap().to_owned()
    }

    /// Leases at most one task; gives it.
    pub async fn fetch(&self, who: &str, topic: &str) -> Option<Value> {
        let body = json!({ "workerId": format!("{who}-1"), "topics": [topic], "lockDuration": 30_000 });
        let answer = self
            .post(who, "/v1/external-tasks/fetch-and-lock", body)
            .await
            .ok();
        answer["tasks"].as_array().unwrap().first().cloned()
    }

    /// A worker's call under a lease; `workerId` is added.
    pub async fn work(&self, who: &str, lease: &Value, verb: &str, mut body: Value) -> Answer {
        let id = lease["id"].as_str().unwrap();
        body["workerId"] = json!(format!("{who}-1"));
        self.post(who, &format!("/v1/external-tasks/{id}/{verb}"), body)
            .await
    }

    pub fn advance(&self, ms: i64) {
        self.app.clock().advance(ms);
    }

    /// Asks again until the answer is as wanted: for what the engine does by itself.
    pub async fn until(&self, who: &str, path: &str, good: impl Fn(&Value) -> bool) -> Value {
        let deadline = tokio::time::Instant::now() + std::time::Duration::from_secs(10);
        loop {
            let body = self.get(who, path).await.ok();
            if good(&body) {
                return body;
            }
            assert!(tokio::time::Instant::now() < deadline, "{path} is still {body}");
            tokio::task::yield_now().await;
        }
    }
}

impl Drop for TestApp {
    fn drop(&mut self) {
        self.app.stopping().cancel();
        if !std::thread::panicking() {
            assert_eq!(
                self.internal.load(Ordering::SeqCst),
                0,
                "a request met an internal error"
            );
        }
    }
}

/// SQLite, unless `LEGATION_TEST_DATABASE=postgres` asks for the other one.
pub fn database() -> Dialect {
    match std::env::var("LEGATION_TEST_DATABASE").as_deref() {
        Ok("postgres") => Dialect::Postgres,
        Ok("sqlite") | Err(_) => Dialect::Sqlite,
        Ok(other) => panic!("LEGATION_TEST_DATABASE is postgres or sqlite, not {other}"),
    }
}

/// The bare id in a lease id.
pub fn bare(lease: &Value) -> String {
    lease["id"]
        .as_str()
        .unwrap()
        .split('~')
        .next()
        .unwrap()
        .to_owned()
}

pub const PAY: &str = "
metadata:
  key: pay
  name: Pay somebody
  variables:
    amount: { type: number }
    note: { type: string, required: false }
  outputs:
    payout_id: { type: string }
flow:
  nodes:
    - id: payout
      type: engine-task
      service: payments.payout
      outputs: [payout_id]
      retry: { max_attempts: 2, backoff: 10s, jitter: 0 }
    - { id: done, type: end }
";

pub const REFUND: [(&str, &str); 4] = [
    (
        "servers/crm.server.yaml",
        include_str!("../../../../tests/page003/crm.server.yaml"),
    ),
    (
        "processes/complaint.process.yaml",
        include_str!("../../../../tests/page003/complaint.process.yaml"),
    ),
    (
        "processes/refund_payout.process.yaml",
        include_str!("../../../../tests/page003/refund_payout.process.yaml"),
    ),
    (
        "processes/large_payout.process.yaml",
        include_str!("../../../../tests/page003/large_payout.process.yaml"),
    ),
];

pub const APPROVAL: (&str, &str) = (
    "processes/approval.process.yaml",
    include_str!("../../../../tests/page003/approval.process.yaml"),
);
