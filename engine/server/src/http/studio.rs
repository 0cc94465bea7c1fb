//! Studio: the web app in the binary, at every path that is not the API's.
//!
//! A path with an extension is a file, all else is the app (an id such as `01a2.i5` too), which routes by itself. Built
//! files carry a digest in their name and never change; `index.html` names the current ones and is asked for every time.
//! A debug build reads `studio/dist` from the disk, a release build holds it. Without `dist` a page says how to build it.

use std::collections::BTreeMap;
use std::path::{Component, Path};
use std::sync::Arc;

use axum::Json as Answer;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Method, Uri, header};
use axum::response::{IntoResponse, Response};
use legation_language::canonical::sha256_hex;
use rust_embed::RustEmbed;
use serde::{Deserialize, Serialize};

use super::Http;
use super::auth::unauthenticated;
use super::error::{Error, Result};
use super::extract::Json;

#[derive(RustEmbed)]
#[folder = "../../studio/dist"]
#[allow_missing = true]
struct Files;

/// What begins like this is the API's and never the app's.
const API: [&str; 3] = ["/v1", "/health", "/metrics"];

/// Scripts, styles and connections only from here; `style` attributes are what the diagram draws with.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; style-src-attr 'unsafe-inline'; \
    img-src 'self' data:; font-src 'self'; connect-src 'self'; manifest-src 'self'; base-uri 'none'; \
    form-action 'none'; frame-ancestors 'none'";

const PLACEHOLDER: &str = "<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\"><title>Legation</title>\n\
    <h1>The engine runs</h1>\n<p>Studio, its web app, is not in this build. To build it: \
    <code>npm ci --prefix studio &amp;&amp; npm run build --prefix studio</code>, then build the engine again.</p>\n\
    <p>The API is at <a href=\"/v1/openapi.json\">/v1/openapi.json</a>.</p></html>\n";

/// Lets whoever reads the terminal of `legation dev` into Studio: the code in the printed address is exchanged for
/// the folder's keys. The code lasts as long as the process.
#[derive(Clone, Debug)]
pub struct Login {
    pub code: String,
    /// Secrets by the principal's name.
    pub keys: BTreeMap<String, String>,
}

#[derive(Deserialize)]
pub struct LoginRequest {
    code: String,
}

#[derive(Serialize)]
pub struct LoginAnswer {
    keys: BTreeMap<String, String>,
}

/// Exchanges the code of `legation dev` for keys; 404 on any other engine, 401 for another code.
pub async fn login(State(http): State<Http>, Json(body): Json<LoginRequest>) -> Result<Answer<LoginAnswer>> {
    let login: Option<&Arc<Login>> = http.settings().login.as_ref();
    let login = login.ok_or_else(|| Error::not_found("this engine takes API keys only"))?;
    // Hashes are compared, so the time taken says nothing about the code.
    if sha256_hex(&body.code) != sha256_hex(&login.code) {
        return Err(unauthenticated());
    }
    Ok(Answer(LoginAnswer {
        keys: login.keys.clone(),
    }))
}

/// Every path that no route of the API has.
pub async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response {
    let path = uri.path();
    let is_api = API.iter().any(|prefix| {
        path.strip_prefix(prefix)
            .is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    });
    if is_api || !matches!(method, Method::GET | Method::HEAD) {
        return nothing().into_response();
    }
    let name = path.trim_start_matches('/');
    if is_file(name) {
        return match file(name) {
            Some(bytes) => answer(name, bytes),
            None => nothing().into_response(),
        };
    }
    // A program that mistypes a path of the API must not be told that all is well.
    if path != "/" && !asks_for_a_page(&headers) {
        return nothing().into_response();
    }
    match file("index.html") {
        Some(bytes) => page(bytes),
        None => page(PLACEHOLDER.as_bytes().to_vec()),
    }
}

fn nothing() -> Error {
    Error::not_found("there is nothing under this path").hint("GET /v1/openapi.json lists every path")
}

/// Whether the last part has an extension. `.i5` at the end of an instance's id is none: such an address is shared.
fn is_file(name: &str) -> bool {
    let last = name.rsplit('/').next().unwrap_or_default();
    let Some((_, extension)) = last.rsplit_once('.') else {
        return false;
    };
    let number = extension.strip_prefix(|first: char| first.is_ascii_lowercase());
    !number.is_some_and(|number| !number.is_empty() && number.chars().all(|digit| digit.is_ascii_digit()))
}

fn asks_for_a_page(headers: &HeaderMap) -> bool {
    let accept = headers.get(header::ACCEPT).and_then(|value| value.to_str().ok());
    accept.is_some_and(|accept| accept.contains("text/html"))
}

/// A built file: from the disk in a debug build, so that Studio is built and changed without the engine.
fn file(name: &str) -> Option<Vec<u8>> {
    if !cfg!(debug_assertions) {
        return Files::get(name).map(|file| file.data.into_owned());
    }
    let name = Path::new(name);
    let is_below = name.components().all(|part| matches!(part, Component::Normal(_)));
    let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studio/dist"));
    is_below.then(|| std::fs::read(folder.join(name)).ok()).flatten()
}

fn answer(name: &str, bytes: Vec<u8>) -> Response {
    if name == "index.html" {
        return page(bytes);
    }
    let caching = if name.starts_with("assets/") {
        "public, max-age=31536000, immutable"
    } else {
        "public, max-age=3600"
    };
    let headers = [
        (header::CONTENT_TYPE, HeaderValue::from_static(media_type(name))),
        (header::CACHE_CONTROL, HeaderValue::from_static(caching)),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
    ];
    (headers, bytes).into_response()
}

fn page(html: Vec<u8>) -> Response {
    let headers = [
        (
            header::CONTENT_TYPE,
            HeaderValue::from_static("text/html; charset=utf-8"),
        ),
        (header::CACHE_CONTROL, HeaderValue::from_static("no-cache")),
        (header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(POLICY)),
        (
            header::X_CONTENT_TYPE_OPTIONS,
            HeaderValue::from_static("nosniff"),
        ),
        (header::REFERRER_POLICY, HeaderValue::from_static("no-referrer")),
    ];
    (headers, html).into_response()
}

/// What a build writes; anything else is bytes.
fn media_type(name: &str) -> &'static str {
    match name.rsplit('.').next().unwrap_or_default() {
        "js" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "html" => "text/html; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" => "application/json",
        "woff2" => "font/woff2",
        "png" => "image/png",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}
