//! SQLite is a thread away: every statement is a hop to the connection's thread and back, which for a small
//! transaction costs more than its work. Small writes that have no answer are queued, with the BEGIN before them, and
//! go as one text of several statements before whatever needs an answer next, or together with it.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use futures::TryStreamExt;
use sqlx::sqlite::SqliteArguments;
use sqlx::{AssertSqlSafe, Either, Executor, FromRow, Sqlite, SqliteConnection};

use crate::dialect::{Arg, Bulk, Dialect, Sql, add_sqlite_arguments};
use crate::{Error, Result};

/// Rows of one table beyond which a write goes by itself, in larger chunks: a text for each number of rows would fill
/// the cache of statements, and a hop is little against the work.
const MOST_ROWS: usize = 4;

/// Texts that are kept. There are as many as the engine has ways through a small batch.
const MOST_TEXTS: usize = 2_000;

/// Fails when the statement before it changed another number of rows than one: SQLite has no other way to say so in a
/// text, and abs of the least integer is documented to fail with these words.
const GUARD: &str = "SELECT CASE changes() WHEN 1 THEN 1 ELSE abs(-9223372036854775808) END";
const GUARDED: &str = "integer overflow";

/// How a text ends.
#[derive(Clone, Copy)]
enum End {
    Open,
    Asks(&'static Sql),
    Commit,
}

/// Statements that wait to be run.
#[derive(Default)]
pub(crate) struct Queue {
    begin: bool,
    parts: Vec<Part>,
    arguments: SqliteArguments,
}

#[derive(Clone, Copy)]
struct Part {
    table: &'static str,
    sql: &'static Bulk,
    width: usize,
    rows: usize,
    /// It must change every row; another number is a conflict.
    all: bool,
}

/// What was run: rows of the last statement, and the table of a part that changed another number of rows than it must.
pub(crate) struct Ran<T> {
    pub rows: Vec<T>,
    pub conflict: Option<&'static str>,
}

impl Queue {
    pub(crate) fn is_empty(&self) -> bool {
        !self.begin && self.parts.is_empty()
    }

    /// Whether a transaction stands that nothing was asked of yet.
    pub(crate) fn has_only_begin(&self) -> bool {
        self.begin && self.parts.is_empty()
    }

    /// Puts the BEGIN first.
    pub(crate) fn begin(&mut self) {
        self.begin = true;
    }

    /// Whether a write of so many rows may wait.
    pub(crate) fn takes(rows: usize) -> bool {
        rows <= MOST_ROWS
    }

    pub(crate) fn add(
        &mut self,
        table: &'static str,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
        all: bool,
    ) -> sqlx::Result<()> {
        add_sqlite_arguments(&mut self.arguments, rows.iter().flatten())?;
        let width = rows.first().map_or(0, Vec::len);
        self.parts.push(Part {
            table,
            sql,
            width,
            rows: rows.len(),
            all,
        });
        Ok(())
    }

    /// Runs what waits and commits, in one go. A part that changed another number of rows than it must fails before the
    /// COMMIT.
    pub(crate) async fn commit(self, conn: &mut SqliteConnection) -> Result<()> {
        let text = AssertSqlSafe(self.text(End::Commit));
        let mut results = conn.fetch_many(sqlx::query_with(text, self.arguments));
        loop {
            match results.try_next().await {
                Ok(Some(_)) => {}
                Ok(None) => return Ok(()),
                Err(sqlx::Error::Database(error)) if error.message() == GUARDED => {
                    return Err(Error::conflict("a row"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    /// Runs what waits and then `last`, whose marks have no numbers when writes wait before it.
    pub(crate) async fn run<T>(
        mut self,
        conn: &mut SqliteConnection,
        last: Option<(&'static Sql, &[Arg<'_>])>,
    ) -> sqlx::Result<Ran<T>>
    where
        T: for<'r> FromRow<'r, <Sqlite as sqlx::Database>::Row> + Send + Unpin,
    {
        if let Some((_, args)) = last {
            add_sqlite_arguments(&mut self.arguments, args.iter())?;
        }
        let text = AssertSqlSafe(self.text(last.map_or(End::Open, |(sql, _)| End::Asks(sql))));
        let mut results = conn.fetch_many(sqlx::query_with(text, self.arguments));
        let mut ran = Ran {
            rows: Vec::new(),
            conflict: None,
        };
        let mut counts = Vec::with_capacity(self.parts.len() + 2);
        while let Some(result) = results.try_next().await? {
            match result {
                Either::Left(done) => counts.push(done.rows_affected()),
                Either::Right(row) => ran.rows.push(T::from_row(&row)?),
            }
        }
        let mut counts = counts.into_iter().skip(usize::from(self.begin));
        for part in &self.parts {
            let changed: u64 = counts.by_ref().take(part.rows).sum();
            if part.all && changed != part.rows as u64 && ran.conflict.is_none() {
                ran.conflict = Some(part.table);
            }
        }
        Ok(ran)
    }

    fn text(&self, end: End) -> Arc<str> {
        type Key = (bool, Vec<(usize, usize)>, usize);
        static TEXTS: LazyLock<Mutex<HashMap<Key, Arc<str>>>> = LazyLock::new(Mutex::default);
        let part = |part: &Part| (std::ptr::from_ref(part.sql).addr(), part.rows);
        let end_key = match end {
            End::Open => 0,
            End::Commit => 1,
            End::Asks(sql) => std::ptr::from_ref(sql).addr(),
        };
        let key: Key = (self.begin, self.parts.iter().map(part).collect(), end_key);
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = texts.get(&key) {
            return Arc::clone(text);
        }
        if texts.len() >= MOST_TEXTS {
            texts.clear();
        }
        let mut statements = Vec::new();
        if self.begin {
            statements.push("BEGIN IMMEDIATE");
        }
        for part in &self.parts {
            for _ in 0..part.rows {
                statements.push(part.sql.sqlite_row_text(part.width));
                if part.all && matches!(end, End::Commit) {
                    statements.push(GUARD);
                }
            }
        }
        match end {
            End::Open => {}
            End::Commit => statements.push("COMMIT"),
            End::Asks(sql) => statements.push(sql.text(Dialect::Sqlite)),
        }
        let text: Arc<str> = statements.join("; ").into();
        texts.insert(key, Arc::clone(&text));
        text
    }
}
