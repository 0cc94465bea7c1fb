//! End to end: the real binaries on temporary folders and databases, real workers, a network that a test can hold,
//! and `kill -9` of anything. Nothing outlives its test, and its logs are shown when it fails.

mod binaries;
mod client;
mod gate;
pub mod model;
mod processes;
mod stage;
mod wait;
mod workers;

pub use binaries::{binary, example, web_app, workspace};
pub use client::{Answer, Client};
pub use gate::{Gate, Hold};
pub use processes::{Process, free_port};
pub use stage::{Stage, Start};
pub use wait::{until, until_ms};

/// Runs each test on both databases: `name::sqlite` and `name::postgres`. A macro, because tests are functions that
/// the runner must find. Each gets a runtime with threads of its own, as the processes of a story wait for each other.
#[macro_export]
macro_rules! on_both_databases {
    ($($name:ident),* $(,)?) => {
        $(
            mod $name {
                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn sqlite() {
                    super::$name(legation_store::Dialect::Sqlite).await;
                }

                #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
                async fn postgres() {
                    super::$name(legation_store::Dialect::Postgres).await;
                }
            }
        )*
    };
}
