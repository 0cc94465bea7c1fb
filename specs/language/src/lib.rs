//! The documents people write: parsed, validated, frozen.

pub mod value;

pub use value::Value;
