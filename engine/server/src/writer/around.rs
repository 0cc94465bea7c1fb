//! What stands around the decisions of a batch: commands of an unknown commit, idempotency keys, the rows of
//! durable commands, and loading what will be read.

use std::collections::{HashMap, HashSet};

use legation_kernel::commands::Answer;
use legation_kernel::ids::owner_of;
use legation_store::{Dialect, Error, Key, Tx, history, idempotency, mailbox, timers};
use tracing::info;

use super::batch::Member;
use super::trees::{self, Loaded};
use super::{CommandJob, Failure, Origin};

/// After an unknown commit: commands that have their history row are done, and keep the answer they were given.
pub(super) async fn recognise(tx: &mut Tx, members: &mut [Member]) -> Result<(), Error> {
    let ids: Vec<String> = members.iter().map(|member| member.job.id.clone()).collect();
    let found: HashSet<String> = history::find_commands(tx, &ids)
        .await?
        .into_iter()
        .map(|row| row.command_id)
        .collect();
    info!(
        asked = ids.len(),
        found = found.len(),
        "looked for commands of an unknown commit"
    );
    for member in members {
        member.done = found.contains(&member.job.id);
        member.postponed &= !member.done;
        // Whoever holds its root may be the very transaction that is in doubt.
        if !member.done && !member.postponed {
            member.answer = None;
        }
    }
    Ok(())
}

/// Reserves idempotency keys, sorted; one that is there already answers its command.
pub(super) async fn reserve(tx: &mut Tx, members: &mut [Member], now: i64) -> Result<(), Error> {
    let mut rows = Vec::new();
    let mut seen = HashSet::new();
    for member in members
        .iter_mut()
        .filter(|member| member.answer.is_none() && !member.postponed)
    {
        let Some(row) = idempotency_row(&member.job, now) else {
            continue;
        };
        if seen.insert((row.principal.clone(), row.operation.clone(), row.key.clone())) {
            rows.push(row);
        } else {
            // The same key twice in one batch: the second sees the first one's answer in the next batch.
            member.postponed = true;
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    rows.sort_by(|a, b| {
        (&a.project, &a.principal, &a.operation, &a.key).cmp(&(
            &b.project,
            &b.principal,
            &b.operation,
            &b.key,
        ))
    });
    for existing in idempotency::reserve(tx, &rows).await? {
        for member in members.iter_mut().filter(|member| !member.postponed) {
            let Some(asked) = &member.job.idempotency else {
                continue;
            };
            if asked.key != existing.key
                || asked.principal != existing.principal
                || asked.operation != existing.operation
            {
                continue;
            }
            member.answer = Some(Err(
                match (
                    asked.body_hash == existing.body_hash,
                    existing.status,
                    &existing.answer,
                ) {
                    (true, Some(status), Some(body)) => Failure::Answered {
                        status: status as u16,
                        body: body.clone(),
                    },
                    _ => Failure::IdempotencyConflict,
                },
            ));
        }
    }
    Ok(())
}

fn idempotency_row(job: &CommandJob, now: i64) -> Option<idempotency::IdempotencyRow> {
    let asked = job.idempotency.as_ref()?;
    Some(idempotency::IdempotencyRow {
        project: job.project.clone(),
        principal: asked.principal.clone(),
        operation: asked.operation.clone(),
        key: asked.key.clone(),
        body_hash: asked.body_hash.clone(),
        status: None,
        answer: None,
        created_at: now,
    })
}

/// Stores the answers of commands that took effect; a refusal frees its key again.
pub(super) async fn finish_idempotency(tx: &mut Tx, members: &[Member], now: i64) -> Result<bool, Error> {
    let mut done = Vec::new();
    let mut freed = Vec::new();
    for member in members.iter().filter(|member| !member.postponed && !member.done) {
        let (Some(mut row), Some(asked)) = (idempotency_row(&member.job, now), &member.job.idempotency)
        else {
            continue;
        };
        match &member.answer {
            Some(Ok(answer)) => {
                let (status, body) = (asked.render)(answer);
                row.status = Some(i64::from(status));
                row.answer = Some(body);
                done.push(row);
            }
            Some(Err(Failure::Answered { .. } | Failure::IdempotencyConflict)) => {}
            Some(Err(_)) | None => freed.push(row),
        }
    }
    if !done.is_empty() {
        idempotency::finish(tx, &done).await?;
    }
    if !freed.is_empty() {
        idempotency::release(tx, &freed).await?;
    }
    Ok(!done.is_empty())
}

/// Takes the rows of durable commands; one whose row is gone was done before. Answers whether any was there.
pub(super) async fn take_origins(tx: &mut Tx, members: &mut [Member]) -> Result<bool, Error> {
    let open = |member: &&mut Member| member.answer.is_none() && !member.postponed;
    let mut mail = Vec::new();
    let mut fired = Vec::new();
    for member in members.iter_mut().filter(open) {
        match &member.job.origin {
            Some(Origin::Mailbox(key)) => mail.push(key.clone()),
            Some(Origin::Timer(key)) => fired.push(key.clone()),
            Some(Origin::Lapse(_)) | None => {}
        }
    }
    let mut taken: HashSet<Key> = HashSet::new();
    if !mail.is_empty() {
        taken.extend(
            mailbox::take(tx, &mail)
                .await?
                .into_iter()
                .map(|row| Key::new(row.root, row.id)),
        );
    }
    if !fired.is_empty() {
        taken.extend(
            timers::take_due(tx, &fired)
                .await?
                .into_iter()
                .map(|row| Key::new(row.root, row.id)),
        );
    }
    let took = !taken.is_empty();
    for member in members.iter_mut().filter(open) {
        if let Some(Origin::Mailbox(key) | Origin::Timer(key)) = &member.job.origin
            && !taken.remove(key)
        {
            member.answer = Some(Ok(Answer::Nothing));
        }
    }
    Ok(took)
}

/// Loads what the commands will read, in one query a table.
pub(super) async fn preload(
    tx: &mut Tx,
    batch: &mut HashMap<String, Loaded>,
    members: &[Member],
    dialect: Dialect,
) -> Result<(), Error> {
    let mut instances = HashSet::new();
    let mut tasks = HashSet::new();
    for member in members
        .iter()
        .filter(|member| member.answer.is_none() && !member.postponed)
    {
        let mut next = member.job.command.instance();
        // With what is above it: below an instance that is ending nothing moves.
        while let Some(instance) = next {
            next = owner_of(instance.as_str());
            instances.insert(instance);
        }
        tasks.extend(member.job.command.task().cloned());
    }
    trees::load_instances(tx, batch, &instances).await?;
    trees::load_tasks(tx, batch, &tasks, dialect == Dialect::Postgres).await
}
