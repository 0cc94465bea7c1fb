//! The engine: writer, duties, HTTP, CLI.
