//! Documents as the files of a form (`multipart/form-data`), for clients such as `curl -F` that would have to write
//! JSON otherwise. A file's name is the document's path; the field's name says nothing.

use std::collections::BTreeMap;

use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, FromRequest, Multipart, Request};
use axum::http::request::Parts;
use utoipa::ToSchema;

use super::error::{Error, Result};
use super::extract::nul;

/// A set of documents as a form: each part is a file, whose name is the document's path in the project.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes the form; the parts are read one by one")]
pub struct DeployForm {
    /// The documents, each with its path as the file name, such as `processes/refund.process.yaml`. Fields of any
    /// other name do as well.
    #[schema(value_type = Vec<String>, format = Binary)]
    file: Vec<Bytes>,
}

/// The text of each file by its name. The body is complete and within its limit.
pub async fn read(parts: Parts, body: Bytes) -> Result<BTreeMap<String, String>> {
    let mut request = Request::from_parts(parts, Body::from(body));
    // What is too large was refused when it was read.
    DefaultBodyLimit::disable().apply(&mut request);
    let mut form = Multipart::from_request(request, &()).await.map_err(|_| {
        Error::invalid("the header Content-Type names no boundary of the parts")
            .argument("Content-Type")
            .hint("let the client write this header, as `curl -F` does")
    })?;
    let mut files = BTreeMap::new();
    for number in 1_usize.. {
        let broken = |error: axum::extract::multipart::MultipartError| {
            let cause = error.body_text();
            Error::invalid(format!("part {number} of the form is broken: {cause}"))
                .argument(format!("part {number}"))
        };
        let Some(part) = form.next_field().await.map_err(broken)? else {
            break;
        };
        let Some(path) = part.file_name().map(ToOwned::to_owned) else {
            return Err(nameless(number, part.name()));
        };
        let text = text(number, &path, part.bytes().await.map_err(broken)?)?;
        if files.contains_key(&path) {
            let refusal = Error::invalid(format!("part {number} of the form is `{path}` once more"));
            return Err(refusal
                .argument(path)
                .hint("send each document once, under its own path"));
        }
        files.insert(path, text);
    }
    Ok(files)
}

fn nameless(number: usize, field: Option<&str>) -> Error {
    let field = field
        .map(|field| format!(" (field `{field}`)"))
        .unwrap_or_default();
    Error::invalid(format!("part {number} of the form{field} has no file name"))
        .argument(format!("part {number}"))
        .hint("send the document as a file, its path as the file name: curl -F 'file=@a.yaml;filename=processes/a.yaml'")
}

fn text(number: usize, path: &str, bytes: Bytes) -> Result<String> {
    let text = String::from_utf8(bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        let detail = format!("part {number} of the form, `{path}`, is no UTF-8 text at byte {at}");
        Error::invalid(detail).argument(path)
    })?;
    if text.contains('\0') {
        return Err(nul().argument(path));
    }
    Ok(text)
}
