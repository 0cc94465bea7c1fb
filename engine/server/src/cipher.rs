//! Payloads are encrypted at rest (AES-256-GCM) under a key of their own root, which the master key wraps: to
//! erase a root is to drop its key (core §2, "Payloads").

use aes_gcm::aead::{Aead, KeyInit, Payload};
use aes_gcm::{Aes256Gcm, Key, Nonce};
use secrecy::{ExposeSecret, SecretBox};
use sha2::{Digest, Sha256};

use crate::chance::{Chance, hex};

/// The master key of this engine.
pub struct Master {
    key: SecretBox<[u8; 32]>,
    id: String,
}

/// The key of one root, unwrapped.
#[derive(Clone)]
pub struct DataKey(Aes256Gcm);

/// The stored bytes cannot be read with this key.
#[derive(Debug, thiserror::Error)]
#[error("the stored bytes cannot be decrypted with this key")]
pub struct Undecryptable;

impl Master {
    /// 32 bytes.
    #[must_use]
    pub fn new(key: [u8; 32]) -> Self {
        let id = hex(&Sha256::digest(key)[..6]);
        Self {
            key: SecretBox::new(Box::new(key)),
            id,
        }
    }

    /// Reads 64 hex characters.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        let text = text.trim();
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        let mut key = [0; 32];
        for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        Some(Self::new(key))
    }

    /// Names the key without telling it.
    #[must_use]
    pub fn id(&self) -> &str {
        &self.id
    }

    /// Makes a data key for a root: the key, and its wrapped form to store.
    #[must_use]
    pub fn new_data_key(&self, root: &str, chance: &Chance) -> (DataKey, Vec<u8>) {
        let (mut key, mut nonce) = ([0; 32], [0; 12]);
        chance.fill(&mut key);
        chance.fill(&mut nonce);
        let wrapped = seal(&self.cipher(), &nonce, &key, root.as_bytes());
        (
            DataKey(Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(&key))),
            [nonce.as_slice(), &wrapped].concat(),
        )
    }

    /// # Errors
    /// [`Undecryptable`] when another master key wrapped it.
    pub fn unwrap(&self, root: &str, wrapped: &[u8]) -> Result<DataKey, Undecryptable> {
        let (nonce, sealed) = wrapped.split_at_checked(12).ok_or(Undecryptable)?;
        let key = open(&self.cipher(), nonce, sealed, root.as_bytes())?;
        if key.len() != 32 {
            return Err(Undecryptable);
        }
        Ok(DataKey(Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(&key))))
    }

    fn cipher(&self) -> Aes256Gcm {
        Aes256Gcm::new(Key::<Aes256Gcm>::from_slice(self.key.expose_secret()))
    }
}

impl DataKey {
    /// Encrypts; `place` binds the bytes to where they are stored.
    #[must_use]
    pub fn encrypt(&self, plain: &[u8], place: &str, chance: &Chance) -> ([u8; 12], Vec<u8>) {
        let mut nonce = [0; 12];
        chance.fill(&mut nonce);
        (nonce, seal(&self.0, &nonce, plain, place.as_bytes()))
    }

    /// # Errors
    /// [`Undecryptable`] when key, bytes or place do not belong together.
    pub fn decrypt(&self, nonce: &[u8], sealed: &[u8], place: &str) -> Result<Vec<u8>, Undecryptable> {
        open(&self.0, nonce, sealed, place.as_bytes())
    }
}

fn seal(cipher: &Aes256Gcm, nonce: &[u8], plain: &[u8], place: &[u8]) -> Vec<u8> {
    let payload = Payload {
        msg: plain,
        aad: place,
    };
    cipher
        .encrypt(Nonce::from_slice(nonce), payload)
        .expect("AES-GCM only fails beyond 64 GiB")
}

fn open(cipher: &Aes256Gcm, nonce: &[u8], sealed: &[u8], place: &[u8]) -> Result<Vec<u8>, Undecryptable> {
    if nonce.len() != 12 {
        return Err(Undecryptable);
    }
    cipher
        .decrypt(
            Nonce::from_slice(nonce),
            Payload {
                msg: sealed,
                aad: place,
            },
        )
        .map_err(|_| Undecryptable)
}
