//! The README and the pages of docs/ keep their word: every block marked `sh test` is run as written.
