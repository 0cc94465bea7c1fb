//! The group-commit writer: commands queue in lanes, a batch is decided in memory, written and committed once,
//! then answered (core §2). One writer on SQLite, two on PostgreSQL, by root.

mod around;
mod batch;
pub mod crash;
mod durable;
mod execute;
mod faults;
mod fetch;
mod lanes;
mod left;
mod made;
mod rows;
mod trees;
mod writes;

use std::sync::Arc;

use legation_kernel::commands::{Answer, Command};
use legation_kernel::rejection::Rejection;
use legation_store::{Db, Error, Key};
use tokio::sync::{mpsc, oneshot};

use crate::chance::Chance;
use crate::cipher::Master;
use crate::clock::Clock;
use crate::definitions::DefinitionCache;
use crate::wake::Wake;

pub use batch::WriterLoop;
pub(crate) use durable::hand_back;
pub use durable::{FAILED, from_mail, from_timer, lapse, run_again};
pub use faults::{Faults, Lost, Moment};
pub use fetch::{Claimed, FetchJob, FetchRequest};
pub use lanes::Lane;
pub(crate) use left::Left;
pub use trees::{Payload, read_payloads, task_of};
pub use writes::{Failing, Why, Writes};

/// Why a job got no answer of its own.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    #[error(transparent)]
    Rejected(#[from] Box<Rejection>),
    /// The same `Idempotency-Key` was used before: the stored answer, or a conflict.
    #[error("answered before")]
    Answered { status: u16, body: String },
    #[error("another body under the same Idempotency-Key")]
    IdempotencyConflict,
    /// 429: the lane is full.
    #[error("the engine is busy")]
    Busy,
    /// 503: the database is away.
    #[error("the database is not available: {0}")]
    Unavailable(String),
    /// 503: the database has no room. Nothing was written (B17).
    #[error("the database is full")]
    Full,
    /// 500, with the chain in the log.
    #[error("internal error")]
    Internal,
}

impl Failure {
    /// Of a commit that the database did not take.
    fn of(error: &Error) -> Self {
        match error {
            Error::Full(_) => Self::Full,
            Error::Connection(_) | Error::Retry(_) | Error::Conflict { .. } => {
                Self::Unavailable(error.to_string())
            }
            Error::Corrupt { .. } | Error::Database(_) | Error::Setup(_) => Self::Internal,
        }
    }
}

/// A command with everything the writer needs to know of it.
pub struct CommandJob {
    pub command: Command,
    pub project: String,
    pub actor: String,
    /// Recognises the command after an unknown commit.
    pub id: String,
    pub traceparent: Option<String>,
    pub idempotency: Option<Idempotency>,
    /// The row that a durable command comes from; it is taken in the same commit.
    pub origin: Option<Origin>,
    pub reply: Option<oneshot::Sender<Result<Answer, Failure>>>,
    /// How often its root was held by another writer.
    pub turns: u32,
    /// The answer of an attempt whose commit is in doubt.
    pub doubt: Option<Result<Answer, Failure>>,
}

/// An `Idempotency-Key` and how the answer is to be stored.
pub struct Idempotency {
    pub principal: String,
    pub operation: String,
    pub key: String,
    pub body_hash: String,
    pub render: fn(&Answer) -> (u16, String),
}

/// Where a durable command stands.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Origin {
    Mailbox(Key),
    Timer(Key),
    /// The task whose lease is to be declared lost.
    Lapse(Key),
}

impl Origin {
    fn key(&self) -> &Key {
        let (Self::Mailbox(key) | Self::Timer(key) | Self::Lapse(key)) = self;
        key
    }
}

/// Anything that waits for the writer.
pub enum Job {
    Command(Box<CommandJob>),
    Fetch(Box<FetchJob>),
}

/// What every writer shares.
pub struct Shared {
    pub db: Db,
    pub clock: Clock,
    pub chance: Chance,
    pub master: Master,
    pub definitions: DefinitionCache,
    pub schemas: legation_language::types::JsonSchemas,
    pub wake: Wake,
    pub writes: Writes,
    pub max_depth: u32,
    pub budget: u32,
    pub faults: Option<Arc<dyn Faults>>,
}

/// Hands jobs to the writers. Cheap to clone.
#[derive(Clone)]
pub struct Writer {
    queues: Arc<[mpsc::UnboundedSender<Job>]>,
    waiting: Arc<std::sync::atomic::AtomicUsize>,
}

/// Jobs of starts, operators and fetches that may wait before new ones are refused with 429.
const MOST_WAITING: usize = 20_000;

impl Writer {
    /// The writers and the loops that must be run for them.
    #[must_use]
    pub fn new(shared: &Arc<Shared>) -> (Self, Vec<WriterLoop>) {
        let count = match shared.db.dialect() {
            legation_store::Dialect::Sqlite => 1,
            legation_store::Dialect::Postgres => 2,
        };
        let waiting = Arc::new(std::sync::atomic::AtomicUsize::new(0));
        let mut queues = Vec::new();
        let mut receivers = Vec::new();
        for _ in 0..count {
            let (sender, receiver) = mpsc::unbounded_channel();
            queues.push(sender);
            receivers.push(receiver);
        }
        let writer = Self {
            queues: queues.into(),
            waiting,
        };
        let loops = receivers
            .into_iter()
            .map(|receiver| WriterLoop::new(shared.clone(), receiver, writer.clone()))
            .collect();
        (writer, loops)
    }

    /// Runs a command and waits until it is committed.
    ///
    /// # Errors
    /// A refusal, or that the engine cannot now.
    pub async fn run(&self, mut job: CommandJob) -> Result<Answer, Failure> {
        let (reply, answer) = oneshot::channel();
        job.reply = Some(reply);
        if lanes::lane(&job.command) == Lane::Starts && self.is_full() {
            return Err(Failure::Busy);
        }
        self.send(job);
        answer
            .await
            .unwrap_or(Err(Failure::Unavailable("the engine is stopping".to_owned())))
    }

    /// Queues a command that nobody waits for.
    pub fn send(&self, job: CommandJob) {
        let place = self.place(job.command.root());
        self.push(place, Job::Command(Box::new(job)));
    }

    /// Queues a fetch.
    ///
    /// # Errors
    /// [`Failure::Busy`]
    pub fn fetch(&self, job: FetchJob) -> Result<(), Failure> {
        if self.is_full() {
            return Err(Failure::Busy);
        }
        let place = self.place(&job.request.worker);
        self.push(place, Job::Fetch(Box::new(job)));
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.waiting() > MOST_WAITING
    }

    /// Jobs that no batch has taken yet.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn push(&self, place: usize, job: Job) {
        self.waiting.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        // A closed queue means that the engine stops; the reply's sender is dropped, which the caller sees.
        let _ = self.queues[place].send(job);
    }

    /// A job that was taken goes back to wait.
    fn back(&self) {
        self.waiting.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
    }

    fn taken(&self, count: usize) {
        self.waiting
            .fetch_sub(count, std::sync::atomic::Ordering::Relaxed);
    }

    /// Commands of one root go to one writer.
    fn place(&self, key: &str) -> usize {
        let sum = key.bytes().fold(0_usize, |sum, byte| {
            sum.wrapping_mul(31).wrapping_add(usize::from(byte))
        });
        sum % self.queues.len()
    }
}
