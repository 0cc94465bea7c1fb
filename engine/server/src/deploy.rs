//! Deploying a set of documents: validated and frozen against what the project has, then written in one
//! transaction. All of it or nothing (D5); what did not change gets no new version.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use legation_language::Value;
use legation_language::documents::{
    self, Deployed, Frozen, FrozenProcess, FrozenServer, Known, Options, Server,
};
use legation_store::definitions::DefinitionRow;
use legation_store::documents::DocumentRow;
use legation_store::{Conn, Error, Result, definitions};
use tracing::info;

use crate::app::App;
use crate::definitions::DefinitionCache;

/// How often a deployment that met another one is done again.
const TRIES: u32 = 5;

const SERVER: &str = "server";
const SETTINGS: &str = "settings";
/// The one settings document: what a set without `legation.toml` reads as `values.x`.
const VALUES: &str = "values";

/// For whom documents are deployed.
#[derive(Clone, Debug)]
pub struct Deployer {
    pub project: String,
    /// The principal's id.
    pub actor: String,
}

/// What a project has deployed, read at once: the language asks for it while it cannot wait.
struct Project {
    processes: HashMap<String, Deployed>,
    servers: HashMap<String, Server>,
    documents: HashMap<(String, String), (i64, String)>,
    values: BTreeMap<String, Value>,
}

impl Known for Project {
    fn process(&self, key: &str) -> Option<Deployed> {
        self.processes.get(key).cloned()
    }

    fn server(&self, name: &str) -> Option<Server> {
        self.servers.get(name).cloned()
    }

    fn values(&self) -> BTreeMap<String, Value> {
        self.values.clone()
    }
}

/// Validates a set against what is deployed, and changes nothing.
///
/// # Errors
/// The store's. Problems of the documents stand in the answer.
pub async fn validate(
    app: &App,
    project: &str,
    files: &BTreeMap<String, String>,
    options: &Options,
) -> Result<Frozen> {
    let mut read = app.db().read().await?;
    let known = Project::load(&mut read, project).await?;
    drop(read);
    Ok(documents::freeze(files, options, &known))
}

/// Validates a set and, when no problem is an error, deploys it.
///
/// # Errors
/// The store's. Problems of the documents stand in the answer, and then nothing was deployed.
pub async fn deploy(
    app: &App,
    by: &Deployer,
    files: &BTreeMap<String, String>,
    options: &Options,
) -> Result<Frozen> {
    let mut tries = 1;
    loop {
        match attempt(app, by, files, options).await {
            Ok(frozen) => return Ok(frozen),
            // Somebody else deployed one of these meanwhile: look again and number anew.
            Err(Error::Conflict { .. } | Error::Retry(_)) if tries < TRIES => tries += 1,
            Err(error) => return Err(error),
        }
    }
}

async fn attempt(
    app: &App,
    by: &Deployer,
    files: &BTreeMap<String, String>,
    options: &Options,
) -> Result<Frozen> {
    let mut read = app.db().read().await?;
    let known = Project::load(&mut read, &by.project).await?;
    drop(read);
    let frozen = documents::freeze(files, options, &known);
    if frozen.has_errors() {
        return Ok(frozen);
    }
    let now = app.clock().now();
    let changed = frozen.processes.iter().filter(|process| process.changed);
    let processes: Vec<DefinitionRow> = changed
        .map(|process| definition_row(by, files, process, now))
        .collect::<Result<_>>()?;
    let changed = frozen.servers.iter().filter(|server| server.changed);
    let mut rows: Vec<DocumentRow> = changed
        .map(|server| server_row(by, files, server, &known, now))
        .collect::<Result<_>>()?;
    rows.extend(values_row(by, &frozen, &known, now)?);
    if processes.is_empty() && rows.is_empty() {
        return Ok(frozen);
    }
    let mut tx = app.db().begin_write().await?;
    if !processes.is_empty() {
        definitions::insert(&mut tx, &processes).await?;
    }
    if !rows.is_empty() {
        legation_store::documents::insert(&mut tx, &rows).await?;
    }
    tx.commit().await?;
    app.shared().definitions.forget_latest();
    for row in &processes {
        info!(process = %row.key, version = row.version, by = %by.actor, "deployed");
    }
    Ok(frozen)
}

