//! What a test does to commits: connections that break while committing, engines that die before or after. A real
//! engine has none of it, but for the crash points of debug builds (B15).

use futures::future::BoxFuture;

/// Asked around every commit of a writer. An answer that never comes is an engine that died there.
pub trait Faults: Send + Sync {
    /// # Errors
    /// [`Lost`]: the connection breaks here.
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>>;
}

/// Where a writer stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// Everything is written, nothing is committed.
    BeforeCommit,
    /// Everything is committed, nobody was answered.
    AfterCommit {
        /// Durable commands that the commit left to do, the ends of children for one.
        mail: usize,
    },
}

/// The connection broke: nobody knows whether the transaction was committed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost;
