//! One run of a seed: a time of accidents, then calm until everything has ended, then the checks.

mod accidents;

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use legation_kernel::commands::{Answer, StartInstance};
use legation_kernel::ids::InstanceId;
use legation_store::Dialect;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::calls::{Call, Net, Outcome};
use super::check::{self, Tree};
use super::engine::{Engine, PROJECT, Place};
use super::ledger::Ledger;
use super::said::Said;
use super::worker::{Around, Worker};
use super::world::{self, Start};
use super::{look, people};

/// Things that happen in the time of accidents.
const ROUGH: u32 = 140;

/// Rounds of calm after which work that has not ended never will.
const CALM: u32 = 3_000;

/// How a run ended.
pub struct Report {
    /// What became of each start, by business key.
    pub ends: BTreeMap<String, String>,
    /// Those whose end depends on what was faster.
    pub open: BTreeSet<String>,
    pub commits: u32,
    /// Commits that broke, and engines that died between two.
    pub broken: u32,
    /// What happened how often, to see that the simulation still reaches it.
    pub reached: BTreeMap<String, u32>,
    pub calls: u32,
}

pub struct Run {
    seed: u64,
    rough: bool,
    rng: StdRng,
    engine: Engine,
    net: Net,
    ledger: Ledger,
    starts: Vec<Start>,
    /// Business key to the root that the engine answered.
    started: HashMap<String, String>,
    workers: Vec<Worker>,
    /// What was answered, to be found in the database (I3).
    said: Said,
    restarts: u32,
    /// Fetches in a row that found nothing.
    idle: u32,
}

impl Run {
    pub fn new(seed: u64, dialect: Dialect, rough: bool) -> Self {
        let starts = world::starts(&mut StdRng::seed_from_u64(seed));
        let engines = match dialect {
            Dialect::Sqlite => 1,
            Dialect::Postgres => 2,
        };
        let engine = Engine::new(Place::new(dialect), seed, engines);
        Self {
            seed,
            rough,
            rng: StdRng::seed_from_u64(seed ^ 0x5eed),
            engine,
            net: Net::new(rough),
            ledger: Ledger::default(),
            starts,
            started: HashMap::new(),
            workers: ["w1", "w2", "w3"].into_iter().map(Worker::new).collect(),
            said: Said::default(),
            restarts: 0,
            idle: 0,
        }
    }

    /// # Errors
    /// What does not hold.
    pub fn run_on(mut self) -> Result<Report, String> {
        if self.rough {
            for _ in 0..2 * self.starts.len() {
                self.start()?;
            }
            for _ in 0..ROUGH {
                self.accident()?;
            }
            self.engine.settle();
            check::check(&mut self.engine)?;
            self.rough = false;
            self.net.rough = false;
        }
        self.calm()?;
        let trees = check::check(&mut self.engine)?;
        self.said.is_kept(&mut self.engine)?;
        if let [first, ..] = self.ledger.twice().as_slice() {
            return Err(format!("paid twice: {first}"));
        }
        self.report(&trees)
    }

    /// Nothing goes wrong any more: everything comes to its end.
    fn calm(&mut self) -> Result<(), String> {
        for worker in &mut self.workers {
            worker.die();
        }
        let mut quiet = 0;
        for _ in 0..CALM {
            while !self.net.late.is_empty() {
                self.late()?;
            }
            while self.started.len() < self.starts.len() {
                self.start()?;
            }
            self.work(1)?;
            self.engine.settle();
            if self.workers.iter().all(|worker| worker.held.is_none()) {
                self.people()?;
                self.operate()?;
                self.work(1)?;
                self.engine.settle();
                if self.is_over() {
                    return Ok(());
                }
                if self.workers.iter().all(|worker| worker.held.is_none()) {
                    // The longer nobody has anything to do, the further the clock goes.
                    self.engine.pass(2_000 << quiet.min(8));
                    quiet += 1;
                } else {
                    quiet = 0;
                }
            }
        }
        let trees = check::check(&mut self.engine)?;
        let now = self.engine.clock.now();
        Err(format!(
            "it never ends, at {now}:\n{}",
            trees.iter().map(super::end::open).collect::<String>()
        ))
    }

    fn is_over(&mut self) -> bool {
        let ids: Vec<String> = self.started.values().cloned().collect();
        self.engine.read(async |db| {
            let mut conn = db.read().await.expect("a connection");
            for id in &ids {
                if look::row(&mut conn, id).await.ended_at.is_none() {
                    return false;
                }
            }
            true
        })
    }

