//! Connections: [`Tx`] writes, [`Read`] reads. Both are a [`Conn`], which reading functions take.

use std::ops::{Deref, DerefMut};

use sqlx::pool::PoolConnection;
use sqlx::{AssertSqlSafe, PgConnection, Postgres, Sqlite, SqliteConnection};

use crate::dialect::{Arg, Bulk, CHUNKS, Dialect, FromAny, Sql, postgres_arguments, sqlite_arguments};
use crate::filter::Filter;
use crate::gather::Gathered;
use crate::sqlite::Sqlite as Writing;
use crate::writers::{PostgresTx, SqliteTx};
use crate::{Error, Result};

/// A connection, in a transaction or not.
pub struct Conn {
    inner: Inner,
    /// A statement failed: PostgreSQL answers a COMMIT after that with a silent rollback.
    failed: bool,
    /// Writes that wait, on PostgreSQL.
    gathered: Gathered,
}

enum Inner {
    SqliteTx(SqliteTx),
    SqliteRead(PoolConnection<Sqlite>),
    PostgresTx(PostgresTx),
    PostgresRead(PoolConnection<Postgres>),
}

enum Raw<'a> {
    Writing(&'a mut Writing),
    Sqlite(&'a mut SqliteConnection),
    Postgres(&'a mut PgConnection),
}

/// A write transaction. Dropping it rolls it back.
pub struct Tx(Conn);

/// A connection for queries outside any transaction.
pub struct Read(Conn);

impl Tx {
    pub(crate) fn sqlite(tx: SqliteTx) -> Self {
        Self(Conn::new(Inner::SqliteTx(tx)))
    }

    pub(crate) fn postgres(tx: PostgresTx) -> Self {
        Self(Conn::new(Inner::PostgresTx(tx)))
    }

    /// Makes everything durable.
    ///
    /// # Errors
    /// [`Error::Connection`]: nobody knows whether it was committed; look for the command ids. Every other error:
    /// nothing was written. A transaction in which a statement failed cannot be committed.
    pub async fn commit(mut self) -> Result<()> {
        self.0.send().await?;
        if self.0.failed {
            self.rollback().await?;
            return Err(over("the transaction has failed and cannot be committed"));
        }
        match self.0.inner {
            Inner::SqliteTx(tx) if tx.is_begun() => tx.commit().await?,
            Inner::PostgresTx(tx) => tx.commit().await?,
            Inner::SqliteTx(_) | Inner::SqliteRead(_) | Inner::PostgresRead(_) => {}
        }
        Ok(())
    }

    /// Undoes everything.
    pub async fn rollback(self) -> Result<()> {
        match self.0.inner {
            Inner::PostgresTx(tx) => tx.rollback().await?,
            // Its drop does it.
            Inner::SqliteTx(_) | Inner::SqliteRead(_) | Inner::PostgresRead(_) => {}
        }
        Ok(())
    }
}

impl Read {
    pub(crate) fn sqlite(conn: PoolConnection<Sqlite>) -> Self {
        Self(Conn::new(Inner::SqliteRead(conn)))
    }

    pub(crate) fn postgres(conn: PoolConnection<Postgres>) -> Self {
        Self(Conn::new(Inner::PostgresRead(conn)))
    }
}

impl Deref for Tx {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.0
    }
}

impl DerefMut for Tx {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.0
    }
}

impl Deref for Read {
    type Target = Conn;

    fn deref(&self) -> &Conn {
        &self.0
    }
}

impl DerefMut for Read {
    fn deref_mut(&mut self) -> &mut Conn {
        &mut self.0
    }
}

impl Conn {
    fn new(inner: Inner) -> Self {
        Self {
            inner,
            failed: false,
            gathered: Gathered::default(),
        }
    }

    /// The database behind it.
    #[must_use]
    pub fn dialect(&self) -> Dialect {
        match self.inner {
            Inner::SqliteTx(_) | Inner::SqliteRead(_) => Dialect::Sqlite,
            Inner::PostgresTx(_) | Inner::PostgresRead(_) => Dialect::Postgres,
        }
    }

