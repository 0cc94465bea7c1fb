//! From the name that a node asks for to a model that answers: override, alias, `provider:model`, or a
//! name that tells its provider.

use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use super::anthropic::{self, Anthropic};
use super::gemini::{self, Gemini};
use super::ollama::{self, Ollama};
use super::openai::{self, OpenAi};
use super::scripted::{self, Scripted};
use super::{Model, ModelError};
use crate::config::{Alias, Models as ModelsConfig, from_env};
use crate::http::Outgoing;
use crate::secret::Secret;

/// Reads the worker's environment; a parameter, so that tests need not change the process.
pub type Env = Arc<dyn Fn(&str) -> Option<String> + Send + Sync>;

/// All models that this worker can ask.
pub struct Models {
    config: ModelsConfig,
    env: Env,
    outgoing: Outgoing,
    /// Scripts are read once.
    ready: Mutex<HashMap<String, Arc<dyn Model>>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Provider {
    OpenAi,
    Anthropic,
    Gemini,
    Ollama,
    Scripted,
}

impl Provider {
    fn named(name: &str) -> Option<Self> {
        match name {
            "openai" => Some(Self::OpenAi),
            "anthropic" => Some(Self::Anthropic),
            "gemini" | "google" => Some(Self::Gemini),
            "ollama" => Some(Self::Ollama),
            "scripted" => Some(Self::Scripted),
            _ => None,
        }
    }

    /// Names of the providers' own models begin so.
    fn of_model(model: &str) -> Option<Self> {
        let is = |prefixes: &[&str]| prefixes.iter().any(|p| model.starts_with(p));
        if is(&["claude"]) {
            Some(Self::Anthropic)
        } else if is(&["gpt-", "o1", "o3", "o4", "chatgpt"]) {
            Some(Self::OpenAi)
        } else if is(&["gemini"]) {
            Some(Self::Gemini)
        } else {
            None
        }
    }

    fn default_model(self) -> &'static str {
        match self {
            Self::OpenAi => "gpt-4.1-mini",
            Self::Anthropic => "claude-sonnet-4-5",
            Self::Gemini => "gemini-2.5-flash",
            Self::Ollama => "llama3.2",
            Self::Scripted => scripted::NAME,
        }
    }

    fn key_variable(self) -> Option<&'static str> {
        match self {
            Self::OpenAi => Some("OPENAI_API_KEY"),
            Self::Anthropic => Some("ANTHROPIC_API_KEY"),
            Self::Gemini => Some("GEMINI_API_KEY"),
            Self::Ollama | Self::Scripted => None,
        }
    }

    fn base_url(self, env: &dyn Fn(&str) -> Option<String>) -> String {
        let (variable, default) = match self {
            Self::OpenAi => ("OPENAI_BASE_URL", openai::DEFAULT_BASE_URL),
            Self::Anthropic => ("ANTHROPIC_BASE_URL", anthropic::DEFAULT_BASE_URL),
            Self::Gemini => ("GEMINI_BASE_URL", gemini::DEFAULT_BASE_URL),
            Self::Ollama => ("OLLAMA_HOST", ollama::DEFAULT_BASE_URL),
            Self::Scripted => return String::new(),
        };
        let Some(value) = env(variable).filter(|v| !v.is_empty()) else {
            return default.to_owned();
        };
        if self != Self::Ollama || value.contains("://") {
            return value;
        }
        // Ollama's own variable is host[:port], and 0.0.0.0 there means "listen everywhere".
        let value = value.replacen("0.0.0.0", "127.0.0.1", 1);
        if value.contains(':') {
            format!("http://{value}")
        } else {
            format!("http://{value}:11434")
        }
    }
}

/// The base URLs of all providers and aliases: they are the operator's own, so they may be private.
pub fn addresses(config: &ModelsConfig, env: &dyn Fn(&str) -> Option<String>) -> Vec<String> {
    let providers = [
        Provider::OpenAi,
        Provider::Anthropic,
        Provider::Gemini,
        Provider::Ollama,
    ];
    let mut all: Vec<String> = providers.iter().map(|p| p.base_url(env)).collect();
    all.extend(config.aliases.values().filter_map(|a| a.base_url.clone()));
    all
}

/// The environment variables that hold keys of models.
pub fn key_variables(config: &ModelsConfig) -> HashSet<String> {
    let providers = [Provider::OpenAi, Provider::Anthropic, Provider::Gemini];
    let usual = providers
        .iter()
        .filter_map(|p| p.key_variable())
        .map(str::to_owned);
    let own = config
        .aliases
        .values()
        .filter_map(|a| a.key.as_ref()?.strip_prefix("env:").map(str::to_owned));
    usual.chain(own).collect()
}

impl Models {
    pub fn new(config: ModelsConfig, env: Env, outgoing: Outgoing) -> Self {
        Self {
            config,
            env,
            outgoing,
            ready: Mutex::default(),
        }
    }

    /// What is journaled as asked: the node's own name, or what the worker puts in its place.
    pub fn asked(&self, node_model: Option<&str>) -> String {
        let own = node_model
            .map(str::to_owned)
            .or_else(|| self.config.default.clone());
        own.or_else(|| self.override_all())
            .or_else(|| self.configured_provider())
            .unwrap_or_default()
    }

    fn override_all(&self) -> Option<String> {
        let from_env = (self.env)("LEGATION_MODEL").filter(|m| !m.is_empty());
        from_env.or_else(|| self.config.override_all.clone())
    }

