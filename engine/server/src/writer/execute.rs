//! Decides one command on its loaded tree; what it misses is loaded and it is decided again from the start.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use legation_kernel::commands::{self, Answer};
use legation_kernel::rejection::{Rejection, Stop};
use legation_kernel::work::{Changes, Env, Work};
use legation_store::{Dialect, Result, Tx};
use tracing::{error, warn};

use super::trees::{self, Loaded};
use super::{CommandJob, Failure, Shared};

/// Loads of one command before it is given up: more than any tree within its limits needs.
const MOST_LOADS: usize = 20_000;

/// After so many loads one by one a command goes through its whole tree: a cancel, mostly. All that is open is
/// loaded then, since each load decides again from the start.
const MANY_LOADS: usize = 8;

/// Instances that end in one commit when a tree is cancelled (core §1).
const ENDS: u32 = 200;

/// Deciding longer than this raises an alarm naming the command (core §2, "CEL and schema cost").
const SLOW_MS: u128 = 50;

/// The answer of a command and what it changes.
pub(super) struct Attempted {
    pub answer: std::result::Result<Answer, Failure>,
    pub changes: Option<Changes>,
}

impl Attempted {
    /// The root does not exist.
    pub(super) fn unknown(root: &str) -> Self {
        Self::refused(Rejection::not_found(format!("no instance {root}")))
    }

    fn refused(rejection: Rejection) -> Self {
        Self {
            answer: Err(Failure::Rejected(Box::new(rejection))),
            changes: None,
        }
    }
}

/// Decides one command. A panic removes only this command from the batch (B23).
pub(super) async fn execute(
    shared: &Shared,
    tx: &mut Tx,
    loaded: &mut Loaded,
    job: &CommandJob,
    now: i64,
) -> Result<Attempted> {
    if loaded.root.project != job.project {
        // Another project's ids look like unknown ones (B8).
        return Ok(Attempted::unknown(&loaded.root.id));
    }
    let jitter = shared.chance.percent();
    let mut absent = HashSet::new();
    for loads in 0..MOST_LOADS {
        let decided = decide(shared, loaded, job, now, jitter, &absent);
        let stop = match decided {
            Ok(Ok((answer, changes))) => {
                return Ok(Attempted {
                    answer: Ok(answer),
                    changes: Some(changes),
                });
            }
            Ok(Err(stop)) => stop,
            Err(_) => {
                error!(root = %loaded.root.id, command = ?job.command.task(), "a command panicked");
                return Ok(Attempted {
                    answer: Err(Failure::Internal),
                    changes: None,
                });
            }
        };
        if loads == MANY_LOADS {
            trees::load_open(tx, loaded, shared.db.dialect() == Dialect::Postgres).await?;
        }
        if let Some(refusal) = load(shared, tx, loaded, job, stop, &mut absent).await? {
            return Ok(Attempted::refused(refusal));
        }
    }
    error!(root = %loaded.root.id, "a command wanted more than it may load");
    Ok(Attempted {
        answer: Err(Failure::Internal),
        changes: None,
    })
}

/// Decides on what is loaded.
fn decide(
    shared: &Shared,
    loaded: &mut Loaded,
    job: &CommandJob,
    now: i64,
    jitter: u32,
    absent: &HashSet<(String, Option<u32>)>,
) -> std::thread::Result<std::result::Result<(Answer, Changes), Stop>> {
    let env = Env {
        now: now.max(latest(loaded, job)),
        definitions: &shared.definitions,
        schemas: &shared.schemas,
        actor: &job.actor,
        jitter,
        traceparent: job.traceparent.as_deref(),
        max_depth: shared.max_depth,
        budget: shared.budget,
        ends: ENDS,
        absent,
    };
    let started = std::time::Instant::now();
    // The payloads are content-addressed: what a refused command leaves there is still true.
    let mut payloads = std::mem::take(&mut loaded.tree.payloads);
    let decided = catch_unwind(AssertUnwindSafe(|| {
        let mut work = Work::new(&loaded.tree, &mut payloads, &env);
        commands::execute(&mut work, &job.command).map(|answer| (answer, work.finish()))
    }));
    loaded.tree.payloads = payloads;
    if started.elapsed().as_millis() > SLOW_MS {
        warn!(root = %loaded.root.id, ms = started.elapsed().as_millis() as u64, "deciding a command took long");
    }
    decided
}

/// Times within an instance never go back (core §2, "Time").
fn latest(loaded: &Loaded, job: &CommandJob) -> i64 {
    let instance = job.command.instance();
    instance
        .and_then(|id| loaded.tree.instances.get(&id))
        .map_or(0, |instance| instance.updated_at)
}

/// Loads what was missing; a refusal when it does not exist.
async fn load(
    shared: &Shared,
    tx: &mut Tx,
    loaded: &mut Loaded,
    job: &CommandJob,
    stop: Stop,
    absent: &mut HashSet<(String, Option<u32>)>,
) -> Result<Option<Rejection>> {
    let root = loaded.root.id.clone();
    Ok(match stop {
        Stop::Rejected(rejection) => Some(*rejection),
        Stop::MissingInstance(id) => {
            trees::load_instance(tx, loaded, &id).await?;
            (!loaded.tree.instances.contains_key(&id))
                .then(|| Rejection::not_found(format!("no instance {id}")))
        }
        Stop::MissingTask(id) => {
            trees::load_task(tx, loaded, &id).await?;
            (!loaded.tree.tasks.contains_key(&id))
                .then(|| Rejection::not_found(format!("no external task {id}")))
        }
        Stop::MissingPayloads(digests) => {
            let lost = trees::load_payloads(tx, loaded, &digests).await?;
            lost.map(|digest| {
                error!(%root, %digest, "a payload is missing");
                Rejection::new(
                    legation_kernel::rejection::RejectionKind::Internal,
                    "PAYLOAD_MISSING",
                    "a stored value is missing",
                )
            })
        }
        Stop::MissingDefinition(key, version) => {
            let found = shared.definitions.load(tx, &job.project, &key, version).await?;
            // Decided again with what is known now: a node that calls it has an error for that.
            let told = found.is_none() && !absent.insert((key.clone(), version));
            told.then(|| Rejection::not_found(format!("process {key} is not deployed")))
        }
    })
}
