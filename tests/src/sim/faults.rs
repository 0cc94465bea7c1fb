//! Commits that go wrong: the connection breaks before or after, or the engine dies there. The n-th commit meets the
//! same fate in every run of a seed.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use legation_server::writer::{Faults, Lost, Moment};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use tokio::sync::Notify;

/// What a test makes of the next commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doom {
    LostBefore,
    LostAfter,
}

/// Decides the fate of commits. Shared by all engines of one run.
pub struct Fates {
    rng: Mutex<StdRng>,
    /// False while the world is calm.
    pub on: AtomicBool,
    /// For tests of a single accident.
    pub next: Mutex<Option<Doom>>,
    /// An engine has died in a commit.
    dead: AtomicBool,
    pub died: Notify,
    pub commits: AtomicU32,
    pub broken: AtomicU32,
}

impl Fates {
    pub fn new(seed: u64) -> Self {
        Self {
            rng: Mutex::new(StdRng::seed_from_u64(seed)),
            on: AtomicBool::new(false),
            next: Mutex::new(None),
            dead: AtomicBool::new(false),
            died: Notify::new(),
            commits: AtomicU32::new(0),
            broken: AtomicU32::new(0),
        }
    }

    pub fn is_dead(&self) -> bool {
        self.dead.load(Ordering::SeqCst)
    }

    /// Another engine begins.
    pub fn revive(&self) {
        self.dead.store(false, Ordering::SeqCst);
        // A death that was told but not heard must not end the next life.
        let _ = self.died.notified().now_or_never();
    }

    /// Whether the commit that stands there is doomed. Once.
    fn is_doomed(&self, moment: Moment) -> bool {
        let mut next = self.next.lock().unwrap_or_else(PoisonError::into_inner);
        let here = match moment {
            Moment::BeforeCommit => Doom::LostBefore,
            Moment::AfterCommit { .. } => Doom::LostAfter,
        };
        let doomed = *next == Some(here);
        if doomed {
            *next = None;
        }
        doomed
    }

    fn roll(&self) -> u32 {
        self.rng
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .random_range(0..1_000)
    }
}

impl Faults for Fates {
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>> {
        if moment == Moment::BeforeCommit {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        if self.is_doomed(moment) {
            return Box::pin(std::future::ready(Err(Lost)));
        }
        let calm = !self.on.load(Ordering::SeqCst);
        let roll = if calm { 1_000 } else { self.roll() };
        // The moment between a child's end and its parent's resume is rare: it gets more than its share.
        let share = match moment {
            Moment::AfterCommit { mail: 1.. } => 120,
            Moment::BeforeCommit | Moment::AfterCommit { mail: 0 } => 30,
        };
        let fate = match roll {
            _ if roll < share / 2 => Some(true),
            _ if roll < share => Some(false),
            _ => None,
        };
        Box::pin(async move {
            let Some(dies) = fate else { return Ok(()) };
            self.broken.fetch_add(1, Ordering::Relaxed);
            if !dies {
                return Err(Lost);
            }
            self.dead.store(true, Ordering::SeqCst);
            self.died.notify_one();
            std::future::pending().await
        })
    }
}
