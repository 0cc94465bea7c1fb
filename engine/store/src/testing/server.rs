//! The PostgreSQL server that the test processes of a workspace share.
//!
//! The first process that needs it starts it, under a file lock; the others find its address in `ready`. Every user
//! leaves a file named after its process id. A small watchdog stops the server when it has had no living user for a
//! minute, so that neither a killed run nor a finished one leaves it behind for long. Its data is thrown away.

use std::fs::{self, File};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sqlx::{AssertSqlSafe, Connection, PgConnection};
use tokio::sync::OnceCell;

use crate::Db;
use crate::db::POSTGRES_MIGRATIONS;

mod binaries;

pub(super) use binaries::Binaries;

/// A server that answers, with a migrated template.
pub(super) struct Server {
    base: String,
    /// The database to copy.
    pub(super) template: String,
}

impl Server {
    /// The address of one of its databases.
    pub(super) fn url(&self, database: &str) -> String {
        let (address, options) = self.base.split_once('?').unwrap_or((&self.base, ""));
        let mark = if options.is_empty() { "" } else { "?" };
        format!("{address}/{database}{mark}{options}")
    }

    pub(super) async fn connect(&self, database: &str) -> PgConnection {
        PgConnection::connect(&self.url(database))
            .await
            .expect("the PostgreSQL server for tests answers")
    }
}

/// The server, started if need be.
pub(super) async fn shared() -> &'static Server {
    static SERVER: OnceCell<Server> = OnceCell::const_new();
    SERVER.get_or_init(prepare).await
}

async fn prepare() -> Server {
    let folder = folder();
    fs::create_dir_all(folder.join("users")).expect("the folder for temporary files can be written");
    let lock = File::create(folder.join("lock")).expect("the lock file can be written");
    let lock = tokio::task::spawn_blocking(move || {
        lock.lock().expect("the lock file can be locked");
        lock
    })
    .await
    .expect("locking does not panic");

    let given = std::env::var("TEST_DATABASE_URL")
        .ok()
        .filter(|url| !url.is_empty());
    let base = match &given {
        Some(url) => without_database(url),
        None => running(&folder).await,
    };
    let template = format!("legation_template_{}", schema());
    let server = Server { base, template };
    if given.is_none() {
        drop_leftovers(&server).await;
    }
    make_template(&server).await;
    drop(lock);
    server
}

/// `postgres://user@host:port/name?options` without the name.
fn without_database(url: &str) -> String {
    let (address, options) = url
        .split_once('?')
        .map_or((url, None), |(address, options)| (address, Some(options)));
    let host = address.find("://").map_or(0, |at| at + 3);
    let end = address[host..].find('/').map_or(address.len(), |at| host + at);
    match options {
        Some(options) => format!("{}?{options}", &address[..end]),
        None => address[..end].to_owned(),
    }
}

/// One folder for each workspace and user.
fn folder() -> PathBuf {
    let workspace = workspace();
    let mark = workspace
        .to_string_lossy()
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
    std::env::temp_dir().join(format!(
        "legation-test-postgres-{}-{mark:016x}",
        binaries::my_id()
    ))
}

pub(super) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .expect("the crate is two levels down")
        .to_owned()
}

/// A name for the schema: the first bytes of the last migration's checksum and their number.
fn schema() -> String {
    let mut name = POSTGRES_MIGRATIONS.iter().count().to_string();
    for migration in POSTGRES_MIGRATIONS.iter() {
        name.push('_');
        name.extend(
            migration
                .checksum
                .iter()
                .take(4)
                .map(|byte| format!("{byte:02x}")),
        );
    }
    name
}

/// The address of the running server. Called under the lock.
async fn running(folder: &Path) -> String {
    let me = std::process::id();
    fs::write(folder.join("users").join(me.to_string()), "").expect("the folder can be written");
    let ready = folder.join("ready");
    if let Ok(base) = fs::read_to_string(&ready)
        && PgConnection::connect(&format!("{base}/postgres")).await.is_ok()
    {
        return base;
    }
    let folder = folder.to_owned();
    tokio::task::spawn_blocking(move || start(&folder))
        .await
        .expect("PostgreSQL for tests was not started")
}

fn start(folder: &Path) -> String {
    let _ = fs::remove_file(folder.join("ready"));
    stop_old(folder);
    let binaries = Binaries::find(&workspace(), folder);
    let data = folder.join("data");
    let _ = fs::remove_dir_all(&data);
    fs::create_dir(&data).expect("the folder can be written");
    binaries.give(&data);

    let mut initdb = binaries.command("initdb");
    initdb.arg("-D").arg(&data).args([
        "-U",
        "postgres",
        "-A",
        "trust",
        "-E",
        "UTF8",
        "--no-locale",
        "--no-sync",
    ]);
    let made = initdb.output().expect("initdb can be run");
    assert!(
        made.status.success(),
        "initdb failed: {}",
        String::from_utf8_lossy(&made.stderr)
    );

    let port = TcpListener::bind("127.0.0.1:0")
        .and_then(|socket| socket.local_addr())
        .expect("a port is free");
    let log = File::create(folder.join("log")).expect("the folder can be written");
    let mut postgres = binaries.command("postgres");
    postgres
        .arg("-D")
        .arg(&data)
        .arg("-p")
        .arg(port.port().to_string());
    for setting in [
        "listen_addresses=127.0.0.1",
        "unix_socket_directories=",
        "fsync=off",
        "full_page_writes=off",
        "max_connections=400",
        "deadlock_timeout=100ms",
        "shared_buffers=64MB",
    ] {
        postgres.arg("-c").arg(setting);
    }
    let error_log = log.try_clone().expect("a file handle can be copied");
    postgres.stdin(Stdio::null()).stdout(log).stderr(error_log);
    let child = detached(&mut postgres);

    let base = format!("postgres://postgres@127.0.0.1:{}", port.port());
    let deadline = Instant::now() + Duration::from_secs(60);
    let pid_file = data.join("postmaster.pid");
    // Its last line says `ready` when connections are taken.
    while !fs::read_to_string(&pid_file).is_ok_and(|text| text.contains("ready")) {
        let log = || fs::read_to_string(folder.join("log")).unwrap_or_default();
        assert!(
            Instant::now() < deadline && alive(child),
            "PostgreSQL did not start: {}",
            log()
        );
        std::thread::sleep(Duration::from_millis(20));
    }
    watch(folder);
    let new = folder.join("ready.new");
    fs::write(&new, &base)
        .and_then(|()| fs::rename(&new, folder.join("ready")))
        .expect("the folder can be written");
    base
}

