//! One leased agent task, from the fetch to the call that ends the lease. The rule of what comes next is
//! `turns::next`; this is the I/O around it.

mod close;
mod model;
mod offer;
mod tools;

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use legation_protocol::StepKind;
use legation_protocol::agent::{AgentNode, ServerBinding, ToolBinding};
use legation_protocol::external_tasks::{LockedTask, ParkRequest, TaskState};
use legation_protocol::problem::Problem;
use legation_protocol::steps::{StepAnswer, StepInput, StepsAnswer, StepsRequest};
use legation_worker::Error;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::config::Limits;
use crate::engine::Engine;
use crate::models::configured::Models;
use crate::models::{Function, Model, ModelError};
use crate::tools::{CallError, Described, ToolCall, ToolOutcome, ToolServers};
use crate::turns::journal::Ledger;
use crate::turns::{Action, Local, next};

/// How often a journal that differs from ours is read again before the work is given back.
const MAX_REREADS: u32 = 5;

/// Finds the model behind a name.
pub trait ModelSource: Send + Sync {
    /// The name that is journaled for a node's model.
    fn asked(&self, node_model: Option<&str>) -> String;
    fn get(&self, asked: &str) -> Result<Arc<dyn Model>, ModelError>;
}

impl ModelSource for Models {
    fn asked(&self, node_model: Option<&str>) -> String {
        Models::asked(self, node_model)
    }

    fn get(&self, asked: &str) -> Result<Arc<dyn Model>, ModelError> {
        Models::get(self, asked)
    }
}

/// Runs tools.
#[async_trait]
pub trait Tools: Send + Sync {
    async fn describe(
        &self,
        server: Option<&ServerBinding>,
        tool: &ToolBinding,
    ) -> Result<Described, CallError>;
    async fn call(&self, call: &ToolCall<'_>) -> ToolOutcome;
}

#[async_trait]
impl Tools for ToolServers {
    async fn describe(
        &self,
        server: Option<&ServerBinding>,
        tool: &ToolBinding,
    ) -> Result<Described, CallError> {
        ToolServers::describe(self, server, tool).await
    }

    async fn call(&self, call: &ToolCall<'_>) -> ToolOutcome {
        ToolServers::call(self, call).await
    }
}

/// What every task of this worker shares.
pub struct Shared {
    pub engine: Arc<dyn Engine>,
    pub models: Arc<dyn ModelSource>,
    pub tools: Arc<dyn Tools>,
    pub worker_id: String,
    /// How long a lease lasts, in ms.
    pub lock_ms: u64,
    pub limits: Limits,
}

/// How a lease ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    Completed,
    Failed,
    /// Parked: others have to act.
    Parked,
    /// Every model was unavailable, or a write has to be sent again later.
    Deferred,
    /// Given back unfinished.
    Released,
    /// The lease was over before the work was.
    Lost,
}

