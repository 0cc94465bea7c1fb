//! A tree in memory with everything that a shell would do around the kernel: definitions, leases, mail, timers,
//! and the history that every test replays at its end.
#![expect(dead_code, reason = "each test binary uses its part")]

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;

use legation_kernel::commands::{
    Answer, Command, Completion, IncidentTarget, Person, StartInstance, execute,
};
use legation_kernel::content::Payloads;
use legation_kernel::effect::{Effect, HumanTask, Incident, Mail};
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::instance::{Event, Instance, Status, replay};
use legation_kernel::rejection::{Rejection, Stop};
use legation_kernel::task::{self, Caller, TaskFile};
use legation_kernel::work::{Definitions, Env, Tree, Work};
use legation_language::Value;
use legation_language::documents::{Nothing, Options, freeze};
use legation_language::model::Definition;
use legation_language::types::NoSchemas;

/// Definitions by key and version.
#[derive(Default)]
pub struct Deployed(HashMap<(String, u32), Arc<Definition>>);

impl Definitions for Deployed {
    fn get(&self, _: &str, key: &str, version: u32) -> Option<Arc<Definition>> {
        self.0.get(&(key.to_owned(), version)).cloned()
    }

    fn latest(&self, _: &str, key: &str) -> Option<Arc<Definition>> {
        self.0
            .iter()
            .filter(|((known, _), _)| known == key)
            .max_by_key(|((_, version), _)| *version)
            .map(|(_, d)| d.clone())
    }
}

/// A value, as JSON says it.
pub fn json(text: &str) -> Value {
    Value::parse(text).expect("JSON")
}

pub struct World {
    pub definitions: Deployed,
    /// Processes that are gone, though another calls them.
    pub absent: HashSet<(String, Option<u32>)>,
    pub tree: Tree,
    pub now: i64,
    pub budget: u32,
    pub ends: u32,
    pub mail: VecDeque<Mail>,
    /// Armed timers: id to due time.
    pub timers: BTreeMap<String, i64>,
    pub humans: BTreeMap<String, HumanTask>,
    pub incidents: BTreeMap<String, Incident>,
    pub notices: Vec<Incident>,
    pub history: BTreeMap<InstanceId, Vec<(i64, Vec<Event>)>>,
    /// Which command wrote each row of the history, counted from 0.
    pub commands: BTreeMap<InstanceId, Vec<u32>>,
    /// How often a command was decided again because payloads were missing.
    pub loads: u32,
    ran: u32,
    leases: u32,
}

/// A lease in a test's hand.
#[derive(Clone, Debug)]
pub struct Leased {
    pub task: TaskId,
    pub caller: Caller,
}

impl World {
    /// Deploys documents: (path, YAML).
    pub fn new(files: &[(&str, &str)]) -> Self {
        let files: BTreeMap<String, String> = files
            .iter()
            .map(|(p, t)| ((*p).to_owned(), (*t).to_owned()))
            .collect();
        let frozen = freeze(&files, &Options::default(), &Nothing);
        assert!(!frozen.has_errors(), "{:#?}", frozen.problems);
        Self::of(
            frozen
                .processes
                .iter()
                .map(|process| Definition::clone(&process.definition)),
        )
    }

    pub fn of(definitions: impl IntoIterator<Item = Definition>) -> Self {
        let definitions = definitions
            .into_iter()
            .map(|d| ((d.key.clone(), d.version), Arc::new(d)))
            .collect::<HashMap<_, _>>();
        Self {
            definitions: Deployed(definitions),
            absent: HashSet::new(),
            tree: Tree::default(),
            now: 1_000_000,
            budget: 1_000,
            ends: 200,
            mail: VecDeque::new(),
            timers: BTreeMap::new(),
            humans: BTreeMap::new(),
            incidents: BTreeMap::new(),
            notices: Vec::new(),
            history: BTreeMap::new(),
            commands: BTreeMap::new(),
            loads: 0,
            ran: 0,
            leases: 0,
        }
    }

