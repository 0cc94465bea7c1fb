//! Keys of rows, and places in lists.

use crate::dialect::Arg;
use crate::sqlite::from_sqlite;

/// The key of a row below a root instance.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, sqlx::FromRow)]
pub struct Key {
    /// The root instance.
    pub root: String,
    /// The whole id, which begins with the root's.
    pub id: String,
}

from_sqlite!(Key: root, id);

impl Key {
    /// A key of its two parts.
    #[must_use]
    pub fn new(root: impl Into<String>, id: impl Into<String>) -> Self {
        Self {
            root: root.into(),
            id: id.into(),
        }
    }

    pub(crate) fn args(&self) -> Vec<Arg<'_>> {
        vec![Arg::from(&self.root), Arg::from(&self.id)]
    }
}

/// Where the next page of a list begins: after the last row of the page before. Lists run newest first.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The time that orders the list, epoch milliseconds.
    pub at: i64,
    /// The row's root.
    pub root: String,
    /// The row's id.
    pub id: String,
}

/// The keys of `rows`, as arguments.
pub(crate) fn key_rows(keys: &[Key]) -> Vec<Vec<Arg<'_>>> {
    keys.iter().map(Key::args).collect()
}
