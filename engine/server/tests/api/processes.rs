//! Deploying and reading processes (D1, D5).

use axum::body::Body;
use serde_json::json;

use crate::support::{APPROVAL, PAY, REFUND, TestApp};

#[tokio::test]
async fn the_pages_documents_deploy_together_d1() {
    let app = TestApp::new().await;
    let answer = app.deploy(&REFUND).await;
    let deployed: Vec<_> = answer["processes"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|one| {
            (
                one["key"].as_str().unwrap_or_default(),
                one["version"].as_u64(),
                one["changed"].as_bool(),
            )
        })
        .collect();
    assert_eq!(deployed.len(), 3, "{answer}");
    assert!(
        deployed.iter().all(|one| (one.1, one.2) == (Some(1), Some(true))),
        "{answer}"
    );
    assert_eq!(answer["servers"], json!([{ "name": "crm", "changed": true }]));
    // The approval variant names a process that was deployed before.
    app.deploy(&[APPROVAL]).await;
}

#[tokio::test]
async fn what_did_not_change_gets_no_new_version() {
    let app = TestApp::new().await;
    app.deploy(&[("pay.process.yaml", PAY)]).await;
    let again = app.deploy(&[("pay.process.yaml", PAY)]).await;
    assert_eq!(
        again["processes"],
        json!([{ "key": "pay", "version": 1, "changed": false }])
    );
    let other = PAY.replace("10s", "20s");
    let dry = json!({ "files": { "pay.process.yaml": other } });
    let planned = app.post("dev", "/v1/deployments?dryRun=true", dry).await.ok();
    assert_eq!(
        planned["processes"],
        json!([{ "key": "pay", "version": 2, "changed": true }])
    );
    assert_eq!(app.get("dev", "/v1/processes/pay").await.ok()["version"], 1);
    let changed = app.deploy(&[("pay.process.yaml", &other)]).await;
    assert_eq!(
        changed["processes"],
        json!([{ "key": "pay", "version": 2, "changed": true }])
    );
    assert_eq!(app.get("dev", "/v1/processes/pay").await.ok()["version"], 2);
    assert_eq!(
        app.get("dev", "/v1/processes/pay?version=1").await.ok()["source"],
        PAY
    );
    assert_eq!(
        app.get("dev", "/v1/processes/pay/versions/1/source").await.text,
        PAY
    );
    let versions = app.get("dev", "/v1/processes/pay/versions").await.ok();
    assert_eq!(versions["processes"].as_array().map(Vec::len), Some(2));
    app.get("dev", "/v1/processes/pay/versions/3")
        .await
        .refused(404, "NOT_FOUND");
}

#[tokio::test]
async fn one_process_is_put_as_yaml() {
    let app = TestApp::new().await;
    let put = |key: &str| {
        let request = app.request("dev", "PUT", &format!("/v1/processes/{key}"));
        request
            .header("content-type", "application/yaml")
            .body(Body::from(PAY))
            .expect("a request")
    };
    let answer = app.send(put("pay")).await.ok();
    assert_eq!(
        answer["processes"],
        json!([{ "key": "pay", "version": 1, "changed": true }])
    );
    app.send(put("other")).await.refused(422, "KEY_MISMATCH");
    let view = app.get("dev", "/v1/processes/pay").await.ok();
    assert_eq!(view["inputs"]["required"], json!(["amount"]));
    assert_eq!(view["outputs"]["properties"]["payout_id"]["type"], "string");
    assert_eq!(
        app.get("dev", "/v1/processes").await.ok()["processes"][0]["key"],
        "pay"
    );
}

#[tokio::test]
async fn documents_with_errors_deploy_nothing_and_all_are_told() {
    let app = TestApp::new().await;
    let broken = PAY.replace("next", "nxt").replace("type: end", "type: ende");
    let files = json!({ "files": { "pay.process.yaml": broken, "ok.process.yaml": PAY.replace("key: pay", "key: ok") } });
    let refusal = app
        .post("dev", "/v1/deployments", files.clone())
        .await
        .refused(422, "DOCUMENTS_INVALID");
    let problem = &refusal["problems"][0];
    assert_eq!(problem["code"], "UNKNOWN_NODE_TYPE", "{refusal}");
    assert_eq!(
        (problem["file"].as_str(), problem["severity"].as_str()),
        (Some("pay.process.yaml"), Some("ERROR"))
    );
    assert!(problem["line"].as_u64().is_some_and(|line| line > 1), "{problem}");
    app.get("dev", "/v1/processes/ok").await.refused(404, "NOT_FOUND");
    let valid = app.post("dev", "/v1/validate", files).await.ok();
    assert_eq!(valid["valid"], false);
    assert_eq!(valid["problems"], refusal["problems"]);
}

#[tokio::test]
async fn a_posted_server_may_not_name_a_command() {
    let app = TestApp::new().await;
    let server =
        "name: evil\ntransport: stdio\ncommand: sh\nargs: [-c, id]\ntools: { x: { policy: read } }\n";
    let files = json!({ "files": { "evil.server.yaml": server } });
    let refusal = app
        .post("dev", "/v1/deployments", files)
        .await
        .refused(422, "DOCUMENTS_INVALID");
    assert_eq!(refusal["problems"][0]["code"], "STDIO_COMMAND");
}

#[tokio::test]
async fn two_projects_do_not_see_each_other() {
    let app = TestApp::new().await;
    app.deploy(&REFUND).await;
    let files = json!({ "files": { APPROVAL.0: APPROVAL.1 } });
    let refusal = app
        .post("stranger", "/v1/deployments", files)
        .await
        .refused(422, "DOCUMENTS_INVALID");
    let codes: Vec<_> = refusal["problems"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|one| one["code"].as_str())
        .collect();
    assert!(
        codes.contains(&"PROCESS_NOT_FOUND") && codes.contains(&"SERVER_NOT_FOUND"),
        "{codes:?}"
    );
}
