//! `legation keys`: makes, lists and revokes API keys. A secret is shown once, on stdout and nowhere else.

use std::path::{Path, PathBuf};

use clap::{Args, Subcommand};
use legation_language::duration;
use legation_protocol::keys::{CreateKeyRequest, CreatedKey, KeyList, KeyView, PrincipalKind};

use super::client::{Client, encode};
use super::{Global, Usage, print, setup};
use crate::http;

#[derive(Args, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Subcommand, Debug)]
pub enum Command {
    /// Make a key for a person, a worker or a service, which is made where it does not exist.
    Create(Box<Create>),
    /// List keys.
    List,
    /// Revoke a key for good.
    Revoke {
        /// The key's id.
        #[arg(value_name = "KEY")]
        id: String,
    },
}

#[derive(Args, Debug)]
pub struct Create {
    #[command(flatten)]
    pub whom: Whom,
    /// The groups of a person.
    #[arg(long, value_delimiter = ',')]
    pub groups: Vec<String>,
    /// Roles of a person or service: admin, deploy, start, operate, read. Without it: read.
    #[arg(long, value_delimiter = ',', conflicts_with = "worker")]
    pub roles: Vec<String>,
    /// The topics of a worker; `*` and a trailing `*` are allowed.
    #[arg(long, value_delimiter = ',')]
    pub topics: Vec<String>,
    /// The key ends after this time, such as 90d.
    #[arg(long, value_name = "DURATION")]
    pub expires_in: Option<String>,
    /// Write the secret to a new file that only you can read, in place of printing it.
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Exactly one of the three.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Whom {
    /// A person, who may decide as the groups allow.
    #[arg(long, value_name = "NAME")]
    pub person: Option<String>,
    /// A worker, which reaches its topics and never decides.
    #[arg(long, value_name = "NAME")]
    pub worker: Option<String>,
    /// A program that deploys, starts or operates.
    #[arg(long, value_name = "NAME")]
    pub service: Option<String>,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    match arguments.command {
        Command::Create(create) => self::create(global, *create).await,
        Command::List => list(global).await,
        Command::Revoke { id } => {
            Client::new(global)?
                .delete(&format!("/v1/keys/{}", encode(&id)))
                .await?;
            say!("revoked {id}");
            Ok(())
        }
    }
}

async fn create(global: &Global, create: Create) -> anyhow::Result<()> {
    let out = create.out.clone();
    if let Some(path) = out.as_ref().filter(|path| path.exists()) {
        // Before a key is made whose secret nobody would have.
        return Err(Usage(format!("--out {}: the file exists", path.display())).into());
    }
    let request = request(create)?;
    let answer = Client::new(global)?
        .post::<CreatedKey>("/v1/keys", &request)
        .await?;
    let CreatedKey { key, secret } = &answer.body;
    tell!(
        "key {} of {} {}",
        key.id,
        print::word(&key.kind).to_lowercase(),
        key.principal
    );
    if let Some(path) = out {
        setup::write_secret(Path::new(&path), secret)?;
        tell!("its secret is in {}", path.display());
    } else if global.json {
        print::json(&answer.text);
    } else {
        tell!("this is the only time that its secret is shown:");
        say!("{secret}");
    }
    Ok(())
}

/// What is asked of the engine.
///
/// # Errors
/// For a worker without topics, groups or topics where there can be none, or what is no duration.
pub fn request(create: Create) -> anyhow::Result<CreateKeyRequest> {
    let (kind, principal) = match (create.whom.person, create.whom.worker, create.whom.service) {
        (Some(name), _, _) => (PrincipalKind::Person, name),
        (_, Some(name), _) => (PrincipalKind::Worker, name),
        (_, _, Some(name)) => (PrincipalKind::Service, name),
        (None, None, None) => return Err(Usage("name a --person, --worker or --service".to_owned()).into()),
    };
    // In the API's words, before anything is asked of it.
    if let Some(wrong) = http::misplaced(kind, &create.groups, &create.topics) {
        return Err(Usage(format!("--{}: {}; {}", wrong.argument, wrong.detail, wrong.hint)).into());
    }
    if kind == PrincipalKind::Worker && create.topics.is_empty() {
        return Err(Usage("a worker's key needs --topics".to_owned()).into());
    }
    let roles = match (kind, create.roles.is_empty()) {
        (PrincipalKind::Worker, _) => Vec::new(),
        (PrincipalKind::Person | PrincipalKind::Service, true) => vec!["read".to_owned()],
        (PrincipalKind::Person | PrincipalKind::Service, false) => create.roles,
    };
    let expires_in_ms = match create
        .expires_in
        .as_deref()
        .map(|text| (text, duration::parse_ms(text)))
    {
        None => None,
        Some((_, Ok(ms))) => Some(ms.unsigned_abs()),
        Some((text, Err(why))) => return Err(Usage(format!("--expires-in {text}: {why}")).into()),
    };
    Ok(CreateKeyRequest {
        principal,
        kind,
        groups: create.groups,
        roles,
        topics: create.topics,
        expires_in_ms,
    })
}

async fn list(global: &Global) -> anyhow::Result<()> {
    let list = Client::new(global)?.get::<KeyList>("/v1/keys").await?;
    if global.json {
        print::json(&list.text);
        return Ok(());
    }
    let rows = list.body.keys.iter().map(row).collect();
    print::table(
        &["id", "kind", "principal", "may", "made", "expires", "last used"],
        rows,
        "no keys",
    );
    Ok(())
}

fn row(key: &KeyView) -> Vec<String> {
    let part =
        |name: &str, words: &[String]| (!words.is_empty()).then(|| format!("{name}: {}", words.join(", ")));
    let may = [
        part("roles", &key.roles),
        part("groups", &key.groups),
        part("topics", &key.topics),
    ];
    vec![
        key.id.clone(),
        print::word(&key.kind).to_lowercase(),
        key.principal.clone(),
        may.into_iter().flatten().collect::<Vec<_>>().join("; "),
        print::moment(&key.created_at),
        key.expires_at.as_deref().map(print::moment).unwrap_or_default(),
        key.last_used_at.as_deref().map(print::moment).unwrap_or_default(),
    ]
}
