//! End to end, crash and simulation tests.

pub mod sim;
