//! Requests that no client should send: B7 and B11, routes and methods that do not exist.

use std::time::Duration;

use axum::body::Body;
use axum::http::StatusCode;
use axum::response::IntoResponse;
use futures::StreamExt;
use legation_kernel::rejection::Rejection;
use legation_server::http::{BodyTime, Error};
use legation_server::writer::Failure;
use legation_store::Dialect;
use serde_json::json;

use crate::journal::leased;
use crate::support::{PAY, TestApp, database};

#[tokio::test]
async fn b7_wrong_types_are_refused_with_the_place() {
    let app = TestApp::new().await;
    let refusal = app
        .post("dev", "/v1/instances", json!({ "process": 7 }))
        .await
        .refused(400, "INVALID_REQUEST");
    assert_eq!(refusal["argument"], "process");
    assert_eq!(
        refusal["detail"],
        "invalid type: integer `7`, expected a string at /process"
    );
    let body = json!({ "workerId": "w", "topics": ["a", 1] });
    let refusal = app
        .post("payer", "/v1/external-tasks/fetch-and-lock", body)
        .await
        .refused(400, "INVALID_REQUEST");
    assert!(
        refusal["detail"]
            .as_str()
            .is_some_and(|detail| detail.ends_with("at /topics/1")),
        "{refusal}"
    );
}

/// What was expected is said in words of JSON, never in types of Rust.
#[tokio::test]
async fn b7_what_was_expected_is_said_in_words() {
    let app = TestApp::new().await;
    for (body, detail) in [
        ("[]", "the body is a list, expected a JSON object"),
        ("[\"pay\", null]", "the body is a list, expected a JSON object"),
        ("null", "the body is null, expected a JSON object"),
        ("7", "the body is a number, expected a JSON object"),
        ("\"pay\"", "the body is a string, expected a JSON object"),
        (
            "{\"process\":[]}",
            "invalid type: list, expected a string at /process",
        ),
        (
            "{\"process\":\"pay\",\"version\":-1}",
            "invalid value: integer `-1`, expected a whole number that is not negative and not too large at /version",
        ),
        (
            "{\"process\":\"pay\",\"version\":1.5}",
            "invalid type: number `1.5`, expected a whole number that is not negative and not too large at /version",
        ),
        (
            "{\"process\":\"pay\",\"labels\":[]}",
            "invalid type: list, expected an object at /labels",
        ),
    ] {
        let refusal = app.post_text("dev", "/v1/instances", body).await;
        let refusal = refusal.refused(400, "INVALID_REQUEST");
        assert_eq!(refusal["detail"], detail, "{body}");
        assert!(refusal["hint"].is_string(), "{refusal}");
    }
    let (app, lease) = leased().await;
    for (steps, detail) in [
        (json!([[]]), "invalid type: list, expected an object at /steps/0"),
        (
            json!([7]),
            "invalid type: integer `7`, expected an object at /steps/0",
        ),
        (json!({}), "invalid type: object, expected a list at /steps"),
    ] {
        let body = json!({ "attempt": 1, "steps": steps });
        let refusal = app.work("agent", &lease, "steps", body).await;
        assert_eq!(refusal.refused(400, "INVALID_REQUEST")["detail"], detail);
    }
}

#[tokio::test]
async fn b7_an_unknown_field_names_the_one_that_was_meant() {
    let app = TestApp::new().await;
    let body = json!({ "process": "pay", "businesKey": "A" });
    let refusal = app
        .post("dev", "/v1/instances", body)
        .await
        .refused(400, "INVALID_REQUEST");
    assert_eq!(refusal["argument"], "businesKey");
    assert_eq!(refusal["hint"], "did you mean `businessKey`?");
    let refusal = app
        .get("dev", "/v1/instances?proces=pay")
        .await
        .refused(400, "INVALID_REQUEST");
    assert_eq!(refusal["hint"], "did you mean `process`?");
}

#[tokio::test]
async fn b7_values_out_of_range_name_the_field() {
    let app = TestApp::new().await;
    let fetch = |field: &str, value: serde_json::Value| {
        let mut body = json!({ "workerId": "w", "topics": ["payments.payout"] });
        body[field] = value;
        body
    };
    for (field, value) in [
        ("lockDuration", json!(0)),
        ("lockDuration", json!(3_600_001)),
        ("maxTasks", json!(0)),
        ("maxTasks", json!(51)),
        ("longPollMs", json!(60_001)),
        ("topics", json!([])),
        ("workerId", json!("")),
    ] {
        let answer = app
            .post("payer", "/v1/external-tasks/fetch-and-lock", fetch(field, value))
            .await;
        assert_eq!(answer.refused(422, "INVALID_REQUEST")["argument"], field);
    }
    app.get("dev", "/v1/instances?limit=201")
        .await
        .refused(422, "INVALID_REQUEST");
    app.get("dev", "/v1/instances?after=rubbish")
        .await
        .refused(400, "INVALID_REQUEST");
}

