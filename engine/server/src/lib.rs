//! The engine: writer, duties, HTTP, CLI.

pub mod app;
pub mod bpmn;
pub mod chance;
pub mod cipher;
pub mod cli;
pub mod clock;
pub mod definitions;
pub mod deploy;
mod duties;
pub mod http;
mod plural;
pub mod wake;
pub mod writer;
