//! The documents that people write: processes, tool servers and `legation.toml`. Read with the place of everything,
//! validated as a set with all problems reported at once, and frozen into the definitions that the kernel runs.
//!
//! [`freeze()`] is the way in. What each document may hold is data (`shape`), one file per node type (`nodes/`).

mod activity;
mod approval;
mod codes;
mod delegates;
mod flow;
mod freeze;
mod names;
mod nodes;
mod pins;
mod posted;
mod problem;
mod process;
mod reads;
mod schema;
mod server;
mod set;
mod settings;
mod shape;
#[cfg(test)]
mod tests;
mod tools;
mod unwritten;
mod variables;
mod words;
mod written;
mod yaml;

pub use codes::Code;
pub use delegates::parameters;
pub use freeze::{Frozen, FrozenProcess, FrozenServer, Options, digest_of, freeze};
pub use names::{engine_written, is_built_in, is_name, is_process_key};
pub use pins::{Deployed, Known, Nothing, function_name};
pub use posted::without_command;
pub use problem::{Problem, Severity};
pub use reads::reads;
pub use schema::json_schemas;
pub use server::{Server, ServerTool, StdioCommand, Transport};
pub use settings::{Model, Settings};

/// Where a set comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Origin {
    /// Through the API: a stdio server's command is refused (`STDIO_COMMAND`).
    #[default]
    Posted,
    /// From the folder that `dev` watches.
    Local,
}

/// What a file is, by its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Process,
    Server,
    Settings,
    /// Reserved for a later release; the plural in words.
    Later(&'static str),
    /// The text decides.
    Unknown,
}

fn kind_of(file: &str) -> Kind {
    let name = file.rsplit('/').next().unwrap_or_default();
    let ends = |endings: &[&str]| endings.iter().any(|ending| name.ends_with(ending));
    let under =
        |folder: &str| file.starts_with(&format!("{folder}/")) || file.contains(&format!("/{folder}/"));
    if name == "legation.toml" {
        Kind::Settings
    } else if ends(&[".process.yaml", ".process.yml"]) {
        Kind::Process
    } else if ends(&[".server.yaml", ".server.yml"]) {
        Kind::Server
    } else if ends(&[".agent.md"]) {
        Kind::Later("agent documents")
    } else if ends(&[".form.yaml", ".form.yml"]) {
        Kind::Later("form documents")
    } else if ends(&[".test.yaml", ".test.yml"]) {
        Kind::Later("process tests")
    } else if ends(&[".dmn"]) {
        Kind::Later("DMN files")
    } else if ends(&[".bpmn"]) {
        Kind::Later("BPMN files")
    } else if matches!(name, "tool.yaml" | "tool.json" | "handler.ts" | "handler.js") && under("tools") {
        Kind::Later("tool documents")
    } else {
        Kind::Unknown
    }
}

/// Whether a path belongs to a project's documents, so that a deployment should send it.
#[must_use]
pub fn is_document(path: &str) -> bool {
    kind_of(path) != Kind::Unknown
}
