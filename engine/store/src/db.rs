//! Opening a database, migrating it, and handing out connections.

use std::hash::{BuildHasher, Hasher, RandomState};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::migrate::Migrator;
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::sqlite::{SqliteConnectOptions, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{ConnectOptions, Connection, PgPool, SqlitePool};

use crate::dialect::{STATEMENTS, Sql};
use crate::hints::{self, Hints};
use crate::sqlite::Sqlite;
use crate::writers::{PostgresWriters, SqliteWriter};
use crate::{Dialect, Error, Read, Result, Tx};

pub(crate) static SQLITE_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/sqlite");
pub(crate) static POSTGRES_MIGRATIONS: Migrator = sqlx::migrate!("../../migrations/postgres");

/// How long a connection may be waited for before the database counts as gone.
const ACQUIRE: Duration = Duration::from_secs(10);

/// One database. Cheap to clone.
#[derive(Clone)]
pub struct Db(Arc<Pools>);

enum Pools {
    Sqlite {
        path: PathBuf,
        writer: Box<SqliteWriter>,
        readers: SqlitePool,
    },
    Postgres {
        options: Box<PgConnectOptions>,
        writers: Arc<PostgresWriters>,
        readers: PgPool,
        notifier: PgPool,
        /// Tells this engine's hints from others'.
        name: String,
    },
}

/// What an operator wants to know of the database itself.
#[derive(Clone, Debug)]
pub struct Stats {
    /// Which database.
    pub dialect: Dialect,
    /// Its version as it names itself.
    pub version: String,
    /// Bytes on disk.
    pub size_bytes: i64,
    /// Open connections of this process.
    pub connections: usize,
    /// Those that nobody uses at this moment.
    pub idle_connections: usize,
}

impl Db {
    /// Opens `sqlite:<path>` (the file is made if it is missing) or `postgres://…`. Connections of PostgreSQL are
    /// made when they are first needed.
    ///
    /// # Errors
    /// [`Error::Setup`] for an address of another kind, [`Error::Connection`] and [`Error::Database`] otherwise.
    pub async fn open(url: &str) -> Result<Self> {
        if let Some(path) = url.strip_prefix("sqlite:") {
            let path = path.strip_prefix("//").unwrap_or(path);
            return Self::open_sqlite(Path::new(path));
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Self::open_postgres(url);
        }
        // The address may hold a password: it is not repeated.
        Err(Error::Setup(
            "a database address begins with sqlite: or postgres://".to_owned(),
        ))
    }

    fn open_sqlite(path: &Path) -> Result<Self> {
        if path.as_os_str().is_empty() || path.as_os_str() == ":memory:" {
            return Err(Error::Setup("sqlite: needs the path of a file".to_owned()));
        }
        // The writer comes first: it makes the file and turns on WAL, which a read-only connection cannot.
        let writer = Box::new(SqliteWriter::open(path)?);
        let options = SqliteConnectOptions::new()
            .filename(path)
            .read_only(true)
            .busy_timeout(Duration::from_secs(5))
            .statement_cache_capacity(STATEMENTS)
            .row_buffer_size(1024)
            .pragma("temp_store", "memory")
            .pragma("cache_size", "-4000");
        let readers = SqlitePoolOptions::new()
            .max_connections(4)
            .acquire_timeout(ACQUIRE)
            .idle_timeout(None)
            .max_lifetime(None)
            // Each would be a hop to the connection's thread; a file's connection does not go away.
            .test_before_acquire(false)
            .connect_lazy_with(options);
        Ok(Self(Arc::new(Pools::Sqlite {
            path: path.to_owned(),
            writer,
            readers,
        })))
    }

    fn open_postgres(url: &str) -> Result<Self> {
        let options: PgConnectOptions = url.parse()?;
        let options = options
            .statement_cache_capacity(STATEMENTS)
            .application_name("legation");
        // Every statement of a writer reads by key. Without statistics (a new table, one that was empty when the
        // plan was made) the planner may choose to read the whole table, and a cached plan stays.
        let writing = options.clone().options([
            ("enable_seqscan", "off"),
            ("enable_hashjoin", "off"),
            ("enable_mergejoin", "off"),
            ("jit", "off"),
            ("plan_cache_mode", "force_generic_plan"),
            // An engine that hangs in a transaction must not hold the roots' locks for ever.
            ("idle_in_transaction_session_timeout", "30000"),
        ]);
        let pool = |connections: u32| {
            PgPoolOptions::new()
                .max_connections(connections)
                .acquire_timeout(ACQUIRE)
                .idle_timeout(Duration::from_secs(600))
                // A dead connection shows at the first statement, and every caller must live with that anyway.
                .test_before_acquire(false)
        };
        Ok(Self(Arc::new(Pools::Postgres {
            writers: PostgresWriters::new(writing),
            readers: pool(8).connect_lazy_with(options.clone().options([("jit", "off")])),
            notifier: pool(1).connect_lazy_with(options.clone()),
            options: Box::new(options),
            name: format!("{:016x}", RandomState::new().build_hasher().finish()),
        })))
    }

    /// Where it is, without who logs in there and how: `sqlite:FILE`, or `HOST:PORT/NAME`.
    #[must_use]
    pub fn place(&self) -> String {
        match &*self.0 {
            Pools::Sqlite { path, .. } => format!("sqlite:{}", path.display()),
            Pools::Postgres { options, .. } => {
                let name = options.get_database().unwrap_or(options.get_username());
                match options.get_socket() {
                    Some(socket) => format!("{}:{}/{name}", socket.display(), options.get_port()),
                    None => format!("{}:{}/{name}", options.get_host(), options.get_port()),
                }
            }
        }
    }

    /// Makes one connection and lets go of it. A pool hides why it has none until it gives up.
    ///
    /// # Errors
    /// What the database or the way to it says; [`Error::heals`] tells whether another try may fare better.
    pub async fn reach(&self) -> Result<()> {
        let Pools::Postgres { options, .. } = &*self.0 else {
            return Ok(());
        };
        let Ok(connected) = tokio::time::timeout(ACQUIRE, options.connect()).await else {
            let silent = format!("no answer within {} s", ACQUIRE.as_secs());
            return Err(sqlx::Error::Io(std::io::Error::new(std::io::ErrorKind::TimedOut, silent)).into());
        };
        connected?.close().await?;
        Ok(())
    }

    /// Brings the schema up to date.
    ///
    /// # Errors
    /// [`Error::Setup`] if a migration fails, or if the database is newer than this program.
    pub async fn migrate(&self) -> Result<()> {
        let done = match &*self.0 {
            Pools::Sqlite { path, .. } => {
                let options = SqliteConnectOptions::new()
                    .filename(path)
                    .foreign_keys(false)
                    .synchronous(SqliteSynchronous::Full);
                let mut conn = options.connect().await?;
                let done = SQLITE_MIGRATIONS.run(&mut conn).await;
                conn.close().await?;
                done
            }
            Pools::Postgres { readers, .. } => POSTGRES_MIGRATIONS.run(readers).await,
        };
        done.map_err(|error| Error::Setup(format!("migrating the database: {error}")))
    }

    /// Begins a write transaction: on SQLite the only one (BEGIN IMMEDIATE), on PostgreSQL one of several
    /// (READ COMMITTED).
    pub async fn begin_write(&self) -> Result<Tx> {
        match &*self.0 {
            Pools::Sqlite { writer, .. } => Ok(Tx::sqlite(writer.begin().await?)),
            Pools::Postgres { writers, .. } => Ok(Tx::postgres(writers.begin().await?)),
        }
    }

    /// A connection for queries. On SQLite it cannot write.
    pub async fn read(&self) -> Result<Read> {
        match &*self.0 {
            Pools::Sqlite { readers, .. } => Ok(Read::sqlite(readers.acquire().await?)),
            Pools::Postgres { readers, .. } => Ok(Read::postgres(readers.acquire().await?)),
        }
    }

    /// Which database it is.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match &*self.0 {
            Pools::Sqlite { .. } => Dialect::Sqlite,
            Pools::Postgres { .. } => Dialect::Postgres,
        }
    }

    /// The database's clock, epoch milliseconds. Only for calibrating the engine's own clock: no statement
    /// reads it.
    pub async fn now(&self) -> Result<i64> {
        static NOW: Sql = Sql::pair(
            "",
            "SELECT CAST(unixepoch('subsec') * 1000 AS INTEGER) AS now",
            "SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS BIGINT) AS now",
        );
        let row: Option<(i64,)> = self.read().await?.first(&NOW, &[]).await?;
        row.map(|row| row.0)
            .ok_or(Error::Database(sqlx::Error::RowNotFound))
    }

    /// Size and connections.
    pub async fn stats(&self) -> Result<Stats> {
        static STATS: Sql = Sql::pair(
            "",
            "SELECT 'SQLite ' || sqlite_version() AS version, page_count * page_size AS size
             FROM pragma_page_count, pragma_page_size",
            "SELECT 'PostgreSQL ' || current_setting('server_version') AS version,
                    pg_database_size(current_database()) AS size",
        );
        let row: Option<(String, i64)> = self.read().await?.first(&STATS, &[]).await?;
        let (version, size_bytes) = row.ok_or(Error::Database(sqlx::Error::RowNotFound))?;
        let (connections, idle) = match &*self.0 {
            Pools::Sqlite { writer, readers, .. } => (
                1 + readers.size() as usize,
                usize::from(writer.is_idle()) + readers.num_idle(),
            ),
            Pools::Postgres {
                writers,
                readers,
                notifier,
                ..
            } => {
                let (open, idle) = writers.counts();
                let pools = [readers, notifier];
                (
                    open + pools.iter().map(|pool| pool.size() as usize).sum::<usize>(),
                    idle + pools.iter().map(|pool| pool.num_idle()).sum::<usize>(),
                )
            }
        };
        Ok(Stats {
            dialect: self.dialect(),
            version,
            size_bytes,
            connections,
            idle_connections: idle,
        })
    }

    /// The hints of the other engines on this database; `None` on SQLite, where there is only one
    /// engine. It has a connection of its own and reconnects by itself.
    pub async fn listen(&self) -> Result<Option<Hints>> {
        match &*self.0 {
            Pools::Sqlite { .. } => Ok(None),
            Pools::Postgres { options, name, .. } => Hints::listen(options, name).await.map(Some),
        }
    }

    /// Tells the other engines what may have become ready. Outside any transaction, after the commit; the caller sends
    /// at most one a millisecond (inside the transaction NOTIFY cost 4–6× the throughput). On SQLite nobody
    /// else listens.
    pub async fn notify(&self, hints: &[String]) -> Result<()> {
        match &*self.0 {
            Pools::Sqlite { .. } => Ok(()),
            Pools::Postgres { notifier, name, .. } => hints::notify(notifier, name, hints).await,
        }
    }

    /// Limits the SQLite file to `pages` more than it has now, as a full disk would (B17). Nothing on PostgreSQL.
    pub async fn limit_pages(&self, pages: i64) -> Result<()> {
        let Pools::Sqlite { writer, .. } = &*self.0 else {
            return Ok(());
        };
        let limit = |conn: &Sqlite| {
            let count: i64 = conn.pragma("page_count")?;
            conn.set("max_page_count", count + pages)
        };
        writer.with(limit).await
    }

    /// Lets every commit on SQLite wait so much longer, as a slower disk would: for measurements. PostgreSQL has
    /// `commit_delay`.
    pub fn delay_commits(&self, ms: u64) {
        if let Pools::Sqlite { writer, .. } = &*self.0 {
            writer.delay(ms);
        }
    }

    /// What the writer's connection says of its commits.
    pub(crate) async fn sqlite_durability(&self) -> Result<String> {
        let Pools::Sqlite { writer, .. } = &*self.0 else {
            return Ok(String::new());
        };
        let ask = |conn: &Sqlite| Ok((conn.pragma("journal_mode")?, conn.pragma("synchronous")?));
        let (journal, synchronous): (String, i64) = writer.with(ask).await?;
        let word = match synchronous {
            0 => "OFF",
            1 => "NORMAL",
            2 => "FULL",
            _ => "EXTRA",
        };
        Ok(format!("journal_mode={journal}, synchronous={word}"))
    }

    /// The file of a SQLite database.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match &*self.0 {
            Pools::Sqlite { path, .. } => Some(path),
            Pools::Postgres { .. } => None,
        }
    }

    /// Closes all connections and waits for them; SQLite writes its log back into the file.
    pub async fn close(&self) {
        match &*self.0 {
            Pools::Sqlite { writer, readers, .. } => {
                readers.close().await;
                writer.close().await;
            }
            Pools::Postgres {
                writers,
                readers,
                notifier,
                ..
            } => {
                writers.close().await;
                readers.close().await;
                notifier.close().await;
            }
        }
    }
}
