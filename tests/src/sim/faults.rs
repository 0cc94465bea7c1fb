//! Commits that go wrong: the connection breaks before or after, or the engine dies there. The run says beforehand
//! which commit of the next action is meant, so that its fate does not depend on what the machine does meanwhile.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};

use futures::FutureExt;
use futures::future::BoxFuture;
use legation_server::writer::{Faults, Lost, Moment};
use rand::Rng;
use rand::rngs::StdRng;
use tokio::sync::Notify;

/// What becomes of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doom {
    LostBefore,
    LostAfter,
    DiesBefore,
    DiesAfter,
    /// Between a child's end and its parent's resume.
    DiesWithMail,
}

#[derive(Clone, Copy, Debug)]
struct Plan {
    /// Commits that pass before.
    skip: u32,
    doom: Doom,
}

/// Decides the fate of commits. Shared by all engines of one run.
#[derive(Default)]
pub struct Fates {
    plan: Mutex<Option<Plan>>,
    /// An engine has died in a commit.
    dead: AtomicBool,
    pub died: Notify,
    pub commits: AtomicU32,
    pub broken: AtomicU32,
}

impl Fates {
    /// The next commit: for tests of a single accident.
    #[cfg(test)]
    pub fn doom(&self, doom: Doom) {
        self.set(Some(Plan { skip: 0, doom }));
    }

    /// Perhaps one of the next commits.
    pub fn draw(&self, rng: &mut StdRng) {
        let doom = match rng.random_range(0..20) {
            0 | 1 => Doom::LostBefore,
            2 | 3 => Doom::LostAfter,
            4 => Doom::DiesBefore,
            5 => Doom::DiesAfter,
            6 => Doom::DiesWithMail,
            _ => return,
        };
        let skip = rng.random_range(0..3) / 2;
        self.set(Some(Plan { skip, doom }));
    }

    /// Nothing goes wrong any more.
    pub fn calm(&self) {
        self.set(None);
    }

    fn set(&self, plan: Option<Plan>) {
        *self.plan.lock().unwrap_or_else(PoisonError::into_inner) = plan;
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

    /// The doom of a commit that stands there. Once.
    fn take(&self, moment: Moment) -> Option<Doom> {
        let mut plan = self.plan.lock().unwrap_or_else(PoisonError::into_inner);
        let planned = plan.as_mut()?;
        let here = match planned.doom {
            Doom::LostBefore | Doom::DiesBefore => moment == Moment::BeforeCommit,
            Doom::LostAfter | Doom::DiesAfter => moment != Moment::BeforeCommit,
            Doom::DiesWithMail => matches!(moment, Moment::AfterCommit { mail: 1.. }),
        };
        if !here {
            return None;
        }
        if planned.skip > 0 {
            planned.skip -= 1;
            return None;
        }
        plan.take().map(|plan| plan.doom)
    }
}

impl Faults for Fates {
    fn at(&self, moment: Moment) -> BoxFuture<'_, Result<(), Lost>> {
        if moment == Moment::BeforeCommit {
            self.commits.fetch_add(1, Ordering::Relaxed);
        }
        let doom = self.take(moment);
        Box::pin(async move {
            let Some(doom) = doom else { return Ok(()) };
            self.broken.fetch_add(1, Ordering::Relaxed);
            match doom {
                Doom::LostBefore | Doom::LostAfter => Err(Lost),
                Doom::DiesBefore | Doom::DiesAfter | Doom::DiesWithMail => {
                    self.dead.store(true, Ordering::SeqCst);
                    self.died.notify_one();
                    std::future::pending().await
                }
            }
        })
    }
}
