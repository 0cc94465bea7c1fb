//! The HTTP API over the real router, engine and SQLite, with a clock that the test moves.

mod access;
mod contract;
mod delegation;
mod external_tasks;
mod feed;
mod figures;
mod forms;
mod idempotency;
mod instances;
mod journal;
mod limits;
mod operators;
mod people;
mod processes;
mod requests;
mod slow;
mod standing;
mod studio;
mod support;
