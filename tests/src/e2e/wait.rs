//! Waiting for something to become so, with a deadline.

use std::time::Duration;

use tokio::time::Instant;

/// Waits up to a minute until `look` finds something.
///
/// # Panics
/// When it never does, naming what was waited for.
pub async fn until<T>(what: &str, look: impl AsyncFnMut() -> Option<T>) -> T {
    until_ms(what, 60_000, look).await
}

/// The same with another deadline.
///
/// # Panics
/// When it never does, naming what was waited for.
pub async fn until_ms<T>(what: &str, ms: u64, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let deadline = Instant::now() + Duration::from_millis(ms);
    loop {
        if let Some(found) = look().await {
            return found;
        }
        assert!(Instant::now() < deadline, "waited {ms} ms for {what}");
        tokio::time::sleep(Duration::from_millis(30)).await;
    }
}
