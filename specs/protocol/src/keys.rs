//! API keys and the principals that they name.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::Timestamp;

/// What a principal is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub enum PrincipalKind {
    /// May decide and complete, as its groups allow.
    Person,
    /// Reaches only its topics and never decides (D45).
    Worker,
    /// A program that deploys, starts or operates.
    Service,
}

/// `POST /v1/keys`: makes the principal where it does not exist, and a key for it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct CreateKeyRequest {
    /// The principal's name.
    pub principal: String,
    /// What it is.
    pub kind: PrincipalKind,
    /// Its groups. Named, they replace those of a principal that exists.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Its roles, of `read`, `start`, `operate`, `deploy`, `work` and `admin`. Named, they replace those of a principal
    /// that exists; without, a new person gets `read`, a service `read` and `start`, a worker `work`, its only one.
    #[serde(default)]
    pub roles: Vec<String>,
    /// The topics that the key reaches, needed for a worker's; `*` and a trailing `*` are allowed.
    #[serde(default)]
    pub topics: Vec<String>,
    /// The key ends after so many ms.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_ms: Option<u64>,
}

/// A key without its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyView {
    /// Names the key, for deleting it.
    pub id: String,
    /// The principal.
    pub principal: String,
    /// What it is.
    pub kind: PrincipalKind,
    /// Its groups.
    #[serde(default)]
    pub groups: Vec<String>,
    /// Its roles.
    #[serde(default)]
    pub roles: Vec<String>,
    /// Its topics.
    #[serde(default)]
    pub topics: Vec<String>,
    /// When the key was made.
    pub created_at: Timestamp,
    /// When it ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// When it was last used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_used_at: Option<Timestamp>,
}

/// The answer to a [`CreateKeyRequest`]: the only time that the secret is shown.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct CreatedKey {
    /// The key.
    pub key: KeyView,
    /// The bearer token; only its hash is kept.
    pub secret: String,
}

impl std::fmt::Debug for CreatedKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CreatedKey")
            .field("key", &self.key)
            .finish_non_exhaustive()
    }
}

/// `GET /v1/keys`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyList {
    /// The keys, newest first.
    pub keys: Vec<KeyView>,
}
