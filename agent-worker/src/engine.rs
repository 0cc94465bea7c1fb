//! What the loop needs of the engine, so that tests can put a journal in memory in its place.

use async_trait::async_trait;
use legation_protocol::external_tasks::{
    ClosedAnswer, CompleteRequest, FailureRequest, HeartbeatRequest, ParkAnswer, ParkRequest, ReleaseRequest,
};
use legation_protocol::steps::{StepList, StepsAnswer, StepsRequest};
use legation_worker::{Client, Error};

/// The worker calls of one lease. Each may be repeated without harm; the client does so by itself.
#[async_trait]
pub trait Engine: Send + Sync {
    async fn steps(&self, lease: &str, request: &StepsRequest) -> Result<StepsAnswer, Error>;
    async fn list_steps(&self, lease: &str, after: u32) -> Result<StepList, Error>;
    async fn heartbeat(&self, lease: &str, request: &HeartbeatRequest) -> Result<(), Error>;
    async fn park(&self, lease: &str, request: &ParkRequest) -> Result<ParkAnswer, Error>;
    async fn complete(&self, lease: &str, request: &CompleteRequest) -> Result<ClosedAnswer, Error>;
    async fn failure(&self, lease: &str, request: &FailureRequest) -> Result<ClosedAnswer, Error>;
    async fn release(&self, lease: &str, request: &ReleaseRequest) -> Result<ClosedAnswer, Error>;
}

#[async_trait]
impl Engine for Client {
    async fn steps(&self, lease: &str, request: &StepsRequest) -> Result<StepsAnswer, Error> {
        Client::steps(self, lease, request).await
    }

    async fn list_steps(&self, lease: &str, after: u32) -> Result<StepList, Error> {
        Client::list_steps(self, lease, after).await
    }

    async fn heartbeat(&self, lease: &str, request: &HeartbeatRequest) -> Result<(), Error> {
        Client::heartbeat(self, lease, request).await.map(|_| ())
    }

    async fn park(&self, lease: &str, request: &ParkRequest) -> Result<ParkAnswer, Error> {
        Client::park(self, lease, request).await
    }

    async fn complete(&self, lease: &str, request: &CompleteRequest) -> Result<ClosedAnswer, Error> {
        Client::complete(self, lease, request).await
    }

    async fn failure(&self, lease: &str, request: &FailureRequest) -> Result<ClosedAnswer, Error> {
        Client::failure(self, lease, request).await
    }

    async fn release(&self, lease: &str, request: &ReleaseRequest) -> Result<ClosedAnswer, Error> {
        Client::release(self, lease, request).await
    }
}
