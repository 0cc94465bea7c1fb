//! End to end, crash and simulation tests.

pub mod e2e;
pub mod sim;