#[tokio::test]
async fn what_is_no_json_is_refused_with_the_byte() {
    let app = TestApp::new().await;
    app.post_text("dev", "/v1/instances", "{\"process\":")
        .await
        .refused(400, "JSON_INVALID");
    app.post_text("dev", "/v1/instances", "{\"process\":\"a\",\"process\":\"b\"}")
        .await
        .refused(400, "JSON_INVALID");
    let deep = format!(
        "{{\"process\":\"a\",\"variables\":{{\"x\":{}{}}}}}",
        "[".repeat(500),
        "]".repeat(500)
    );
    app.post_text("dev", "/v1/instances", &deep)
        .await
        .refused(400, "JSON_INVALID");
    let request = app
        .request("dev", "POST", "/v1/instances")
        .body(Body::from("a=b"))
        .expect("a request");
    app.send(request).await.refused(415, "UNSUPPORTED_MEDIA_TYPE");
}

#[tokio::test]
async fn b11_a_nul_in_a_text_is_refused() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let body = "{\"process\":\"pay\",\"variables\":{\"amount\":1,\"note\":\"a\\u0000b\"}}";
    app.post_text("dev", "/v1/instances", body)
        .await
        .refused(422, "NUL_IN_JSON");
    let body = "{\"process\":\"pay\",\"variables\":{\"a\\u0000\":1}}";
    app.post_text("dev", "/v1/instances", body)
        .await
        .refused(422, "NUL_IN_JSON");
    // The escaped backslash is a text about NUL, not a NUL.
    let body = "{\"process\":\"pay\",\"variables\":{\"amount\":1,\"note\":\"a\\\\u0000b\"}}";
    app.post_text("dev", "/v1/instances", body).await.ok();
    app.get("dev", "/v1/instances?businessKey=a%00")
        .await
        .refused(422, "NUL_IN_JSON");
    app.get("dev", "/v1/instances/a%00")
        .await
        .refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn b11_an_oversized_body_is_refused() {
    let app = TestApp::new().await;
    let body = json!({ "process": "pay", "variables": { "note": "x".repeat(3 * 1024 * 1024) } });
    app.post("dev", "/v1/instances", body)
        .await
        .refused(413, "PAYLOAD_TOO_LARGE");
    // Without a length, the body is read up to the limit only.
    let chunk = bytes(&"x".repeat(1024 * 1024));
    let stream = futures::stream::iter(std::iter::repeat_n(chunk, 3).map(Ok::<_, std::io::Error>));
    let request = app
        .request("dev", "POST", "/v1/instances")
        .header("content-type", "application/json");
    let request = request.body(Body::from_stream(stream)).expect("a request");
    app.send(request).await.refused(413, "PAYLOAD_TOO_LARGE");
}

/// A client that stops sending, or sends on and on a little, does not hold its connection for ever.
#[tokio::test]
async fn b11_a_body_that_does_not_end_in_time_is_refused() {
    let app = TestApp::new().await;
    let start = bytes("{\"process\":");
    let silent = futures::stream::iter([Ok::<_, std::io::Error>(start)]).chain(futures::stream::pending());
    let trickle = futures::stream::unfold(
        tokio::time::interval(Duration::from_millis(5)),
        |mut ticks| async {
            ticks.tick().await;
            Some((Ok::<_, std::io::Error>(bytes(" ")), ticks))
        },
    );
    for body in [Body::from_stream(silent), Body::from_stream(trickle)] {
        let request = app
            .request("dev", "POST", "/v1/instances")
            .header("content-type", "application/json")
            .extension(BodyTime(Duration::from_millis(100)));
        let answer = app.send(request.body(body).expect("a request")).await;
        assert_eq!(answer.headers["connection"], "close");
        let refusal = answer.refused(408, "BODY_TIMEOUT");
        assert!(refusal["hint"].is_string(), "{refusal}");
    }
}

fn bytes(text: &str) -> axum::body::Bytes {
    axum::body::Bytes::from(text.to_owned())
}

#[tokio::test]
async fn a_number_keeps_its_digits_or_is_refused() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let body = "{\"process\":\"pay\",\"variables\":{\"amount\":0.1000000000000000055511151}}";
    let started = app.post_text("dev", "/v1/instances", body).await.ok();
    let id = started["id"].as_str().unwrap_or_default();
    let answer = app.get("dev", &format!("/v1/instances/{id}/variables")).await;
    assert!(
        answer.text.contains("0.1000000000000000055511151"),
        "{}",
        answer.text
    );
    let body = "{\"process\":\"pay\",\"variables\":{\"amount\":0.10000000000000000555111512312578270}}";
    app.post_text("dev", "/v1/instances", body)
        .await
        .refused(422, "NUMBER_RANGE");
}

#[tokio::test]
async fn unknown_routes_and_methods_are_problems_too() {
    let app = TestApp::new().await;
    app.get("dev", "/v1/nothing").await.refused(404, "NOT_FOUND");
    app.post("dev", "/v1/me", json!({}))
        .await
        .refused(405, "METHOD_NOT_ALLOWED");
}

