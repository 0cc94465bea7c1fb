//! Making a database ready for an engine: schema, the master key's check, the project, the first principals and keys.
//! `dev`, `serve` and tests begin here.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use legation_language::canonical::sha256_hex;
use legation_store::api_keys::{self, ApiKeyRow};
use legation_store::principals::{self, PrincipalRow};
use legation_store::projects::{self, ProjectRow};
use legation_store::{Db, Tx, settings};

use super::reach;
use crate::chance::{Chance, hex};
use crate::cipher::Master;
use crate::clock::Clock;
use crate::http::ROLES;

/// The project of an engine that nobody divided.
pub const PROJECT: &str = "default";

/// The setting that names the master key.
const MASTER_KEY: &str = "master_key";

/// The data folder of `dev`: a database with three principals, and their keys.
pub struct DevData {
    pub db: Db,
    pub master: Master,
    /// The folder, with `dev.key`, `worker.key`, `approver.key` and `master.key`.
    pub folder: PathBuf,
    /// The key of `dev`: every role, any topic, no group.
    pub dev: String,
    /// The key of `worker`: any topic, and nothing else.
    pub worker: String,
    /// The key of `approver`: in every group of this data folder.
    pub approver: String,
    /// Whether the master key was made just now (D66).
    pub made_master_key: bool,
}

/// Whom a key is made for.
struct Whom<'a> {
    name: &'a str,
    kind: &'a str,
    groups: &'a [&'a str],
    roles: &'a [&'a str],
}

/// Opens the data folder of `dev`, making whatever is missing. `database` stands in for `<folder>/legation.db`.
///
/// # Errors
/// When the folder cannot be written, the database not opened, or its payloads are under another master key.
pub async fn dev_data(folder: &Path, database: Option<&str>) -> anyhow::Result<DevData> {
    let (clock, chance) = (Clock::system(), Chance::system());
    std::fs::create_dir_all(folder).with_context(|| format!("{} cannot be made", folder.display()))?;
    let folder = folder.canonicalize()?;
    let (master_text, made_master_key) = secret_file(&folder.join("master.key"), || random_hex(&chance))?;
    let master = Master::from_hex(&master_text).context("master.key does not hold 64 hex characters")?;
    let own = format!("sqlite:{}", folder.join("legation.db").display());
    let db = open(database.unwrap_or(&own), &master, &clock, reach::PATIENCE).await?;
    let all = ROLES;
    let whom = [
        Whom {
            name: "dev",
            kind: "person",
            groups: &[],
            roles: &all,
        },
        Whom {
            name: "worker",
            kind: "worker",
            groups: &[],
            roles: &["work"],
        },
        Whom {
            name: "approver",
            kind: "person",
            groups: &["*"],
            roles: &["read"],
        },
    ];
    let mut keys = Vec::new();
    for whom in &whom {
        let path = folder.join(format!("{}.key", whom.name));
        let (secret, _) = secret_file(&path, || new_secret(&chance))?;
        add_key(&db, whom, &secret, &clock, &chance).await?;
        keys.push(secret);
    }
    let [dev, worker, approver] = <[String; 3]>::try_from(keys)
        .ok()
        .context("there are three keys")?;
    Ok(DevData {
        db,
        master,
        folder,
        dev,
        worker,
        approver,
        made_master_key,
    })
}

/// Opens and migrates a database, makes the project, and checks that the master key is the one of before.
///
/// # Errors
/// When the database cannot be reached for as long as `patience`, not opened, or its payloads are under another key.
pub async fn open(url: &str, master: &Master, clock: &Clock, patience: Duration) -> anyhow::Result<Db> {
    let db = Db::open(url).await?;
    reach::reach(&db, patience).await?;
    db.migrate()
        .await
        .with_context(|| format!("the database {} cannot be used", db.place()))?;
    let mut tx = db.begin_write().await?;
    let stored = settings::get_or_set(&mut tx, MASTER_KEY, master.id()).await?;
    anyhow::ensure!(
        stored == master.id(),
        "this database is encrypted under master key {stored}, and the one given is {}; start with the key of before",
        master.id()
    );
    let project = ProjectRow {
        id: PROJECT.to_owned(),
        name: PROJECT.to_owned(),
        created_at: clock.now(),
    };
    projects::insert(&mut tx, &project).await?;
    tx.commit().await?;
    Ok(db)
}

