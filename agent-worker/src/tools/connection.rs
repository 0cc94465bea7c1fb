//! One live MCP session, over either transport.

use std::collections::HashMap;
use std::path::PathBuf;

use rmcp::model::{
    CallToolRequestParams, ClientCapabilities, ClientConfig, Implementation, JsonObject, RequestMetaObject,
    Tool,
};
use rmcp::service::{RoleClient, RunningService, ServiceError};
use rmcp::transport::StreamableHttpClientTransport;
use rmcp::transport::streamable_http_client::StreamableHttpClientTransportConfig;
use rmcp::{ServiceExt, service};

use super::http_client::{KeyedClient, META_KEY};
use super::outcome::{self, CallError, ToolOutcome};
use super::stdio::Program;
use crate::http::Outgoing;
use crate::secret::Secret;

/// Where a server is.
pub(super) enum Target {
    Program {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<PathBuf>,
    },
    Address {
        url: String,
        credential: Option<Secret>,
    },
}

type Session = RunningService<RoleClient, ClientConfig>;

pub(super) struct Connection {
    server: String,
    session: Session,
    tools: HashMap<String, Tool>,
    /// Ends with the connection; declared after the session, so that the session closes first.
    _program: Option<Program>,
}

impl Connection {
    /// Starts or reaches the server and reads what it offers.
    pub(super) async fn open(name: &str, target: Target, outgoing: &Outgoing) -> Result<Self, CallError> {
        let unreachable =
            |what: String| CallError::new("TOOL_SERVER_UNREACHABLE", format!("tool server '{name}': {what}"));
        let info = ClientConfig::new(
            ClientCapabilities::default(),
            Implementation::new("legation-agent", env!("CARGO_PKG_VERSION")),
        );
        let (session, program): (Session, Option<Program>) = match target {
            Target::Program {
                command,
                args,
                env,
                cwd,
            } => {
                let (program, stdout, stdin) = Program::start(name, &command, &args, env, cwd)?;
                let session = info
                    .serve((stdout, stdin))
                    .await
                    .map_err(|e| unreachable(e.to_string()))?;
                (session, Some(program))
            }
            Target::Address { url, credential } => {
                let url = outgoing.check(&url).map_err(|e| unreachable(e.to_string()))?;
                let mut config = StreamableHttpClientTransportConfig::with_uri(url.as_str());
                if let Some(credential) = credential {
                    config = config.auth_header(credential.expose());
                }
                let client = KeyedClient(outgoing.client().clone());
                let transport = StreamableHttpClientTransport::with_client(client, config);
                let session = info
                    .serve(transport)
                    .await
                    .map_err(|e| unreachable(e.to_string()))?;
                (session, None)
            }
        };
        let listed = session
            .list_all_tools()
            .await
            .map_err(|e| unreachable(format!("it lists no tools: {e}")))?;
        tracing::info!(server = name, tools = listed.len(), "tool server connected");
        let tools = listed
            .into_iter()
            .map(|tool| (tool.name.to_string(), tool))
            .collect();
        Ok(Self {
            server: name.to_owned(),
            session,
            tools,
            _program: program,
        })
    }

    pub(super) fn is_alive(&self) -> bool {
        !self.session.is_closed() && !self.session.is_transport_closed()
    }

    pub(super) fn tool(&self, name: &str) -> Result<&Tool, CallError> {
        self.tools.get(name).ok_or_else(|| {
            CallError::new(
                "TOOL_UNKNOWN",
                format!("tool server '{}' has no tool '{name}'", self.server),
            )
        })
    }

    /// Sends the call and reads the answer, however long it takes: the caller holds the clock.
    pub(super) async fn call(
        &self,
        tool: &str,
        arguments: JsonObject,
        idempotency_key: Option<&str>,
        limit: usize,
    ) -> ToolOutcome {
        let mut params = CallToolRequestParams::new(tool.to_owned()).with_arguments(arguments);
        if let Some(key) = idempotency_key {
            let meta = serde_json::json!({ META_KEY: key });
            params.meta = serde_json::from_value::<RequestMetaObject>(meta).ok();
        }
        match self.session.call_tool(params).await {
            Ok(result) => outcome::of_result(result, limit),
            Err(error) => self.failed(error),
        }
    }

    fn failed(&self, error: ServiceError) -> ToolOutcome {
        let message = format!("tool server '{}': {error}", self.server);
        match error {
            // An answer, only not a result.
            service::ServiceError::McpError(e) => {
                let text = outcome::Text {
                    text: e.message.to_string(),
                    cut_from: None,
                };
                ToolOutcome::Failed(CallError::new("TOOL_ERROR", e.message.to_string()), text)
            }
            ServiceError::TransportSend(source) if never_left(&source) => {
                ToolOutcome::Unsent(CallError::new("TOOL_SERVER_UNREACHABLE", message))
            }
            _ => ToolOutcome::Uncertain(CallError::new(outcome::LOST, message)),
        }
    }
}

/// No connection, no call.
fn never_left(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut at = Some(error);
    while let Some(error) = at {
        if error
            .downcast_ref::<reqwest::Error>()
            .is_some_and(reqwest::Error::is_connect)
        {
            return true;
        }
        at = error.source();
    }
    false
}
