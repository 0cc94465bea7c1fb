//! The engine in one value: writer, duties, clock, keys. HTTP and CLI stand on it; tests and the simulation start
//! the same thing with a fake clock and seeded chance.

use std::sync::Arc;
use std::time::Duration;

use legation_kernel::commands::{Answer, Command};
use legation_language::types::JsonSchemas;
use legation_store::{Db, Dialect};
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::chance::Chance;
use crate::cipher::Master;
use crate::clock::Clock;
use crate::definitions::DefinitionCache;
use crate::duties;
use crate::wake::Wake;
use crate::writer;
use crate::writer::{
    Claimed, CommandJob, Failure, Faults, FetchJob, FetchRequest, Idempotency, Shared, Writer, WriterLoop,
    Writes,
};

/// Node transitions of one command (core §1, "Bounded commands"): no instance holds a writer for long.
const MOST_MOVES: u32 = 500;

/// What an engine is started with.
pub struct Parts {
    pub db: Db,
    pub clock: Clock,
    pub chance: Chance,
    pub master: Master,
    /// Deepest absolute depth of a child (architecture §7.3).
    pub max_depth: u32,
    /// Node transitions of one command before the rest follows as a command of its own.
    pub budget: u32,
    /// What a test does to commits.
    pub faults: Option<Arc<dyn Faults>>,
}

impl Parts {
    /// The defaults of a real engine.
    #[must_use]
    pub fn new(db: Db, clock: Clock, chance: Chance, master: Master) -> Self {
        Self {
            db,
            clock,
            chance,
            master,
            max_depth: 4,
            budget: MOST_MOVES,
            faults: writer::crash::points(),
        }
    }
}

/// A running engine. Cheap to clone.
#[derive(Clone)]
pub struct App {
    shared: Arc<Shared>,
    writer: Writer,
    stop: CancellationToken,
    tasks: TaskTracker,
}

/// Who and what a command comes with.
#[derive(Clone, Debug, Default)]
pub struct Sender {
    pub project: String,
    /// The principal's id.
    pub actor: String,
    pub traceparent: Option<String>,
}

/// A fetch that waits for its answer. Leases that nobody took, because the worker hung up, go back.
struct Poll<'a> {
    app: &'a App,
    answer: oneshot::Receiver<Result<Vec<Claimed>, Failure>>,
}

impl Poll<'_> {
    /// What came by now; nothing comes after.
    fn end(&mut self) -> Result<Vec<Claimed>, Failure> {
        self.answer.close();
        self.answer.try_recv().unwrap_or(Ok(Vec::new()))
    }
}

impl Drop for Poll<'_> {
    fn drop(&mut self) {
        for claim in self.end().unwrap_or_default() {
            let back = writer::hand_back(&self.app.shared, &claim.row);
            self.app.writer.send(back);
        }
    }
}

impl App {
    /// Starts the writers and the background duties. The database is migrated already.
    #[must_use]
    pub fn start(parts: Parts) -> Self {
        let shared = Arc::new(Shared {
            db: parts.db,
            clock: parts.clock,
            chance: parts.chance,
            master: parts.master,
            definitions: DefinitionCache::default(),
            schemas: JsonSchemas::default(),
            wake: Wake::default(),
            writes: Writes::default(),
            max_depth: parts.max_depth,
            budget: parts.budget,
            faults: parts.faults,
        });
        let (writer, loops) = Writer::new(&shared);
        let app = Self {
            shared,
            writer,
            stop: CancellationToken::new(),
            tasks: TaskTracker::new(),
        };
        app.spawn(app.clone().begin(loops));
        app
    }

    /// Leases and timers go by the clock, so nothing is done before it is right; what comes in meanwhile waits.
    async fn begin(self, loops: Vec<WriterLoop>) {
        duties::set_clock(&self).await;
        for writer in loops {
            self.spawn_writer(writer);
        }
        let (clock, stop) = (self.clock().clone(), self.stop.clone());
        self.spawn(async move {
            tokio::select! {
                () = clock.tell_jumps() => {}
                () = stop.cancelled() => {}
            }
        });
        duties::start(&self);
    }

