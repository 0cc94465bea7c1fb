//! Who waits for what, in this process: polls by topic, and the next due time of durable work. Lost hints cost
//! one sweep of at most a second, never a task (I9).

use std::collections::{BTreeMap, HashMap};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::time::Instant;

use crate::writer::FetchJob;

/// A topic of a project.
pub type Topic = (String, String);

/// How often an engine says that it is there.
pub(crate) const BEAT: Duration = Duration::from_secs(2);

/// Without a word of another for so long, an engine is alone, and nobody need be told anything.
const ALONE: Duration = Duration::from_secs(5);

/// See the module's words.
pub struct Wake {
    waiting: Mutex<Waiting>,
    /// Told when a due time came in that is earlier than the ones before.
    pub due: Notify,
    due_at: Mutex<BTreeMap<i64, Vec<Topic>>>,
    /// Counts commits, for streams that follow the history.
    pub committed: watch::Sender<u64>,
    /// Topics that opened, and how many tasks, to be told to other engines on the same database.
    hints: Mutex<HashMap<Topic, usize>>,
    pub hinted: Notify,
    /// When another engine was heard, or could have been expected to be.
    heard: Mutex<Instant>,
}

#[derive(Default)]
struct Waiting {
    polls: Vec<FetchJob>,
    /// Counts the commits that opened work of a topic.
    epochs: HashMap<Topic, u64>,
}

impl Default for Wake {
    fn default() -> Self {
        Self {
            waiting: Mutex::default(),
            due: Notify::new(),
            due_at: Mutex::default(),
            committed: watch::Sender::new(0),
            hints: Mutex::default(),
            hinted: Notify::new(),
            heard: Mutex::new(Instant::now()),
        }
    }
}

impl Wake {
    /// The sum of the epochs of some topics: equal means that nothing opened meanwhile.
    #[must_use]
    pub fn epoch(&self, project: &str, topics: &[String]) -> u64 {
        let waiting = self.lock();
        topics
            .iter()
            .map(|topic| {
                waiting
                    .epochs
                    .get(&(project.to_owned(), topic.clone()))
                    .copied()
                    .unwrap_or(0)
            })
            .sum()
    }

    /// Lets a poll wait; gives it back when work opened since it looked.
    pub fn wait(&self, poll: FetchJob) -> Option<FetchJob> {
        let mut waiting = self.lock();
        let now: u64 = poll
            .request
            .topics
            .iter()
            .map(|topic| {
                waiting
                    .epochs
                    .get(&(poll.request.project.clone(), topic.clone()))
                    .copied()
                    .unwrap_or(0)
            })
            .sum();
        if now != poll.epoch {
            return Some(poll);
        }
        waiting.polls.push(poll);
        None
    }

    /// The oldest polls for topics that opened, one for each task, and counts the opening.
    pub fn take(&self, open: &HashMap<Topic, usize>) -> Vec<FetchJob> {
        let mut waiting = self.lock();
        let mut left = open.clone();
        for topic in open.keys() {
            *waiting.epochs.entry(topic.clone()).or_default() += 1;
        }
        let mut taken = Vec::new();
        let mut kept = Vec::new();
        for poll in waiting.polls.drain(..) {
            if poll.reply.is_closed() {
                continue;
            }
            let project = &poll.request.project;
            let topic = poll.request.topics.iter().find_map(|topic| {
                let key = (project.clone(), topic.clone());
                left.get(&key).is_some_and(|count| *count > 0).then_some(key)
            });
            match topic {
                Some(topic) => {
                    if let Some(count) = left.get_mut(&topic) {
                        *count = count.saturating_sub(poll.request.max as usize);
                    }
                    taken.push(poll);
                }
                None => kept.push(poll),
            }
        }
        waiting.polls = kept;
        taken
    }

    /// Every waiting poll, for the sweep.
    pub fn take_all(&self) -> Vec<FetchJob> {
        let mut waiting = self.lock();
        waiting
            .polls
            .drain(..)
            .filter(|poll| !poll.reply.is_closed())
            .collect()
    }

    /// Remembers topics to be told to other engines, after the commit.
    pub fn hint(&self, topics: HashMap<Topic, usize>) {
        let mut hints = self.hints.lock().unwrap_or_else(PoisonError::into_inner);
        for (topic, count) in topics {
            *hints.entry(topic).or_default() += count;
        }
        drop(hints);
        self.hinted.notify_one();
    }

    /// The topics to tell, with how many tasks opened.
    pub fn take_hints(&self) -> Vec<(Topic, usize)> {
        self.hints
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain()
            .collect()
    }

    /// Another engine was heard, or may be there unheard.
    pub(crate) fn hear(&self, now: Instant) {
        *self.heard.lock().unwrap_or_else(PoisonError::into_inner) = now;
    }

    /// Whether no other engine works on the database. One that starts says so at once, and a mistake costs a sweep.
    pub(crate) fn is_alone(&self, now: Instant) -> bool {
        now.saturating_duration_since(*self.heard.lock().unwrap_or_else(PoisonError::into_inner)) > ALONE
    }

    /// How many polls wait.
    #[must_use]
    pub fn polls(&self) -> usize {
        self.lock().polls.len()
    }

    /// Remembers that durable work is due at this time; a topic when work opens by itself then.
    pub fn at(&self, time: i64, topic: Option<Topic>) {
        let mut due = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        let earlier = due.keys().next().is_none_or(|first| time < *first);
        due.entry(time).or_default().extend(topic);
        drop(due);
        if earlier {
            self.due.notify_one();
        }
    }

    /// The next time that something is due.
    #[must_use]
    pub fn next_due(&self) -> Option<i64> {
        self.due_at
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .keys()
            .next()
            .copied()
    }

    /// Forgets the times up to `now`, and gives the topics that open by now.
    pub fn pass(&self, now: i64) -> HashMap<Topic, usize> {
        let mut due = self.due_at.lock().unwrap_or_else(PoisonError::into_inner);
        let later = due.split_off(&(now + 1));
        let passed = std::mem::replace(&mut *due, later);
        let mut topics = HashMap::new();
        for topic in passed.into_values().flatten() {
            *topics.entry(topic).or_default() += 1;
        }
        topics
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_engine_is_alone_when_nobody_was_heard_for_longer_than_two_beats() {
        let wake = Wake::default();
        let start = Instant::now();
        assert!(
            !wake.is_alone(start),
            "one that was there before speaks within a beat"
        );
        assert!(!wake.is_alone(start + 2 * BEAT));
        assert!(wake.is_alone(start + 4 * BEAT));
        wake.hear(start + 4 * BEAT);
        assert!(!wake.is_alone(start + 6 * BEAT), "a beat may be lost");
        assert!(wake.is_alone(start + 8 * BEAT));
    }
}
