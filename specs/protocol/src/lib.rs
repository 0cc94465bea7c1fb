//! The wire types of the HTTP API.
