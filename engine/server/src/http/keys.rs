//! `/v1/keys`: API keys and the principals that they name. A secret is shown once; only its hash is kept.

use axum::Json as Answer;
use axum::extract::State;
use axum::http::StatusCode;
use legation_kernel::dates::rfc3339;
use legation_language::canonical::sha256_hex;
use legation_protocol::keys::{CreateKeyRequest, CreatedKey, KeyList, KeyView, PrincipalKind};
use legation_store::api_keys::{self, ApiKeyRow};
use legation_store::principals::{self, PrincipalRow};
use legation_store::{Conn, Error as StoreError};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{ROLES, Role, Who, kind_of, texts};
use super::error::{Error, Result};
use super::extract::{Id, Json};
use super::words;
use crate::app::App;
use crate::chance::hex;

/// The characters of a key by which people recognise it.
const PREFIX: usize = 10;

/// The longest name of a principal, group or topic.
const MAX_NAME: usize = 100;

/// The longest that a key may last: a hundred years, as for every duration. More is past the last date there is.
const MAX_LIFE_MS: u64 = 100 * 365 * 86_400_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new()
        .routes(routes!(list, create_for))
        .routes(routes!(revoke))
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    pub project: String,
    /// Names the principal; it is made where it does not exist.
    pub principal: String,
    pub kind: PrincipalKind,
    pub groups: Vec<String>,
    /// Of [`ROLES`]. Empty: `read` for a person, `work` for a worker, `read` and `start` for a service.
    pub roles: Vec<String>,
    /// Empty: no topic for a worker, every topic for others with the role `work`.
    pub topics: Vec<String>,
    /// Epoch ms.
    pub expires_at: Option<i64>,
    /// What to use instead of a fresh secret, for key files that outlive their database.
    pub secret: Option<String>,
}

/// Keys of the project, newest first, revoked ones left out.
#[utoipa::path(get, path = "/v1/keys", tag = "access", responses((status = 200, body = KeyList)))]
async fn list(State(http): State<Http>, who: Who) -> Result<Answer<KeyList>> {
    who.need(Role::Admin)?;
    let mut read = http.app().db().read().await?;
    let mut keys = Vec::new();
    for row in api_keys::list(&mut read, who.project()).await? {
        if row.revoked_at.is_none() {
            keys.push(view(&mut read, &row).await?);
        }
    }
    Ok(Answer(KeyList { keys }))
}

/// Makes a key, and its principal where it does not exist. The secret is in this answer and nowhere else.
#[utoipa::path(post, path = "/v1/keys", tag = "access", request_body = CreateKeyRequest,
    responses((status = 201, body = CreatedKey)))]
async fn create_for(
    State(http): State<Http>,
    who: Who,
    Json(body): Json<CreateKeyRequest>,
) -> Result<(StatusCode, Answer<CreatedKey>)> {
    who.need(Role::Admin)?;
    let lasts = body.expires_in_ms;
    if lasts.is_some_and(|ms| !(1..=MAX_LIFE_MS).contains(&ms)) {
        let detail = format!("a key lasts 1 to {MAX_LIFE_MS} ms");
        return Err(
            Error::out_of_range("expiresInMs", detail).hint("leave it out for a key that does not end")
        );
    }
    let now = http.app().clock().now();
    let new = NewKey {
        project: who.project().to_owned(),
        principal: body.principal,
        kind: body.kind,
        groups: body.groups,
        roles: body.roles,
        topics: body.topics,
        expires_at: lasts.map(|ms| now.saturating_add(i64::try_from(ms).unwrap_or(i64::MAX))),
        secret: None,
    };
    let created = create(http.app(), &new).await?;
    // Groups and roles of a principal that has keys already may have changed.
    http.keys().forget();
    Ok((StatusCode::CREATED, Answer(created)))
}

/// Revokes a key for good.
#[utoipa::path(delete, path = "/v1/keys/{id}", tag = "access", params(("id" = String, Path)),
    responses((status = 204)))]
async fn revoke(State(http): State<Http>, who: Who, Id(id): Id) -> Result<StatusCode> {
    who.need(Role::Admin)?;
    let now = http.app().clock().now();
    let mut tx = http.app().db().begin_write().await?;
    match api_keys::revoke(&mut tx, who.project(), &id, now).await {
        Ok(()) => tx.commit().await?,
        Err(StoreError::Conflict { .. }) => return Err(Error::not_found(format!("no key {id}"))),
        Err(error) => return Err(error.into()),
    }
    http.keys().forget();
    Ok(StatusCode::NO_CONTENT)
}

