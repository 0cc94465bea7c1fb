//! The one source of chance: ids, lease randoms, keys, jitter. A seed makes all of it repeatable (simulation).

use std::sync::{Mutex, PoisonError};

use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

/// A cryptographic generator, seeded by the system unless a test says otherwise.
pub struct Chance(Mutex<StdRng>);

impl Chance {
    #[must_use]
    pub fn system() -> Self {
        Self(Mutex::new(StdRng::from_os_rng()))
    }

    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        Self(Mutex::new(StdRng::seed_from_u64(seed)))
    }

    pub fn fill(&self, bytes: &mut [u8]) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .fill_bytes(bytes);
    }

    /// A UUIDv7 as 32 hex characters: new ids sort behind old ones, so index pages fill in order.
    #[must_use]
    pub fn root_id(&self, now: i64) -> String {
        let mut random = [0; 10];
        self.fill(&mut random);
        let millis = now.max(0) as u64;
        uuid::Builder::from_unix_timestamp_millis(millis, &random)
            .into_uuid()
            .simple()
            .to_string()
    }

    /// 64 random bits as hex: the unguessable part of a lease id, a command id.
    #[must_use]
    pub fn token(&self) -> String {
        let mut random = [0; 8];
        self.fill(&mut random);
        hex(&random)
    }

    /// 0..=100.
    #[must_use]
    pub fn percent(&self) -> u32 {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random_range(0..=100)
    }
}

/// Lowercase hex.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    bytes
        .iter()
        .fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
}
