//! Wake-up hints between the engines on one PostgreSQL database. A lost hint costs one sweep, never a task. What an
//! engine told itself is not heard: it knows, and every poll woken for nothing is a transaction for nothing.

use sqlx::PgPool;
use sqlx::postgres::{PgConnectOptions, PgListener, PgPoolOptions};

use crate::{Error, Result};

const CHANNEL: &str = "legation";

/// PostgreSQL takes 8,000 bytes a notification, one of our names included.
const MOST: usize = 7_900;

/// A stream of hints.
pub struct Hints {
    listener: PgListener,
    /// The name under which this engine tells.
    own: String,
    /// Nobody was told yet that something may have been missed before.
    is_new: bool,
}

impl Hints {
    pub(crate) async fn listen(options: &PgConnectOptions, own: &str) -> Result<Self> {
        let pool = PgPoolOptions::new()
            .max_connections(1)
            .connect_lazy_with(options.clone());
        let mut listener = PgListener::connect_with(&pool).await?;
        listener.listen(CHANNEL).await?;
        Ok(Self {
            listener,
            own: own.to_owned(),
            is_new: true,
        })
    }

    /// Waits for the next hints of another engine. An empty list says that the connection is there, for the first time
    /// or again: some may have been missed, so look at everything.
    ///
    /// # Errors
    /// [`Error::Connection`] while the database is away; call again after a pause.
    pub async fn next(&mut self) -> Result<Vec<String>> {
        if std::mem::take(&mut self.is_new) {
            return Ok(Vec::new());
        }
        loop {
            let Some(notification) = self.listener.try_recv().await.map_err(Error::from)? else {
                return Ok(Vec::new());
            };
            let mut lines = notification.payload().lines();
            if lines.next() != Some(&self.own) {
                return Ok(lines.map(str::to_owned).collect());
            }
        }
    }
}

pub(crate) async fn notify(pool: &PgPool, own: &str, hints: &[String]) -> Result<()> {
    let mut rest = hints;
    while !rest.is_empty() {
        let mut bytes = 0;
        let fitting = rest.iter().take_while(|hint| {
            bytes += hint.len() + 1;
            bytes <= MOST
        });
        // A hint that is longer than all that fits is sent alone, and PostgreSQL refuses it by name.
        let count = fitting.count().max(1);
        let (now, later) = rest.split_at(count);
        sqlx::query("SELECT pg_notify($1, $2)")
            .bind(CHANNEL)
            .bind(format!("{own}\n{}", now.join("\n")))
            .execute(pool)
            .await?;
        rest = later;
    }
    Ok(())
}
