//! The binary `legation` as people run it: in a folder, with files, signals and exit codes.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where by panicking"
)]

mod bench;
mod clients;
mod dev;
mod documents;
mod serve;
mod support;
