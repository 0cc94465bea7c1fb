//! End to end, crash and simulation tests.
