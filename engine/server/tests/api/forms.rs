//! Documents that come as the files of a form (core §6, `POST /v1/deployments`).

use axum::body::Body;
use serde_json::{Value, json};

use crate::support::{Answer, PAY, REFUND, TestApp};

const FORM: &str = "multipart/form-data; boundary=here";

/// One part, with the file name as it stands in the header.
fn part(name: &str, text: &[u8]) -> Vec<u8> {
    let head = format!("--here\r\nContent-Disposition: form-data; name=\"file\"{name}\r\n\r\n");
    [head.as_bytes(), text, b"\r\n"].concat()
}

fn file(path: &str, text: &str) -> Vec<u8> {
    part(&format!("; filename=\"{path}\""), text.as_bytes())
}

fn form(parts: &[Vec<u8>]) -> Vec<u8> {
    [&parts.concat(), &b"--here--\r\n"[..]].concat()
}

async fn send(app: &TestApp, who: &str, path: &str, kind: &str, body: impl Into<Body>) -> Answer {
    let request = app.request(who, "POST", path).header("content-type", kind);
    app.send(request.body(body.into()).expect("a request")).await
}

async fn refused(app: &TestApp, body: Vec<u8>, argument: &str, detail: &str) {
    for path in ["/v1/deployments", "/v1/deployments?dryRun=true", "/v1/validate"] {
        let refusal = send(app, "dev", path, FORM, body.clone())
            .await
            .refused(400, "INVALID_REQUEST");
        assert_eq!(
            (&refusal["argument"], &refusal["detail"]),
            (&json!(argument), &json!(detail))
        );
    }
}

fn files(documents: &[(&str, &str)]) -> Value {
    let files = documents
        .iter()
        .map(|(path, text)| ((*path).to_owned(), json!(text)));
    json!({ "files": files.collect::<serde_json::Map<_, _>>() })
}

#[tokio::test]
async fn a_form_deploys_what_the_same_documents_as_json_deploy() {
    let (by_form, by_json) = (TestApp::new().await, TestApp::new().await);
    let body = form(&REFUND.map(|(path, text)| file(path, text)));
    let path = "/v1/deployments?dryRun=true";
    let planned = send(&by_form, "dev", path, FORM, body.clone()).await.ok();
    assert_eq!(planned, by_json.post("dev", path, files(&REFUND)).await.ok());
    let nothing = by_form.get("dev", "/v1/processes").await.ok();
    assert_eq!(nothing["processes"], json!([]));

    let deployed = send(&by_form, "dev", "/v1/deployments", FORM, body.clone())
        .await
        .ok();
    assert_eq!(deployed, by_json.deploy(&REFUND).await);
    assert_eq!(deployed["processes"].as_array().map(Vec::len), Some(3));
    // A document is the bytes of its file, as in JSON: the one is no change of the other.
    let again = send(&by_json, "dev", "/v1/deployments", FORM, body).await.ok();
    let unchanged = |kind: &str| {
        let all = again[kind].as_array().into_iter().flatten();
        all.map(|one| one["changed"].clone()).collect::<Vec<_>>()
    };
    assert_eq!(
        (unchanged("processes"), unchanged("servers")),
        (vec![json!(false); 3], vec![json!(false)])
    );
    let source = by_form
        .get("dev", "/v1/processes/complaint/versions/1/source")
        .await;
    assert_eq!(source.text, REFUND[1].1);
}

#[tokio::test]
async fn a_form_with_broken_documents_tells_the_same_problems_as_json() {
    let app = TestApp::new().await;
    let broken = PAY.replace("type: end", "type: ende");
    let documents = [("processes/pay.process.yaml", broken.as_str())];
    let body = form(&documents.map(|(path, text)| file(path, text)));
    for path in ["/v1/deployments", "/v1/deployments?dryRun=true"] {
        let refusal = send(&app, "dev", path, FORM, body.clone())
            .await
            .refused(422, "DOCUMENTS_INVALID");
        assert_eq!(refusal["problems"][0]["file"], "processes/pay.process.yaml");
        let as_json = app.post("dev", path, files(&documents)).await;
        assert_eq!(refusal, as_json.refused(422, "DOCUMENTS_INVALID"));
    }
    let valid = send(&app, "dev", "/v1/validate", FORM, body).await.ok();
    assert_eq!(
        valid,
        app.post("dev", "/v1/validate", files(&documents)).await.ok()
    );
    assert_eq!(valid["valid"], false);
    let empty = send(&app, "dev", "/v1/deployments", FORM, form(&[])).await;
    let as_json = app.post("dev", "/v1/deployments", files(&[])).await;
    assert_eq!((empty.status, empty.body), (as_json.status, as_json.body));
}

