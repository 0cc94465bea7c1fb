//! One batch: lock, load, decide, write, commit, answer. What happens when the process dies between any two
//! lines: before the commit nothing happened; after it everything did, and the callers ask again.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use legation_kernel::commands::Answer;
use legation_store::{Dialect, Error, Tx, external_tasks, roots};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, warn};

use super::around::{finish_idempotency, preload, recognise, reserve, take_origins};
use super::durable;
use super::execute::{Attempted, execute};
use super::fetch::{self, Claimed, FetchJob};
use super::lanes::Lanes;
use super::rows::{Rows, Told, Written};
use super::trees::{self, Loaded, Trees};
use super::{CommandJob, Failure, Job, Lost, Moment, Shared, Writer};

/// How long a batch is tried again while the database is away, ms.
const PATIENCE_MS: u64 = 10_000;

/// Commands that lost their root to another writer this often run alone and wait for it.
const TURNS: u32 = 3;

/// A writer's loop with its own state.
pub struct WriterLoop {
    shared: Arc<Shared>,
    receiver: mpsc::UnboundedReceiver<Job>,
    writer: Writer,
    lanes: Lanes,
    trees: Trees,
    lapses: durable::Lapses,
    /// This writer's incarnation (core §2, "Feed").
    incarnation: String,
    batch_no: i64,
}

/// A command within a batch.
pub(super) struct Member {
    pub job: Box<CommandJob>,
    pub answer: Option<Result<Answer, Failure>>,
    /// Its root was held by another writer.
    pub postponed: bool,
    /// An unknown commit turned out to have done it, and everything that belongs to it.
    pub done: bool,
}

impl Member {
    fn new(mut job: Box<CommandJob>) -> Self {
        let answer = job.doubt.take();
        Self {
            job,
            answer,
            postponed: false,
            done: false,
        }
    }
}

/// Why an attempt did not commit.
enum Broken {
    /// Nothing was written: again at once.
    Again(Error),
    /// The database is away.
    Away(Error),
    /// The connection broke while committing.
    Unknown(Error),
    /// The database refuses for a reason that will not pass.
    Refused(Error),
}

impl From<Error> for Broken {
    fn from(error: Error) -> Self {
        match error {
            Error::Retry(_) | Error::Conflict { .. } => Self::Again(error),
            Error::Connection(_) => Self::Away(error),
            Error::Full(_) | Error::Corrupt { .. } | Error::Database(_) | Error::Setup(_) => {
                Self::Refused(error)
            }
        }
    }
}

/// What a committed attempt leaves to do.
struct Committed {
    /// Whether there was anything to commit.
    any: bool,
    written: Written,
    /// For each poll, what it leased.
    claims: Vec<Vec<Claimed>>,
}

/// The fetches of a batch, with the randoms that the last attempt drew for each.
#[derive(Default)]
struct Polls {
    jobs: Vec<FetchJob>,
    drawn: Vec<Option<external_tasks::ClaimRequest>>,
}

impl WriterLoop {
    pub(super) fn new(shared: Arc<Shared>, receiver: mpsc::UnboundedReceiver<Job>, writer: Writer) -> Self {
        let incarnation = shared.chance.token();
        Self {
            shared,
            receiver,
            writer,
            lanes: Lanes::default(),
            trees: Trees::default(),
            lapses: durable::Lapses::default(),
            incarnation,
            batch_no: 0,
        }
    }

    /// Runs until every handle is gone or `stop` ends; what is queued by then is still done.
    pub async fn run(mut self, stop: tokio_util::sync::CancellationToken) {
        loop {
            if self.lanes.is_empty() {
                let job = tokio::select! {
                    biased;
                    job = self.receiver.recv() => job,
                    () = stop.cancelled() => self.receiver.try_recv().ok(),
                };
                match job {
                    Some(job) => self.lanes.push(job),
                    None => return,
                }
            }
            while let Ok(job) = self.receiver.try_recv() {
                self.lanes.push(job);
            }
            let batch = self.lanes.take();
            self.writer.taken(batch.len());
            metrics::histogram!("legation_batch_jobs").record(batch.len() as f64);
            metrics::gauge!("legation_queue_length").set(self.writer.waiting() as f64);
            self.batch(batch).await;
        }
    }

