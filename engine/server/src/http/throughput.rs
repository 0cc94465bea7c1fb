//! How much work was completed lately: counted in memory by the engine that took the call, minute by minute, so that a
//! completion costs no write of its own and a look at it no query.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

const MINUTE_MS: i64 = 60_000;

/// Minutes that are kept.
const MINUTES: usize = 60;

/// The minutes that are told apart from the hour.
const RECENT: i64 = 5;

/// Past this many topics and workers the memory is emptied: a flood of invented names must not eat it.
const MOST: usize = 10_000;

#[derive(Default)]
pub struct Throughput(Mutex<Inner>);

#[derive(Default)]
struct Inner {
    since: Option<i64>,
    topics: HashMap<(String, String), Minutes>,
    workers: HashMap<(String, String), Minutes>,
}

/// Completed tasks by minute; the place is the minute modulo [`MINUTES`].
struct Minutes {
    counts: [u32; MINUTES],
    newest: i64,
}

/// What was completed lately.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Completed {
    pub last_5_min: u64,
    pub last_hour: u64,
}

impl Throughput {
    /// Begins to count, at the latest when somebody first looks.
    pub fn since(&self, now: i64) -> i64 {
        *self.lock().since.get_or_insert(now)
    }

    /// A worker completed a task.
    pub fn completed(&self, project: &str, topic: Option<&str>, worker: &str, now: i64) {
        let mut inner = self.lock();
        inner.since.get_or_insert(now);
        if inner.topics.len() >= MOST || inner.workers.len() >= MOST {
            inner.topics.clear();
            inner.workers.clear();
            inner.since = Some(now);
        }
        let minute = now / MINUTE_MS;
        let name = |of: &str| (project.to_owned(), of.to_owned());
        if let Some(topic) = topic {
            inner
                .topics
                .entry(name(topic))
                .or_insert_with(Minutes::new)
                .add(minute);
        }
        inner
            .workers
            .entry(name(worker))
            .or_insert_with(Minutes::new)
            .add(minute);
    }

    /// The topics of a project on which something was completed in the last hour.
    pub fn topics(&self, project: &str, now: i64) -> HashMap<String, Completed> {
        shown(&self.lock().topics, project, now)
    }

    /// The workers of a project that completed something in the last hour.
    pub fn workers(&self, project: &str, now: i64) -> HashMap<String, Completed> {
        shown(&self.lock().workers, project, now)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Inner> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn shown(all: &HashMap<(String, String), Minutes>, project: &str, now: i64) -> HashMap<String, Completed> {
    let own = all.iter().filter(|((of, _), _)| of == project);
    let completed = own.map(|((_, name), minutes)| (name.clone(), minutes.completed(now / MINUTE_MS)));
    completed
        .filter(|(_, completed)| completed.last_hour > 0)
        .collect()
}

impl Minutes {
    fn new() -> Self {
        Self {
            counts: [0; MINUTES],
            newest: i64::MIN,
        }
    }

    fn add(&mut self, minute: i64) {
        if minute > self.newest {
            let gone = minute.saturating_sub(self.newest).min(MINUTES as i64);
            for passed in 0..gone {
                self.counts[place(minute - passed)] = 0;
            }
            self.newest = minute;
        }
        let count = &mut self.counts[place(minute)];
        *count = count.saturating_add(1);
    }

    fn completed(&self, minute: i64) -> Completed {
        let sum = |most: i64| {
            let known = (0..most).map(|back| minute - back);
            let known = known.filter(|at| *at <= self.newest && *at > self.newest - MINUTES as i64);
            known.map(|at| u64::from(self.counts[place(at)])).sum()
        };
        Completed {
            last_5_min: sum(RECENT),
            last_hour: sum(MINUTES as i64),
        }
    }
}

fn place(minute: i64) -> usize {
    usize::try_from(minute.rem_euclid(MINUTES as i64)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_an_hour_is_forgotten() {
        let throughput = Throughput::default();
        let at = |minute: i64| minute * MINUTE_MS;
        let of = |now| {
            throughput
                .topics("p", now)
                .get("mail")
                .copied()
                .unwrap_or_default()
        };
        throughput.completed("p", Some("mail"), "w", at(100));
        throughput.completed("p", Some("mail"), "w", at(100));
        throughput.completed("p", None, "w", at(104));
        throughput.completed("other", Some("mail"), "w", at(104));
        let seen = |last_5_min, last_hour| Completed {
            last_5_min,
            last_hour,
        };
        assert_eq!(of(at(104)), seen(2, 2));
        assert_eq!(of(at(105)), seen(0, 2));
        assert_eq!(of(at(159)), seen(0, 2));
        assert_eq!(of(at(160)), seen(0, 0));
        throughput.completed("p", Some("mail"), "w", at(161));
        assert_eq!(
            of(at(161)),
            seen(1, 1),
            "the place of an old minute is used again"
        );
        assert_eq!(throughput.workers("p", at(161))["w"], seen(1, 2));
        assert_eq!(throughput.since(at(200)), at(100));
    }
}