/// Makes a key and, where it does not exist, its principal. Groups and roles that are named replace the
/// principal's.
///
/// # Errors
/// 409 `PRINCIPAL_EXISTS` for a name that is another kind's, 422 for names and roles that cannot be.
pub async fn create(app: &App, new: &NewKey) -> Result<CreatedKey> {
    check(new)?;
    let now = app.clock().now();
    let secret = new.secret.clone().unwrap_or_else(|| {
        let mut random = [0; 32];
        app.chance().fill(&mut random);
        format!("lg_{}", hex(&random))
    });
    let mut tx = app.db().begin_write().await?;
    let principal = match principals::get(&mut tx, &new.project, &new.principal).await? {
        Some(known) if kind_of(&known.kind) != new.kind => {
            let detail = format!("{} exists and is a {}", new.principal, known.kind);
            return Err(Error::new(StatusCode::CONFLICT, "PRINCIPAL_EXISTS", detail).argument("principal"));
        }
        Some(mut known) => {
            if !new.groups.is_empty() {
                known.groups = json(&new.groups);
            }
            if !new.roles.is_empty() {
                known.roles = json(&new.roles);
            }
            principals::update(&mut tx, &known).await?;
            known
        }
        None => {
            let row = PrincipalRow {
                project: new.project.clone(),
                id: new.principal.clone(),
                kind: column(new.kind).to_owned(),
                name: new.principal.clone(),
                groups: json(&new.groups),
                roles: json(&roles(new)),
                created_at: now,
            };
            principals::insert(&mut tx, &row).await?;
            row
        }
    };
    let all_topics = new.topics.is_empty() && new.kind != PrincipalKind::Worker;
    let row = ApiKeyRow {
        id: format!("k-{}", app.chance().token()),
        project: new.project.clone(),
        principal: principal.id,
        hash: sha256_hex(&secret),
        prefix: secret.chars().take(PREFIX).collect(),
        label: None,
        topics: (!all_topics).then(|| json(&new.topics)),
        created_at: now,
        expires_at: new.expires_at,
        revoked_at: None,
        last_used_at: None,
    };
    api_keys::insert(&mut tx, &row).await?;
    let key = view(&mut tx, &row).await?;
    tx.commit().await?;
    Ok(CreatedKey { key, secret })
}

fn check(new: &NewKey) -> Result<()> {
    let named = [
        ("principal", std::slice::from_ref(&new.principal)),
        ("groups", &new.groups),
        ("topics", &new.topics),
    ];
    for (argument, names) in named {
        for name in names {
            let plain = |c: char| c.is_alphanumeric() || matches!(c, '.' | '_' | '-' | '@' | '*' | '/' | ':');
            if name.is_empty() || name.len() > MAX_NAME || !name.chars().all(plain) {
                let detail = format!("a name has 1 to {MAX_NAME} letters, digits and . _ - @ / :");
                return Err(Error::out_of_range(argument, detail));
            }
        }
    }
    for role in &new.roles {
        if !ROLES.contains(&role.as_str()) {
            let refusal = Error::out_of_range("roles", format!("there is no role `{role}`"));
            let hint = match words::nearest(role, &ROLES) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("roles are {}", ROLES.join(", ")),
            };
            return Err(refusal.hint(hint));
        }
    }
    if new.kind == PrincipalKind::Worker && new.roles.iter().any(|role| role != Role::Work.as_str()) {
        return Err(Error::out_of_range(
            "roles",
            "a worker has the role `work` and no other",
        ));
    }
    if let Some(misplaced) = misplaced(new.kind, &new.groups, &new.topics) {
        return Err(Error::out_of_range(misplaced.argument, misplaced.detail).hint(misplaced.hint));
    }
    if new.kind == PrincipalKind::Worker && new.topics.is_empty() {
        let refusal = Error::out_of_range("topics", "a worker's key names the topics that it reaches");
        return Err(refusal.hint("`*` reaches every topic"));
    }
    Ok(())
}

/// What a kind of principal cannot have, and the words for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Misplaced {
    /// `groups` or `topics`.
    pub argument: &'static str,
    pub detail: &'static str,
    pub hint: &'static str,
}

/// A group of a worker, or a topic of a person's key, would mean nothing and look as if it did.
#[must_use]
pub fn misplaced(kind: PrincipalKind, groups: &[String], topics: &[String]) -> Option<Misplaced> {
    let groups = (kind != PrincipalKind::Person && !groups.is_empty()).then_some(Misplaced {
        argument: "groups",
        detail: "only a person is in groups",
        hint: "groups are of those who decide; a worker or service is in none",
    });
    let topics = (kind != PrincipalKind::Worker && !topics.is_empty()).then_some(Misplaced {
        argument: "topics",
        detail: "only a worker's key has topics",
        hint: "a program that takes work has a worker's key; other keys with the role `work` reach every topic",
    });
    groups.or(topics)
}

fn roles(new: &NewKey) -> Vec<String> {
    if !new.roles.is_empty() {
        return new.roles.clone();
    }
    let defaults: &[Role] = match new.kind {
        PrincipalKind::Person => &[Role::Read],
        PrincipalKind::Worker => &[Role::Work],
        PrincipalKind::Service => &[Role::Read, Role::Start],
    };
    defaults.iter().map(|role| role.as_str().to_owned()).collect()
}

fn column(kind: PrincipalKind) -> &'static str {
    match kind {
        PrincipalKind::Person => "person",
        PrincipalKind::Worker => "worker",
        PrincipalKind::Service => "service",
    }
}

fn json(texts: &[String]) -> String {
    serde_json::to_string(texts).unwrap_or_else(|_| "[]".to_owned())
}

async fn view(conn: &mut Conn, row: &ApiKeyRow) -> Result<KeyView> {
    let principal = principals::get(conn, &row.project, &row.principal).await?;
    let (kind, groups, roles) = match principal {
        Some(row) => (
            kind_of(&row.kind),
            texts("principals", &row.id, &row.groups)?,
            texts("principals", &row.id, &row.roles)?,
        ),
        None => (PrincipalKind::Worker, Vec::new(), Vec::new()),
    };
    let topics = match &row.topics {
        Some(topics) => texts("api_keys", &row.id, topics)?,
        None if roles
            .iter()
            .any(|role| role == Role::Work.as_str() || role == Role::Admin.as_str()) =>
        {
            vec!["*".to_owned()]
        }
        None => Vec::new(),
    };
    Ok(KeyView {
        id: row.id.clone(),
        principal: row.principal.clone(),
        kind,
        groups,
        roles,
        topics,
        created_at: rfc3339(row.created_at),
        expires_at: row.expires_at.map(rfc3339),
        last_used_at: row.last_used_at.map(rfc3339),
    })
}