    async fn batch(&mut self, jobs: Vec<Job>) {
        let mut members = Vec::new();
        let mut polls = Polls::default();
        for job in jobs {
            match job {
                Job::Command(job) if job.turns >= TURNS => {
                    let member = Member::new(job);
                    let suspect = member.answer.is_some();
                    self.settle(vec![member], Polls::default(), suspect).await;
                }
                Job::Command(job) => members.push(Member::new(job)),
                Job::Fetch(fetch) if fetch.is_wanted() => polls.jobs.push(*fetch),
                Job::Fetch(_) => {}
            }
        }
        let suspect = members.iter().any(|member| member.answer.is_some());
        self.settle(members, polls, suspect).await;
    }

    /// Brings a batch to its end: committed, or every member answered why not. `suspect`: a commit of these
    /// members may have happened already.
    async fn settle(&mut self, mut members: Vec<Member>, mut polls: Polls, mut suspect: bool) {
        let started = tokio::time::Instant::now();
        let mut tries = 0_u32;
        loop {
            tries += 1;
            let result = self.attempt(&mut members, &mut polls, suspect).await;
            let broken = match result {
                Ok(committed) => {
                    if committed.any {
                        self.shared.writes.succeeded();
                    }
                    metrics::counter!("legation_commits_total").increment(1);
                    metrics::counter!("legation_commands_total").increment(members.len() as u64);
                    self.after(committed, &mut members, polls);
                    if suspect {
                        // What the lost commit left to do is known to the database only.
                        self.shared.wake.due.notify_one();
                    }
                    break;
                }
                Err(broken) => broken,
            };
            if matches!(broken, Broken::Unknown(_)) {
                suspect = true;
                // Should that transaction still end well, it must not come up behind later batches of its feed.
                self.incarnation = self.shared.chance.token();
                self.batch_no = 0;
            }
            match broken {
                Broken::Again(_) if tries <= 8 => tokio::task::yield_now().await,
                Broken::Away(error) | Broken::Unknown(error)
                    if started.elapsed() < Duration::from_millis(PATIENCE_MS) =>
                {
                    warn!(%error, "the database is away, trying again");
                    tokio::time::sleep(Duration::from_millis(u64::from(tries.min(20) - 1) * 25)).await;
                }
                Broken::Away(error) | Broken::Unknown(error) => {
                    self.shared.writes.failed(&error, self.shared.clock.now());
                    answer_all(&mut members, polls, &error);
                    return;
                }
                Broken::Again(_) | Broken::Refused(_) if members.len() + polls.jobs.len() > 1 => {
                    // The culprit is found by running the members one by one; the others succeed.
                    for member in members {
                        Box::pin(self.settle(vec![member], Polls::default(), suspect)).await;
                    }
                    let mut drawn = polls.drawn.into_iter();
                    for poll in polls.jobs {
                        let alone = Polls {
                            jobs: vec![poll],
                            drawn: vec![drawn.next().flatten()],
                        };
                        Box::pin(self.settle(Vec::new(), alone, suspect)).await;
                    }
                    return;
                }
                Broken::Again(error) => {
                    error!(%error, "a command meets the same rows again and again");
                    answer_all(&mut members, polls, &error);
                    // What the database asks to be tried again passes; a row that is in the way may stay.
                    if matches!(error, Error::Conflict { .. }) {
                        self.count_try(&members).await;
                    }
                    return;
                }
                Broken::Refused(error) => {
                    error!(%error, "a command could not be written");
                    self.shared.writes.failed(&error, self.shared.clock.now());
                    answer_all(&mut members, polls, &error);
                    // A full disk passes; it is no fault of the command's.
                    if !matches!(error, Error::Full(_)) {
                        self.count_try(&members).await;
                    }
                    return;
                }
            }
        }
        self.requeue(members, suspect);
    }

