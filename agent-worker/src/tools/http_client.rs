//! MCP over HTTP through this process's one client, with the idempotency key of a call as a header of
//! its own request: the transport's own headers are fixed per connection.

use std::collections::HashMap;
use std::sync::Arc;

use futures::stream::BoxStream;
use http::{HeaderName, HeaderValue};
use rmcp::model::{ClientJsonRpcMessage, ClientRequest, JsonRpcMessage};
use rmcp::transport::streamable_http_client::{
    SseError, StreamableHttpClient, StreamableHttpError, StreamableHttpPostResponse,
    StreamableHttpResponseLimits,
};
use sse_stream::Sse;

/// The name under which the key travels in `_meta`.
pub(super) const META_KEY: &str = "idempotencyKey";

const HEADER: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Clone)]
pub(super) struct KeyedClient(pub reqwest::Client);

type Headers = HashMap<HeaderName, HeaderValue>;

fn with_key(message: &ClientJsonRpcMessage, mut headers: Headers) -> Headers {
    let JsonRpcMessage::Request(request) = message else {
        return headers;
    };
    let ClientRequest::CallToolRequest(call) = &request.request else {
        return headers;
    };
    let meta = serde_json::to_value(&call.params.meta).unwrap_or_default();
    let key = meta
        .get(META_KEY)
        .and_then(|k| k.as_str())
        .and_then(|k| HeaderValue::from_str(k).ok());
    if let Some(key) = key {
        headers.insert(HEADER, key);
    }
    headers
}

impl StreamableHttpClient for KeyedClient {
    type Error = reqwest::Error;

    async fn post_message(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        let headers = with_key(&message, custom_headers);
        self.0
            .post_message(uri, message, session_id, auth_header, headers)
            .await
    }

    async fn post_message_with_response_limits(
        &self,
        uri: Arc<str>,
        message: ClientJsonRpcMessage,
        session_id: Option<Arc<str>>,
        auth_header: Option<String>,
        custom_headers: Headers,
        limits: StreamableHttpResponseLimits,
    ) -> Result<StreamableHttpPostResponse, StreamableHttpError<Self::Error>> {
        let headers = with_key(&message, custom_headers);
        self.0
            .post_message_with_response_limits(uri, message, session_id, auth_header, headers, limits)
            .await
    }

    async fn delete_session(
        &self,
        uri: Arc<str>,
        session_id: Arc<str>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<(), StreamableHttpError<Self::Error>> {
        self.0
            .delete_session(uri, session_id, auth_header, custom_headers)
            .await
    }

    async fn get_stream(
        &self,
        uri: Arc<str>,
        session_id: Option<Arc<str>>,
        last_event_id: Option<String>,
        auth_header: Option<String>,
        custom_headers: Headers,
    ) -> Result<BoxStream<'static, Result<Sse, SseError>>, StreamableHttpError<Self::Error>> {
        self.0
            .get_stream(uri, session_id, last_event_id, auth_header, custom_headers)
            .await
    }
}
