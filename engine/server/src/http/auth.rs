//! Who calls: an API key names a principal of one project, with a kind, groups, roles and, for workers, topics.
//!
//! Keys are looked up by their SHA-256 and kept in memory for a few seconds; a revocation in this process counts
//! at once, one in another process within that time.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use axum::extract::{FromRequestParts, OptionalFromRequestParts};
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode, header};
use legation_kernel::commands::Person;
use legation_language::canonical::sha256_hex;
use legation_protocol::keys::PrincipalKind;
use legation_store::{Error as StoreError, api_keys, principals};

use super::Http;
use super::error::{Error, Result};
use crate::app::Sender;

/// How long a looked-up key is believed, ms.
const BELIEVED_MS: i64 = 5_000;

/// Past this many the memory is emptied: keys are few, and a flood of them must not eat it.
const MOST_KEYS: usize = 10_000;

/// Names every group at once.
const EVERY_GROUP: &str = "*";

/// What a principal may do. Deciding is no role: it takes a person whom the task names (D45).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Everything but deciding; keys and sensitive values too.
    Admin,
    /// Deploys and validates documents.
    Deploy,
    /// Starts instances.
    Start,
    /// Cancels, retries, resolves, unlocks.
    Operate,
    /// Reads everything of the project but sensitive values.
    Read,
    /// Fetches work and makes the worker calls, for the topics of the key.
    Work,
}

/// The names of the roles, as keys carry them.
pub const ROLES: [&str; 6] = ["admin", "deploy", "start", "operate", "read", "work"];

impl Role {
    /// As keys carry it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Admin => "admin",
            Self::Deploy => "deploy",
            Self::Start => "start",
            Self::Operate => "operate",
            Self::Read => "read",
            Self::Work => "work",
        }
    }
}

/// Whom a key names.
#[derive(Clone, Debug)]
pub struct Principal {
    pub id: String,
    pub project: String,
    pub kind: PrincipalKind,
    pub groups: Vec<String>,
    pub roles: Vec<String>,
    /// None: every topic. An entry may be `*` or end in `*`.
    pub topics: Option<Vec<String>>,
    pub key: String,
    /// Of the key itself.
    hash: String,
    expires_at: Option<i64>,
}

impl Principal {
    /// Whether a role is held. A worker's key has the role `work` and never another.
    #[must_use]
    pub fn has(&self, role: Role) -> bool {
        if self.kind == PrincipalKind::Worker {
            return role == Role::Work;
        }
        let holds = |name: &str| self.roles.iter().any(|held| held == name);
        holds(Role::Admin.as_str()) || holds(role.as_str())
    }

    /// Whether it is a member of a group.
    #[must_use]
    pub fn is_in(&self, group: &str) -> bool {
        self.is_in_every_group() || self.groups.iter().any(|own| own == group)
    }

    /// The group `*` stands for all: the approver of a development folder.
    #[must_use]
    pub fn is_in_every_group(&self) -> bool {
        self.groups.iter().any(|group| group == EVERY_GROUP)
    }

    /// Whether work of this topic is the key's.
    #[must_use]
    pub fn reaches(&self, topic: &str) -> bool {
        let fits = |pattern: &String| match pattern.strip_suffix('*') {
            Some(prefix) => topic.starts_with(prefix),
            None => pattern == topic,
        };
        self.topics.as_ref().is_none_or(|topics| topics.iter().any(fits))
    }
}

/// The caller of a request.
#[derive(Clone)]
pub struct Who {
    pub principal: Arc<Principal>,
    traceparent: Option<String>,
}

impl Who {
    /// # Errors
    /// 403 `FORBIDDEN` without the role.
    pub fn need(&self, role: Role) -> Result<()> {
        if self.principal.has(role) {
            return Ok(());
        }
        let detail = format!("{} has no role `{}`", self.principal.id, role.as_str());
        let hint = if self.principal.kind == PrincipalKind::Worker {
            "a worker's key fetches and completes work, nothing else".to_owned()
        } else {
            format!(
                "use a key with the role `{}`; `legation keys create` makes one",
                role.as_str()
            )
        };
        Err(Error::forbidden("FORBIDDEN", detail).hint(hint))
    }

    /// # Errors
    /// 403 `TOPIC_FORBIDDEN` for a topic that the key does not reach.
    pub fn need_topic(&self, topic: &str) -> Result<()> {
        if self.principal.reaches(topic) {
            return Ok(());
        }
        let detail = format!("this key does not reach the topic {topic}");
        let topics = self.principal.topics.as_deref().unwrap_or_default().join(", ");
        Err(Error::forbidden("TOPIC_FORBIDDEN", detail)
            .argument("topics")
            .hint(format!("it reaches: {topics}")))
    }

    /// The same, asked again: for what is answered long after it was asked for. A key may be revoked or run out
    /// while a poll waits or a stream runs.
    ///
    /// # Errors
    /// 401 `UNAUTHENTICATED`, 403 `FORBIDDEN`.
    pub async fn need_still(&self, http: &Http, role: Role) -> Result<()> {
        let principal = http.keys().standing(http, &self.principal.hash).await?;
        let now = Self {
            principal,
            traceparent: None,
        };
        now.need(role)
    }

    #[must_use]
    pub fn project(&self) -> &str {
        &self.principal.project
    }