    async fn attempt(
        &mut self,
        members: &mut [Member],
        polls: &mut Polls,
        suspect: bool,
    ) -> Result<Committed, Broken> {
        let shared = self.shared.clone();
        let mut tx = shared.db.begin_write().await?;
        let now = shared.clock.now();
        let batch_no = self.batch_no + 1;
        let mut batch = self.lock(&mut tx, members, now).await?;
        if suspect {
            recognise(&mut tx, members).await?;
        } else {
            members.iter_mut().for_each(|member| member.answer = None);
        }
        reserve(&mut tx, members, now).await?;
        let took = take_origins(&mut tx, members).await?;
        preload(&mut tx, &mut batch, members, shared.db.dialect()).await?;
        let mut rows = Rows::default();
        for member in members
            .iter_mut()
            .filter(|member| member.answer.is_none() && !member.postponed)
        {
            let root = member.job.command.root().to_owned();
            let attempted = match batch.get_mut(&root) {
                Some(loaded) => execute(&shared, &mut tx, loaded, &member.job, now).await?,
                None => Attempted::unknown(&root),
            };
            let told = Told {
                command_id: &member.job.id,
                actor: &member.job.actor,
                project: &member.job.project,
                writer: &self.incarnation,
                batch_no,
                now,
            };
            if let (Some(origin), Err(failure)) = (&member.job.origin, &attempted.answer) {
                // Its row stays: it is tried again, and seen by somebody in the end.
                let id = format!("{}: {failure}", origin.key().id);
                return Err(Broken::Refused(Error::Corrupt {
                    table: "durable command",
                    id,
                }));
            }
            if let (Some(loaded), Some(changes)) = (batch.get_mut(&root), attempted.changes) {
                rows.take(&shared, loaded, changes, &told)?;
            }
            member.answer = Some(attempted.answer);
        }
        let told = Told {
            command_id: "",
            actor: "",
            project: "",
            writer: &self.incarnation,
            batch_no,
            now,
        };
        let changed = !rows.is_empty();
        let written = rows.write(&mut tx, &mut batch, &told).await?;
        let stored = finish_idempotency(&mut tx, members, now).await?;
        let claims = self
            .claim(&mut tx, &mut batch, polls, &written, now, suspect)
            .await?;
        let any = changed || stored || took || claims.iter().any(|claimed| !claimed.is_empty());
        if any {
            self.commit(tx, written.mail.len())
                .await
                .map_err(|error| match error {
                    Error::Connection(_) => Broken::Unknown(error),
                    error => Broken::from(error),
                })?;
        } else {
            tx.rollback().await?;
        }
        if changed {
            self.batch_no = batch_no;
        }
        // A root that was to be made and was not (its start was refused, or recognised as done before) has a key
        // that nobody will ever know.
        for loaded in batch.into_values().filter(|loaded| !loaded.fresh) {
            self.trees.put(loaded);
        }
        Ok(Committed { any, written, claims })
    }

    async fn commit(&self, tx: Tx, mail: usize) -> Result<(), Error> {
        let Some(faults) = &self.shared.faults else {
            return tx.commit().await;
        };
        let lost = |Lost| Error::lost("a test broke it");
        faults.at(Moment::BeforeCommit).await.map_err(lost)?;
        tx.commit().await?;
        faults.at(Moment::AfterCommit { mail }).await.map_err(lost)
    }

    /// Locks the roots of the batch; new ones are made. Commands whose root another writer holds are postponed.
    async fn lock(
        &mut self,
        tx: &mut Tx,
        members: &mut [Member],
        now: i64,
    ) -> Result<HashMap<String, Loaded>, Error> {
        let mut batch = HashMap::new();
        let mut wanted: Vec<String> = Vec::new();
        for member in members.iter_mut() {
            member.postponed = false;
            let root = member.job.command.root();
            if let legation_kernel::commands::Command::Start(_) = member.job.command {
                batch
                    .entry(root.to_owned())
                    .or_insert_with(|| self.new_root(root, &member.job.project, now));
            } else {
                wanted.push(root.to_owned());
            }
        }
        wanted.sort();
        wanted.dedup();
        wanted.retain(|root| !batch.contains_key(root));
        if self.shared.db.dialect() == Dialect::Sqlite {
            // Nobody else writes trees: what is cached need not be asked for. Its version is compared when it is written.
            wanted.retain(|root| match self.trees.remove(root) {
                Some(loaded) => batch.insert(root.clone(), loaded).is_some(),
                None => true,
            });
        }
        let patient = members.len() == 1 && members[0].job.turns >= TURNS;
        let locked = if patient && wanted.len() == 1 {
            roots::lock_waiting(tx, &wanted[0]).await?.into_iter().collect()
        } else {
            roots::lock(tx, &wanted).await?
        };
        for root in locked {
            let loaded = match self.trees.take(&root) {
                Some(loaded) => loaded,
                None => {
                    let key = trees::unwrap_key(&self.shared, &root)?;
                    Loaded::new(root, key, false)
                }
            };
            batch.insert(loaded.root.id.clone(), loaded);
        }
        if self.shared.db.dialect() == Dialect::Postgres && !patient {
            for member in members.iter_mut() {
                let root = member.job.command.root();
                if !batch.contains_key(root) && roots::get(tx, root).await?.is_some() {
                    member.postponed = true;
                }
            }
        }
        Ok(batch)
    }

