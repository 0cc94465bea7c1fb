//! The documents people write: parsed, validated, frozen.
