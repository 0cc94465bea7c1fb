//! Waiting before the next try: doubling, with jitter, so that many workers do not come back at the same moment.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(100);
const LONGEST: Duration = Duration::from_secs(5);

/// The waits of one series of tries.
#[derive(Debug, Default)]
pub(crate) struct Backoff {
    tries: u32,
}

impl Backoff {
    /// How long to wait now; never less than the engine asked for.
    pub(crate) fn next(&mut self, asked_for: Option<Duration>) -> Duration {
        let wait = ceiling(self.tries);
        self.tries = self.tries.saturating_add(1);
        let jittered = wait.mul_f64(0.5 + rand::random::<f64>() / 2.0);
        jittered.max(asked_for.unwrap_or_default())
    }

    /// The last try worked.
    pub(crate) fn reset(&mut self) {
        self.tries = 0;
    }
}

fn ceiling(tries: u32) -> Duration {
    FIRST.saturating_mul(1 << tries.min(10)).min(LONGEST)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_a_ceiling_and_jitter_stays_within_half() {
        let mut backoff = Backoff::default();
        for tries in 0..20 {
            let wait = backoff.next(None);
            assert!(wait <= ceiling(tries), "{wait:?} after {tries} tries");
            assert!(wait >= ceiling(tries) / 2, "{wait:?} after {tries} tries");
        }
        assert_eq!(ceiling(19), LONGEST);
    }

    #[test]
    fn b20_the_engines_retry_after_is_never_undercut() {
        assert!(Backoff::default().next(Some(Duration::from_secs(9))) >= Duration::from_secs(9));
    }
}