#[tokio::test]
async fn a_form_needs_the_same_right_as_json() {
    let app = TestApp::new().await;
    let body = form(&[file("pay.process.yaml", PAY)]);
    send(&app, "alice", "/v1/deployments", FORM, body.clone())
        .await
        .refused(403, "FORBIDDEN");
    let allowed = send(&app, "alice", "/v1/validate", FORM, body).await.ok();
    assert_eq!(allowed["valid"], true);
}

#[tokio::test]
async fn a_part_that_is_no_document_is_refused_with_its_place() {
    let app = TestApp::new().await;
    let good = || file("pay.process.yaml", PAY);
    refused(
        &app,
        form(&[good(), part("", b"x")]),
        "part 2",
        "part 2 of the form (field `file`) has no file name",
    )
    .await;
    refused(
        &app,
        form(&[good(), file("pay.process.yaml", "other: text")]),
        "pay.process.yaml",
        "part 2 of the form is `pay.process.yaml` once more",
    )
    .await;
    refused(
        &app,
        form(&[good(), part("; filename=\"b.yaml\"", b"name: \xff")]),
        "b.yaml",
        "part 2 of the form, `b.yaml`, is no UTF-8 text at byte 6",
    )
    .await;
    let body = form(&[file("b.yaml", "name: a\0b")]);
    let nul = send(&app, "dev", "/v1/deployments", FORM, body).await;
    assert_eq!(nul.refused(422, "NUL_IN_JSON")["argument"], "b.yaml");
    assert_eq!(app.get("dev", "/v1/processes").await.ok()["processes"], json!([]));
}

#[tokio::test]
async fn a_form_that_is_cut_off_deploys_nothing() {
    let app = TestApp::new().await;
    let whole = form(&[file("pay.process.yaml", PAY)]);
    let end = whole.len() - b"\r\n--here--\r\n".len();
    for length in [0, 5, 40, end / 2, end, end + 6] {
        let cut = whole[..length].to_vec();
        let refusal = send(&app, "dev", "/v1/deployments", FORM, cut).await;
        assert_eq!(
            refusal.refused(400, "INVALID_REQUEST")["argument"],
            "part 1",
            "{length} bytes"
        );
    }
    let refusal = send(&app, "dev", "/v1/deployments", "multipart/form-data", whole).await;
    assert_eq!(
        refusal.refused(400, "INVALID_REQUEST")["argument"],
        "Content-Type"
    );
    assert_eq!(app.get("dev", "/v1/processes").await.ok()["processes"], json!([]));
}

#[tokio::test]
async fn b11_a_form_may_be_as_large_as_json_and_no_larger() {
    let app = TestApp::new().await;
    // Past axum's own limit of 2 MiB, within ours of 8 MiB.
    let comment = format!("{PAY}\n# {}\n", "x".repeat(3 * 1024 * 1024));
    let body = form(&[file("pay.process.yaml", &comment)]);
    let path = "/v1/deployments?dryRun=true";
    let answer = send(&app, "dev", path, FORM, body).await;
    let as_json = app
        .post("dev", path, files(&[("pay.process.yaml", &comment)]))
        .await;
    assert_eq!((answer.status, answer.body), (as_json.status, as_json.body));
    assert_ne!(answer.status, 413);
    let body = form(&[file("pay.process.yaml", &"x".repeat(8 * 1024 * 1024))]);
    let stream = Body::from_stream(futures::stream::iter([Ok::<_, std::io::Error>(body.clone())]));
    for body in [Body::from(body), stream] {
        send(&app, "dev", path, FORM, body)
            .await
            .refused(413, "PAYLOAD_TOO_LARGE");
    }
}

#[tokio::test]
async fn documents_of_another_media_type_are_refused() {
    let app = TestApp::new().await;
    for kind in [
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/mixed; boundary=here",
        "rubbish",
    ] {
        let body = form(&[file("pay.process.yaml", PAY)]);
        let refusal = send(&app, "dev", "/v1/deployments", kind, body).await;
        let refusal = refusal.refused(415, "UNSUPPORTED_MEDIA_TYPE");
        assert_eq!(
            refusal["detail"],
            "this endpoint takes application/json or multipart/form-data"
        );
    }
}
