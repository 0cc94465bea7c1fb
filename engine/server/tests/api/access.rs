//! Who may do what: keys, kinds, roles, topics, projects (B8, B9, B21).

use axum::body::Body;
use axum::http::Request;
use legation_protocol::keys::PrincipalKind;
use serde_json::json;

use crate::support::{PAY, TestApp, bare};

#[tokio::test]
async fn without_a_good_key_there_is_401_with_a_challenge() {
    let app = TestApp::new().await;
    let request = Request::get("/v1/me").body(Body::empty()).expect("a request");
    let answer = app.send(request).await;
    assert_eq!(answer.headers["www-authenticate"], "Bearer realm=\"legation\"");
    answer.refused(401, "UNAUTHENTICATED");
    app.get("lg_wrong", "/v1/me")
        .await
        .refused(401, "UNAUTHENTICATED");
}

/// A life of more years than dates have made a key that had ended in 1970.
#[tokio::test]
async fn a_key_lasts_some_time_that_dates_can_tell() {
    let app = TestApp::new().await;
    for (ms, good) in [
        (0, false),
        (1, true),
        (3_153_600_000_000_u64, true),
        (u64::MAX, false),
    ] {
        let body = json!({ "principal": "temp", "kind": "SERVICE", "expiresInMs": ms });
        let answer = app.post("dev", "/v1/keys", body).await;
        if good {
            assert_eq!(answer.status, 201, "{ms}");
            let ends = answer.body["key"]["expiresAt"].as_str().expect("a time");
            assert!(ends > "2000", "{ends}");
        } else {
            assert_eq!(answer.refused(422, "INVALID_REQUEST")["argument"], "expiresInMs");
        }
    }
}

#[tokio::test]
async fn me_tells_whom_a_key_names() {
    let app = TestApp::new().await;
    let me = app.get("alice", "/v1/me").await.ok();
    assert_eq!(
        (
            &me["principal"],
            &me["kind"],
            &me["project"],
            &me["groups"],
            &me["roles"]
        ),
        (
            &json!("alice"),
            &json!("PERSON"),
            &json!("default"),
            &json!(["finance"]),
            &json!(["read"])
        )
    );
    assert_eq!(
        app.get("payer", "/v1/me").await.ok()["topics"],
        json!(["payments.payout"])
    );
}