/// Starts a process that outlives this one and is not stopped with it.
fn detached(command: &mut Command) -> u32 {
    use std::os::unix::process::CommandExt;
    let mut child = command.process_group(0).spawn().expect("PostgreSQL can be run");
    let id = child.id();
    // Somebody has to wait for it, or it would count as alive after its death.
    std::thread::spawn(move || child.wait());
    id
}

/// A server of an earlier run that does not answer, or that its watchdog is just stopping.
fn stop_old(folder: &Path) {
    let Ok(text) = fs::read_to_string(folder.join("data/postmaster.pid")) else {
        return;
    };
    let Some(pid) = text.lines().next().and_then(|line| line.parse::<u32>().ok()) else {
        return;
    };
    let is_ours = fs::read(format!("/proc/{pid}/cmdline"))
        .is_ok_and(|line| String::from_utf8_lossy(&line).contains(&*folder.to_string_lossy()));
    if !is_ours {
        return;
    }
    let deadline = Instant::now() + Duration::from_secs(20);
    signal("-QUIT", pid);
    while alive(pid) {
        assert!(
            Instant::now() < deadline,
            "the old PostgreSQL for tests (process {pid}) does not stop"
        );
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Stops the server when no user has lived for a minute. It takes `ready` away first and looks once more: a new
/// user either is seen then, or finds no `ready` and starts a server of its own.
fn watch(folder: &Path) {
    const SCRIPT: &str = r#"
        users() { for user in users/*; do kill -0 "${user##*/}" 2>/dev/null && return 0; rm -f "$user"; done; return 1; }
        server=$(head -n 1 data/postmaster.pid)
        idle=0
        while kill -0 "$server" 2>/dev/null; do
            sleep 1
            if users; then idle=0; else idle=$((idle + 1)); fi
            [ "$idle" -ge 60 ] || continue
            mv ready stopping
            if users; then mv stopping ready; idle=0; continue; fi
            kill -INT "$server"
            exit 0
        done
    "#;
    let mut watchdog = Command::new("sh");
    watchdog.args(["-c", SCRIPT]).current_dir(folder);
    watchdog
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    detached(&mut watchdog);
}

fn signal(signal: &str, pid: u32) -> bool {
    let mut kill = Command::new("kill");
    kill.args([signal, &pid.to_string()])
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    kill.status().is_ok_and(|status| status.success())
}

fn alive(pid: u32) -> bool {
    signal("-0", pid)
}

/// Databases of processes that died before they could drop them.
async fn drop_leftovers(server: &Server) {
    let mut admin = server.connect("postgres").await;
    let names: Vec<(String,)> = sqlx::query_as("SELECT datname FROM pg_database WHERE datname LIKE 't\\_%'")
        .fetch_all(&mut admin)
        .await
        .expect("databases can be listed");
    for (name,) in names {
        let owner = name.split('_').nth(1).and_then(|pid| pid.parse::<u32>().ok());
        if owner.is_some_and(|pid| pid != std::process::id() && alive(pid)) {
            continue;
        }
        let text = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        sqlx::raw_sql(AssertSqlSafe(text))
            .execute(&mut admin)
            .await
            .expect("an old database can be dropped");
    }
}

/// Migrates the template once for each schema. Called under the lock.
async fn make_template(server: &Server) {
    let mut admin = server.connect("postgres").await;
    let found: Option<(i32,)> = sqlx::query_as("SELECT 1 FROM pg_database WHERE datname = $1")
        .bind(&server.template)
        .fetch_optional(&mut admin)
        .await
        .expect("databases can be listed");
    if found.is_some() {
        return;
    }
    // It gets its name when it is whole.
    let new = format!("{}_new", server.template);
    let text = format!("DROP DATABASE IF EXISTS {new} WITH (FORCE)");
    sqlx::raw_sql(AssertSqlSafe(text))
        .execute(&mut admin)
        .await
        .expect("an old template can be dropped");
    let text = format!("CREATE DATABASE {new}");
    sqlx::raw_sql(AssertSqlSafe(text))
        .execute(&mut admin)
        .await
        .expect("a database can be made");
    let db = Db::open(&server.url(&new))
        .await
        .expect("the address of the template is right");
    db.migrate().await.expect("the migrations run on PostgreSQL");
    db.close().await;
    let text = format!("ALTER DATABASE {new} RENAME TO {}", server.template);
    sqlx::raw_sql(AssertSqlSafe(text))
        .execute(&mut admin)
        .await
        .expect("the template can be renamed");
}
