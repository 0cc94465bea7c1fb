//! The web app beside the API, and the BPMN that it draws.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

use axum::body::Body;
use axum::http::Request;
use serde_json::json;

use crate::support::TestApp;

const EVERYTHING: &str = "
metadata:
  key: work
  name: \"<Work> & \\\"more\\\"\"
  variables: { n: { type: number } }
flow:
  nodes:
    - id: choose
      type: exclusive
      rules:
        - { if: n < 3, then: read }
        - { else: work }
    - id: read
      type: human
      candidates: { groups: [legal] }
      outcomes: { sign: { then: work, label: Sign it }, refuse: { then: refused } }
      on_timeout: { after: 5d, then: refused }
    - id: work
      type: engine-task
      service: work.do
      on_error: [{ code: NO_DATA, then: refused }]
      next: done
    - id: refused
      type: end
      error: REFUSED
    - id: done
      type: end
";

const PLACED: &str = "
metadata:
  key: placed
flow:
  nodes:
    - { id: begin, type: start, ui: { x: 20, y: 62 } }
    - { id: pay, type: engine-task, service: work.do, ui: { x: 100, y: 40 }, on_timeout: { after: 1h, then: done } }
    - { id: file, type: engine-task, service: work.file, ui: { x: 250, y: 40 }, next: done }
    - { id: done, type: end, ui: { x: 400, y: 62 } }
";

#[tokio::test]
async fn a_process_is_bpmn_with_what_it_only_implies() {
    let app = TestApp::new().await;
    app.deploy(&[("work.process.yaml", EVERYTHING)]).await;
    let of = |version: u32| format!("/v1/processes/{}/versions/{version}/bpmn", "work");
    let answer = app.get("dev", &of(1)).await;
    assert_eq!(answer.headers["content-type"], "application/xml; charset=utf-8");
    let xml = answer.text;
    for part in [
        // A node took the process's id.
        r#"<bpmn:process id="_process" name="&lt;Work&gt; &amp; &quot;more&quot;""#,
        r#"<bpmn:startEvent id="_start"/>"#,
        r#"<bpmn:exclusiveGateway id="_outcome_read" legation:outcomesOf="read"/>"#,
        r#"name="Sign it""#,
        r#"<bpmn:boundaryEvent id="_expired_read" name="P5D" attachedToRef="read">"#,
        r#"<bpmn:boundaryEvent id="_caught_work_1" name="NO_DATA" attachedToRef="work">"#,
        r#"legation:topic="work.do""#,
        r#"language="CEL">n &lt; 3</bpmn:conditionExpression>"#,
    ] {
        assert!(xml.contains(part), "{part} is missing in {xml}");
    }
    assert!(!xml.contains("BPMNDiagram"), "no node has a position");
    app.get("dev", &of(2)).await.refused(404, "NOT_FOUND");
    app.get("payer", &of(1)).await.refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn positions_of_every_node_make_a_diagram() {
    let app = TestApp::new().await;
    app.deploy(&[("placed.process.yaml", PLACED)]).await;
    let xml = app.get("dev", "/v1/processes/placed/versions/1/bpmn").await.text;
    assert!(xml.contains(r#"<dc:Bounds x="100" y="40""#), "{xml}");
    assert!(xml.contains("<di:waypoint"), "{xml}");
}

#[tokio::test]
async fn a_browser_gets_the_app_and_a_program_its_404() {
    let app = TestApp::new().await;
    let ask = |path: &str, accept: &str| {
        let request = Request::builder().uri(path).header("accept", accept);
        app.send(request.body(Body::empty()).unwrap())
    };
    // The address of a child instance ends like a file's name.
    for path in [
        "/",
        "/instances/01a2.i5",
        "/instances/01a2.i5/x",
        "/inbox?task=a.h5",
    ] {
        let page = ask(path, "text/html,*/*").await;
        assert_eq!(page.status, 200, "{path}");
        assert_eq!(page.headers["content-type"], "text/html; charset=utf-8");
        assert_eq!(page.headers["cache-control"], "no-cache");
        let policy = page.headers["content-security-policy"].to_str().unwrap();
        assert!(
            policy.contains("script-src 'self';"),
            "no inline script: {policy}"
        );
    }
    for path in [
        "/v1/nothing",
        "/health/x",
        "/metrics/x",
        "/assets/none.js",
        "/none.woff2",
        "/../Cargo.toml",
    ] {
        ask(path, "text/html").await.refused(404, "NOT_FOUND");
    }
    ask("/instances", "*/*").await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn only_dev_exchanges_a_code_for_keys() {
    let app = TestApp::new().await;
    app.post("nobody", "/v1/dev/login", json!({ "code": "" }))
        .await
        .refused(404, "NOT_FOUND");
}