    fn new_root(&self, id: &str, project: &str, now: i64) -> Loaded {
        let (key, wrapped) = self.shared.master.new_data_key(id, &self.shared.chance);
        let row = roots::RootRow {
            id: id.to_owned(),
            project: project.to_owned(),
            version: 0,
            stopping: None,
            budget: None,
            key_id: Some(self.shared.master.id().to_owned()),
            data_key: Some(wrapped),
            created_at: now,
            ended_at: None,
        };
        Loaded::new(row, Some(key), true)
    }

    /// Claims last: it takes what nobody else holds and waits for nothing. Polls that wait for a topic which this
    /// batch opened join it, so an idle worker has the task with the commit that creates it.
    async fn claim(
        &mut self,
        tx: &mut Tx,
        batch: &mut HashMap<String, Loaded>,
        polls: &mut Polls,
        written: &Written,
        now: i64,
        suspect: bool,
    ) -> Result<Vec<Vec<Claimed>>, Broken> {
        if !written.open.is_empty() {
            polls.jobs.extend(self.shared.wake.take(&written.open));
        }
        let mut claims = Vec::with_capacity(polls.jobs.len());
        polls.drawn.resize(polls.jobs.len(), None);
        // Cached trees that are not locked: another engine may have changed them.
        let mut unlocked = HashSet::new();
        for (poll, drawn) in polls.jobs.iter_mut().zip(&mut polls.drawn) {
            let request = &poll.request;
            poll.epoch = self.shared.wake.epoch(&request.project, &request.topics);
            let mut rows = match drawn.as_ref().filter(|_| suspect) {
                Some(drawn) => external_tasks::find_claimed(tx, drawn).await?,
                None => Vec::new(),
            };
            if rows.is_empty() && poll.is_wanted() {
                let drawn = drawn.insert(fetch::draw(&self.shared, request, now));
                rows = external_tasks::claim(tx, drawn).await?;
            }
            let mut claimed = Vec::with_capacity(rows.len());
            for row in rows {
                // With the batch, so that a lease whose commit fails is forgotten with it.
                if !batch.contains_key(&row.root)
                    && let Some(loaded) = self.trees.remove(&row.root)
                {
                    batch.insert(row.root.clone(), loaded);
                    if tx.dialect() == Dialect::Postgres {
                        unlocked.insert(row.root.clone());
                    }
                }
                let locked = !unlocked.contains(&row.root);
                let known = |loaded: &&mut Loaded| {
                    if locked {
                        loaded.has_task(&row)
                    } else {
                        loaded.has_task_before(&row)
                    }
                };
                // A task that is not in memory, or not as it is now, is left to be loaded with its steps.
                let loaded = batch.get_mut(&row.root).filter(known);
                if let Some(loaded) = loaded {
                    loaded.take_row(&row)?;
                    claimed.push(fetch::claimed(row, Some((loaded, locked))));
                } else {
                    claimed.push(fetch::claimed(row, None));
                }
            }
            claims.push(claimed);
        }
        Ok(claims)
    }

