//! Reaching the database at a start: what is connected to is said at once, and why it is not reached with every try.
//! An engine that starts together with its database waits for it; a wrong password is no reason to wait.

use std::time::Duration;

use legation_store::{Db, Error};
use tokio::time::Instant;

/// How long a start waits for a database unless it is told otherwise.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Pauses between tries; the last one goes on.
const PAUSES: [Duration; 4] = [
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(3),
    Duration::from_secs(5),
];

/// Waits until a connection can be made.
///
/// # Errors
/// What the last try said: after `patience`, or at once where waiting cannot help.
pub async fn reach(db: &Db, patience: Duration) -> anyhow::Result<()> {
    let place = db.place();
    tracing::info!(database = place, "connecting to the database {place}");
    let until = Instant::now() + patience;
    let pauses = PAUSES.iter().chain(std::iter::repeat(&PAUSES[PAUSES.len() - 1]));
    for pause in pauses {
        let Err(error) = db.reach().await else {
            return Ok(());
        };
        let cause = cause(&error);
        if !error.heals() {
            anyhow::bail!("the database {place} refuses: {cause}");
        }
        if Instant::now() + *pause > until {
            anyhow::bail!(
                "the database {place} was not reached within {} s: {cause}",
                patience.as_secs()
            );
        }
        tracing::warn!(
            database = place,
            "the database {place} is not reached: {cause}; trying again in {} s",
            pause.as_secs()
        );
        tokio::time::sleep(*pause).await;
    }
    unreachable!("the pauses have no end")
}

/// What lies at the bottom of an error: the system's or the database's own words.
fn cause(error: &Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(source) = cause.source() {
        cause = source;
    }
    // The line in the server's own source that PostgreSQL adds says nothing to who reads it here.
    let words = cause.to_string();
    words.split(" at line ").next().unwrap_or(&words).to_owned()
}
