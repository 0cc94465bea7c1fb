//! `legation-agent.toml`: tool servers and models of this worker, read from the operator's own disk.
//!
//! What starts a program or names a key never comes from the engine; documents name servers and models,
//! this file says what they are here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::secret::Secret;

/// The file as written. Every part is optional.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Tool servers by the name that process documents use.
    #[serde(default)]
    pub servers: BTreeMap<String, Server>,
    #[serde(default)]
    pub models: Models,
    #[serde(default)]
    pub outgoing: OutgoingRules,
    #[serde(default)]
    pub limits: Limits,
}

/// `[servers.NAME]`: a program to start, or an address.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Server {
    pub command: Option<String>,
    #[serde(default)]
    pub args: Vec<String>,
    /// Values may be `env:NAME`, taken from the worker's own environment.
    #[serde(default)]
    pub env: BTreeMap<String, String>,
    /// Where the program starts; relative to the configuration file.
    pub cwd: Option<PathBuf>,
    /// Streamable HTTP; replaces the address of the server document.
    pub url: Option<String>,
    /// `env:NAME`, sent as bearer token.
    pub credential: Option<String>,
}

/// `[models]`: `default`, `override`, and any other entry is an alias.
#[derive(Debug, Clone, Default, Deserialize)]
pub struct Models {
    /// For nodes that name no model.
    pub default: Option<String>,
    /// Answers in place of every node's model; `LEGATION_MODEL` wins over it.
    #[serde(rename = "override")]
    pub override_all: Option<String>,
    #[serde(flatten)]
    pub aliases: BTreeMap<String, Alias>,
}

/// One alias: `fast = { provider = "openai", model = "…", key = "env:OPENAI_API_KEY" }`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Alias {
    /// `openai`, `anthropic`, `gemini`, `ollama` or `scripted`.
    pub provider: String,
    /// The provider's own name of the model; absent: the provider's default.
    pub model: Option<String>,
    pub base_url: Option<String>,
    /// `env:NAME`; absent: the provider's usual variable.
    pub key: Option<String>,
    /// Ollama: tokens of context.
    pub context: Option<u32>,
    /// scripted: the script, relative to the configuration file.
    pub file: Option<PathBuf>,
}

/// `[outgoing]`.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct OutgoingRules {
    /// `host:port` pairs that may be private although only a document names them.
    #[serde(default)]
    pub allow: Vec<String>,
}

/// `[limits]`.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// What a tool result may measure before it is cut, in bytes.
    pub result_bytes: usize,
    /// For tools whose binding names no timeout, in ms.
    pub tool_timeout_ms: u64,
    /// For starting or reaching a tool server, in ms.
    pub connect_timeout_ms: u64,
    /// For nodes without `model_timeout`, in ms.
    pub model_timeout_ms: u64,
    /// For nodes without `max_tokens`.
    pub max_tokens: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            result_bytes: 64 * 1024,
            tool_timeout_ms: 60_000,
            connect_timeout_ms: 30_000,
            model_timeout_ms: 120_000,
            max_tokens: 4096,
        }
    }
}

/// Why the configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("configuration {0:?} cannot be read: {1}")]
    Unreadable(PathBuf, std::io::Error),
    #[error("configuration {0:?} is not valid: {1}")]
    Invalid(PathBuf, String),
    #[error("'{0}' must be written as env:NAME, so that no secret stands in a file")]
    NotEnv(String),
    #[error("environment variable {0} is not set")]
    NotSet(String),
}

impl Config {
    /// Reads the file; paths in it become relative to its folder.
    pub fn load(path: &Path) -> Result<Self, ConfigError> {
        let text = std::fs::read_to_string(path).map_err(|e| ConfigError::Unreadable(path.to_owned(), e))?;
        let mut config: Self =
            toml::from_str(&text).map_err(|e| ConfigError::Invalid(path.to_owned(), e.to_string()))?;
        let folder = path.parent().map(Path::to_path_buf).unwrap_or_default();
        for server in config.servers.values_mut() {
            if server.command.is_some() == server.url.is_some() {
                let message = "every server needs either command or url".to_owned();
                return Err(ConfigError::Invalid(path.to_owned(), message));
            }
            let cwd = server.cwd.take().unwrap_or_default();
            server.cwd = Some(folder.join(cwd)).filter(|p| !p.as_os_str().is_empty());
        }
        for alias in config.models.aliases.values_mut() {
            alias.file = alias.file.take().map(|file| folder.join(file));
        }
        Ok(config)
    }
}

/// The value of `env:NAME`.
pub fn from_env(reference: &str, env: &dyn Fn(&str) -> Option<String>) -> Result<Secret, ConfigError> {
    let name = reference
        .strip_prefix("env:")
        .ok_or_else(|| ConfigError::NotEnv(reference.to_owned()))?;
    let value = env(name)
        .filter(|v| !v.is_empty())
        .ok_or_else(|| ConfigError::NotSet(name.to_owned()))?;
    Ok(Secret::new(value))
}
