//! Secrets of the worker's own environment: never shown, and struck out of every log line.

use std::fmt;
use std::sync::{LazyLock, RwLock};

static KNOWN: LazyLock<RwLock<Vec<String>>> = LazyLock::new(RwLock::default);

/// A key or token. `Debug` shows no digit of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// Remembers the value, so that logs can leave it out wherever it turns up.
    pub fn new(value: impl Into<String>) -> Self {
        let value = value.into();
        // Shorter ones would strike out ordinary words.
        if value.len() >= 8
            && let Ok(mut known) = KNOWN.write()
            && !known.contains(&value)
        {
            known.push(value.clone());
        }
        Self(value)
    }

    /// The value, for the header that carries it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[secret]")
    }
}

/// The text with every known secret replaced.
pub fn redact(text: &str) -> String {
    let Ok(known) = KNOWN.read() else {
        return String::new();
    };
    known.iter().fold(text.to_owned(), |text, secret| {
        if text.contains(secret.as_str()) {
            text.replace(secret.as_str(), "[secret]")
        } else {
            text
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_secret_is_shown_nowhere() {
        let secret = Secret::new("sk-test-0123456789");
        assert_eq!(format!("{secret:?}"), "[secret]");
        assert_eq!(redact("bad key sk-test-0123456789!"), "bad key [secret]!");
    }
}
