//! What can go wrong with the database, as far as a caller acts differently on it.

use sqlx::error::{DatabaseError, ErrorKind};

/// A result of this crate.
pub type Result<T> = std::result::Result<T, Error>;

/// A failure of the database. That something does not exist is no failure: it is an `Option`.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A row was changed by someone else since it was read, or a unique key exists already. The transaction is
    /// lost; reload and decide again.
    #[error("conflict in {what}")]
    Conflict {
        /// The table, or the constraint as the database names it.
        what: String,
    },
    /// The database gave the transaction up (serialisation failure, deadlock, busy): the same work may be tried
    /// again at once. Nothing was written.
    #[error("the database asks to retry: {0}")]
    Retry(#[source] sqlx::Error),
    /// The connection is lost or could not be had. Out of [`Tx::commit`](crate::Tx::commit) it means that nobody
    /// knows whether the transaction was committed.
    #[error("no connection to the database: {0}")]
    Connection(#[source] sqlx::Error),
    /// The disk or the database's page limit is full. Nothing was written (B17).
    #[error("the database is full: {0}")]
    Full(#[source] sqlx::Error),
    /// Stored data cannot be read.
    #[error("corrupt row in {table}: {id}")]
    Corrupt {
        /// The table.
        table: &'static str,
        /// The key of the row, or what the database says.
        id: String,
    },
    /// Anything else. Nothing was written.
    #[error("database error: {0}")]
    Database(#[source] sqlx::Error),
    /// The address of the database cannot be used, or its migrations failed.
    #[error("{0}")]
    Setup(String),
}

impl Error {
    /// A conflict in `table`.
    #[must_use]
    pub fn conflict(table: &str) -> Self {
        Self::Conflict {
            what: table.to_owned(),
        }
    }

    /// Whether the same call may succeed a little later, without anybody changing anything: a database that is still
    /// starting does, a wrong password does not.
    #[must_use]
    pub fn heals(&self) -> bool {
        match self {
            Self::Connection(error) => !matches!(error, sqlx::Error::Tls(_)),
            Self::Retry(_) => true,
            Self::Conflict { .. }
            | Self::Full(_)
            | Self::Corrupt { .. }
            | Self::Database(_)
            | Self::Setup(_) => false,
        }
    }

    /// A connection that is gone, for whoever puts one between the store and its database.
    #[must_use]
    pub fn lost(what: &str) -> Self {
        Self::Connection(sqlx::Error::Protocol(what.to_owned()))
    }
}

impl From<sqlx::Error> for Error {
    fn from(error: sqlx::Error) -> Self {
        if let sqlx::Error::Database(inner) = &error {
            return match sort(inner.as_ref()) {
                Sort::Unique => {
                    let what = inner.constraint().unwrap_or_else(|| inner.message()).to_owned();
                    Self::Conflict { what }
                }
                Sort::Retry => Self::Retry(error),
                Sort::Connection => Self::Connection(error),
                Sort::Full => Self::Full(error),
                Sort::Corrupt => Self::Corrupt {
                    table: "database",
                    id: inner.message().to_owned(),
                },
                Sort::Other => Self::Database(error),
            };
        }
        match &error {
            sqlx::Error::Io(_)
            | sqlx::Error::Tls(_)
            | sqlx::Error::Protocol(_)
            | sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::BeginFailed
            | sqlx::Error::WorkerCrashed => Self::Connection(error),
            _ => Self::Database(error),
        }
    }
}

enum Sort {
    Unique,
    Retry,
    Connection,
    Full,
    Corrupt,
    Other,
}

fn sort(error: &dyn DatabaseError) -> Sort {
    if matches!(error.kind(), ErrorKind::UniqueViolation) {
        return Sort::Unique;
    }
    let code = error.code().unwrap_or_default();
    // SQLSTATEs have five characters; SQLite's codes are numbers whose low byte is the primary code.
    if code.len() == 5 {
        return match code.as_ref() {
            "40001" | "40P01" | "55P03" => Sort::Retry,
            "57P01" | "57P02" | "57P03" | "53300" | "25P03" => Sort::Connection,
            "53100" => Sort::Full,
            "XX001" | "XX002" => Sort::Corrupt,
            code if code.starts_with("08") => Sort::Connection,
            _ => Sort::Other,
        };
    }
    match code.parse::<i64>().map_or(0, |code| code & 0xff) {
        5 | 6 => Sort::Retry,
        // A file that cannot be read or written: at a COMMIT nobody knows what of it reached the disk.
        10 | 14 => Sort::Connection,
        11 | 26 => Sort::Corrupt,
        13 => Sort::Full,
        _ => Sort::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sqlite::Failed;

    /// What a caller may do after each of SQLite's primary codes, extended ones included.
    #[test]
    fn sqlites_errors_say_what_a_caller_may_do() {
        let error = |code: i32| {
            let message = "as SQLite says".to_owned();
            Error::from(sqlx::Error::Database(Box::new(Failed { code, message })))
        };
        // Busy, locked; busy with a snapshot.
        assert!(
            [5, 6, 517]
                .iter()
                .all(|code| matches!(error(*code), Error::Retry(_)))
        );
        // An error of the disk, of its sync, of a short read; a file that cannot be opened.
        assert!(
            [10, 1034, 522, 14]
                .iter()
                .all(|code| matches!(error(*code), Error::Connection(_)))
        );
        assert!(matches!(error(13), Error::Full(_)));
        assert!(
            [11, 26]
                .iter()
                .all(|code| matches!(error(*code), Error::Corrupt { .. }))
        );
        assert!(
            [1555, 2067]
                .iter()
                .all(|code| matches!(error(*code), Error::Conflict { .. }))
        );
        assert!(matches!(error(1), Error::Database(_)));
    }
}