    /// The provider whose key is there, when nothing else says which.
    fn configured_provider(&self) -> Option<String> {
        let set = |name: &str| (self.env)(name).is_some_and(|v| !v.is_empty());
        let found = [
            ("OPENAI_API_KEY", "openai"),
            ("ANTHROPIC_API_KEY", "anthropic"),
            ("GEMINI_API_KEY", "gemini"),
            ("OLLAMA_HOST", "ollama"),
        ];
        found
            .iter()
            .find(|(variable, _)| set(variable))
            .map(|(_, provider)| (*provider).to_owned())
    }

    /// One line for the start-up log.
    pub fn describe(&self) -> String {
        match self.override_all() {
            Some(name) => format!("every node's model is replaced by '{name}'"),
            None => {
                let default = self.config.default.clone().or_else(|| self.configured_provider());
                format!("default model: {}", default.as_deref().unwrap_or("none"))
            }
        }
    }

    /// The model behind an asked name; the override, when there is one, stands in for all of them.
    pub fn get(&self, asked: &str) -> Result<Arc<dyn Model>, ModelError> {
        let name = self.override_all().unwrap_or_else(|| asked.to_owned());
        if name.is_empty() {
            return Err(ModelError::fatal(
                "the node names no model and the worker has no default: set [models] default or a provider's key",
            ));
        }
        let broken = || ModelError::fatal("an earlier model configuration failed");
        if let Some(model) = self.ready.lock().map_err(|_| broken())?.get(&name) {
            return Ok(Arc::clone(model));
        }
        let model = self.build(&name)?;
        self.ready
            .lock()
            .map_err(|_| broken())?
            .insert(name, Arc::clone(&model));
        Ok(model)
    }

    fn build(&self, name: &str) -> Result<Arc<dyn Model>, ModelError> {
        let alias = match self.config.aliases.get(name) {
            Some(alias) => alias.clone(),
            None => alias_of_name(name).ok_or_else(|| {
                ModelError::fatal(format!(
                    "model '{name}' is not known: add it to [models], or write provider:model"
                ))
            })?,
        };
        let provider = Provider::named(&alias.provider)
            .ok_or_else(|| ModelError::fatal(format!("there is no model provider '{}'", alias.provider)))?;
        let model = alias
            .model
            .clone()
            .unwrap_or_else(|| provider.default_model().to_owned());
        let base_url = alias
            .base_url
            .clone()
            .unwrap_or_else(|| provider.base_url(&*self.env));
        let outgoing = self.outgoing.clone();
        if provider == Provider::Scripted {
            return Ok(Arc::new(self.script(alias.file)?));
        }
        let key = self.key(provider, &alias)?;
        Ok(match provider {
            Provider::OpenAi => Arc::new(OpenAi {
                outgoing,
                base_url,
                key,
                model,
            }),
            Provider::Anthropic => Arc::new(Anthropic {
                outgoing,
                base_url,
                key,
                model,
            }),
            Provider::Gemini => Arc::new(Gemini {
                outgoing,
                base_url,
                key,
                model,
            }),
            Provider::Ollama | Provider::Scripted => {
                let context = alias.context.unwrap_or(ollama::DEFAULT_CONTEXT);
                Arc::new(Ollama {
                    outgoing,
                    base_url,
                    key,
                    model,
                    context,
                })
            }
        })
    }

    fn script(&self, file: Option<PathBuf>) -> Result<Scripted, ModelError> {
        // The variable wins, so that a demo can bring its own script.
        let file = (self.env)("LEGATION_SCRIPT").map(PathBuf::from).or(file).ok_or_else(|| {
            ModelError::fatal(
                "model 'scripted' needs a script: LEGATION_SCRIPT, --script, or file in its [models] entry",
            )
        })?;
        Scripted::load(&file).map_err(|e| ModelError::fatal(e.to_string()))
    }

    fn key(&self, provider: Provider, alias: &Alias) -> Result<Option<Secret>, ModelError> {
        if let Some(reference) = &alias.key {
            return from_env(reference, &*self.env)
                .map(Some)
                .map_err(|e| ModelError::fatal(e.to_string()));
        }
        let Some(variable) = provider.key_variable() else {
            return Ok(None);
        };
        let value = (self.env)(variable).filter(|v| !v.is_empty());
        // Local servers behind an own address often want no key.
        let own_address =
            alias.base_url.is_some() || provider.base_url(&|_| None) != provider.base_url(&*self.env);
        if value.is_none() && !own_address {
            return Err(ModelError::fatal(format!(
                "environment variable {variable} is not set"
            )));
        }
        Ok(value.map(Secret::new))
    }
}

/// `provider:model`, `provider/model`, a provider alone, or a model whose name tells its provider.
fn alias_of_name(name: &str) -> Option<Alias> {
    if Provider::named(name).is_some() {
        return Some(Alias {
            provider: name.to_owned(),
            ..Alias::default()
        });
    }
    if let Some((provider, model)) = name.split_once(':').or_else(|| name.split_once('/'))
        && Provider::named(provider).is_some()
    {
        let model = Some(model.to_owned());
        return Some(Alias {
            provider: provider.to_owned(),
            model,
            ..Alias::default()
        });
    }
    let provider = match Provider::of_model(name)? {
        Provider::OpenAi => "openai",
        Provider::Anthropic => "anthropic",
        Provider::Gemini => "gemini",
        Provider::Ollama => "ollama",
        Provider::Scripted => "scripted",
    };
    Some(Alias {
        provider: provider.to_owned(),
        model: Some(name.to_owned()),
        ..Alias::default()
    })
}
