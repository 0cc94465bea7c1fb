//! Turns what commands decided into rows: one list per table for the whole batch, each row once.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use legation_kernel::effect::{Effect, Held, HumanEnd};
use legation_kernel::ids::{InstanceId, TaskId, root_of};
use legation_kernel::journal::Step;
use legation_kernel::work::Changes;
use legation_store::history::HistoryRow;
use legation_store::incidents::IncidentRow;
use legation_store::instances::InstanceUpdate;
use legation_store::mailbox::MailboxRow;
use legation_store::payloads::PayloadRow;
use legation_store::steps::StepRow;
use legation_store::tasks::TaskRow;
use legation_store::timers::TimerRow;
use legation_store::{Key, Result, Tx};
use legation_store::{
    external_tasks, history, incidents, instances, mailbox, payloads, steps, tasks, timers,
};

use super::Shared;
use super::durable::hold;
use super::made::{
    end_human, end_incident, human_row, incident_row, instance_row, json, mail_row, step_row, task_row,
    timer_row,
};
use super::trees::{Loaded, place};

/// Everything one batch writes.
#[derive(Default)]
pub(super) struct Rows {
    /// The revision each changed instance had when the batch began; None when it is new.
    instances: BTreeMap<InstanceId, Option<i64>>,
    /// Tasks that changed, and whether they are new.
    tasks: BTreeMap<TaskId, bool>,
    steps: BTreeMap<(TaskId, u32, u32), Arc<Step>>,
    history: Vec<HistoryRow>,
    payloads: BTreeMap<(String, String), PayloadRow>,
    new_timers: BTreeMap<String, TimerRow>,
    ended_timers: Vec<Key>,
    pub mail: Vec<MailboxRow>,
    new_humans: BTreeMap<String, TaskRow>,
    ended_humans: Vec<HumanEnd>,
    new_incidents: BTreeMap<String, IncidentRow>,
    ended_incidents: Vec<(String, String, String)>,
    /// Rows of durable commands that are given up.
    held: Vec<(String, Held)>,
    /// Instances that wait for the end of what is below them.
    ending: BTreeSet<InstanceId>,
    /// Roots whose tree changed.
    pub changed: HashSet<String>,
}

/// Facts of the command that stand in its history rows.
pub(super) struct Told<'a> {
    pub command_id: &'a str,
    pub actor: &'a str,
    pub project: &'a str,
    pub writer: &'a str,
    pub batch_no: i64,
    pub now: i64,
}

impl Rows {
    /// Takes the changes of one command into the batch and into the tree in memory.
    pub(super) fn take(
        &mut self,
        shared: &Shared,
        loaded: &mut Loaded,
        changes: Changes,
        told: &Told<'_>,
    ) -> Result<()> {
        if changes.instances.is_empty() && changes.tasks.is_empty() && changes.effects.is_empty() {
            return Ok(());
        }
        self.changed.insert(loaded.root.id.clone());
        for touched in changes.instances {
            let instance = touched.instance;
            self.history.push(HistoryRow {
                root: loaded.root.id.clone(),
                instance: instance.id.0.clone(),
                revision: instance.revision as i64,
                command_id: told.command_id.to_owned(),
                writer: told.writer.to_owned(),
                batch_no: told.batch_no,
                // The time of the events, which does not go back with this engine's clock: a replay asks for it.
                at: instance.updated_at,
                format: i64::from(instance.format),
                actor: Some(told.actor.to_owned()),
                events: json(&touched.events)?,
            });
            if instance.is_ending() {
                self.ending.insert(instance.id.clone());
            }
            let before = (!touched.fresh).then(|| instance.revision as i64 - 1);
            self.instances.entry(instance.id.clone()).or_insert(before);
            if instance.id.is_root() && instance.is_over() {
                loaded.root.ended_at = instance.ended_at;
            }
            loaded
                .tree
                .instances
                .insert(instance.id.clone(), Arc::new(instance));
        }
        for (file, fresh) in changes.tasks {
            let id = file.task.id.clone();
            let known = loaded.tree.tasks.get(&id);
            for step in &file.steps {
                let same = known.and_then(|known| known.step(step.attempt, step.sequence));
                if !same.is_some_and(|same| std::ptr::eq(same, step.as_ref())) {
                    self.steps
                        .insert((id.clone(), step.attempt, step.sequence), step.clone());
                }
            }
            self.tasks.entry(id.clone()).or_insert(fresh);
            loaded.tree.tasks.insert(id, Arc::new(file));
        }
        for effect in changes.effects {
            self.effect(shared, loaded, effect, told)?;
        }
        Ok(())
    }

