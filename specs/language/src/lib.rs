//! The documents people write: parsed, validated, frozen.

pub mod canonical;
pub mod documents;
pub mod duration;
pub mod expr;
pub mod model;
pub mod template;
pub mod types;
pub mod value;

pub use value::Value;
