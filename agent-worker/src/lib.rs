//! The agent worker: leases agent tasks, lets a model choose the next step, and writes each step down first.
//!
//! `turns` is the pure rule (conversation and journal in, next action out), `run` the I/O around it,
//! `models` and `tools` what it talks to.

pub mod config;
pub mod http;
pub mod models;
pub mod secret;

pub mod engine;
pub mod logs;
pub mod reach;
pub mod run;
pub mod tools;
pub mod turns;
pub mod worker;
