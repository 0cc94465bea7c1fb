//! Decides one command on its loaded tree; what it misses is loaded and it is decided again from the start.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use legation_kernel::commands::{self, Answer, Command};
use legation_kernel::ids::{InstanceId, local_of, owner_of};
use legation_kernel::instance::{Event, Instance, Token, TokenState, Wait};
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

/// Deciding longer than this raises an alarm naming process and node (core §2, "CEL and schema cost").
const SLOW_MS: u128 = 50;

/// Nodes that such an alarm names.
const MOST_PLACES: usize = 20;

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
    let ms = started.elapsed().as_millis();
    if ms > SLOW_MS {
        let changes = decided.as_ref().ok().and_then(|decided| decided.as_ref().ok());
        let places = places(loaded, job, changes.map(|(_, changes)| changes));
        let (process, node) = places.first().cloned().unwrap_or_default();
        let places: Vec<String> = places
            .iter()
            .map(|(process, node)| format!("{process}/{node}"))
            .collect();
        warn!(root = %loaded.root.id, ms = ms as u64, process, node, through = places.join(" "),
            "deciding a command took long");
    }
    decided
}

/// The nodes that a command worked on, each with its process: where it began first, then where tokens came.
fn places(loaded: &Loaded, job: &CommandJob, changes: Option<&Changes>) -> Vec<(String, String)> {
    let mut places = Vec::new();
    let mut add = |process: &str, node: &str| {
        let place = (process.to_owned(), node.to_owned());
        if places.len() < MOST_PLACES && !places.contains(&place) {
            places.push(place);
        }
    };
    if let Some((instance, node)) = began(loaded, &job.command) {
        add(&instance.process, node);
    }
    for touched in changes
        .map(|changes| changes.instances.as_slice())
        .unwrap_or_default()
    {
        for event in &touched.events {
            if let Event::TokenCreated { node, .. } | Event::TokenMoved { node, .. } = event {
                add(&touched.instance.process, node);
            }
        }
    }
    if let (true, Command::Start(start)) = (places.is_empty(), &job.command) {
        places.push((start.process.clone(), String::new()));
    }
    places
}

/// The instance and node where a command begins; None when it names no node.
fn began<'a>(loaded: &'a Loaded, command: &Command) -> Option<(&'a Instance, &'a str)> {
    let instance = |id: &InstanceId| loaded.tree.instances.get(id).map(Arc::as_ref);
    if let Some(id) = command.task() {
        let task = &loaded.tree.tasks.get(id)?.task;
        return Some((instance(&id.instance())?, &task.node));
    }
    let (instance, local) = match command {
        Command::CompleteHuman { human: item, .. } | Command::FireTimer { timer: item } => {
            (instance(&owner_of(item)?)?, local_of(item)?)
        }
        Command::ChildDone { child } => {
            let parent = instance(child)?.parent.as_ref()?;
            return Some((instance(&parent.instance)?, &parent.node));
        }
        other => (instance(&other.instance()?)?, 0),
    };
    let waits = |token: &&Token| match token.state {
        TokenState::Waiting(Wait::Human { human: waited } | Wait::Timer { timer: waited })
            if waited == local =>
        {
            true
        }
        _ => token.timeout == Some(local) || token.alarm == Some(local),
    };
    // Without an item of its own a command is about all that stands there.
    let token = instance
        .tokens
        .values()
        .find(waits)
        .or(instance.tokens.values().next())?;
    Some((instance, &token.node))
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
