//! What the command line understands.
