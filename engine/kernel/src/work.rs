//! The work set of one command: the aggregates it touches, its events and effects. Nothing outside is changed
//! until the shell takes the [`Changes`]; a refused command leaves no trace.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use legation_language::model::Definition;
use legation_language::types::SchemaCheck;

use crate::content::Payloads;
use crate::effect::Effect;
use crate::ids::{InstanceId, TaskId};
use crate::instance::{Event, Instance};
use crate::moves::Moves;
use crate::rejection::Stop;
use crate::task::TaskFile;

/// What is loaded of one root's tree.
#[derive(Clone, Debug, Default)]
pub struct Tree {
    pub instances: HashMap<InstanceId, Arc<Instance>>,
    pub tasks: HashMap<TaskId, Arc<TaskFile>>,
    pub payloads: Payloads,
}

/// Deployed definitions, as far as they are known to this process.
pub trait Definitions {
    fn get(&self, project: &str, key: &str, version: u32) -> Option<Arc<Definition>>;
    fn latest(&self, project: &str, key: &str) -> Option<Arc<Definition>>;
}

/// Facts of the command that the kernel may not find out by itself (I1).
pub struct Env<'a> {
    /// Epoch ms.
    pub now: i64,
    pub definitions: &'a dyn Definitions,
    /// Processes that were asked for, by key and version, and are not deployed.
    pub absent: &'a HashSet<(String, Option<u32>)>,
    pub schemas: &'a dyn SchemaCheck,
    /// The principal, or `engine` for durable commands.
    pub actor: &'a str,
    /// 0..=100, drawn by the shell for the jitter of a back-off.
    pub jitter: u32,
    pub traceparent: Option<&'a str>,
    /// Deepest absolute depth of a child (architecture §7.3: 4).
    pub max_depth: u32,
    /// Node transitions of one command, in all the instances that it moves; the rest follows as
    /// [`crate::effect::Mail::Continue`].
    pub budget: u32,
    /// Instances that end in one command when a tree is cancelled, from the leaves up; the rest follows likewise.
    pub ends: u32,
}

/// An instance while a command works on it.
#[derive(Clone, Debug)]
pub struct Touched {
    pub instance: Instance,
    pub events: Vec<Event>,
    /// Not in the database yet.
    pub fresh: bool,
    /// The next free local number, counted ahead of the events.
    pub next: u32,
}

/// What a successful command leaves.
#[derive(Debug, Default)]
pub struct Changes {
    pub instances: Vec<Touched>,
    /// The file and whether it is new.
    pub tasks: Vec<(TaskFile, bool)>,
    pub effects: Vec<Effect>,
}

/// See the module's words.
pub struct Work<'a> {
    tree: &'a Tree,
    pub payloads: &'a mut Payloads,
    pub env: &'a Env<'a>,
    instances: BTreeMap<InstanceId, Touched>,
    tasks: BTreeMap<TaskId, (TaskFile, bool)>,
    pub(crate) effects: Vec<Effect>,
    /// Node transitions that are left of the budget.
    pub(crate) left: u32,
    /// Instances that may still end.
    pub(crate) ends_left: u32,
}

impl<'a> Work<'a> {
    #[must_use]
    pub fn new(tree: &'a Tree, payloads: &'a mut Payloads, env: &'a Env<'a>) -> Self {
        Self {
            tree,
            payloads,
            env,
            instances: BTreeMap::new(),
            tasks: BTreeMap::new(),
            effects: Vec::new(),
            left: env.budget,
            ends_left: env.ends.max(1),
        }
    }

    /// Ends the command: instances that changed count one revision up.
    #[must_use]
    pub fn finish(self) -> Changes {
        let mut changes = Changes {
            effects: self.effects,
            ..Changes::default()
        };
        for (_, mut touched) in self.instances {
            if touched.next > touched.instance.next_local {
                let event = Event::NumbersTaken { next: touched.next };
                let at = self.env.now.max(touched.instance.updated_at);
                crate::instance::apply(&mut touched.instance, &event, at);
                touched.events.push(event);
            }
            if touched.events.is_empty() {
                continue;
            }
            touched.instance.revision += 1;
            changes.instances.push(touched);
        }
        changes.tasks = self.tasks.into_values().collect();
        changes
    }

    /// The instance as this command sees it.
    pub fn instance(&self, id: &InstanceId) -> Result<&Instance, Stop> {
        if let Some(touched) = self.instances.get(id) {
            return Ok(&touched.instance);
        }
        self.tree
            .instances
            .get(id)
            .map(Arc::as_ref)
            .ok_or_else(|| Stop::MissingInstance(id.clone()))
    }

    /// The task as this command sees it.
    pub fn task(&self, id: &TaskId) -> Result<&TaskFile, Stop> {
        if let Some((file, _)) = self.tasks.get(id) {
            return Ok(file);
        }
        self.tree
            .tasks
            .get(id)
            .map(Arc::as_ref)
            .ok_or_else(|| Stop::MissingTask(id.clone()))
    }

    /// The task, to be changed.
    pub fn task_mut(&mut self, id: &TaskId) -> Result<&mut TaskFile, Stop> {
        if !self.tasks.contains_key(id) {
            let file = self
                .tree
                .tasks
                .get(id)
                .ok_or_else(|| Stop::MissingTask(id.clone()))?;
            self.tasks.insert(id.clone(), (TaskFile::clone(file), false));
        }
        Ok(&mut self.tasks.get_mut(id).expect("just inserted").0)
    }

    /// The task, already in the work set, beside the payloads.
    pub(crate) fn task_and_payloads(&mut self, id: &TaskId) -> Result<(&mut TaskFile, &Payloads), Stop> {
        let (file, _) = self
            .tasks
            .get_mut(id)
            .ok_or_else(|| Stop::MissingTask(id.clone()))?;
        Ok((file, self.payloads))
    }

    pub(crate) fn add_task(&mut self, file: TaskFile) {
        self.tasks.insert(file.task.id.clone(), (file, true));
    }

    /// Runs `act` on an instance, with all the moves of a node.
    pub fn with<R>(
        &mut self,
        id: &InstanceId,
        act: impl FnOnce(&mut Moves<'_, 'a>) -> Result<R, Stop>,
    ) -> Result<R, Stop> {
        let touched = match self.instances.remove(id) {
            Some(touched) => touched,
            None => {
                let base = self
                    .tree
                    .instances
                    .get(id)
                    .ok_or_else(|| Stop::MissingInstance(id.clone()))?;
                let instance = Instance::clone(base);
                let next = instance.next_local;
                Touched {
                    instance,
                    events: Vec::new(),
                    fresh: false,
                    next,
                }
            }
        };
        let definition = self.definition(&touched.instance)?;
        let mut moves = Moves::new(self, touched, definition);
        let answer = act(&mut moves)?;
        let touched = moves.into_touched();
        self.instances.insert(id.clone(), touched);
        Ok(answer)
    }

    /// Puts a new instance into the work set.
    pub(crate) fn insert(&mut self, touched: Touched) {
        self.instances.insert(touched.instance.id.clone(), touched);
    }

    pub(crate) fn definition(&self, instance: &Instance) -> Result<Arc<Definition>, Stop> {
        self.env
            .definitions
            .get(&instance.project, &instance.process, instance.version)
            .ok_or_else(|| Stop::MissingDefinition(instance.process.clone(), Some(instance.version)))
    }
}
