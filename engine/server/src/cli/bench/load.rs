//! The load: starts instances, and for A and A1 reads from stdin when the workers finished each.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::os::fd::AsFd;
use std::time::Duration;

use anyhow::{Context, bail};
use futures::future::try_join_all;
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::net::unix::pipe::Receiver;
use tokio::sync::Notify;

use super::http::{Connection, Target};
use super::times::{Part, Times, micros};
use super::{MEASURING, READY, Scenario, documents, usage};

/// Between two instances of A1, so that everything is idle again.
const PAUSE: Duration = Duration::from_millis(3);

/// Instances that may be under way for each starter of A.
const UNDER_WAY: u64 = 10;

/// When the load begins, when it is measured from, and when it ends: micros.
#[derive(Clone, Copy)]
pub struct Span {
    pub from: u64,
    pub until: u64,
}

impl Span {
    /// A warm-up, then the measured time.
    pub fn begin(seconds: f64) -> Self {
        let warm_up = (seconds / 3.0).min(1.5);
        let from = micros() + (warm_up * 1e6) as u64;
        Self {
            from,
            until: from + (seconds * 1e6) as u64,
        }
    }

    pub fn holds(self, at: u64) -> bool {
        (self.from..self.until).contains(&at)
    }

    pub fn is_over(self) -> bool {
        micros() >= self.until
    }

    pub fn left(self) -> Duration {
        Duration::from_micros(self.until.saturating_sub(micros()))
    }

    pub fn seconds(self) -> f64 {
        (self.until - self.from) as f64 / 1e6
    }

    /// Says on stdout that the measured time begins, and gives the CPU time used by then.
    pub async fn announce(self) -> f64 {
        tokio::time::sleep(Duration::from_micros(self.from.saturating_sub(micros()))).await;
        println!("{MEASURING}");
        usage::cpu_seconds(std::process::id()).unwrap_or_default()
    }
}

/// What the starters and the reader share.
struct Race {
    span: Span,
    process: &'static str,
    /// Instances that may be under way at once; None: nobody waits for their end.
    most: Option<u64>,
    started: Cell<u64>,
    finished: Cell<u64>,
    starts: RefCell<HashMap<String, u64>>,
    ends: RefCell<Vec<(String, u64)>>,
    moved: Notify,
}

#[derive(Deserialize)]
struct Started {
    id: String,
}

pub async fn run(target: &Target, scenario: Scenario, seconds: f64, clients: usize) -> anyhow::Result<Part> {
    let (process, clients, most) = match scenario {
        Scenario::B => (documents::EMPTY, clients, None),
        Scenario::A1 => (documents::ONE_TASK, 1, Some(1)),
        _ => (documents::ONE_TASK, clients, Some(clients as u64 * UNDER_WAY)),
    };
    let ends = match most {
        Some(_) => Some(ends().await?),
        None => None,
    };
    let race = Race {
        span: Span::begin(seconds),
        process,
        most,
        started: Cell::new(0),
        finished: Cell::new(0),
        starts: RefCell::default(),
        ends: RefCell::default(),
        moved: Notify::new(),
    };
    let starters = try_join_all((0..clients).map(|_| race.start_all(target)));
    let reader = async {
        match ends {
            Some(ends) => race.read_ends(ends).await,
            None => std::future::pending().await,
        }
    };
    let all = async {
        let (_, cpu) = tokio::try_join!(starters, async { anyhow::Ok(race.span.announce().await) })?;
        let cpu = usage::cpu_seconds(std::process::id()).unwrap_or_default() - cpu;
        // Ends of the last moments may still be in the pipe.
        tokio::time::sleep(Duration::from_millis(200)).await;
        anyhow::Ok(cpu)
    };
    let cpu_seconds = tokio::select! {
        cpu = all => cpu?,
        ended = reader => return Err(ended.err().context("the workers ended")?),
    };
    let times = race.times();
    Ok(Part {
        finished: times.len() as u64,
        seconds: race.span.seconds(),
        times: Times::of(times),
        cpu_seconds,
    })
}

/// The workers' lines, once they are connected.
async fn ends() -> anyhow::Result<BufReader<Receiver>> {
    let pipe = std::io::stdin().as_fd().try_clone_to_owned()?;
    let mut input = BufReader::with_capacity(64 * 1024, Receiver::from_owned_fd(pipe)?);
    let mut line = String::new();
    input.read_line(&mut line).await?;
    anyhow::ensure!(line.trim_end() == READY, "the workers did not get ready");
    Ok(input)
}

impl Race {
    async fn start_all(&self, target: &Target) -> anyhow::Result<()> {
        let mut connection = Connection::open(target).await?;
        while !self.span.is_over() {
            if !self.has_place().await {
                break;
            }
            if self.most == Some(1) {
                tokio::time::sleep(PAUSE).await;
            }
            let number = self.started.get() + 1;
            self.started.set(number);
            let body = documents::start(self.process, number);
            let at = micros();
            let started: Started = connection.post("/v1/instances", &body).await?;
            if self.most.is_none() {
                self.ends.borrow_mut().push((started.id.clone(), micros()));
            }
            self.starts.borrow_mut().insert(started.id, at);
        }
        Ok(())
    }

    /// Waits until another instance may be started; false at the end of the time.
    async fn has_place(&self) -> bool {
        let Some(most) = self.most else { return true };
        while self.started.get() - self.finished.get() >= most {
            let moved = self.moved.notified();
            if tokio::time::timeout(self.span.left(), moved).await.is_err() {
                return false;
            }
        }
        true
    }

    /// Reads `<instance> <micros>` lines.
    async fn read_ends(&self, mut input: BufReader<Receiver>) -> anyhow::Result<()> {
        let mut line = String::new();
        loop {
            line.clear();
            if input.read_line(&mut line).await? == 0 {
                bail!("the workers ended");
            }
            let (id, at) = line
                .trim_end()
                .split_once(' ')
                .context("the workers said something else")?;
            self.ends.borrow_mut().push((id.to_owned(), at.parse()?));
            self.finished.set(self.finished.get() + 1);
            self.moved.notify_waiters();
        }
    }

    /// From the start request to the end, of what ended in the measured time.
    fn times(&self) -> Vec<u64> {
        let starts = self.starts.borrow();
        let ends = self.ends.borrow();
        let measured = ends.iter().filter(|(_, at)| self.span.holds(*at));
        measured
            .filter_map(|(id, at)| starts.get(id).map(|began| at.saturating_sub(*began)))
            .collect()
    }
}
