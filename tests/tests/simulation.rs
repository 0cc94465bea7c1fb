//! The seeded simulation: `SEEDS=2000` runs more seeds, `SEED=7` runs one and says what it did.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use legation_store::Dialect;
use legation_tests::sim::{Report, simulate};

/// I2, I3, I5–I8, I10, B24: the end of every run full of accidents equals the end without any.
#[test]
fn sqlite_ends_as_if_nothing_had_happened() {
    all(Dialect::Sqlite, 300);
}

/// The same with two engines on one database.
#[test]
fn postgres_ends_as_if_nothing_had_happened() {
    all(Dialect::Postgres, 40);
}

/// What a hundred seeds together must have met.
const REACHED: [&str; 9] = [
    "attempts",
    "cancelled",
    "incident LEASE_EXPIRY",
    "incident OUTCOME_UNKNOWN",
    "incident WORK_FAILED",
    "late results",
    "notice OUTCOME_UNKNOWN",
    "reused steps",
    "steps granted again",
];

#[derive(Default)]
struct Total {
    commits: u32,
    broken: u32,
    calls: u32,
    reached: BTreeMap<String, u32>,
}

impl Total {
    fn add(&mut self, report: &Report) {
        self.commits += report.commits;
        self.broken += report.broken;
        self.calls += report.calls;
        for (what, times) in &report.reached {
            *self.reached.entry(what.clone()).or_default() += times;
        }
    }
}

fn all(dialect: Dialect, default: u64) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    if let Some(seed) = number("SEED") {
        match simulate(seed, dialect) {
            Ok(report) => eprintln!(
                "seed {seed}: {} commits, {} of them broken, {} calls\n{:#?}\n{:#?}",
                report.commits, report.broken, report.calls, report.reached, report.ends
            ),
            Err(wrong) => panic!("{wrong}"),
        }
        return;
    }
    let seeds = number("SEEDS").unwrap_or(default);
    let first = number("FIRST").unwrap_or(0);
    let next = AtomicU64::new(first);
    let wrong: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let total: Mutex<Total> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= first + seeds || wrong.lock().unwrap_or_else(PoisonError::into_inner).len() > 4
                    {
                        return;
                    }
                    let ended = std::panic::catch_unwind(|| simulate(seed, dialect));
                    let ended = ended.unwrap_or_else(|_| Err(format!("seed {seed} panicked, see above")));
                    match ended {
                        Ok(report) => total.lock().unwrap_or_else(PoisonError::into_inner).add(&report),
                        Err(found) => wrong.lock().unwrap_or_else(PoisonError::into_inner).push(found),
                    }
                }
            });
        }
    });
    let wrong = wrong.into_inner().unwrap_or_else(PoisonError::into_inner);
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    let total = total.into_inner().unwrap_or_else(PoisonError::into_inner);
    eprintln!(
        "{seeds} seeds: {} commits, {} of them broken, {} calls, {:#?}",
        total.commits, total.broken, total.calls, total.reached
    );
    // A simulation that no longer comes to these places proves nothing about them.
    for what in REACHED.iter().filter(|_| seeds >= 100) {
        assert!(
            total.reached.get(*what).is_some_and(|times| *times > 0),
            "no seed reached: {what}"
        );
    }
}