    /// What a command is told of its sender.
    #[must_use]
    pub fn sender(&self) -> Sender {
        Sender {
            project: self.principal.project.clone(),
            actor: self.principal.id.clone(),
            traceparent: self.traceparent.clone(),
        }
    }

    /// The caller as one who decides about something meant for these groups.
    #[must_use]
    pub fn person(&self, groups: &[String]) -> Person {
        let mut own = self.principal.groups.clone();
        if self.principal.is_in_every_group() {
            own.extend_from_slice(groups);
        }
        Person {
            id: self.principal.id.clone(),
            groups: own,
            worker: self.principal.kind == PrincipalKind::Worker,
        }
    }
}

impl FromRequestParts<Http> for Who {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Self> {
        let secret = bearer(&parts.headers).ok_or_else(unauthenticated)?;
        let principal = http.keys().find(http, secret).await?;
        Ok(Self {
            principal,
            traceparent: traceparent(&parts.headers),
        })
    }
}

impl OptionalFromRequestParts<Http> for Who {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, http: &Http) -> Result<Option<Self>> {
        if !parts.headers.contains_key(header::AUTHORIZATION) {
            return Ok(None);
        }
        <Self as FromRequestParts<Http>>::from_request_parts(parts, http)
            .await
            .map(Some)
    }
}

fn bearer(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(header::AUTHORIZATION)?.to_str().ok()?;
    let (scheme, secret) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(secret.trim())
}

pub(super) fn unauthenticated() -> Error {
    let detail = "no key, or one that is unknown, revoked or expired";
    Error::new(StatusCode::UNAUTHORIZED, "UNAUTHENTICATED", detail)
        .hint("send the header Authorization: Bearer <key>")
}

/// W3C trace context; a broken one is ignored, as the standard asks.
fn traceparent(headers: &HeaderMap) -> Option<String> {
    let value = headers.get("traceparent")?.to_str().ok()?;
    let parts: Vec<&str> = value.split('-').collect();
    let [version, trace, span, flags] = parts.as_slice() else {
        return None;
    };
    let hex = |part: &str, length: usize| {
        part.len() == length
            && part
                .bytes()
                .all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b))
    };
    let some = |part: &str| part.bytes().any(|b| b != b'0');
    let good = hex(version, 2)
        && *version != "ff"
        && hex(trace, 32)
        && some(trace)
        && hex(span, 16)
        && some(span)
        && hex(flags, 2);
    good.then(|| value.to_owned())
}

/// The keys that were looked up lately.
#[derive(Default)]
pub struct Keys(Mutex<HashMap<String, Known>>);

struct Known {
    principal: Arc<Principal>,
    at: i64,
}

impl Keys {
    async fn find(&self, http: &Http, secret: &str) -> Result<Arc<Principal>> {
        let principal = self.standing(http, &sha256_hex(secret)).await?;
        http.seen()
            .used(http.app(), &principal.key, http.app().clock().now());
        Ok(principal)
    }

    /// Whom a key names now.
    ///
    /// # Errors
    /// 401 `UNAUTHENTICATED`.
    async fn standing(&self, http: &Http, hash: &str) -> Result<Arc<Principal>> {
        let now = http.app().clock().now();
        let principal = match self.known(hash, now) {
            Some(principal) => principal,
            None => {
                let principal = Arc::new(load(http, hash).await?.ok_or_else(unauthenticated)?);
                let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
                if known.len() >= MOST_KEYS {
                    known.clear();
                }
                known.insert(
                    hash.to_owned(),
                    Known {
                        principal: principal.clone(),
                        at: now,
                    },
                );
                principal
            }
        };
        if principal.expires_at.is_some_and(|at| at <= now) {
            return Err(unauthenticated());
        }
        Ok(principal)
    }

    fn known(&self, hash: &str, now: i64) -> Option<Arc<Principal>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known
            .get(hash)
            .filter(|known| now - known.at < BELIEVED_MS)
            .map(|known| known.principal.clone())
    }

    /// Forgets everything, after a revocation or a change of a principal.
    pub fn forget(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

async fn load(http: &Http, hash: &str) -> Result<Option<Principal>> {
    let mut read = http.app().db().read().await?;
    let Some(key) = api_keys::find(&mut read, hash)
        .await?
        .filter(|key| key.revoked_at.is_none())
    else {
        return Ok(None);
    };
    let Some(row) = principals::get(&mut read, &key.project, &key.principal).await? else {
        return Ok(None);
    };
    Ok(Some(Principal {
        kind: kind_of(&row.kind),
        groups: texts("principals", &row.id, &row.groups)?,
        roles: texts("principals", &row.id, &row.roles)?,
        topics: key
            .topics
            .as_deref()
            .map(|topics| texts("api_keys", &key.id, topics))
            .transpose()?,
        id: row.id,
        project: row.project,
        expires_at: key.expires_at,
        hash: hash.to_owned(),
        key: key.id,
    }))
}

/// The kind as the database has it; the least powerful for a word of a later engine.
pub(super) fn kind_of(kind: &str) -> PrincipalKind {
    match kind {
        "person" => PrincipalKind::Person,
        "service" => PrincipalKind::Service,
        _ => PrincipalKind::Worker,
    }
}

pub(super) fn texts(table: &'static str, id: &str, json: &str) -> Result<Vec<String>> {
    let list = serde_json::from_str(json);
    list.map_err(|error| {
        Error::from(StoreError::Corrupt {
            table,
            id: format!("{id}: {error}"),
        })
    })
}
