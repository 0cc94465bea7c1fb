//! Connections for write transactions. Not pools: SQLite has one writer, in the caller's thread, and a pool pings each
//! connection when it comes back.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions, Connection, PgConnection};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard, OwnedSemaphorePermit, Semaphore};

use crate::sqlite::Sqlite;
use crate::{Error, Result};

/// How long a connection may be waited for before the database counts as gone.
const CONNECT: Duration = Duration::from_secs(10);

/// Write transactions of one engine at a time on PostgreSQL: two writers, and whoever deploys or makes keys.
const POSTGRES_WRITERS: usize = 8;

/// The one connection that writes a SQLite file.
pub(crate) struct SqliteWriter {
    path: PathBuf,
    slot: Arc<AsyncMutex<Option<Sqlite>>>,
    /// What every commit waits in addition, ms.
    delay_ms: AtomicU64,
}

/// A write transaction on SQLite. Dropping it rolls it back.
pub(crate) struct SqliteTx {
    guard: OwnedMutexGuard<Option<Sqlite>>,
    /// The BEGIN is made: it goes with the first statement.
    begun: bool,
    delay: Duration,
}

impl SqliteWriter {
    pub(crate) fn open(path: &Path) -> Result<Self> {
        Ok(Self {
            path: path.to_owned(),
            slot: Arc::new(AsyncMutex::new(Some(Sqlite::open(path)?))),
            delay_ms: AtomicU64::new(0),
        })
    }

    pub(crate) async fn begin(&self) -> Result<SqliteTx> {
        Ok(SqliteTx {
            guard: self.bare().await?,
            begun: false,
            delay: Duration::from_millis(self.delay_ms.load(Ordering::Relaxed)),
        })
    }

    /// The connection outside any transaction.
    async fn bare(&self) -> Result<OwnedMutexGuard<Option<Sqlite>>> {
        let mut guard = Arc::clone(&self.slot).lock_owned().await;
        if guard.is_none() {
            *guard = Some(Sqlite::open(&self.path)?);
        }
        Ok(guard)
    }

    /// Looks at the connection's settings, or changes them.
    pub(crate) async fn with<T>(&self, run: impl FnOnce(&Sqlite) -> Result<T>) -> Result<T> {
        let guard = self.bare().await?;
        run(guard.as_ref().expect("it was just opened"))
    }

    /// Lets every commit wait so much longer, as a slower disk would.
    pub(crate) fn delay(&self, ms: u64) {
        self.delay_ms.store(ms, Ordering::Relaxed);
    }

    /// Whether it is free at this moment.
    pub(crate) fn is_idle(&self) -> bool {
        self.slot.try_lock().is_ok()
    }

    pub(crate) async fn close(&self) {
        *self.slot.lock().await = None;
    }
}

impl SqliteTx {
    fn conn(&mut self) -> &mut Sqlite {
        self.guard.as_mut().expect("a transaction has a connection")
    }

    /// Whether anything was asked of it.
    pub(crate) fn is_begun(&self) -> bool {
        self.begun
    }

    /// The connection for a statement, after the BEGIN.
    pub(crate) fn begun(&mut self) -> sqlx::Result<&mut Sqlite> {
        if !self.begun {
            self.conn().run("BEGIN IMMEDIATE")?;
            self.begun = true;
        }
        Ok(self.conn())
    }

    pub(crate) async fn commit(mut self) -> Result<()> {
        // A failed COMMIT leaves the transaction open (busy) or has rolled it back (full): the drop sorts it out.
        self.conn().run("COMMIT")?;
        self.begun = false;
        if !self.delay.is_zero() {
            tokio::time::sleep(self.delay).await;
        }
        Ok(())
    }
}

impl Drop for SqliteTx {
    /// A connection on which the ROLLBACK fails is closed, which rolls back too.
    fn drop(&mut self) {
        if self.begun && !self.conn().is_free() && self.conn().run("ROLLBACK").is_err() {
            *self.guard = None;
        }
    }
}