    /// As if a process had never been deployed.
    pub fn remove(&mut self, process: &str) {
        let versions = self
            .definitions
            .0
            .keys()
            .filter(|(key, _)| key == process)
            .map(|(_, version)| Some(*version));
        self.absent.extend(
            versions
                .chain([None])
                .map(|version| (process.to_owned(), version)),
        );
        self.definitions.0.retain(|(key, _), _| key != process);
    }

    pub fn root() -> InstanceId {
        InstanceId("0123456789abcdef0123456789abcdef".to_owned())
    }

    /// Runs one command, all or nothing.
    pub fn run(&mut self, command: &Command) -> Result<Answer, Rejection> {
        let env = Env {
            now: self.now,
            definitions: &self.definitions,
            absent: &self.absent,
            schemas: &NoSchemas,
            actor: "tester",
            jitter: 50,
            traceparent: None,
            max_depth: 4,
            budget: self.budget,
            ends: self.ends,
        };
        // As after a restart: payloads are loaded when they are missed, and only those that an effect stored.
        let mut payloads = Payloads::default();
        let decided = loop {
            let mut work = Work::new(&self.tree, &mut payloads, &env);
            match execute(&mut work, command) {
                Err(Stop::MissingPayloads(digests)) => {
                    self.loads += 1;
                    for digest in digests {
                        let value = self
                            .tree
                            .payloads
                            .get(&digest)
                            .expect("what is named was stored")
                            .clone();
                        payloads.insert(digest, value);
                    }
                }
                decided => break decided.map(|answer| (answer, work.finish())),
            }
        };
        let (answer, changes) = match decided {
            Ok(decided) => decided,
            Err(Stop::Rejected(rejection)) => return Err(*rejection),
            Err(Stop::MissingTask(id)) => return Err(Rejection::not_found(format!("no task {id}"))),
            Err(Stop::MissingInstance(id)) => return Err(Rejection::not_found(format!("no instance {id}"))),
            Err(stop) => panic!("a test world has everything loaded: {stop:?}"),
        };
        self.ran += 1;
        for touched in changes.instances {
            let id = touched.instance.id.clone();
            self.history
                .entry(id.clone())
                .or_default()
                .push((touched.instance.updated_at, touched.events));
            self.commands.entry(id.clone()).or_default().push(self.ran);
            self.tree.instances.insert(id, Arc::new(touched.instance));
        }
        for (file, _) in changes.tasks {
            self.tree.tasks.insert(file.task.id.clone(), Arc::new(file));
        }
        for effect in changes.effects {
            self.effect(effect);
        }
        Ok(answer)
    }

    fn effect(&mut self, effect: Effect) {
        match effect {
            Effect::Payload(new) => self.tree.payloads.insert(new.digest, new.value),
            Effect::OpenHuman(human) => {
                self.humans.insert(human.id.clone(), *human);
            }
            Effect::CloseHuman(end) => {
                assert!(
                    self.humans.remove(&end.id).is_some(),
                    "{} is closed twice",
                    end.id
                );
            }
            Effect::ArmTimer(timer) => {
                self.timers.insert(timer.id, timer.due_at);
            }
            Effect::DisarmTimer { id } => {
                self.timers.remove(&id);
            }
            Effect::OpenIncident(incident) if incident.notice => self.notices.push(*incident),
            Effect::OpenIncident(incident) => {
                let id = incident.id.clone();
                assert!(
                    self.incidents.insert(id, *incident).is_none(),
                    "an incident is opened twice"
                );
            }
            Effect::CloseIncident { id, .. } => {
                let notice = self.notices.iter().any(|notice| notice.id == id);
                assert!(
                    self.incidents.remove(&id).is_some() || notice,
                    "{id} is closed twice"
                );
            }
            Effect::Mail(mail) => self.mail.push_back(mail),
        }
    }

    /// Starts a process as the root instance and delivers its mail.
    pub fn start(&mut self, process: &str, variables: &[(&str, Value)]) -> InstanceId {
        self.try_start(process, variables).expect("it starts")
    }

