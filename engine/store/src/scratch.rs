//! Databases of their own for measurements: made on a PostgreSQL server that somebody named, dropped afterwards. And
//! what a database promises about a commit, for those who compare.

use sqlx::postgres::PgConnectOptions;
use sqlx::{AssertSqlSafe, ConnectOptions, Connection, PgConnection};

use crate::dialect::Sql;
use crate::{Db, Dialect, Error, Result};

/// A database that [`drop_it`](Scratch::drop_it) drops.
pub struct Scratch {
    server: PgConnectOptions,
    name: String,
    url: String,
}

impl Scratch {
    /// Makes the database `name` on the server of a `postgres://` address, whose own database is left alone.
    /// `sync_delay_ms` lets every commit wait that much longer, as a slower disk would; it takes a superuser.
    ///
    /// # Errors
    /// [`Error::Setup`] for a name that is more than lowercase letters, digits and `_`; the server's otherwise.
    pub async fn create(server: &str, name: &str, sync_delay_ms: Option<u32>) -> Result<Self> {
        let is_plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        if name.is_empty() || !name.chars().all(is_plain) {
            return Err(Error::Setup(format!("{name} is no name of a scratch database")));
        }
        let options: PgConnectOptions = server.parse()?;
        let scratch = Self {
            url: with_database(server, name),
            name: name.to_owned(),
            server: options,
        };
        let mut admin = scratch.server.connect().await?;
        run(&mut admin, format!("CREATE DATABASE {name}")).await?;
        if let Some(ms) = sync_delay_ms {
            let micros = u64::from(ms) * 1_000;
            run(
                &mut admin,
                format!("ALTER DATABASE {name} SET commit_delay = {micros}"),
            )
            .await?;
            run(
                &mut admin,
                format!("ALTER DATABASE {name} SET commit_siblings = 0"),
            )
            .await?;
        }
        admin.close().await?;
        Ok(scratch)
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Its name, which the server's processes carry in their titles.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Drops it with whatever is still connected.
    ///
    /// # Errors
    /// The server's.
    pub async fn drop_it(self) -> Result<()> {
        let mut admin = self.server.connect().await?;
        run(
            &mut admin,
            format!("DROP DATABASE IF EXISTS {} WITH (FORCE)", self.name),
        )
        .await?;
        admin.close().await?;
        Ok(())
    }
}

/// Whether a server takes connections.
pub async fn answers(server: &str) -> bool {
    let Ok(options) = server.parse::<PgConnectOptions>() else {
        return false;
    };
    match options.connect().await {
        Ok(conn) => conn.close().await.is_ok(),
        Err(_) => false,
    }
}

/// What holds when a commit is answered, in the database's own words.
///
/// # Errors
/// The database's.
pub async fn durability(db: &Db) -> Result<String> {
    static DURABILITY: Sql = Sql::pair(
        "",
        "SELECT '' AS said",
        "SELECT 'fsync=' || current_setting('fsync')
             || ', synchronous_commit=' || current_setting('synchronous_commit')
             || CASE current_setting('commit_delay') WHEN '0' THEN ''
                ELSE ', commit_delay=' || current_setting('commit_delay') || ' µs' END AS said",
    );
    if db.dialect() == Dialect::Sqlite {
        return db.sqlite_durability().await;
    }
    let row: Option<(String,)> = db.read().await?.first(&DURABILITY, &[]).await?;
    Ok(row.map(|row| row.0).unwrap_or_default())
}

async fn run(conn: &mut PgConnection, text: String) -> Result<()> {
    sqlx::raw_sql(AssertSqlSafe(text)).execute(conn).await?;
    Ok(())
}

/// The address of another database of the same server.
fn with_database(url: &str, name: &str) -> String {
    let (address, options) = match url.split_once('?') {
        Some((address, options)) => (address, format!("?{options}")),
        None => (url, String::new()),
    };
    let host = address.find("://").map_or(0, |at| at + 3);
    let end = address[host..].find('/').map_or(address.len(), |at| host + at);
    format!("{}/{name}{options}", &address[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_database_keeps_server_user_and_options() {
        let url = "postgres://me:secret@host:5433/mine?sslmode=require";
        assert_eq!(
            with_database(url, "x_1"),
            "postgres://me:secret@host:5433/x_1?sslmode=require"
        );
        assert_eq!(with_database("postgres://host", "x"), "postgres://host/x");
    }
}
