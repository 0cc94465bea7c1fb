//! Times of many calls and what is said of them.

use serde::{Deserialize, Serialize};

/// Percentiles, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Times {
    pub p50: f64,
    pub p90: f64,
    pub p99: f64,
    pub max: f64,
}

/// What one part of the load reports on stdout when it is done.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Part {
    /// Instances, steps or delegations that were finished in the measured time.
    pub finished: u64,
    pub seconds: f64,
    pub times: Times,
    /// CPU seconds of the process, in the measured time.
    pub cpu_seconds: f64,
}

impl Times {
    /// From microseconds, in any order.
    pub fn of(mut micros: Vec<u64>) -> Self {
        micros.sort_unstable();
        let at = |share: f64| {
            let place = (micros.len() as f64 * share).ceil() as usize;
            let micros = micros.get(place.saturating_sub(1)).copied();
            micros.unwrap_or_default() as f64 / 1_000.0
        };
        Self {
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            max: at(1.0),
        }
    }
}

/// Microseconds of the system's clock, which every process of this machine shares.
#[expect(
    clippy::disallowed_methods,
    reason = "two processes measure one time; no engine reads it"
)]
pub fn micros() -> u64 {
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    u64::try_from(now.unwrap_or_default().as_micros()).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_the_values_at_their_places() {
        let times = Times::of((1..=1_000).rev().map(|n| n * 1_000).collect());
        assert_eq!(
            times,
            Times {
                p50: 500.0,
                p90: 900.0,
                p99: 990.0,
                max: 1_000.0
            }
        );
        assert_eq!(Times::of(Vec::new()), Times::default());
    }
}
