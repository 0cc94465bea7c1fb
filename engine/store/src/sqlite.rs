//! The connection that writes a SQLite file. SQLite works in the caller's own thread: one of its own, as the readers
//! have (sqlx), would cost two wakes for every statement, which is more than the statement itself (ADR 0008).

use std::borrow::Cow;
use std::error::Error as StdError;
use std::fmt;
use std::path::Path;
use std::time::Duration;

use rusqlite::types::{FromSql, Null, ToSql};
use rusqlite::{CachedStatement, Connection, Row, Statement};
use sqlx::error::{DatabaseError, ErrorKind};

use crate::Result;
use crate::dialect::{Arg, Bulk, STATEMENTS};

/// How long another process may hold the file.
const BUSY: Duration = Duration::from_secs(5);

/// How the writer's connection is set up; the readers' is alike. A checkpoint syncs the whole file: rarer is cheaper,
/// and 16 MiB of log are read back in no time.
const SETTINGS: [(&str, &str); 6] = [
    ("journal_mode", "wal"),
    ("synchronous", "full"),
    ("foreign_keys", "off"),
    ("temp_store", "memory"),
    ("cache_size", "-16000"),
    ("wal_autocheckpoint", "4000"),
];

/// An open file.
pub(crate) struct Sqlite(Connection);

impl Sqlite {
    /// Opens the file, or makes it.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let open = || {
            let conn = Connection::open(path)?;
            conn.busy_timeout(BUSY)?;
            conn.set_prepared_statement_cache_capacity(STATEMENTS);
            for (name, value) in SETTINGS {
                conn.pragma_update(None, name, value)?;
            }
            Ok(conn)
        };
        Ok(Self(open().map_err(|error| failed(error, Some(path)))?))
    }

    /// Runs one statement that has no values and no rows.
    pub(crate) fn run(&self, text: &str) -> sqlx::Result<()> {
        let ran = self
            .0
            .prepare_cached(text)
            .and_then(|mut statement| statement.raw_execute());
        ran.map(drop).map_err(|error| failed(error, None))
    }

    /// Runs one statement and counts the rows it changed.
    pub(crate) fn execute(&self, text: &str, args: &[Arg<'_>]) -> sqlx::Result<u64> {
        let execute = || {
            let mut statement = self.0.prepare_cached(text)?;
            bind(&mut statement, args)?;
            statement.raw_execute()
        };
        execute()
            .map(|count| count as u64)
            .map_err(|error| failed(error, None))
    }

    /// Runs one statement and gives its rows.
    pub(crate) fn fetch<T: FromSqlite>(&self, text: &str, args: &[Arg<'_>]) -> sqlx::Result<Vec<T>> {
        let fetch = || {
            let mut statement = self.0.prepare_cached(text)?;
            let at = places::<T>(&statement)?;
            let mut found = Vec::new();
            ask(&mut statement, args, &at, &mut found)?;
            Ok(found)
        };
        fetch().map_err(|error| failed(error, None))
    }

    /// Runs a statement for each of the rows and counts what it changed.
    pub(crate) fn bulk(&self, sql: &'static Bulk, rows: &[Vec<Arg<'_>>]) -> sqlx::Result<u64> {
        let Some(width) = rows.first().map(Vec::len) else {
            return Ok(0);
        };
        let run = || {
            let mut statement = self.0.prepare_cached(sql.sqlite_row_text(width))?;
            let mut total = 0;
            for row in rows {
                bind(&mut statement, row)?;
                total += statement.raw_execute()? as u64;
            }
            Ok(total)
        };
        run().map_err(|error| failed(error, None))
    }

    /// Runs a statement for each of the rows and gives what it returns.
    pub(crate) fn bulk_fetch<T: FromSqlite>(
        &self,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
    ) -> sqlx::Result<Vec<T>> {
        let Some(width) = rows.first().map(Vec::len) else {
            return Ok(Vec::new());
        };
        let fetch = || {
            let mut statement = self.0.prepare_cached(sql.sqlite_row_text(width))?;
            let at = places::<T>(&statement)?;
            let mut found = Vec::new();
            for row in rows {
                ask(&mut statement, row, &at, &mut found)?;
            }
            Ok(found)
        };
        fetch().map_err(|error| failed(error, None))
    }

    /// Whether no transaction is open: SQLite rolls back by itself after some errors, a full disk for one.
    pub(crate) fn is_free(&self) -> bool {
        self.0.is_autocommit()
    }

    /// A setting's value.
    pub(crate) fn pragma<T: FromSql>(&self, name: &str) -> Result<T> {
        let value = self.0.pragma_query_value(None, name, |row| row.get(0));
        Ok(value.map_err(|error| failed(error, None))?)
    }

    /// Changes a setting.
    pub(crate) fn set(&self, name: &str, value: i64) -> Result<()> {
        // Some answer with the new value, some do not.
        let set = self.0.pragma_update_and_check(None, name, value, |_| Ok(()));
        match set {
            Ok(()) | Err(rusqlite::Error::QueryReturnedNoRows) => Ok(()),
            Err(error) => Err(failed(error, None).into()),
        }
    }
}