    pub fn try_start(&mut self, process: &str, variables: &[(&str, Value)]) -> Result<InstanceId, Rejection> {
        let version = self.definitions.latest("p", process).expect("deployed").version;
        let start = StartInstance {
            id: Self::root(),
            project: "p".to_owned(),
            process: process.to_owned(),
            version,
            business_key: None,
            labels: BTreeMap::new(),
            variables: variables
                .iter()
                .map(|(k, v)| ((*k).to_owned(), v.clone()))
                .collect(),
        };
        self.run(&Command::Start(Box::new(start)))?;
        self.deliver();
        Ok(Self::root())
    }

    /// Delivers durable commands until none is left; the end of a child twice, as an engine may that died in between:
    /// one resume per child (I8).
    pub fn deliver(&mut self) {
        while let Some(mail) = self.mail.pop_front() {
            let command = match mail {
                Mail::ChildDone { child } => Command::ChildDone { child },
                Mail::Continue { instance } => Command::Continue { instance },
            };
            self.run(&command).expect("durable commands are not refused");
            if let Command::ChildDone { child } = &command {
                let again = self.run(&command).expect("durable commands are not refused");
                assert_eq!(again, Answer::Nothing, "{child} is over for its parent");
            }
        }
    }

    /// Moves the clock and fires what is due, in order.
    pub fn pass(&mut self, ms: i64) {
        let until = self.now + ms;
        while let Some((id, due)) = self
            .timers
            .iter()
            .min_by_key(|(_, due)| **due)
            .map(|(id, due)| (id.clone(), *due))
        {
            if due > until {
                break;
            }
            self.now = self.now.max(due);
            self.timers.remove(&id);
            self.run(&Command::FireTimer { timer: id })
                .expect("a timer fires");
            self.deliver();
        }
        self.now = until;
    }

    /// The tasks that a worker could lease now, by topic.
    pub fn open(&self, topic: &str) -> Vec<TaskId> {
        let mut open: Vec<TaskId> = self
            .tree
            .tasks
            .values()
            .filter(|file| {
                file.task.topic == topic && task::claimable_at(file).is_some_and(|at| at <= self.now)
            })
            .map(|file| file.task.id.clone())
            .collect();
        open.sort();
        open
    }

    /// Leases the only open task of a topic.
    pub fn lease(&mut self, topic: &str) -> Leased {
        let open = self.open(topic);
        assert_eq!(open.len(), 1, "open tasks of {topic}: {open:?}");
        self.lease_task(&open[0])
    }

    pub fn lease_task(&mut self, id: &TaskId) -> Leased {
        self.leases += 1;
        let random = format!("r{}", self.leases);
        let file = Arc::make_mut(self.tree.tasks.get_mut(id).expect("known"));
        task::take(&mut file.task, "w", "key", &random, 30_000, self.now);
        let caller = Caller {
            worker: "w".to_owned(),
            credential: "key".to_owned(),
            lease: Some((file.task.lease_no, random)),
            arrived_at: self.now,
        };
        Leased {
            task: id.clone(),
            caller,
        }
    }

    /// Leases and completes the only open task of a topic.
    pub fn complete(&mut self, topic: &str, variables: &[(&str, Value)]) -> Answer {
        let leased = self.lease(topic);
        let answer = self.run(&leased.complete(variables)).expect("it completes");
        self.deliver();
        answer
    }

    pub fn instance(&self, id: &InstanceId) -> &Instance {
        &self.tree.instances[id]
    }

    pub fn file(&self, id: &TaskId) -> &TaskFile {
        &self.tree.tasks[id]
    }

    pub fn status(&self) -> Status {
        self.instance(&Self::root()).status
    }

    /// A variable of the root.
    pub fn variable(&self, name: &str) -> Option<Value> {
        self.variable_of(&Self::root(), name)
    }

    pub fn variable_of(&self, id: &InstanceId, name: &str) -> Option<Value> {
        let variable = self.instance(id).variables().get(name)?;
        Some(
            variable
                .content
                .value(&self.tree.payloads)
                .expect("loaded")
                .clone(),
        )
    }