impl Project {
    async fn load(conn: &mut Conn, project: &str) -> Result<Self> {
        let mut processes = HashMap::new();
        for row in definitions::list(conn, project).await? {
            let definition = Arc::new(DefinitionCache::parse(&row)?);
            processes.insert(
                row.key,
                Deployed {
                    definition,
                    digest: row.digest,
                },
            );
        }
        let mut known = Self {
            processes,
            servers: HashMap::new(),
            documents: HashMap::new(),
            values: BTreeMap::new(),
        };
        for row in legation_store::documents::list(conn, project).await? {
            match row.kind.as_str() {
                SERVER => {
                    known.servers.insert(row.key.clone(), parse(&row)?);
                }
                SETTINGS if row.key == VALUES => known.values = parse(&row)?,
                _ => {}
            }
            known
                .documents
                .insert((row.kind, row.key), (row.version, row.digest));
        }
        Ok(known)
    }

    fn next_version(&self, kind: &str, key: &str) -> i64 {
        self.documents
            .get(&(kind.to_owned(), key.to_owned()))
            .map_or(1, |(version, _)| version + 1)
    }
}

/// The deployed tool servers of these names.
///
/// # Errors
/// The store's.
pub async fn servers(conn: &mut Conn, project: &str, names: &[&str]) -> Result<Vec<Server>> {
    let mut out = Vec::new();
    for name in names {
        if let Some(row) = legation_store::documents::latest(conn, project, SERVER, name).await? {
            out.push(parse(&row)?);
        }
    }
    Ok(out)
}

fn parse<T: serde::de::DeserializeOwned>(row: &DocumentRow) -> Result<T> {
    let id = |error: serde_json::Error| format!("{}/{} {}: {error}", row.kind, row.key, row.version);
    serde_json::from_str(&row.body).map_err(|error| Error::Corrupt {
        table: "documents",
        id: id(error),
    })
}

fn json<T: serde::Serialize>(table: &'static str, value: &T) -> Result<String> {
    serde_json::to_string(value).map_err(|error| Error::Corrupt {
        table,
        id: error.to_string(),
    })
}

fn definition_row(
    by: &Deployer,
    files: &BTreeMap<String, String>,
    process: &FrozenProcess,
    now: i64,
) -> Result<DefinitionRow> {
    Ok(DefinitionRow {
        project: by.project.clone(),
        key: process.definition.key.clone(),
        version: i64::from(process.definition.version),
        digest: process.digest.clone(),
        body: json("definitions", &*process.definition)?,
        source: files.get(&process.file).cloned().unwrap_or_default(),
        created_at: now,
        created_by: by.actor.clone(),
    })
}

fn server_row(
    by: &Deployer,
    files: &BTreeMap<String, String>,
    frozen: &FrozenServer,
    known: &Project,
    now: i64,
) -> Result<DocumentRow> {
    let source = files
        .get(&frozen.file)
        .map(|text| documents::without_command(text))
        .unwrap_or_default();
    Ok(DocumentRow {
        project: by.project.clone(),
        kind: SERVER.to_owned(),
        key: frozen.server.name.clone(),
        version: known.next_version(SERVER, &frozen.server.name),
        digest: frozen.digest.clone(),
        source,
        body: json("documents", &frozen.server)?,
        created_at: now,
    })
}

fn values_row(by: &Deployer, frozen: &Frozen, known: &Project, now: i64) -> Result<Option<DocumentRow>> {
    let Some(settings) = frozen
        .settings
        .as_ref()
        .filter(|settings| settings.values != known.values)
    else {
        return Ok(None);
    };
    let body = json("documents", &settings.values)?;
    Ok(Some(DocumentRow {
        project: by.project.clone(),
        kind: SETTINGS.to_owned(),
        key: VALUES.to_owned(),
        version: known.next_version(SETTINGS, VALUES),
        digest: legation_language::canonical::sha256_hex(&body),
        source: String::new(),
        body,
        created_at: now,
    }))
}
