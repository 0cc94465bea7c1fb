//! The pure core: instances moved by tokens, tasks with their journal. No I/O, no clock, no randomness: `now`
//! and fresh random parts are arguments (I1).

pub mod commands;
pub mod content;
pub mod dates;
pub mod effect;
mod ending;
mod errors;
pub mod expr;
pub mod ids;
pub mod instance;
pub mod journal;
mod lookup;
mod merge;
pub mod moves;
mod nodes;
mod outputs;
pub mod rejection;
mod start;
pub mod task;
pub mod work;