    fn work(&mut self, count: usize) -> Result<(), String> {
        let mut calls = Vec::new();
        let first = self.rng.random_range(0..self.workers.len());
        for n in 0..count {
            let place = (first + n) % self.workers.len();
            let mut around = Around {
                engine: &mut self.engine,
                rng: &mut self.rng,
                ledger: &mut self.ledger,
                starts: &self.starts,
                rough: self.rough,
            };
            if let Some(call) = self.workers[place].act(&mut around) {
                calls.push((place, call));
            }
        }
        let only: Vec<Call> = calls.iter().map(|(_, call)| call.clone()).collect();
        let outcomes = self.net.send(&mut self.engine, &mut self.rng, &only);
        for ((place, call), outcome) in calls.into_iter().zip(outcomes) {
            if std::env::var_os("SIM_TRACE").is_some() {
                eprintln!("{place} {call:?}\n    -> {outcome:?}");
            }
            self.idle = match &outcome {
                Outcome::Claimed(claimed) if claimed.is_empty() => self.idle + 1,
                _ => 0,
            };
            self.said.note(&call, &outcome);
            let mut around = Around {
                engine: &mut self.engine,
                rng: &mut self.rng,
                ledger: &mut self.ledger,
                starts: &self.starts,
                rough: self.rough,
            };
            self.workers[place].learn(&mut around, call, outcome)?;
        }
        Ok(())
    }

    fn start(&mut self) -> Result<(), String> {
        let Some(start) = self
            .starts
            .iter()
            .find(|start| !self.started.contains_key(&start.key))
        else {
            return Ok(());
        };
        let app = self.engine.app(0);
        let request = StartInstance {
            id: InstanceId(app.chance().root_id(self.engine.clock.now())),
            project: PROJECT.to_owned(),
            process: start.process.to_owned(),
            version: 1,
            business_key: Some(start.key.clone()),
            labels: BTreeMap::new(),
            variables: start
                .variables()
                .into_iter()
                .map(|(name, value)| (name.to_owned(), value))
                .collect(),
        };
        let key = start.key.clone();
        let call = Call::Start {
            key: key.clone(),
            start: Box::new(request),
        };
        let outcome = self.net.send(&mut self.engine, &mut self.rng, &[call]).pop();
        match outcome {
            Some(Outcome::Answer(Answer::Started { id, .. })) => drop(self.started.insert(key, id.0)),
            Some(Outcome::Before(id)) => drop(self.started.insert(key, id)),
            Some(Outcome::Lost) | None => {}
            other => return Err(format!("a start was answered {other:?}")),
        }
        Ok(())
    }

    fn people(&mut self) -> Result<(), String> {
        let seed = self.seed;
        let calls = people::decide(&mut self.around(), seed);
        self.ask(calls)
    }

    fn operate(&mut self) -> Result<(), String> {
        let call = people::operate(&mut self.around())?;
        self.ask(call.into_iter().collect())
    }

    fn ask(&mut self, calls: Vec<Call>) -> Result<(), String> {
        let outcomes = self.net.send(&mut self.engine, &mut self.rng, &calls);
        for (call, outcome) in calls.iter().zip(outcomes) {
            expected(call, &outcome)?;
        }
        Ok(())
    }

    /// I6: what arrives under an old lease changes nothing but the outcome of its own grants.
    fn late(&mut self) -> Result<(), String> {
        self.engine.settle();
        let named = self
            .net
            .late
            .iter()
            .filter_map(super::stale::lease_of)
            .map(|(task, _)| task)
            .collect::<Vec<_>>();
        let before = super::stale::picture(&mut self.engine, &named);
        let Some((call, outcome)) = self.net.deliver(&mut self.engine, &mut self.rng) else {
            return Ok(());
        };
        self.said.note(&call, &outcome);
        super::stale::unchanged(&mut self.engine, &before, &call)?;
        match &call {
            Call::Fetch(_) | Call::Start { .. } => Ok(()),
            Call::Run { actor, .. } if actor.starts_with('w') => Ok(()),
            Call::Run { .. } => expected(&call, &outcome),
        }
    }

    fn around(&mut self) -> Around<'_> {
        Around {
            engine: &mut self.engine,
            rng: &mut self.rng,
            ledger: &mut self.ledger,
            starts: &self.starts,
            rough: self.rough,
        }
    }

    fn report(&mut self, trees: &[Tree]) -> Result<Report, String> {
        let app = self.engine.app(0);
        let mut ends = BTreeMap::new();
        for tree in trees {
            let mut end = self
                .engine
                .read(async |db| super::end::describe(&app, db, tree).await);
            end.push_str(&format!("\n  paid {:?}", self.ledger.of(&tree.business_key)));
            ends.insert(tree.business_key.clone(), end);
        }
        let reached = self.engine.read(async |db| super::end::reached(db, trees).await);
        let open = self
            .starts
            .iter()
            .filter(|start| start.is_open())
            .map(|start| start.key.clone())
            .collect();
        Ok(Report {
            ends,
            open,
            reached,
            commits: self.engine.fates.commits.load(Ordering::Relaxed),
            broken: self.engine.fates.broken.load(Ordering::Relaxed) + self.restarts,
            calls: self.net.sent,
        })
    }
}

fn expected(call: &Call, outcome: &Outcome) -> Result<(), String> {
    match outcome {
        Outcome::Refused(refusal) if !people::EXPECTED.contains(&refusal.code) => {
            Err(format!("refused unexpectedly: {refusal:?} for {call:?}"))
        }
        _ => Ok(()),
    }
}