#[tokio::test]
async fn a_code_has_a_page_of_its_own() {
    let app = TestApp::new().await;
    let page = app.get("nobody", "/v1/problems/LEASE_EXPIRED").await;
    assert!(page.text.starts_with("### LEASE_EXPIRED\n"), "{}", page.text);
    assert_eq!(page.text.matches("###").count(), 1);
    app.get("nobody", "/v1/problems/NO_SUCH_CODE")
        .await
        .refused(404, "NOT_FOUND");
}

/// Every code that a refusal can have, the kernel's and the API's: the page has them all, with the statuses that are
/// sent (`repository_codes`).
#[test]
fn every_refusal_says_what_to_do() {
    let page = include_str!("../../../../docs/ERRORS.md");
    let codes: Vec<&str> = page
        .split("\n### ")
        .skip(1)
        .filter_map(|entry| {
            let (code, text) = entry.split_once("\n\n*")?;
            let (kinds, meaning) = text.split_once('*')?;
            let refuses = kinds.to_lowercase().contains("problem") && !meaning.starts_with(" Reserved");
            refuses.then_some(code)
        })
        .collect();
    assert!(codes.len() > 60, "only {codes:?}");
    for code in codes {
        let refusals = [
            Error::new(StatusCode::CONFLICT, code, "it is so"),
            Error::from(Rejection::conflict(code, "it is so")),
        ];
        for refusal in refusals {
            let Error::Problem(problem) = refusal else {
                panic!("a problem")
            };
            let hint = problem.hint.unwrap_or_default();
            let plain = hint.contains(' ') && !hint.ends_with('.') && !hint.contains("](");
            assert!(plain, "{code}: {hint:?}");
            assert!(hint.starts_with(|first: char| !first.is_uppercase()), "{hint}");
        }
    }
}

/// The kernel's advice goes before the general one.
#[test]
fn a_hint_of_its_own_is_kept() {
    let rejection = Rejection::conflict("SEQUENCE", "it is so").hint("the next is 4");
    let Error::Problem(problem) = Error::from(rejection) else {
        panic!("a problem")
    };
    assert_eq!(problem.hint.as_deref(), Some("the next is 4"));
}

#[tokio::test]
async fn health_needs_no_key_and_metrics_do() {
    let app = TestApp::new().await;
    let database = match database() {
        Dialect::Sqlite => "sqlite",
        Dialect::Postgres => "postgres",
    };
    let request = axum::http::Request::get("/health")
        .body(Body::empty())
        .expect("a request");
    let health = app.send(request).await.ok();
    assert_eq!(
        (&health["status"], &health["database"]),
        (&json!("UP"), &json!(database))
    );
    let request = axum::http::Request::get("/metrics")
        .body(Body::empty())
        .expect("a request");
    app.send(request).await.refused(401, "UNAUTHENTICATED");
    app.get("payer", "/metrics").await.refused(403, "FORBIDDEN");
    assert_eq!(app.get("dev", "/metrics").await.status, 200);
}

/// B17: a full database is named, to who writes and to who watches, until a write succeeds again.
#[tokio::test]
async fn b17_a_full_database_is_said_to_be_full() {
    if database() == Dialect::Postgres {
        return;
    }
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    app.app.db().limit_pages(0).await.expect("a limit");
    let body = json!({ "process": "pay", "variables": { "amount": 1, "note": "x".repeat(20_000) } });
    let mut answer = app.post("dev", "/v1/instances", body.clone()).await;
    for _ in 0..200 {
        if answer.status != 201 {
            break;
        }
        answer = app.post("dev", "/v1/instances", body.clone()).await;
    }
    let refusal = answer.refused(503, "UNAVAILABLE");
    assert_eq!(refusal["detail"], "the database is full, so nothing was written");
    let health = app.get("nobody", "/health").await;
    assert_eq!(
        (health.status, &health.body["status"], &health.body["detail"]),
        (
            503,
            &json!("DOWN"),
            &json!("writes fail since 2026-11-30T06:00:00.000Z: the database is full")
        )
    );
    assert_eq!(app.get("nobody", "/health/live").await.status, 200);
    // Nobody who is kept away could show that there is room again.
    app.advance(60_000);
    let health = app.get("nobody", "/health").await.ok();
    let told = health["detail"].as_str().unwrap_or_default();
    assert!(told.contains("none was tried since"), "{health}");
    app.app.db().limit_pages(10_000).await.expect("a limit");
    app.post("dev", "/v1/instances", body).await.ok();
    let health = app.get("nobody", "/health").await.ok();
    assert_eq!((&health["status"], health.get("detail")), (&json!("UP"), None));
}

#[test]
fn a_busy_and_an_absent_engine_say_when_to_come_back() {
    for (failure, status) in [
        (Failure::Busy, 429),
        (Failure::Unavailable("away".to_owned()), 503),
    ] {
        let response = Error::from(failure).into_response();
        assert_eq!(
            (response.status().as_u16(), &response.headers()["retry-after"]),
            (status, &"1".parse().expect("a value"))
        );
    }
    // Why is for the log alone.
    let Error::Problem(problem) = Error::from(Failure::Unavailable("host db.internal".to_owned())) else {
        panic!("a problem")
    };
    assert!(!format!("{problem:?}").contains("db.internal"), "{problem:?}");
}