/// The connections that write on PostgreSQL.
pub(crate) struct PostgresWriters {
    options: PgConnectOptions,
    idle: Mutex<Vec<PgConnection>>,
    places: Arc<Semaphore>,
}

/// A write transaction on PostgreSQL. Dropping it rolls it back.
pub(crate) struct PostgresTx {
    conn: Option<PgConnection>,
    place: Option<OwnedSemaphorePermit>,
    home: Arc<PostgresWriters>,
}

impl PostgresWriters {
    pub(crate) fn new(options: PgConnectOptions) -> Arc<Self> {
        let places = Arc::new(Semaphore::new(POSTGRES_WRITERS));
        Arc::new(Self {
            options,
            idle: Mutex::new(Vec::new()),
            places,
        })
    }

    pub(crate) async fn begin(self: &Arc<Self>) -> Result<PostgresTx> {
        let gone = |_| Error::Connection(sqlx::Error::PoolTimedOut);
        let waiting = tokio::time::timeout(CONNECT, Arc::clone(&self.places).acquire_owned());
        let place = waiting
            .await
            .map_err(gone)?
            .map_err(|_| Error::Connection(sqlx::Error::PoolClosed))?;
        // A connection may have died while it was idle. Nothing has happened yet, so the next is as good.
        while let Some(mut conn) = self.pop() {
            match run(&mut conn, "BEGIN").await {
                Ok(()) => return Ok(self.tx(conn, place)),
                Err(Error::Connection(_)) => {}
                Err(error) => return Err(error),
            }
        }
        let mut conn = tokio::time::timeout(CONNECT, self.options.connect())
            .await
            .map_err(gone)??;
        run(&mut conn, "BEGIN").await?;
        Ok(self.tx(conn, place))
    }

    fn tx(self: &Arc<Self>, conn: PgConnection, place: OwnedSemaphorePermit) -> PostgresTx {
        PostgresTx {
            conn: Some(conn),
            place: Some(place),
            home: Arc::clone(self),
        }
    }

    fn pop(&self) -> Option<PgConnection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn push(&self, conn: PgConnection) {
        if !self.places.is_closed() {
            self.idle
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .push(conn);
        }
    }

    /// (open, idle) connections.
    pub(crate) fn counts(&self) -> (usize, usize) {
        let idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner).len();
        (POSTGRES_WRITERS - self.places.available_permits() + idle, idle)
    }

    pub(crate) async fn close(&self) {
        self.places.close();
        while let Some(conn) = self.pop() {
            let _ = conn.close().await;
        }
    }
}

async fn run(conn: &mut PgConnection, text: &'static str) -> Result<()> {
    sqlx::raw_sql(text).execute(conn).await?;
    Ok(())
}

impl PostgresTx {
    pub(crate) fn conn(&mut self) -> &mut PgConnection {
        self.conn
            .as_mut()
            .expect("a transaction has a connection until it ends")
    }

    /// A connection on which the COMMIT failed is closed: nobody knows what became of it.
    pub(crate) async fn commit(mut self) -> Result<()> {
        let mut conn = self
            .conn
            .take()
            .expect("a transaction has a connection until it ends");
        run(&mut conn, "COMMIT").await?;
        self.home.push(conn);
        Ok(())
    }

    pub(crate) async fn rollback(mut self) -> Result<()> {
        let mut conn = self
            .conn
            .take()
            .expect("a transaction has a connection until it ends");
        run(&mut conn, "ROLLBACK").await?;
        self.home.push(conn);
        Ok(())
    }
}

impl Drop for PostgresTx {
    fn drop(&mut self) {
        let Some(mut conn) = self.conn.take() else { return };
        // Without a runtime the connection is just closed, which rolls back too.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (home, place) = (Arc::clone(&self.home), self.place.take());
        runtime.spawn(async move {
            if run(&mut conn, "ROLLBACK").await.is_ok() {
                home.push(conn);
            }
            drop(place);
        });
    }
}
