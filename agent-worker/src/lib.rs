//! The agent worker: a model loop over the journal, with MCP tool servers.
