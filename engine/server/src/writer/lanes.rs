//! Lanes with shares, so that no kind of work starves another (core §2, "Group commit").

use std::collections::VecDeque;

use legation_kernel::commands::Command;

use super::Job;

/// The four lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Heartbeats, results, closing calls, steps.
    Workers,
    /// Durable commands.
    Durable,
    Fetches,
    /// Starts and operators.
    Starts,
}

/// The lane of a command.
#[must_use]
pub fn lane(command: &Command) -> Lane {
    match command {
        Command::Complete { .. }
        | Command::Failure { .. }
        | Command::Error { .. }
        | Command::Release { .. }
        | Command::Park { .. }
        | Command::Heartbeat { .. }
        | Command::Steps { .. } => Lane::Workers,
        Command::FireTimer { .. }
        | Command::ChildDone { .. }
        | Command::Continue { .. }
        | Command::GiveUp { .. }
        | Command::Unreadable { .. }
        | Command::Lapse { .. } => Lane::Durable,
        Command::Start(_)
        | Command::Unlock { .. }
        | Command::Decide { .. }
        | Command::CompleteHuman { .. }
        | Command::Cancel { .. }
        | Command::RetryIncident { .. }
        | Command::ResolveIncident { .. } => Lane::Starts,
    }
}

/// What waits, by lane.
#[derive(Default)]
pub(super) struct Lanes([VecDeque<Job>; 4]);

/// Of a batch of 256; what a lane does not use goes to the others, in this order.
const SHARES: [usize; 4] = [112, 48, 32, 64];
const BATCH: usize = 256;

impl Lanes {
    pub(super) fn push(&mut self, job: Job) {
        let lane = match &job {
            Job::Command(job) => lane(&job.command),
            Job::Fetch(_) => Lane::Fetches,
        };
        self.0[lane as usize].push_back(job);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.iter().all(VecDeque::is_empty)
    }

    /// The next batch, each lane in its own order.
    pub(super) fn take(&mut self) -> Vec<Job> {
        let mut batch = Vec::new();
        for (lane, share) in self.0.iter_mut().zip(SHARES) {
            let count = lane.len().min(share);
            batch.extend(lane.drain(..count));
        }
        for lane in &mut self.0 {
            let count = lane.len().min(BATCH - batch.len());
            batch.extend(lane.drain(..count));
        }
        batch
    }
}
