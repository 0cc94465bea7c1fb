//! Where the steps of a handler are kept: the engine, or a fake in a test of the handler.

use std::future::Future;

use legation_protocol::external_tasks::{ParkAnswer, ParkRequest};
use legation_protocol::steps::{Journal as Page, StepInput, StepView, StepsAnswer, StepsRequest};

use crate::lease::Lease;
use crate::task::bare_id;
use crate::{Client, Error};

/// The journal of one attempt under one lease.
pub trait Journal {
    /// Records steps in order, in one commit.
    fn record(&self, steps: Vec<StepInput>) -> impl Future<Output = Result<StepsAnswer, Error>> + Send;

    /// Every step of the attempt as it is now.
    fn list(&self) -> impl Future<Output = Result<Vec<StepView>, Error>> + Send;

    /// Gives the lease back until a waiting step settles.
    fn park(&self) -> impl Future<Output = Result<ParkAnswer, Error>> + Send;
}

/// The engine's journal of a leased task.
#[derive(Debug, Clone)]
pub struct LeaseJournal {
    client: Client,
    lease: String,
    worker_id: String,
    attempt: u32,
}

impl LeaseJournal {
    /// The journal of this lease's attempt.
    #[must_use]
    pub fn new(lease: &Lease) -> LeaseJournal {
        LeaseJournal {
            client: lease.client.clone(),
            lease: lease.task.id.clone(),
            worker_id: lease.worker_id.to_string(),
            attempt: lease.task.attempt,
        }
    }

    /// The steps of a fetch answer, with the pages that did not fit into it.
    ///
    /// # Errors
    /// When a further page cannot be read.
    pub async fn load(&self, first: Option<&Page>) -> Result<Vec<StepView>, Error> {
        let Some(first) = first else {
            return self.list().await;
        };
        let Some(after) = first.after else {
            return Ok(first.steps.clone());
        };
        let mut steps = first.steps.clone();
        steps.extend(self.pages(after).await?);
        Ok(steps)
    }

    async fn pages(&self, after: u32) -> Result<Vec<StepView>, Error> {
        let mut steps = Vec::new();
        let mut next = Some(after);
        while let Some(after) = next {
            let page = self.client.list_steps(bare_id(&self.lease), after).await?;
            steps.extend(page.steps);
            next = page.after;
        }
        Ok(steps)
    }
}

impl Journal for LeaseJournal {
    async fn record(&self, steps: Vec<StepInput>) -> Result<StepsAnswer, Error> {
        let request = StepsRequest::batch(self.worker_id.clone(), self.attempt, steps);
        self.client.steps(&self.lease, &request).await
    }

    async fn list(&self) -> Result<Vec<StepView>, Error> {
        self.pages(0).await
    }

    async fn park(&self) -> Result<ParkAnswer, Error> {
        self.client
            .park(
                &self.lease,
                &ParkRequest {
                    worker_id: self.worker_id.clone(),
                },
            )
            .await
    }
}