    fn effect(&mut self, shared: &Shared, loaded: &Loaded, effect: Effect, told: &Told<'_>) -> Result<()> {
        let root = &loaded.root.id;
        match effect {
            Effect::Payload(new) => {
                let plain = new.value.to_json();
                let size = plain.len() as i64;
                let (key_id, nonce, body) = match &loaded.key {
                    Some(key) => {
                        let at = place(root, &new.owner, &new.digest);
                        let (nonce, body) = key.encrypt(plain.as_bytes(), &at, &shared.chance);
                        (loaded.root.key_id.clone(), Some(nonce.to_vec()), body)
                    }
                    None => (None, None, plain.into_bytes()),
                };
                let row = PayloadRow {
                    root: root.clone(),
                    owner: new.owner.clone(),
                    digest: new.digest.clone(),
                    size,
                    key_id,
                    nonce,
                    body,
                };
                self.payloads.entry((new.owner, new.digest)).or_insert(row);
            }
            Effect::ArmTimer(timer) => {
                self.new_timers
                    .insert(timer.id.clone(), timer_row(root, told.project, &timer));
            }
            Effect::DisarmTimer { id } => {
                if self.new_timers.remove(&id).is_none() {
                    self.ended_timers.push(Key::new(root, id));
                }
            }
            Effect::OpenHuman(human) => {
                self.new_humans
                    .insert(human.id.clone(), human_row(root, told.project, &human)?);
            }
            Effect::CloseHuman(end) => match self.new_humans.get_mut(&end.id) {
                Some(row) => end_human(row, &end),
                None => self.ended_humans.push(end),
            },
            Effect::OpenIncident(incident) => {
                self.held
                    .extend(incident.held.clone().map(|held| (root.clone(), held)));
                self.new_incidents
                    .insert(incident.id.clone(), incident_row(root, told.project, &incident)?);
            }
            Effect::CloseIncident { id, by, resolution } => match self.new_incidents.get_mut(&id) {
                Some(row) => end_incident(row, &by, &resolution, told.now)?,
                None => self.ended_incidents.push((id, by, resolution)),
            },
            Effect::Mail(mail) => self.mail.push(mail_row(root, told, &mail)?),
        }
        Ok(())
    }

    /// Writes everything. Changed tasks answer the topics where work is open now, and when.
    pub(super) async fn write(
        self,
        tx: &mut Tx,
        trees: &mut HashMap<String, Loaded>,
        told: &Told<'_>,
    ) -> Result<Written> {
        let mut written = Written {
            changed: !self.is_empty(),
            ..Written::default()
        };
        let mut new_roots = Vec::new();
        let mut old_roots = Vec::new();
        for root in &self.changed {
            let Some(loaded) = trees.get_mut(root) else {
                continue;
            };
            if loaded.fresh {
                new_roots.push(loaded.root.clone());
                loaded.fresh = false;
            } else {
                old_roots.push(loaded.root.clone());
                loaded.root.version += 1;
            }
        }
        // In id order, as they were locked.
        new_roots.sort_by(|a, b| a.id.cmp(&b.id));
        old_roots.sort_by(|a, b| a.id.cmp(&b.id));
        if !new_roots.is_empty() {
            legation_store::roots::insert(tx, &new_roots).await?;
        }
        if !old_roots.is_empty() {
            legation_store::roots::update(tx, &old_roots).await?;
        }
        self.write_instances(tx, trees).await?;
        self.write_tasks(tx, trees, told, &mut written).await?;
        if !self.history.is_empty() {
            history::insert(tx, &self.history).await?;
        }
        if !self.payloads.is_empty() {
            payloads::insert(tx, &self.payloads.into_values().collect::<Vec<_>>()).await?;
        }
        if !self.new_timers.is_empty() {
            let rows: Vec<TimerRow> = self.new_timers.into_values().collect();
            timers::insert(tx, &rows).await?;
            written.due.extend(rows.iter().map(|row| row.due_at));
        }
        if !self.ended_timers.is_empty() {
            timers::delete(tx, &self.ended_timers).await?;
        }
        if !self.mail.is_empty() {
            mailbox::insert(tx, &self.mail).await?;
            written.mail = self.mail;
        }
        if !self.new_humans.is_empty() {
            tasks::insert(tx, &self.new_humans.into_values().collect::<Vec<_>>()).await?;
        }
        end_humans(tx, &self.ended_humans).await?;
        if !self.new_incidents.is_empty() {
            incidents::insert(tx, &self.new_incidents.into_values().collect::<Vec<_>>()).await?;
        }
        end_incidents(tx, &self.ended_incidents, told.now).await?;
        for (root, held) in &self.held {
            hold(tx, root, held, told.now).await?;
        }
        for instance in &self.ending {
            external_tasks::close_below(tx, instance.root(), instance.as_str()).await?;
        }
        Ok(written)
    }

