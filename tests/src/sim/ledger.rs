//! What happened outside the engine: payments and bookings by the key that they came with, transfers that have none.

use std::collections::BTreeMap;

use legation_language::Value;

/// The books of a bank that knows idempotency keys.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ledger {
    /// Purpose to the keys that it was paid under. More than one key is money lost.
    pub keyed: BTreeMap<String, BTreeMap<String, u32>>,
    /// Purpose to how often it was done. More than once is money lost.
    pub unkeyed: BTreeMap<String, u32>,
    /// What is known of each unkeyed call: (task, attempt, sequence) to its result.
    done: BTreeMap<(String, u32, u32), Value>,
}

impl Ledger {
    /// Done once a key, however often it is asked.
    pub fn pay(&mut self, purpose: String, key: &str) {
        *self
            .keyed
            .entry(purpose)
            .or_default()
            .entry(key.to_owned())
            .or_default() += 1;
    }

    /// Done every time that it is asked.
    pub fn transfer(&mut self, purpose: String, call: (String, u32, u32), result: Value) {
        *self.unkeyed.entry(purpose).or_default() += 1;
        self.done.insert(call, result);
    }

    /// Whether a call was really performed, for whoever has to say so.
    pub fn truth(&self, call: &(String, u32, u32)) -> Option<&Value> {
        self.done.get(call)
    }

    /// Money that was paid twice.
    pub fn twice(&self) -> Vec<String> {
        let keys = self
            .keyed
            .iter()
            .filter(|(_, keys)| keys.len() > 1)
            .map(|(purpose, keys)| format!("{purpose}: paid under {} keys", keys.len()));
        let times = self.unkeyed.iter().filter(|(_, times)| **times > 1);
        keys.chain(times.map(|(purpose, times)| format!("{purpose}: done {times} times")))
            .collect()
    }

    /// What was paid of one business key, to be compared between runs.
    pub fn of(&self, business_key: &str) -> Vec<String> {
        let prefix = format!("{business_key} ");
        let purposes = self.keyed.keys().chain(self.unkeyed.keys());
        purposes
            .filter(|purpose| purpose.starts_with(&prefix))
            .cloned()
            .collect()
    }
}
