//! PostgreSQL is a round trip away: writes that have no answer are gathered, and go as one statement before whatever
//! needs an answer next. A batch then costs one round trip for its writes instead of one for each table. The parts of
//! one statement do not see each other's rows, so no two may write one table: the second begins a new statement.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use sqlx::postgres::PgArguments;
use sqlx::{AssertSqlSafe, PgConnection, Row};

use crate::dialect::{Arg, Bulk, add_columns};

/// Writes that wait to be sent.
#[derive(Default)]
pub(crate) struct Gathered {
    parts: Vec<Part>,
    arguments: PgArguments,
    /// How many arguments there are.
    bound: usize,
}

struct Part {
    table: &'static str,
    sql: &'static Bulk,
    first: usize,
    width: usize,
    /// How many rows it must change; another number is a conflict.
    expected: Option<u64>,
}

impl Gathered {
    /// Whether a part writes the table already.
    pub(crate) fn has(&self, table: &str) -> bool {
        self.parts.iter().any(|part| part.table == table)
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(crate) fn add(
        &mut self,
        table: &'static str,
        sql: &'static Bulk,
        rows: &[Vec<Arg<'_>>],
        expected: Option<u64>,
    ) -> sqlx::Result<()> {
        let width = add_columns(&mut self.arguments, rows)?;
        self.parts.push(Part {
            table,
            sql,
            first: self.bound + 1,
            width,
            expected,
        });
        self.bound += width;
        Ok(())
    }

    /// Sends them; gives the table of a part that changed another number of rows than it must.
    pub(crate) async fn send(self, conn: &mut PgConnection) -> sqlx::Result<Option<&'static str>> {
        if let [only] = self.parts.as_slice() {
            let text = only.sql.postgres_text(only.width);
            let done = sqlx::query_with(text, self.arguments).execute(conn).await?;
            let is_right = only
                .expected
                .is_none_or(|expected| expected == done.rows_affected());
            return Ok(if is_right { None } else { Some(only.table) });
        }
        let text = AssertSqlSafe(text(&self.parts));
        let counts = sqlx::query_with(text, self.arguments).fetch_one(conn).await?;
        for (place, part) in self.parts.iter().enumerate() {
            let count: i64 = counts.try_get(place)?;
            if part
                .expected
                .is_some_and(|expected| i64::try_from(expected) != Ok(count))
            {
                return Ok(Some(part.table));
            }
        }
        Ok(None)
    }
}

/// The text of a combination of parts. There are as many as the engine has ways through a batch.
fn text(parts: &[Part]) -> Arc<str> {
    type Key = Vec<usize>;
    static TEXTS: LazyLock<Mutex<HashMap<Key, Arc<str>>>> = LazyLock::new(Mutex::default);
    let key: Key = parts
        .iter()
        .map(|part| std::ptr::from_ref(part.sql).addr())
        .collect();
    let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
    Arc::clone(texts.entry(key).or_insert_with(|| {
        let member = |(place, part): (usize, &Part)| {
            format!(
                "w{place} AS ({} RETURNING 1)",
                part.sql.postgres_member(part.first, part.width)
            )
        };
        let members: Vec<String> = parts.iter().enumerate().map(member).collect();
        let counts: Vec<String> = (0..parts.len())
            .map(|place| format!("(SELECT COUNT(*) FROM w{place})"))
            .collect();
        format!("WITH {} SELECT {}", members.join(", "), counts.join(", ")).into()
    }))
}