    /// Runs one statement and counts the rows it changed.
    pub(crate) async fn execute(&mut self, sql: &'static Sql, args: &[Arg<'_>]) -> Result<u64> {
        self.send().await?;
        let text = sql.text(self.dialect());
        let done = match self.raw()? {
            Raw::Writing(conn) => conn.execute(text, args),
            Raw::Sqlite(_) => Err(reads_only()),
            Raw::Postgres(conn) => sqlx::query_with(text, postgres_arguments(args, &[])?)
                .execute(conn)
                .await
                .map(|done| done.rows_affected()),
        };
        self.note(done)
    }

    /// Runs one statement and gives its rows.
    pub(crate) async fn fetch<T: FromAny>(&mut self, sql: &'static Sql, args: &[Arg<'_>]) -> Result<Vec<T>> {
        self.send().await?;
        let text = sql.text(self.dialect());
        let rows = match self.raw()? {
            Raw::Writing(conn) => conn.fetch(text, args),
            Raw::Sqlite(conn) => {
                sqlx::query_as_with::<Sqlite, T, _>(text, sqlite_arguments(args.iter())?)
                    .fetch_all(conn)
                    .await
            }
            Raw::Postgres(conn) => {
                sqlx::query_as_with::<Postgres, T, _>(text, postgres_arguments(args, &[])?)
                    .fetch_all(conn)
                    .await
            }
        };
        self.note(rows)
    }

    /// Runs one statement and gives its first row.
    pub(crate) async fn first<T: FromAny>(
        &mut self,
        sql: &'static Sql,
        args: &[Arg<'_>],
    ) -> Result<Option<T>> {
        Ok(self.fetch(sql, args).await?.into_iter().next())
    }

    /// Runs a statement over rows that has no answer, now or together with others (see [`Gathered`]).
    pub(crate) async fn put(
        &mut self,
        table: &'static str,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
    ) -> Result<()> {
        self.put_expecting(table, sql, rows, None).await
    }

    /// The same for a statement that must change every row: another number is a conflict in `table`.
    pub(crate) async fn put_all(
        &mut self,
        table: &'static str,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
    ) -> Result<()> {
        self.put_expecting(table, sql, rows, Some(rows.len() as u64))
            .await
    }

    async fn put_expecting(
        &mut self,
        table: &'static str,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
        expected: Option<u64>,
    ) -> Result<()> {
        if rows.is_empty() {
            return Ok(());
        }
        if self.dialect() == Dialect::Sqlite {
            let changed = self.bulk(sql, rows).await?;
            return if expected.is_none_or(|expected| expected == changed) {
                Ok(())
            } else {
                self.conflict(table)
            };
        }
        if self.gathered.has(table) {
            self.send().await?;
        }
        self.gathered.add(table, sql, rows, expected)?;
        Ok(())
    }

    /// Sends what waits.
    async fn send(&mut self) -> Result<()> {
        if self.gathered.is_empty() {
            return Ok(());
        }
        let gathered = std::mem::take(&mut self.gathered);
        let Raw::Postgres(conn) = self.raw()? else {
            return Ok(());
        };
        let sent = gathered.send(conn).await;
        match self.note(sent)? {
            Some(table) => self.conflict(table),
            None => Ok(()),
        }
    }

    fn conflict(&mut self, table: &str) -> Result<()> {
        self.failed = true;
        Err(Error::conflict(table))
    }

    /// Runs a statement over rows and counts what it changed.
    pub(crate) async fn bulk(&mut self, sql: &'static Bulk, rows: &[Vec<Arg<'_>>]) -> Result<u64> {
        let Some(width) = rows.first().map(Vec::len) else {
            return Ok(0);
        };
        self.send().await?;
        let done = match self.raw()? {
            Raw::Writing(conn) => conn.bulk(sql, rows),
            Raw::Sqlite(_) => Err(reads_only()),
            Raw::Postgres(conn) => {
                let text = sql.postgres_text(width);
                sqlx::query_with(text, postgres_arguments(&[], rows)?)
                    .execute(conn)
                    .await
                    .map(|done| done.rows_affected())
            }
        };
        self.note(done)
    }

    /// Runs a statement over rows and gives what it returns. The order is the database's.
    pub(crate) async fn bulk_fetch<T: FromAny>(
        &mut self,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
    ) -> Result<Vec<T>> {
        let Some(width) = rows.first().map(Vec::len) else {
            return Ok(Vec::new());
        };
        self.send().await?;
        let found = match self.raw()? {
            Raw::Writing(conn) => conn.bulk_fetch(sql, rows),
            Raw::Sqlite(conn) => {
                let mut found = Vec::new();
                for (chunk, part) in chunks(rows) {
                    let arguments = sqlite_arguments(part.iter().flatten())?;
                    let text = sql.sqlite_text(width, chunk);
                    match sqlx::query_as_with::<Sqlite, T, _>(text, arguments)
                        .fetch_all(&mut *conn)
                        .await
                    {
                        Ok(mut rows) => found.append(&mut rows),
                        Err(error) => return self.note(Err(error)),
                    }
                }
                Ok(found)
            }
            Raw::Postgres(conn) => {
                let text = sql.postgres_text(width);
                sqlx::query_as_with::<Postgres, T, _>(text, postgres_arguments(&[], rows)?)
                    .fetch_all(conn)
                    .await
            }
        };
        self.note(found)
    }

    /// Runs a query that was put together from a [`Filter`].
    pub(crate) async fn list<T: FromAny>(&mut self, filter: Filter<'_>) -> Result<Vec<T>> {
        self.send().await?;
        let text = crate::dialect::translate(&filter.text, filter.columns, self.dialect());
        let args = filter.args;
        let rows = match self.raw()? {
            Raw::Writing(conn) => conn.fetch(&text, &args),
            Raw::Sqlite(conn) => {
                let arguments = sqlite_arguments(args.iter())?;
                sqlx::query_as_with::<Sqlite, T, _>(AssertSqlSafe(text), arguments)
                    .fetch_all(conn)
                    .await
            }
            Raw::Postgres(conn) => {
                let arguments = postgres_arguments(&args, &[])?;
                sqlx::query_as_with::<Postgres, T, _>(AssertSqlSafe(text), arguments)
                    .fetch_all(conn)
                    .await
            }
        };
        self.note(rows)
    }

    fn raw(&mut self) -> Result<Raw<'_>> {
        Ok(match &mut self.inner {
            // SQLite ends a transaction by itself after some errors, such as a full disk: what came after would be
            // written at once and stay. PostgreSQL refuses it as well.
            Inner::SqliteTx(_) if self.failed => return Err(over("the transaction has failed")),
            Inner::SqliteTx(tx) => Raw::Writing(tx.begun().inspect_err(|_| self.failed = true)?),
            Inner::SqliteRead(conn) => Raw::Sqlite(conn),
            Inner::PostgresTx(tx) => Raw::Postgres(tx.conn()),
            Inner::PostgresRead(conn) => Raw::Postgres(conn),
        })
    }

    fn note<T>(&mut self, result: sqlx::Result<T>) -> Result<T> {
        self.failed |= result.is_err();
        result.map_err(Error::from)
    }
}

fn over(message: &str) -> Error {
    Error::Database(sqlx::Error::InvalidArgument(message.to_owned()))
}

/// A reader's connection was to write, which no function of this crate lets it.
fn reads_only() -> sqlx::Error {
    sqlx::Error::InvalidArgument("a connection that reads cannot write".to_owned())
}

/// Cuts rows into the sizes for which SQLite has a text: (index of the size, rows).
fn chunks<T>(mut rows: &[T]) -> impl Iterator<Item = (usize, &[T])> {
    std::iter::from_fn(move || {
        let chunk = CHUNKS.iter().position(|size| *size <= rows.len())?;
        let (part, rest) = rows.split_at(CHUNKS[chunk]);
        rows = rest;
        Some((chunk, part))
    })
}
