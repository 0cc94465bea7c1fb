//! Where SQLite and PostgreSQL differ, and nothing else: placeholders for many rows, row locks, lists.
//!
//! Statements are written once, in the file of their table, with these marks:
//! - `{columns}`, `{t.columns}`: the table's columns, bare or with the alias `t`;
//! - `{rows}`: the rows of a [`Bulk`] statement, `VALUES (…), (…)` or `SELECT * FROM UNNEST(…)`;
//! - `{for_update}`: row locks of PostgreSQL, nothing on SQLite, which has one writer;
//! - `{roots}`: on PostgreSQL `root = ANY(…)`, the first column of the rows of a [`Bulk`] statement, so that no plan
//!   made while a table was empty reads the whole of it later;
//! - `{texts:3}`: the list of strings bound as `$3`.

use std::sync::OnceLock;

use sqlx::postgres::PgArguments;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Postgres, Sqlite};

use crate::sqlite::FromSqlite;

/// Texts of statements that one connection keeps prepared: more than there are.
pub(crate) const STATEMENTS: usize = 400;

/// The two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// One file, one writer.
    Sqlite,
    /// A server shared by several engines.
    Postgres,
}

/// One bound value. The variant is the column's kind, also when the value is NULL.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Arg<'a> {
    Text(Option<&'a str>),
    Int(Option<i64>),
    Bool(bool),
    Blob(Option<&'a [u8]>),
    Texts(&'a [String]),
}

impl<'a> From<&'a str> for Arg<'a> {
    fn from(value: &'a str) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a String> for Arg<'a> {
    fn from(value: &'a String) -> Self {
        Self::Text(Some(value))
    }
}

impl<'a> From<&'a Option<String>> for Arg<'a> {
    fn from(value: &'a Option<String>) -> Self {
        Self::Text(value.as_deref())
    }
}

impl<'a> From<Option<&'a str>> for Arg<'a> {
    fn from(value: Option<&'a str>) -> Self {
        Self::Text(value)
    }
}

impl From<i64> for Arg<'_> {
    fn from(value: i64) -> Self {
        Self::Int(Some(value))
    }
}

impl From<Option<i64>> for Arg<'_> {
    fn from(value: Option<i64>) -> Self {
        Self::Int(value)
    }
}

impl From<bool> for Arg<'_> {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl<'a> From<&'a Vec<u8>> for Arg<'a> {
    fn from(value: &'a Vec<u8>) -> Self {
        Self::Blob(Some(value))
    }
}

impl<'a> From<&'a Option<Vec<u8>>> for Arg<'a> {
    fn from(value: &'a Option<Vec<u8>>) -> Self {
        Self::Blob(value.as_deref())
    }
}

impl<'a> From<&'a [String]> for Arg<'a> {
    fn from(value: &'a [String]) -> Self {
        Self::Texts(value)
    }
}

/// A list of [`Arg`]s. A macro, because the values have different types and `Arg::from` forty times a file
/// would hide the columns.
macro_rules! args {
    ($($value:expr),* $(,)?) => { [$($crate::dialect::Arg::from($value)),*] };
}
pub(crate) use args;

/// A statement of one shape, translated once.
pub(crate) struct Sql {
    columns: &'static str,
    sqlite: &'static str,
    postgres: &'static str,
    done: [OnceLock<String>; 2],
}

impl Sql {
    pub(crate) const fn new(columns: &'static str, text: &'static str) -> Self {
        Self::pair(columns, text, text)
    }

    /// For the few statements that have to be written twice.
    pub(crate) const fn pair(columns: &'static str, sqlite: &'static str, postgres: &'static str) -> Self {
        Self {
            columns,
            sqlite,
            postgres,
            done: [OnceLock::new(), OnceLock::new()],
        }
    }

    pub(crate) fn text(&'static self, dialect: Dialect) -> &'static str {
        match dialect {
            Dialect::Sqlite => self.done[0].get_or_init(|| translate(self.sqlite, self.columns, dialect)),
            Dialect::Postgres => self.done[1].get_or_init(|| translate(self.postgres, self.columns, dialect)),
        }
    }
}

/// Row counts of the SQLite texts of one [`Bulk`] statement for readers. Any number of rows is a few of these, so that
/// the statement cache holds four texts a statement and a list costs few hops to the connection's thread. The writer
/// takes one row at a time.
pub(crate) const CHUNKS: [usize; 4] = [64, 16, 4, 1];

/// A statement over many rows: UNNEST over arrays on PostgreSQL, chunks of VALUES on SQLite. It has no other values.
pub(crate) struct Bulk {
    columns: &'static str,
    text: &'static str,
    sqlite: [OnceLock<String>; 4],
    postgres: OnceLock<String>,
}

impl Bulk {
    pub(crate) const fn new(columns: &'static str, text: &'static str) -> Self {
        Self {
            columns,
            text,
            sqlite: [OnceLock::new(), OnceLock::new(), OnceLock::new(), OnceLock::new()],
            postgres: OnceLock::new(),
        }
    }

