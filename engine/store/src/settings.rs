//! Facts about the whole installation, such as the check value of its master key.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Sql, args};

/// One value.
pub async fn get(conn: &mut Conn, key: &str) -> Result<Option<String>> {
    static GET: Sql = Sql::new("", "SELECT value FROM settings WHERE key = $1");
    let row: Option<(String,)> = conn.first(&GET, &args![key]).await?;
    Ok(row.map(|row| row.0))
}

/// Sets a value.
pub async fn set(tx: &mut Tx, key: &str, value: &str) -> Result<()> {
    static SET: Sql = Sql::new(
        "",
        "INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = excluded.value",
    );
    tx.execute(&SET, &args![key, value]).await?;
    Ok(())
}

/// Sets a value if there is none, and gives the one that stands: of several engines starting at once, one wins.
pub async fn get_or_set(tx: &mut Tx, key: &str, value: &str) -> Result<String> {
    static INSERT: Sql = Sql::new(
        "",
        "INSERT INTO settings (key, value) VALUES ($1, $2) ON CONFLICT (key) DO NOTHING",
    );
    tx.execute(&INSERT, &args![key, value]).await?;
    Ok(get(tx, key).await?.unwrap_or_else(|| value.to_owned()))
}