/// A reason to stop the loop.
enum Stop {
    Ended(Ended),
    /// The engine said no, or nothing at all.
    Engine(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

type Go<T> = Result<T, Stop>;

struct Run {
    shared: Arc<Shared>,
    lease: String,
    attempt: u32,
    task: LockedTask,
    agent: Arc<AgentNode>,
    ledger: Ledger,
    local: Local,
    calls: JoinSet<tools::Finished>,
    /// Which of the running calls are writes; reads are dropped with the lease.
    running: BTreeMap<u32, tools::Running>,
    /// A write that went out and was never answered: it has to be sent again under its key.
    uncertain: Option<Uncertain>,
    functions: Option<Vec<Function>>,
    /// Fires when the lease is over.
    over: CancellationToken,
    drain: CancellationToken,
    rereads: u32,
    repairs: u32,
}

struct Uncertain {
    message: String,
    keyed: bool,
}

/// Works on one leased task until its lease ends.
pub async fn run_task(shared: Arc<Shared>, task: LockedTask, drain: CancellationToken) -> Ended {
    let Some(agent) = task.agent.clone() else {
        let message = format!("the task of topic {} carries no agent node", task.topic);
        return close::refuse(&shared, &task.id, message).await;
    };
    let over = CancellationToken::new();
    let pulse = tokio::spawn(close::heartbeat(
        Arc::clone(&shared),
        task.id.clone(),
        over.clone(),
    ));
    let mut run = Run {
        lease: task.id.clone(),
        attempt: task.attempt,
        agent: Arc::new(agent),
        ledger: Ledger::default(),
        local: Local::default(),
        calls: JoinSet::new(),
        running: BTreeMap::new(),
        uncertain: None,
        functions: None,
        rereads: 0,
        repairs: 0,
        shared,
        task,
        over,
        drain,
    };
    let ended = match run.work().await {
        Ok(ended) | Err(Stop::Ended(ended)) => ended,
        Err(Stop::Engine(error)) => run.give_up(error).await,
    };
    pulse.abort();
    run.deliver_late();
    tracing::info!(task = %run.lease, ended = ?ended, "lease ended");
    ended
}

impl Run {
    async fn work(&mut self) -> Go<Ended> {
        self.read_journal().await?;
        tracing::info!(task = %self.lease, instance = %self.task.instance_id, node = %self.task.node_id,
            attempt = self.attempt, steps = self.ledger.iter().count(), "working");
        loop {
            if self.over.is_cancelled() {
                return Ok(Ended::Lost);
            }
            if self.running.is_empty()
                && let Some(uncertain) = self.uncertain.take()
            {
                return self.put_off(uncertain).await;
            }
            if self.drain.is_cancelled() && self.running.is_empty() {
                return self
                    .release(None, "the worker is stopping", Ended::Released)
                    .await;
            }
            match next(&self.agent, &self.task.prior_effects, &self.ledger, &self.local) {
                Action::AskModel {
                    sequence,
                    request,
                    conversation,
                    open,
                } => {
                    self.ask(sequence, request, &conversation, open).await?;
                }
                Action::Start(steps) | Action::Grant(steps) => self.start(steps).await?,
                Action::Wait => self.wait().await?,
                Action::Park => self.park().await?,
                Action::Complete { result, outcome } => {
                    if let Some(ended) = self.complete(result, outcome).await? {
                        return Ok(ended);
                    }
                }
                Action::Fail { code, message } => return self.fail(code, message, true, None).await,
            }
        }
    }

    /// The journal of the fetch, and the pages that did not fit into it.
    async fn read_journal(&mut self) -> Go<()> {
        let journal = self.task.journal.take().unwrap_or_default();
        self.ledger = Ledger::of(journal.steps);
        let mut after = journal.after;
        while let Some(from) = after {
            let page = self.shared.engine.list_steps(&self.lease, from).await?;
            after = page.after.filter(|next| *next > from);
            page.steps.into_iter().for_each(|step| self.ledger.put(step));
        }
        Ok(())
    }

    /// Our picture of the journal was wrong: read all of it again.
    async fn reread(&mut self, problem: &Problem) -> Go<()> {
        self.rereads += 1;
        tracing::warn!(task = %self.lease, code = problem.code, "the journal differs, reading it again");
        if self.rereads > MAX_REREADS {
            let message = format!("the journal keeps differing from what this worker sees: {problem}");
            self.release(Some(5_000), &message, Ended::Released)
                .await
                .map(|e| Err(Stop::Ended(e)))?
        } else {
            let mut after = 0;
            loop {
                let page = self.shared.engine.list_steps(&self.lease, after).await?;
                page.steps.into_iter().for_each(|step| self.ledger.put(step));
                match page.after.filter(|next| *next > after) {
                    Some(next) => after = next,
                    None => return Ok(()),
                }
            }
        }
    }

    /// Sends a batch and takes the answers over. Any state but LOCKED means that the lease is gone.
    async fn send(&mut self, steps: Vec<StepInput>) -> Go<Vec<StepAnswer>> {
        let request = StepsRequest::batch(&self.shared.worker_id, self.attempt, steps.clone());
        let answer = self.shared.engine.steps(&self.lease, &request).await?;
        self.take(&steps, answer)
    }

    fn take(&mut self, sent: &[StepInput], answer: StepsAnswer) -> Go<Vec<StepAnswer>> {
        for (step, answer) in sent.iter().zip(&answer.steps) {
            self.ledger.record(step, answer);
        }
        if answer.task.state == TaskState::Locked {
            return Ok(answer.steps);
        }
        for wait in &answer.task.waiting_for {
            tracing::info!(task = %self.lease, step = wait.sequence, kind = ?wait.kind, id = wait.id, "waiting");
        }
        Err(Stop::Ended(if answer.task.state.is_retired() {
            Ended::Lost
        } else {
            Ended::Parked
        }))
    }

    async fn park(&mut self) -> Go<()> {
        let request = ParkRequest {
            worker_id: self.shared.worker_id.clone(),
        };
        let answer = self.shared.engine.park(&self.lease, &request).await?;
        if answer.task.state != TaskState::Locked {
            return Err(Stop::Ended(Ended::Parked));
        }
        if answer.steps.is_empty() {
            // Nothing to do, nothing to wait for: our picture is wrong.
            return self
                .reread(&Problem {
                    code: "PARK_WITHOUT_NEWS".to_owned(),
                    ..Problem::default()
                })
                .await;
        }
        answer.steps.into_iter().for_each(|step| self.ledger.put(step));
        Ok(())
    }

    fn is_write(&self, sequence: u32) -> bool {
        let policy = self
            .ledger
            .get(sequence)
            .filter(|s| s.kind == StepKind::Tool)
            .and_then(|s| s.policy);
        policy.is_some_and(|p| p != legation_protocol::steps::ToolPolicy::Read)
    }
}

#[cfg(test)]
mod tests;