    /// Its marks have no numbers: SQLite looks numbered ones up in a list, for every value of every row.
    pub(crate) fn sqlite_text(&'static self, width: usize, chunk: usize) -> &'static str {
        self.sqlite[chunk].get_or_init(|| {
            let row = format!("({})", vec!["?"; width].join(", "));
            let rows = vec![row.as_str(); CHUNKS[chunk]].join(", ");
            translate(
                &self.text.replace("{rows}", &format!("VALUES {rows}")),
                self.columns,
                Dialect::Sqlite,
            )
        })
    }

    /// The text for one row.
    pub(crate) fn sqlite_row_text(&'static self, width: usize) -> &'static str {
        self.sqlite_text(width, CHUNKS.len() - 1)
    }

    pub(crate) fn postgres_text(&'static self, width: usize) -> &'static str {
        self.postgres.get_or_init(|| self.postgres_member(1, width))
    }

    /// The text when the rows are bound from `first` on.
    pub(crate) fn postgres_member(&self, first: usize, width: usize) -> String {
        let marks: Vec<String> = (first..first + width)
            .map(|number| format!("${number}"))
            .collect();
        let text = self
            .text
            .replace("{rows}", &format!("SELECT * FROM UNNEST({})", marks.join(", ")))
            .replace("{roots}", &format!("root = ANY(${first})"));
        translate(&text, self.columns, Dialect::Postgres)
    }
}

/// Replaces the marks of a statement.
pub(crate) fn translate(text: &str, columns: &str, dialect: Dialect) -> String {
    let aliased: Vec<String> = columns
        .split(", ")
        .map(|column| format!("t.{}", column.trim()))
        .collect();
    let for_update = match dialect {
        Dialect::Sqlite => "",
        Dialect::Postgres => "FOR UPDATE OF t",
    };
    let text = match dialect {
        // SQLite takes $1 for a name, and counts it by its place.
        Dialect::Sqlite => text.replace('$', "?"),
        Dialect::Postgres => text.to_owned(),
    };
    let mut text = text
        .replace("{columns}", columns)
        .replace("{t.columns}", &aliased.join(", "))
        .replace("{for_update}", for_update)
        .replace("{roots}", "TRUE");
    while let Some(start) = text.find("{texts:") {
        let Some(length) = text[start..].find('}') else {
            break;
        };
        let number = text[start + 7..start + length].to_owned();
        let list = match dialect {
            Dialect::Sqlite => format!("(SELECT value FROM json_each(?{number}))"),
            Dialect::Postgres => format!("(SELECT unnest(${number}::text[]))"),
        };
        text.replace_range(start..=start + length, &list);
    }
    text
}

/// Binds values for one SQLite statement.
pub(crate) fn sqlite_arguments<'a>(args: impl Iterator<Item = &'a Arg<'a>>) -> sqlx::Result<SqliteArguments> {
    let mut list = SqliteArguments::default();
    for arg in args {
        match *arg {
            Arg::Text(value) => list.add(value),
            Arg::Int(value) => list.add(value),
            Arg::Bool(value) => list.add(value),
            Arg::Blob(value) => list.add(value),
            Arg::Texts(values) => list.add(serde_json::to_string(values).expect("strings are JSON")),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(list)
}

/// Binds scalars and then, column by column, the arrays of `rows`.
pub(crate) fn postgres_arguments(scalars: &[Arg<'_>], rows: &[Vec<Arg<'_>>]) -> sqlx::Result<PgArguments> {
    let mut list = PgArguments::default();
    for arg in scalars {
        match *arg {
            Arg::Text(value) => list.add(value),
            Arg::Int(value) => list.add(value),
            Arg::Bool(value) => list.add(value),
            Arg::Blob(value) => list.add(value),
            Arg::Texts(values) => list.add(values),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    add_columns(&mut list, rows)?;
    Ok(list)
}

/// Adds the arrays of `rows`, column by column, and gives their number.
pub(crate) fn add_columns(list: &mut PgArguments, rows: &[Vec<Arg<'_>>]) -> sqlx::Result<usize> {
    let width = rows.first().map_or(0, Vec::len);
    for column in 0..width {
        let cells = rows.iter().map(|row| row[column]);
        match rows[0][column] {
            Arg::Text(_) => list.add(cells.map(Arg::text).collect::<Vec<_>>()),
            Arg::Int(_) => list.add(cells.map(Arg::int).collect::<Vec<_>>()),
            Arg::Bool(_) => list.add(cells.map(Arg::bool).collect::<Vec<_>>()),
            Arg::Blob(_) => list.add(cells.map(Arg::blob).collect::<Vec<_>>()),
            Arg::Texts(_) => return Err(sqlx::Error::Protocol("a list is no column".to_owned())),
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(width)
}

impl<'a> Arg<'a> {
    fn text(self) -> Option<&'a str> {
        if let Self::Text(value) = self { value } else { None }
    }

    fn int(self) -> Option<i64> {
        if let Self::Int(value) = self { value } else { None }
    }

    fn bool(self) -> Option<bool> {
        if let Self::Bool(value) = self {
            Some(value)
        } else {
            None
        }
    }

    fn blob(self) -> Option<&'a [u8]> {
        if let Self::Blob(value) = self { value } else { None }
    }
}

/// A row struct that both databases can fill.
pub(crate) trait FromAny:
    for<'r> sqlx::FromRow<'r, <Sqlite as sqlx::Database>::Row>
    + for<'r> sqlx::FromRow<'r, <Postgres as sqlx::Database>::Row>
    + FromSqlite
    + Send
    + Unpin
{
}

impl<T> FromAny for T where
    T: for<'r> sqlx::FromRow<'r, <Sqlite as sqlx::Database>::Row>
        + for<'r> sqlx::FromRow<'r, <Postgres as sqlx::Database>::Row>
        + FromSqlite
        + Send
        + Unpin
{
}
