//! `make demo`, as a newcomer runs it.