#[tokio::test]
async fn b8_unknown_ids_and_another_projects_ids_look_alike() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 5 })).await;
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    let unknown = "0193a1b2c3d4e5f60718293a4b5c6d7e";
    for path in ["", "/history", "/journal", "/variables", "/lineage", "/explain"] {
        let theirs = app
            .get("stranger", &format!("/v1/instances/{id}{path}"))
            .await
            .refused(404, "NOT_FOUND");
        let missing = app
            .get("stranger", &format!("/v1/instances/{unknown}{path}"))
            .await
            .refused(404, "NOT_FOUND");
        let detail = missing["detail"]
            .as_str()
            .expect("a detail")
            .replace(unknown, &id);
        assert_eq!(theirs["detail"], json!(detail));
    }
    let cancel = json!({ "reason": "no" });
    app.post("stranger", &format!("/v1/instances/{id}/cancel"), cancel.clone())
        .await
        .refused(404, "NOT_FOUND");
    app.post("stranger", &format!("/v1/instances/{unknown}/cancel"), cancel)
        .await
        .refused(404, "NOT_FOUND");
    let task = bare(&lease);
    app.get("stranger", &format!("/v1/external-tasks/{task}"))
        .await
        .refused(404, "NOT_FOUND");
    app.get("stranger", &format!("/v1/external-tasks/{task}/steps"))
        .await
        .refused(404, "NOT_FOUND");
    app.post(
        "stranger",
        &format!("/v1/external-tasks/{task}/unlock"),
        json!({}),
    )
    .await
    .refused(404, "NOT_FOUND");
    app.work("stranger", &lease, "complete", json!({}))
        .await
        .refused(404, "NOT_FOUND");
    app.get("stranger", "/v1/processes/pay")
        .await
        .refused(404, "NOT_FOUND");
    assert_eq!(
        app.get("stranger", "/v1/instances").await.ok()["instances"],
        json!([])
    );
    for id in [format!("{unknown}.h1"), format!("{id}.h1")] {
        app.get("dev", &format!("/v1/tasks/{id}"))
            .await
            .refused(404, "NOT_FOUND");
    }
    app.get("dev", &format!("/v1/incidents/{unknown}.n1"))
        .await
        .refused(404, "NOT_FOUND");
    app.post("dev", "/v1/instances", json!({ "process": "nothing" }))
        .await
        .refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn b9_a_foreign_and_a_stale_lease_are_told_apart() {
    let mut app = TestApp::new().await;
    app.key(
        "payer2",
        "default",
        PrincipalKind::Worker,
        &[],
        &[],
        &["payments.payout"],
    )
    .await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    app.start("pay", json!({ "amount": 5 })).await;
    let first = app.fetch("payer", "payments.payout").await.expect("a task");
    // Another credential, and another worker of the same one.
    let refusal = app
        .work("payer2", &first, "complete", json!({ "variables": {} }))
        .await;
    let refusal = refusal.refused(403, "LEASE_NOT_OWNED");
    let hint = refusal["hint"].as_str().unwrap_or_default();
    assert!(hint.contains("your own fetch"), "{refusal}");
    let path = format!(
        "/v1/external-tasks/{}/complete",
        first["id"].as_str().expect("an id")
    );
    let body = json!({ "workerId": "somebody", "variables": {} });
    app.post("payer", &path, body)
        .await
        .refused(403, "LEASE_NOT_OWNED");
    // The bare id names no lease.
    let path = format!("/v1/external-tasks/{}/complete", bare(&first));
    app.post("payer", &path, json!({ "workerId": "payer-1" }))
        .await
        .refused(403, "LEASE_NOT_OWNED");
    app.advance(31_000);
    let second = app
        .fetch("payer2", "payments.payout")
        .await
        .expect("the task again");
    assert_ne!(first["id"], second["id"]);
    assert_eq!(bare(&first), bare(&second));
    let body = json!({ "variables": { "payout_id": "P-1" } });
    app.work("payer", &first, "complete", body.clone())
        .await
        .refused(409, "LEASE_EXPIRED");
    assert_eq!(
        app.work("payer2", &second, "complete", body.clone()).await.ok()["state"],
        "COMPLETED"
    );
    app.work("payer", &first, "heartbeat", json!({ "lockDuration": 1000 }))
        .await
        .refused(410, "WORK_RETIRED");
}

#[tokio::test]
async fn a_worker_reaches_only_its_topics() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    app.start("pay", json!({ "amount": 5 })).await;
    let fetch = |topic: &str| json!({ "workerId": "w", "topics": [topic] });
    let path = "/v1/external-tasks/fetch-and-lock";
    app.post("agent", path, fetch("payments.payout"))
        .await
        .refused(403, "TOPIC_FORBIDDEN");
    app.post("agent", path, fetch("customers.notify")).await.ok();
    let lease = app.fetch("payer", "payments.payout").await.expect("a task");
    // A task of another topic is unknown to it (D36).
    app.work("agent", &lease, "complete", json!({ "variables": {} }))
        .await
        .refused(404, "NOT_FOUND");
    app.get("agent", &format!("/v1/external-tasks/{}/steps", bare(&lease)))
        .await
        .refused(404, "NOT_FOUND");
    app.get("payer", &format!("/v1/external-tasks/{}/steps", bare(&lease)))
        .await
        .ok();
}

#[tokio::test]
async fn a_worker_does_nothing_but_work() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 5 })).await;
    for path in [
        "/v1/instances",
        "/v1/processes",
        "/v1/tasks",
        "/v1/incidents",
        "/v1/workers",
        "/v1/keys",
        "/v1/events",
    ] {
        app.get("payer", path).await.refused(403, "FORBIDDEN");
    }
    app.get("payer", &format!("/v1/instances/{id}"))
        .await
        .refused(403, "FORBIDDEN");
    app.post("payer", "/v1/instances", json!({ "process": "pay" }))
        .await
        .refused(403, "FORBIDDEN");
    app.post("payer", "/v1/deployments", json!({ "files": {} }))
        .await
        .refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn roles_bound_what_a_person_may_do() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let id = app.start("pay", json!({ "amount": 5 })).await;
    app.get("alice", &format!("/v1/instances/{id}")).await.ok();
    app.post("alice", "/v1/instances", json!({ "process": "pay" }))
        .await
        .refused(403, "FORBIDDEN");
    app.post(
        "alice",
        &format!("/v1/instances/{id}/cancel"),
        json!({ "reason": "x" }),
    )
    .await
    .refused(403, "FORBIDDEN");
    app.post("alice", "/v1/deployments", json!({ "files": {} }))
        .await
        .refused(403, "FORBIDDEN");
    app.get("alice", "/v1/keys").await.refused(403, "FORBIDDEN");
    let body = json!({ "workerId": "w", "topics": ["payments.payout"] });
    app.post("alice", "/v1/external-tasks/fetch-and-lock", body)
        .await
        .refused(403, "FORBIDDEN");
}

