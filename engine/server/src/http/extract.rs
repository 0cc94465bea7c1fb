//! Reading requests: bodies with exact digits, query strings, ids. All refusals say where and what instead.

use std::time::Duration;

use axum::body::Bytes;
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use legation_language::{Value, canonical};
use legation_protocol::processes::DeployRequest;
use legation_protocol::{Json as RawJson, Variables};
use serde::de::DeserializeOwned;

use super::error::{Error, Result};
use super::{parts, words};

/// The most bytes of an ordinary body.
pub const MAX_BODY: usize = 2 * 1024 * 1024;

/// The most bytes of a set of documents.
pub const MAX_DOCUMENTS: usize = 8 * 1024 * 1024;

/// The media type of documents as the files of a form.
const FORM: &str = "multipart/form-data";

/// How long a body may take in all, 30 s unless the request's extensions hold another. Without a limit, a client that
/// sends a byte a second, or none, holds a connection for ever.
#[derive(Clone, Copy, Debug)]
pub struct BodyTime(pub Duration);

impl Default for BodyTime {
    fn default() -> Self {
        Self(Duration::from_secs(30))
    }
}

/// The longest id, key or name in a path.
const MAX_ID: usize = 300;

/// A JSON body, at most [`MAX_BODY`] bytes. Free-form values in it keep every digit.
pub struct Json<T>(pub T);

/// A JSON body with the SHA-256 of its canonical form: for `Idempotency-Key`.
pub struct Hashed<T> {
    pub body: T,
    pub hash: String,
}

/// A set of documents, as JSON or as the files of a form, at most [`MAX_DOCUMENTS`] bytes.
pub struct Documents(pub DeployRequest);

/// A text body, at most [`MAX_DOCUMENTS`] bytes.
pub struct Text(pub String);

/// The query string.
pub struct Query<T>(pub T);

/// One id, key or name out of the path. What cannot be one is not found, without asking the database.
pub struct Id(pub String);

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Json<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let text = json_text(request, MAX_BODY).await?;
        object(&text)?;
        parse(&text).map(Self)
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequest<S> for Hashed<T> {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let text = json_text(request, MAX_BODY).await?;
        let value = object(&text)?;
        Ok(Self {
            body: parse(&text)?,
            hash: canonical::digest(&value),
        })
    }
}

impl<S: Send + Sync> FromRequest<S> for Documents {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let media = media(request.headers());
        if media == FORM {
            let (parts, body) = request.into_parts();
            let request = Request::from_parts(parts.clone(), body);
            let files = parts::read(parts, read(request, MAX_DOCUMENTS).await?).await?;
            return Ok(Self(DeployRequest { files }));
        }
        if !is_json(&media) {
            return Err(unsupported(&["application/json", FORM]));
        }
        let text = utf8(read(request, MAX_DOCUMENTS).await?)?;
        object(&text)?;
        parse(&text).map(Self)
    }
}

impl<S: Send + Sync> FromRequest<S> for Text {
    type Rejection = Error;

    async fn from_request(request: Request, _: &S) -> Result<Self> {
        let text = utf8(read(request, MAX_DOCUMENTS).await?)?;
        if text.contains('\0') {
            return Err(nul());
        }
        Ok(Self(text))
    }
}

impl<S: Send + Sync, T: DeserializeOwned> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self> {
        if parts.uri.query().is_some_and(|query| query.contains("%00")) {
            return Err(nul());
        }
        let query = axum::extract::Query::<T>::try_from_uri(&parts.uri);
        query.map(|query| Self(query.0)).map_err(|rejection| {
            let cause = std::error::Error::source(&rejection)
                .map_or_else(|| rejection.to_string(), ToString::to_string);
            // axum says `field: what is wrong`.
            match cause.split_once(": ") {
                Some((field, cause)) if !field.contains(' ') => {
                    words::refuse_field(&format!("/{field}"), cause)
                }
                _ => words::refuse_field("", &cause),
            }
        })
    }
}

impl<S: Send + Sync> FromRequestParts<S> for Id {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self> {
        let path = axum::extract::Path::<String>::from_request_parts(parts, state).await;
        let id = path.map(|path| path.0).unwrap_or_default();
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '~' | ':');
        if id.is_empty() || id.len() > MAX_ID || !id.chars().all(plain) {
            return Err(Error::not_found("there is nothing under this id"));
        }
        Ok(Self(id))
    }
}

/// The value of a free-form field. The whole body was checked, so this fails only on what no body can hold.
///
/// # Errors
/// 422
pub fn value(raw: &RawJson) -> Result<Value> {
    Value::parse(raw.get()).map_err(|error| json_error(&error))
}

/// Named free-form values.
///
/// # Errors
/// 422
pub fn values(raw: &Variables) -> Result<std::collections::BTreeMap<String, Value>> {
    raw.iter()
        .map(|(name, raw)| Ok((name.clone(), value(raw)?)))
        .collect()
}