    /// What a retry or a resolution of the oldest open incident names.
    pub fn target(&self) -> IncidentTarget {
        let incident = self.incidents.values().next().expect("an open incident");
        IncidentTarget {
            id: incident.id.clone(),
            instance: incident.instance.clone(),
            task: incident.task.clone(),
            attempt: incident.attempt,
            sequence: incident.sequence,
            notice: false,
        }
    }

    pub fn person(id: &str, groups: &[&str]) -> Person {
        Person {
            id: id.to_owned(),
            groups: groups.iter().map(|g| (*g).to_owned()).collect(),
            worker: false,
        }
    }

    /// Replay equals state (I2); a finished instance holds nothing (I5); open rows are those of open instances.
    pub fn check(&self) {
        for (id, instance) in &self.tree.instances {
            let rows = self.history[id]
                .iter()
                .map(|(at, events)| (*at, events.as_slice()));
            let replayed = replay(rows).expect("a history begins with its start");
            assert_eq!(&replayed, instance.as_ref(), "replay of {id}");
            if instance.is_over() {
                assert!(instance.tokens.is_empty(), "tokens of {id}");
                assert!(instance.humans.is_empty(), "human tasks of {id}");
                assert!(instance.timers.is_empty(), "timers of {id}");
                assert!(instance.incidents.is_empty(), "incidents of {id}");
                let running = instance
                    .children
                    .keys()
                    .filter(|n| !self.tree.instances[&id.child(**n)].is_over());
                assert_eq!(running.count(), 0, "running children of {id}");
                let open = self
                    .tree
                    .tasks
                    .values()
                    .filter(|f| f.task.id.instance() == *id && f.task.retired.is_none());
                assert_eq!(open.count(), 0, "open tasks of {id}");
            } else if instance.is_ending() {
                assert!(
                    instance.tokens.is_empty() && instance.timers.is_empty(),
                    "{id} ends and still waits"
                );
                assert!(
                    instance.humans.is_empty() && instance.incidents.is_empty(),
                    "{id} ends and is still open"
                );
                assert!(!self.mail.is_empty(), "{id} never ends");
            } else {
                let mut below = instance
                    .children
                    .keys()
                    .map(|n| &self.tree.instances[&id.child(*n)]);
                let waits = !instance.tokens.is_empty()
                    || below.any(|child| !child.is_over())
                    || !self.mail.is_empty();
                assert!(waits, "{id} runs without a token");
            }
        }
        for id in self.timers.keys() {
            let owner = legation_kernel::ids::owner_of(id).expect("an owner");
            let local = legation_kernel::ids::local_of(id).expect("a number");
            assert!(
                self.tree.instances[&owner].timers.contains_key(&local),
                "timer {id} is armed for nobody"
            );
        }
        for id in self.humans.keys() {
            let owner = legation_kernel::ids::owner_of(id).expect("an owner");
            let local = legation_kernel::ids::local_of(id).expect("a number");
            assert!(
                self.tree.instances[&owner].humans.contains(&local),
                "human task {id} is nobody's"
            );
        }
    }
}

impl Leased {
    pub fn complete(&self, variables: &[(&str, Value)]) -> Command {
        let variables = variables
            .iter()
            .map(|(k, v)| ((*k).to_owned(), v.clone()))
            .collect();
        Command::Complete {
            task: self.task.clone(),
            caller: self.caller.clone(),
            completion: Completion::Variables(variables),
        }
    }

    pub fn answer(&self, result: Value, outcome: Option<&str>) -> Command {
        Command::Complete {
            task: self.task.clone(),
            caller: self.caller.clone(),
            completion: Completion::Result {
                result,
                outcome: outcome.map(str::to_owned),
            },
        }
    }

    pub fn fail(&self, message: &str) -> Command {
        let failure = task::Failure {
            message: message.to_owned(),
            code: None,
            retryable: true,
            retry_after_ms: None,
        };
        Command::Failure {
            task: self.task.clone(),
            caller: self.caller.clone(),
            failure,
        }
    }
}
