//! SQLite and PostgreSQL behind one set of functions.