#[tokio::test]
async fn a_key_is_made_shown_once_used_and_revoked() {
    let app = TestApp::new().await;
    let body = json!({ "principal": "carol", "kind": "PERSON", "groups": ["finance"], "roles": ["operate"] });
    let created = app.post("dev", "/v1/keys", body).await;
    assert_eq!(created.status, 201);
    let created = created.body;
    let secret = created["secret"].as_str().expect("a secret").to_owned();
    assert_eq!((secret.len(), &secret[..3]), (67, "lg_"));
    assert_eq!(app.get(&secret, "/v1/me").await.ok()["principal"], "carol");
    let keys = app.get("dev", "/v1/keys").await;
    assert!(!keys.text.contains(&secret), "a secret is shown once");
    let id = created["key"]["id"].as_str().expect("an id");
    let request = app
        .request("dev", "DELETE", &format!("/v1/keys/{id}"))
        .body(Body::empty())
        .expect("a request");
    assert_eq!(app.send(request).await.status, 204);
    app.get(&secret, "/v1/me").await.refused(401, "UNAUTHENTICATED");
    let request = app
        .request("dev", "DELETE", &format!("/v1/keys/{id}"))
        .body(Body::empty())
        .expect("a request");
    app.send(request).await.refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn a_key_ends_when_it_says() {
    let app = TestApp::new().await;
    let body = json!({ "principal": "temp", "kind": "SERVICE", "expiresInMs": 60_000 });
    let created = app.post("dev", "/v1/keys", body).await.ok();
    let secret = created["secret"].as_str().expect("a secret").to_owned();
    assert_eq!(
        app.get(&secret, "/v1/me").await.ok()["roles"],
        json!(["read", "start"])
    );
    app.advance(60_000);
    app.get(&secret, "/v1/me").await.refused(401, "UNAUTHENTICATED");
}

#[tokio::test]
async fn keys_that_cannot_be_are_refused_with_what_can() {
    let app = TestApp::new().await;
    let key = |kind: &str, roles: serde_json::Value, topics: serde_json::Value| json!({ "principal": "x", "kind": kind, "roles": roles, "topics": topics });
    let refusal = app
        .post("dev", "/v1/keys", key("PERSON", json!(["operat"]), json!([])))
        .await;
    assert_eq!(
        refusal.refused(422, "INVALID_REQUEST")["hint"],
        "did you mean `operate`?"
    );
    app.post("dev", "/v1/keys", key("WORKER", json!([]), json!([])))
        .await
        .refused(422, "INVALID_REQUEST");
    app.post("dev", "/v1/keys", key("WORKER", json!(["admin"]), json!(["a"])))
        .await
        .refused(422, "INVALID_REQUEST");
    for (kind, groups, topics, argument) in [
        ("PERSON", json!([]), json!(["a"]), "topics"),
        ("SERVICE", json!([]), json!(["a"]), "topics"),
        ("WORKER", json!(["finance"]), json!(["a"]), "groups"),
        ("SERVICE", json!(["finance"]), json!([]), "groups"),
    ] {
        let body = json!({ "principal": "x", "kind": kind, "groups": groups, "topics": topics });
        let refusal = app.post("dev", "/v1/keys", body).await;
        let refusal = refusal.refused(422, "INVALID_REQUEST");
        assert_eq!(refusal["argument"], argument, "{kind}: {refusal}");
        assert!(refusal["hint"].is_string(), "{refusal}");
    }
    let taken = json!({ "principal": "alice", "kind": "WORKER", "topics": ["a"] });
    app.post("dev", "/v1/keys", taken)
        .await
        .refused(409, "PRINCIPAL_EXISTS");
}