/// Whether anybody could log in.
///
/// # Errors
/// When the database cannot be read.
pub async fn has_keys(db: &Db, clock: &Clock) -> anyhow::Result<bool> {
    let now = clock.now();
    let mut read = db.read().await?;
    for project in projects::list(&mut read).await? {
        let keys = api_keys::list(&mut read, &project.id).await?;
        if keys
            .iter()
            .any(|key| key.revoked_at.is_none() && key.expires_at.is_none_or(|at| at > now))
        {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Makes the first key of a new installation: of a person `admin` with every role. The secret is taken from the
/// file, or made and written to it.
///
/// # Errors
/// When the file cannot be read or written, or the database refuses.
pub async fn bootstrap_admin(db: &Db, file: &Path, clock: &Clock, chance: &Chance) -> anyhow::Result<()> {
    let (secret, _) = secret_file(file, || new_secret(chance))?;
    anyhow::ensure!(
        secret.len() >= 32,
        "{} holds no key: it has fewer than 32 characters",
        file.display()
    );
    let admin = Whom {
        name: "admin",
        kind: "person",
        groups: &[],
        roles: &ROLES,
    };
    add_key(db, &admin, &secret, clock, chance).await
}

/// A new API key's secret: 256 random bits.
#[must_use]
pub fn new_secret(chance: &Chance) -> String {
    format!("lg_{}", random_hex(chance))
}

fn random_hex(chance: &Chance) -> String {
    let mut random = [0; 32];
    chance.fill(&mut random);
    hex(&random)
}

/// Makes the principal where it does not exist, and the key where its hash is unknown. On another database the files
/// of an old data folder go on working.
async fn add_key(
    db: &Db,
    whom: &Whom<'_>,
    secret: &str,
    clock: &Clock,
    chance: &Chance,
) -> anyhow::Result<()> {
    let hash = sha256_hex(secret);
    let mut tx = db.begin_write().await?;
    if api_keys::find(&mut tx, &hash).await?.is_some() {
        return Ok(());
    }
    principal(&mut tx, whom, clock).await?;
    let key = ApiKeyRow {
        id: chance.root_id(clock.now()),
        project: PROJECT.to_owned(),
        principal: whom.name.to_owned(),
        hash,
        prefix: secret.chars().take(8).collect(),
        label: None,
        topics: None,
        created_at: clock.now(),
        expires_at: None,
        revoked_at: None,
        last_used_at: None,
    };
    api_keys::insert(&mut tx, &key).await?;
    tx.commit().await?;
    Ok(())
}

async fn principal(tx: &mut Tx, whom: &Whom<'_>, clock: &Clock) -> anyhow::Result<()> {
    if principals::get(tx, PROJECT, whom.name).await?.is_some() {
        return Ok(());
    }
    let row = PrincipalRow {
        project: PROJECT.to_owned(),
        id: whom.name.to_owned(),
        kind: whom.kind.to_owned(),
        name: whom.name.to_owned(),
        groups: serde_json::to_string(whom.groups)?,
        roles: serde_json::to_string(whom.roles)?,
        created_at: clock.now(),
    };
    Ok(principals::insert(tx, &row).await?)
}

/// The secret in a file, and whether it was made just now.
fn secret_file(path: &Path, make: impl FnOnce() -> String) -> anyhow::Result<(String, bool)> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok((text.trim().to_owned(), false)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let secret = make();
            write_secret(path, &secret)?;
            Ok((secret, true))
        }
        Err(error) => Err(error).with_context(|| format!("{} cannot be read", path.display())),
    }
}

/// Writes a new file that only its owner may read.
///
/// # Errors
/// When it exists already or cannot be written.
pub fn write_secret(path: &Path, secret: &str) -> anyhow::Result<()> {
    let mut options = std::fs::OpenOptions::new();
    options.write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let mut file = options
        .open(path)
        .with_context(|| format!("{} cannot be written", path.display()))?;
    writeln!(file, "{secret}").with_context(|| format!("{} cannot be written", path.display()))
}

/// A master key as people give it: 64 hex characters, or 32 bytes in Base64 (`openssl rand -base64 32`).
#[must_use]
pub fn master_from_text(text: &str) -> Option<Master> {
    use base64::Engine;
    let text = text.trim();
    if let Some(master) = Master::from_hex(text) {
        return Some(master);
    }
    let bytes = base64::engine::general_purpose::STANDARD.decode(text).ok()?;
    Some(Master::new(<[u8; 32]>::try_from(bytes).ok()?))
}