    /// After the commit: answers go out, waiting work is told, durable commands follow at once.
    fn after(&mut self, committed: Committed, members: &mut [Member], polls: Polls) {
        let Committed {
            mut written, claims, ..
        } = committed;
        for row in claims.iter().flatten().map(|claim| &claim.row) {
            // What was leased in the same commit wakes nobody.
            if let Some(left) = written.open.get_mut(&(row.project.clone(), row.topic.clone())) {
                *left = left.saturating_sub(1);
            }
        }
        written.open.retain(|_, left| *left > 0);
        for (poll, claimed) in polls.jobs.into_iter().zip(claims) {
            self.answer_poll(poll, claimed);
        }
        for member in members.iter_mut().filter(|member| !member.postponed) {
            let answer = member.answer.take().unwrap_or(Err(Failure::Internal));
            self.lapses.done(&member.job);
            if let Some(reply) = member.job.reply.take() {
                let _ = reply.send(answer);
            }
        }
        let wake = &self.shared.wake;
        for (at, project, topic) in written.later {
            wake.at(at, Some((project, topic)));
        }
        for at in written.due {
            wake.at(at, None);
        }
        for row in written.mail {
            self.writer.send(durable::from_mail(&self.shared, &row));
        }
        if written.changed {
            wake.committed.send_modify(|count| *count += 1);
            // The other writer's polls may have looked when this was decided but not committed.
            for poll in wake.take(&written.open) {
                let _ = self.writer.fetch(poll);
            }
            wake.hint(written.open);
        }
    }

    fn answer_poll(&self, mut poll: FetchJob, claimed: Vec<Claimed>) {
        if claimed.is_empty() {
            if !poll.is_wanted() {
                return;
            }
            if self.shared.clock.now() >= poll.wait_until {
                let _ = poll.reply.send(Ok(Vec::new()));
                return;
            }
            if let Some(again) = self.shared.wake.wait(poll) {
                let _ = self.writer.fetch(again);
            }
            return;
        }
        for claim in &claimed {
            self.shared.wake.at(
                claim.row.locked_until.unwrap_or_default(),
                Some((claim.row.project.clone(), claim.row.topic.clone())),
            );
            if let Some(at) = claim.row.lapse_at {
                self.shared.wake.at(at, None);
            }
        }
        poll.wait_until = 0;
        if let Err(Ok(unwanted)) = poll.reply.send(Ok(claimed)) {
            // The caller went away meanwhile: the leases are given back instead of running out.
            for claim in unwanted {
                self.writer.send(durable::hand_back(&self.shared, &claim.row));
            }
        }
    }

    /// Commands that lost their root go back to the queue, with their doubt.
    fn requeue(&mut self, members: Vec<Member>, suspect: bool) {
        for mut member in members.into_iter().filter(|member| member.postponed) {
            member.job.turns += 1;
            member.job.doubt = member.answer.take().filter(|_| suspect);
            self.writer.back();
            self.lanes.push(Job::Command(member.job));
        }
    }

    /// A durable command that could not be written counts a try, in a commit of its own.
    async fn count_try(&mut self, members: &[Member]) {
        for job in members.iter().map(|member| &member.job) {
            match durable::count_try(&self.shared, job, &mut self.lapses).await {
                Ok(Some(failed)) => self.give_up(&failed).await,
                Ok(None) => {}
                Err(error) => warn!(%error, "a durable command's try could not be counted"),
            }
        }
    }

    async fn give_up(&mut self, failed: &durable::Failed) {
        let mut job = durable::give_up(&self.shared, failed);
        let (reply, mut answer) = oneshot::channel();
        job.reply = Some(reply);
        Box::pin(self.settle(vec![Member::new(Box::new(job))], Polls::default(), false)).await;
        // Without an answer another writer has the root: it comes later. While the database is away the command is
        // due again.
        if let Ok(Err(Failure::Rejected(_) | Failure::Internal)) = answer.try_recv()
            && let Err(error) = durable::hold_alone(&self.shared, failed).await
        {
            warn!(%error, "a durable command could not be held");
        }
    }
}

fn answer_all(members: &mut [Member], polls: Polls, error: &Error) {
    for member in members {
        if let Some(reply) = member.job.reply.take() {
            let _ = reply.send(Err(Failure::of(error)));
        }
    }
    for poll in polls.jobs {
        let _ = poll.reply.send(Err(Failure::of(error)));
    }
}