    async fn write_instances(&self, tx: &mut Tx, trees: &HashMap<String, Loaded>) -> Result<()> {
        let mut new = Vec::new();
        let mut changed = Vec::new();
        for (id, before) in &self.instances {
            let Some(instance) = trees
                .get(id.root())
                .and_then(|loaded| loaded.tree.instances.get(id))
            else {
                continue;
            };
            let row = instance_row(instance)?;
            match before {
                None => new.push(row),
                Some(loaded) => changed.push(InstanceUpdate { row, loaded: *loaded }),
            }
        }
        if !new.is_empty() {
            instances::insert(tx, &new).await?;
        }
        if !changed.is_empty() {
            instances::update(tx, &changed).await?;
        }
        Ok(())
    }

    async fn write_tasks(
        &self,
        tx: &mut Tx,
        trees: &mut HashMap<String, Loaded>,
        told: &Told<'_>,
        written: &mut Written,
    ) -> Result<()> {
        let mut new = Vec::new();
        let mut changed = Vec::new();
        for (id, fresh) in &self.tasks {
            let Some(loaded) = trees.get_mut(id.root()) else {
                continue;
            };
            let Some(file) = loaded.tree.tasks.get(id) else {
                continue;
            };
            let known = loaded.rows.get(id).copied();
            let project = &loaded.root.project;
            let row = task_row(project, file, known)?;
            if let Some(at) = row.claimable_at {
                if at <= told.now {
                    *written
                        .open
                        .entry((project.clone(), row.topic.clone()))
                        .or_default() += 1;
                } else if row.worker.is_none() {
                    written.later.push((at, project.clone(), row.topic.clone()));
                }
            }
            written.due.extend(row.lapse_at);
            let revision = if *fresh { row.revision } else { row.revision + 1 };
            loaded.rows.insert(
                id.clone(),
                super::trees::TaskRow {
                    revision,
                    position: row.position,
                },
            );
            if *fresh { new.push(row) } else { changed.push(row) }
        }
        if !new.is_empty() {
            external_tasks::insert(tx, &new).await?;
        }
        if !changed.is_empty() {
            external_tasks::update(tx, &changed).await?;
        }
        if !self.steps.is_empty() {
            let rows: Vec<StepRow> = self
                .steps
                .values()
                .map(|step| step_row(step, told))
                .collect::<Result<_>>()?;
            steps::upsert(tx, &rows).await?;
        }
        Ok(())
    }

    /// Whether nothing is to be written.
    pub(super) fn is_empty(&self) -> bool {
        self.changed.is_empty()
    }
}

/// What the commit makes ready.
#[derive(Default)]
pub(super) struct Written {
    /// (project, topic): how many tasks may be leased now.
    pub open: HashMap<(String, String), usize>,
    /// Work that opens later.
    pub later: Vec<(i64, String, String)>,
    /// Times at which a durable command is due.
    pub due: Vec<i64>,
    pub mail: Vec<MailboxRow>,
    /// Whether anything was written at all.
    pub changed: bool,
}

async fn end_humans(tx: &mut Tx, ends: &[HumanEnd]) -> Result<()> {
    if ends.is_empty() {
        return Ok(());
    }
    let keys: Vec<Key> = ends
        .iter()
        .map(|end| Key::new(root_of(&end.id), &end.id))
        .collect();
    let mut rows = tasks::get_many(tx, &keys).await?;
    for row in &mut rows {
        if let Some(end) = ends.iter().find(|end| end.id == row.id) {
            end_human(row, end);
        }
    }
    tasks::update(tx, &rows).await
}

async fn end_incidents(tx: &mut Tx, ends: &[(String, String, String)], now: i64) -> Result<()> {
    let mut rows = Vec::new();
    for (id, by, resolution) in ends {
        if let Some(mut row) = incidents::get(tx, root_of(id), id).await? {
            end_incident(&mut row, by, resolution, now)?;
            rows.push(row);
        }
    }
    if rows.is_empty() {
        return Ok(());
    }
    incidents::update(tx, &rows).await
}
