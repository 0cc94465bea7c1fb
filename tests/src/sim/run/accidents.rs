//! What goes wrong in the time of accidents, one thing after another as the seed says.

use legation_kernel::commands::Command;
use legation_kernel::ids::InstanceId;
use rand::Rng;

use super::Run;
use crate::sim::calls::Call;
use crate::sim::worker::{LOCK_MS, Worker};

impl Run {
    pub(super) fn accident(&mut self) -> Result<(), String> {
        self.engine.fates.draw(&mut self.rng);
        if self.idle >= 3 {
            self.idle = 0;
            self.something_else()?;
        } else {
            self.happens()?;
        }
        if self.rng.random_ratio(1, 20) {
            // At once, with whatever the action left to do.
            self.restart();
        }
        self.engine.settle();
        self.engine.fates.calm();
        Ok(())
    }

    /// The next engine may run on a machine whose clock is behind: times of an instance never go back.
    fn restart(&mut self) {
        self.restarts += 1;
        let behind = [0, 0, 0, 1_500, 10_000, 60 * 60 * 1_000][self.rng.random_range(0..6)];
        self.engine.clock.advance(-behind);
        self.engine.kill_and_restart();
    }

    fn happens(&mut self) -> Result<(), String> {
        match self.rng.random_range(0..100) {
            0..46 => self.work(1)?,
            46..58 => self.work(3)?,
            58..66 => self.start()?,
            66..74 => self.people()?,
            74..80 => self.operate()?,
            80..86 => self.late()?,
            86..93 => {
                let ms = self.rng.random_range(100..8_000);
                self.engine.pass(ms);
            }
            93..96 => {
                let ms = self.rng.random_range(LOCK_MS..3 * LOCK_MS);
                self.engine.pass(ms);
            }
            // B24: the clock jumps an hour.
            96 => self.engine.pass(60 * 60 * 1_000),
            97 => {
                let worker = self.rng.random_range(0..self.workers.len());
                self.workers[worker].die();
            }
            98 => self.cancel()?,
            _ => self.plague()?,
        }
        Ok(())
    }

    /// Workers have nothing to do: somebody else acts, or time passes.
    fn something_else(&mut self) -> Result<(), String> {
        match self.rng.random_range(0..4) {
            0 => self.people(),
            1 => self.operate(),
            2 => self.start(),
            _ => {
                let ms = self.rng.random_range(500..20_000);
                self.engine.pass(ms);
                Ok(())
            }
        }
    }

    /// Whoever takes work dies of it, until somebody has to look.
    fn plague(&mut self) -> Result<(), String> {
        for _ in 0..7 {
            self.work(self.workers.len())?;
            self.workers.iter_mut().for_each(Worker::die);
            self.engine.pass(2 * LOCK_MS + 1);
        }
        Ok(())
    }

    fn cancel(&mut self) -> Result<(), String> {
        let wanted = self
            .starts
            .iter()
            .find(|start| start.cancelled && self.started.contains_key(&start.key));
        let Some(id) = wanted.map(|start| self.started[&start.key].clone()) else {
            return Ok(());
        };
        let command = Command::Cancel {
            instance: InstanceId(id),
            reason: "not wanted any more".to_owned(),
        };
        self.ask(vec![Call::Run {
            actor: "olga".to_owned(),
            command,
        }])
    }
}