async fn json_text(request: Request, limit: usize) -> Result<String> {
    if !is_json(&media(request.headers())) {
        return Err(unsupported(&["application/json"]));
    }
    utf8(read(request, limit).await?)
}

fn unsupported(known: &[&str]) -> Error {
    let known = known.join(" or ");
    let refusal = Error::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "UNSUPPORTED_MEDIA_TYPE",
        format!("this endpoint takes {known}"),
    );
    refusal.hint(format!("send the header Content-Type: {known}"))
}

/// The media type of the body, without its parameters.
fn media(headers: &HeaderMap) -> String {
    let text = headers
        .get(header::CONTENT_TYPE)
        .and_then(|value| value.to_str().ok());
    let media = text.unwrap_or_default().split(';').next().unwrap_or_default();
    media.trim().to_ascii_lowercase()
}

fn is_json(media: &str) -> bool {
    media == "application/json" || (media.starts_with("application/") && media.ends_with("+json"))
}

async fn read(request: Request, limit: usize) -> Result<Bytes> {
    let said = request
        .headers()
        .get(header::CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
    let too_large = || {
        let detail = format!("the body is larger than {limit} bytes");
        Error::new(StatusCode::PAYLOAD_TOO_LARGE, "PAYLOAD_TOO_LARGE", detail)
            .hint("store large things elsewhere and pass a reference")
    };
    if said.is_some_and(|length| length > limit as u64) {
        return Err(too_large());
    }
    let BodyTime(time) = request.extensions().get().copied().unwrap_or_default();
    let body = axum::body::to_bytes(request.into_body(), limit);
    let Ok(body) = tokio::time::timeout(time, body).await else {
        return Err(too_slow(time));
    };
    body.map_err(|error| {
        let is_limit =
            std::error::Error::source(&error).is_some_and(|source| source.to_string().contains("limit"));
        if is_limit {
            too_large()
        } else {
            Error::invalid("the body ended too early").hint("send as many bytes as Content-Length says")
        }
    })
}

fn too_slow(time: Duration) -> Error {
    let detail = format!("the body did not come to its end within {} ms", time.as_millis());
    Error::new(StatusCode::REQUEST_TIMEOUT, "BODY_TIMEOUT", detail)
        .hint("send the whole body at once; nothing was done, so the request can be repeated")
}

fn utf8(bytes: Bytes) -> Result<String> {
    String::from_utf8(bytes.into()).map_err(|_| {
        Error::new(
            StatusCode::BAD_REQUEST,
            "JSON_INVALID",
            "the body is no UTF-8 text",
        )
    })
}

/// Exact digits, no duplicate keys, bounded depth, no NUL (B11).
fn checked(text: &str) -> Result<Value> {
    let value = Value::parse(text).map_err(|error| json_error(&error))?;
    // Only an escape can bring one in: as a byte it is no JSON.
    if text.contains("\\u0000") && has_nul(&value) {
        return Err(nul());
    }
    Ok(value)
}

/// A whole body. That it is an object is checked here: serde would take a list as the fields one after the other.
fn object(text: &str) -> Result<Value> {
    let value = checked(text)?;
    let found = match &value {
        Value::Map(_) => return Ok(value),
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::List(_) => "a list",
    };
    let detail = format!("the body is {found}, expected a JSON object");
    Err(Error::invalid(detail).hint("send an object with the fields that API.md has for this path"))
}

fn json_error(error: &legation_language::value::JsonError) -> Error {
    let status = if error.code == legation_language::value::JsonError::NUMBER_RANGE {
        StatusCode::UNPROCESSABLE_ENTITY
    } else {
        StatusCode::BAD_REQUEST
    };
    let refusal = Error::new(
        status,
        error.code,
        format!("{} at byte {}", error.message, error.offset),
    );
    if status == StatusCode::UNPROCESSABLE_ENTITY {
        refusal.hint("send it as a string")
    } else {
        refusal
    }
}

pub(super) fn nul() -> Error {
    let detail = "a text holds the character U+0000, which not every database can store";
    Error::new(StatusCode::UNPROCESSABLE_ENTITY, "NUL_IN_JSON", detail)
        .hint("leave it out, or send the bytes as base64")
}

fn has_nul(value: &Value) -> bool {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
        Value::String(text) => text.contains('\0'),
        Value::List(items) => items.iter().any(has_nul),
        Value::Map(entries) => entries
            .iter()
            .any(|(key, value)| key.contains('\0') || has_nul(value)),
    }
}

fn parse<T: DeserializeOwned>(text: &str) -> Result<T> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let pointer = words::pointer(error.path());
        words::refuse_field(&pointer, &error.into_inner().to_string())
    })
}