    /// On SQLite a writer works, and waits for the disk, in its own thread: nothing else must wait there with it. A
    /// runtime of one thread, such as a simulation's, keeps it to itself: the writer ends with it.
    fn spawn_writer(&self, writer: WriterLoop) {
        // Without a writer an engine is none. Should one ever panic, the engine stops and says so.
        let last = self.stop.clone().drop_guard();
        let stop = self.stop.clone();
        let run = async move {
            writer.run(stop).await;
            drop(last);
        };
        let runtime = tokio::runtime::Handle::current();
        let alone = runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::CurrentThread;
        if self.db().dialect() == Dialect::Postgres || alone {
            self.spawn(run);
            return;
        }
        let run = self.tasks.track_future(run);
        let thread = std::thread::Builder::new().name("legation-writer".to_owned());
        thread
            .spawn(move || runtime.block_on(run))
            .expect("a thread can be started");
    }

    #[must_use]
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    #[must_use]
    pub fn db(&self) -> &Db {
        &self.shared.db
    }

    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.shared.clock
    }

    #[must_use]
    pub fn chance(&self) -> &Chance {
        &self.shared.chance
    }

    /// Cancelled when the engine stops: long polls and streams end then.
    #[must_use]
    pub fn stopping(&self) -> &CancellationToken {
        &self.stop
    }

    /// Runs a task that is waited for at the stop. The only way to spawn in this crate.
    #[expect(clippy::disallowed_methods, reason = "the one place that spawns")]
    pub fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.tasks.track_future(task));
    }

    /// Runs a command to its commit.
    ///
    /// # Errors
    /// A refusal, or that the engine cannot now.
    pub async fn run(&self, sender: &Sender, command: Command) -> Result<Answer, Failure> {
        self.run_once(sender, command, None).await
    }

    /// Runs a command under an `Idempotency-Key`.
    ///
    /// # Errors
    /// As [`run`](Self::run); [`Failure::Answered`] and [`Failure::IdempotencyConflict`] for a key used before.
    pub async fn run_once(
        &self,
        sender: &Sender,
        command: Command,
        idempotency: Option<Idempotency>,
    ) -> Result<Answer, Failure> {
        let job = CommandJob {
            command,
            project: sender.project.clone(),
            actor: sender.actor.clone(),
            id: self.shared.chance.token(),
            traceparent: sender.traceparent.clone(),
            idempotency,
            origin: None,
            reply: None,
            turns: 0,
            doubt: None,
        };
        self.writer.run(job).await
    }

    /// Leases tasks; waits up to `wait_ms` for some to open. An empty list after that.
    ///
    /// # Errors
    /// [`Failure::Busy`] and [`Failure::Unavailable`]
    pub async fn fetch(&self, request: FetchRequest, wait_ms: i64) -> Result<Vec<Claimed>, Failure> {
        let (reply, answer) = oneshot::channel();
        let mut poll = Poll { app: self, answer };
        let wait_until = self.shared.clock.now() + wait_ms;
        self.writer.fetch(FetchJob {
            request,
            wait_until,
            epoch: 0,
            reply,
        })?;
        let ended = async {
            tokio::select! {
                () = self.shared.clock.sleep_until(wait_until), if wait_ms > 0 => {}
                () = self.stop.cancelled() => {}
            }
            if wait_ms <= 0 {
                tokio::time::sleep(Duration::from_secs(5)).await;
            }
        };
        tokio::select! {
            biased;
            claimed = &mut poll.answer => claimed.unwrap_or(Ok(Vec::new())),
            // What was leased at the same moment is still taken.
            () = ended => poll.end(),
        }
    }

    /// The queue of the writer, for duties.
    pub(crate) fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Stops gracefully: no new work, what is queued is committed, tasks are waited for (at most `limit`).
    pub async fn stop(&self, limit: Duration) {
        self.stop.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(limit, self.tasks.wait()).await;
        self.shared.db.close().await;
    }
}
