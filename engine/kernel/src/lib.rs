//! The pure core: instances, tokens, the journal.