fn ask<T: FromSqlite>(
    statement: &mut CachedStatement<'_>,
    args: &[Arg<'_>],
    at: &[usize],
    found: &mut Vec<T>,
) -> rusqlite::Result<()> {
    bind(statement, args)?;
    let mut rows = statement.raw_query();
    while let Some(row) = rows.next()? {
        found.push(T::from_sqlite(row, at)?);
    }
    Ok(())
}

fn bind(statement: &mut Statement<'_>, args: &[Arg<'_>]) -> rusqlite::Result<()> {
    for (place, arg) in args.iter().enumerate() {
        let place = place + 1;
        match *arg {
            Arg::Text(value) => bind_one(statement, place, value),
            Arg::Int(value) => bind_one(statement, place, value),
            Arg::Bool(value) => statement.raw_bind_parameter(place, value),
            Arg::Blob(value) => bind_one(statement, place, value),
            Arg::Texts(values) => {
                let list = serde_json::to_string(values).expect("strings are JSON");
                statement.raw_bind_parameter(place, list)
            }
        }?;
    }
    Ok(())
}

fn bind_one(statement: &mut Statement<'_>, place: usize, value: Option<impl ToSql>) -> rusqlite::Result<()> {
    match value {
        Some(value) => statement.raw_bind_parameter(place, value),
        None => statement.raw_bind_parameter(place, Null),
    }
}

/// A row struct that SQLite's writer can fill; [`from_sqlite`] says which.
pub(crate) trait FromSqlite: Sized {
    /// The columns, by the names of the fields. None: by place.
    const FIELDS: &'static [&'static str];

    /// Reads a row whose columns lie `at` these places.
    fn from_sqlite(row: &Row<'_>, at: &[usize]) -> rusqlite::Result<Self>;
}

/// The place of a column that a statement does not give.
pub(crate) const MISSING: usize = usize::MAX;

/// Where a statement has the columns of `T`.
fn places<T: FromSqlite>(statement: &Statement<'_>) -> rusqlite::Result<Vec<usize>> {
    let names = statement.column_names();
    let place = |field: &&str| {
        let found = names.iter().position(|name| name == field);
        found.unwrap_or(MISSING)
    };
    Ok(T::FIELDS.iter().map(place).collect())
}

/// Lists the fields of a row struct, each a column of its name. Those after a `;` may be missing in a statement and are
/// empty then.
macro_rules! from_sqlite {
    ($row:ident: $($field:ident),+ $(; $($empty:ident),+)?) => {
        impl $crate::sqlite::FromSqlite for $row {
            const FIELDS: &'static [&'static str] = &[$(stringify!($field)),+ $(, $(stringify!($empty)),+)?];

            fn from_sqlite(row: &rusqlite::Row<'_>, at: &[usize]) -> rusqlite::Result<Self> {
                let mut at = at.iter().copied();
                let mut next = || at.next().unwrap_or($crate::sqlite::MISSING);
                Ok(Self {
                    $($field: row.get(next())?,)+
                    $($($empty: match next() {
                        $crate::sqlite::MISSING => Default::default(),
                        place => row.get(place)?,
                    },)+)?
                })
            }
        }
    };
}
pub(crate) use from_sqlite;

/// Tuples, by place.
macro_rules! tuple_from_sqlite {
    ($($part:ident $place:literal),+) => {
        impl<$($part: FromSql),+> FromSqlite for ($($part,)+) {
            const FIELDS: &'static [&'static str] = &[];

            fn from_sqlite(row: &Row<'_>, _: &[usize]) -> rusqlite::Result<Self> {
                Ok(($(row.get::<_, $part>($place)?,)+))
            }
        }
    };
}
tuple_from_sqlite!(A 0);
tuple_from_sqlite!(A 0, B 1);
tuple_from_sqlite!(A 0, B 1, C 2);
tuple_from_sqlite!(A 0, B 1, C 2, D 3);
tuple_from_sqlite!(A 0, B 1, C 2, D 3, E 4);

/// What SQLite says, in the form in which the rest of the crate reads errors.
#[derive(Debug)]
pub(crate) struct Failed {
    /// The extended code.
    pub code: i32,
    pub message: String,
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (code {})", self.message, self.code)
    }
}

impl StdError for Failed {}

impl DatabaseError for Failed {
    fn message(&self) -> &str {
        &self.message
    }

    fn code(&self) -> Option<Cow<'_, str>> {
        Some(self.code.to_string().into())
    }

    fn as_error(&self) -> &(dyn StdError + Send + Sync + 'static) {
        self
    }

    fn as_error_mut(&mut self) -> &mut (dyn StdError + Send + Sync + 'static) {
        self
    }

    fn into_error(self: Box<Self>) -> Box<dyn StdError + Send + Sync + 'static> {
        self
    }

    fn kind(&self) -> ErrorKind {
        match self.code {
            rusqlite::ffi::SQLITE_CONSTRAINT_UNIQUE | rusqlite::ffi::SQLITE_CONSTRAINT_PRIMARYKEY => {
                ErrorKind::UniqueViolation
            }
            rusqlite::ffi::SQLITE_CONSTRAINT_NOTNULL => ErrorKind::NotNullViolation,
            rusqlite::ffi::SQLITE_CONSTRAINT_CHECK => ErrorKind::CheckViolation,
            _ => ErrorKind::Other,
        }
    }
}

fn failed(error: rusqlite::Error, path: Option<&Path>) -> sqlx::Error {
    let code = error.sqlite_error().map(|error| error.extended_code);
    let Some(code) = code else {
        return sqlx::Error::Decode(Box::new(error));
    };
    let message = match (&error, path) {
        (rusqlite::Error::SqliteFailure(_, Some(message)), None) => message.clone(),
        (_, Some(path)) => format!("{}: {error}", path.display()),
        _ => error.to_string(),
    };
    sqlx::Error::Database(Box::new(Failed { code, message }))
}
