//! The same payments worker in Node, Python and Rust: each pays the refund of the story once (D31, D32, D46b).
