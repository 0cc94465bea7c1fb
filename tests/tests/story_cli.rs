//! The large refund as a person at a terminal lives it: approve, timeline, journal, lineage (D14, D18, D45, D47).
