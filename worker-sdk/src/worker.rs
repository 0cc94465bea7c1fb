//! The loop: fetch as many tasks as there are free places, run each under its lease, stop without losing work.

use std::collections::BTreeMap;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use legation_protocol::external_tasks::{FetchAnswer, FetchRequest, LockedTask, ReleaseRequest};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::backoff::Backoff;
use crate::durable::{self, Ctx};
use crate::lease::{self, Closing, Handler, Lease, Limits};
use crate::task::{closing, millis};
use crate::{Client, Error, Task, TaskError};

/// The engine gives at most so many tasks to one fetch.
const MOST_PER_FETCH: usize = 50;
/// A fetch that is under way when the worker stops may already have leased work: wait so long to hand it back.
const LAST_FETCH: Duration = Duration::from_millis(500);

/// A worker: topics with their handlers, and how to run them.
pub struct Worker {
    client: Client,
    worker_id: Arc<str>,
    handlers: BTreeMap<String, Handler>,
    concurrency: usize,
    lock: Duration,
    long_poll: Duration,
    drain: Duration,
    grace: Duration,
}

impl Worker {
    /// A worker without topics. `worker_id` names it in leases and lists; two processes must not share one.
    pub fn new(client: Client, worker_id: impl Into<String>) -> Worker {
        Worker {
            client,
            worker_id: worker_id.into().into(),
            handlers: BTreeMap::new(),
            concurrency: 8,
            lock: Duration::from_secs(30),
            long_poll: Duration::from_secs(20),
            drain: Duration::from_secs(30),
            grace: Duration::from_secs(5),
        }
    }

    /// Serves a topic with typed inputs and outputs. The output is an object whose fields are the variables, or `()`.
    #[must_use]
    pub fn topic<I, O, F, Fut>(self, topic: impl Into<String>, handler: F) -> Worker
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(Task<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.lease_topic(topic, move |lease: Lease| {
            let handler = Arc::clone(&handler);
            async move {
                match Task::new(&lease.task, lease.cancelled) {
                    Ok(task) => closing(handler(task).await),
                    Err(error) => closing::<()>(Err(error)),
                }
            }
        })
    }

    /// Serves a topic with a durable handler: its finished steps never run again, see [`durable`].
    #[must_use]
    pub fn durable_topic<I, O, F, Fut>(self, topic: impl Into<String>, handler: F) -> Worker
    where
        I: DeserializeOwned + Send + 'static,
        O: Serialize + Send + 'static,
        F: Fn(Ctx, Task<I>) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Result<O, TaskError>> + Send + 'static,
    {
        let handler = Arc::new(handler);
        self.lease_topic(topic, move |lease: Lease| {
            let handler = Arc::clone(&handler);
            async move {
                match Task::new(&lease.task, lease.cancelled.clone()) {
                    Ok(task) => durable::serve(lease, move |ctx| handler(ctx, task)).await,
                    Err(error) => closing::<()>(Err(error)),
                }
            }
        })
    }

    /// Serves a topic with a handler that sees the whole lease and says how it ends.
    #[must_use]
    pub fn lease_topic<F, Fut>(mut self, topic: impl Into<String>, handler: F) -> Worker
    where
        F: Fn(Lease) -> Fut + Send + Sync + 'static,
        Fut: Future<Output = Closing> + Send + 'static,
    {
        let handler: Handler = Arc::new(move |lease| handler(lease).boxed());
        self.handlers.insert(topic.into(), handler);
        self
    }

    /// At most so many tasks at the same time (default 8, at least 1).
    #[must_use]
    pub fn concurrency(self, tasks: usize) -> Worker {
        Worker {
            concurrency: tasks.max(1),
            ..self
        }
    }

    /// How long a lease lasts without a heartbeat (default 30 s); heartbeats go out at a third of it.
    #[must_use]
    pub fn lock_duration(self, lock: Duration) -> Worker {
        Worker { lock, ..self }
    }

    /// How long a fetch waits for work (default 20 s).
    #[must_use]
    pub fn long_poll(self, long_poll: Duration) -> Worker {
        Worker { long_poll, ..self }
    }

    /// How long a shutdown waits for running handlers (default 30 s); then they are cancelled and handed back.
    #[must_use]
    pub fn drain(self, drain: Duration) -> Worker {
        Worker { drain, ..self }
    }

    /// How long a cancelled handler may tidy up before it is dropped (default 5 s).
    #[must_use]
    pub fn cancel_grace(self, grace: Duration) -> Worker {
        Worker { grace, ..self }
    }

    /// Works until `shutdown` is cancelled, then lets running handlers end.
    ///
    /// # Errors
    /// When the engine refuses to give work at all, such as for a wrong key; running handlers end first.
    pub async fn run(self, shutdown: CancellationToken) -> Result<(), Error> {
        let tracker = TaskTracker::new();
        let hard_stop = CancellationToken::new();
        let outcome = self.serve(&shutdown, &tracker, &hard_stop).await;
        tracker.close();
        if tokio::time::timeout(self.drain, tracker.wait()).await.is_err() {
            tracing::warn!(
                running = tracker.len(),
                "handlers are cancelled, the shutdown waits no longer"
            );
            hard_stop.cancel();
            tracker.wait().await;
        }
        outcome
    }

    async fn serve(
        &self,
        shutdown: &CancellationToken,
        tracker: &TaskTracker,
        hard_stop: &CancellationToken,
    ) -> Result<(), Error> {
        let places = Arc::new(Semaphore::new(self.concurrency));
        let mut backoff = Backoff::default();
        loop {
            let first = tokio::select! {
                biased;
                () = shutdown.cancelled() => return Ok(()),
                Ok(place) = Arc::clone(&places).acquire_owned() => place,
            };
            let mut free = vec![first];
            while free.len() < MOST_PER_FETCH
                && let Ok(place) = Arc::clone(&places).try_acquire_owned()
            {
                free.push(place);
            }
            let fetched = match self.fetch(free.len(), shutdown).await {
                Fetched::Tasks(answer) => answer,
                Fetched::Stopped => return Ok(()),
                Fetched::Failed(error @ Error::Rejected(_)) => return Err(error),
                Fetched::Failed(error) => {
                    let wait = backoff.next(error.retry_after());
                    tracing::warn!(%error, wait_ms = wait.as_millis(), "no work could be fetched");
                    tokio::select! {
                        () = shutdown.cancelled() => return Ok(()),
                        () = tokio::time::sleep(wait) => continue,
                    }
                }
            };
            backoff.reset();
            for (task, place) in fetched.tasks.into_iter().zip(free) {
                self.begin(task, place, tracker, hard_stop);
            }
        }
    }

    async fn fetch(&self, tasks: usize, shutdown: &CancellationToken) -> Fetched {
        let request = FetchRequest {
            worker_id: self.worker_id.to_string(),
            topics: self.handlers.keys().cloned().collect(),
            lock_duration: millis(self.lock),
            max_tasks: u32::try_from(tasks).unwrap_or(1),
            long_poll_ms: millis(self.long_poll),
            have: BTreeMap::new(),
        };
        let mut fetch = std::pin::pin!(self.client.fetch_and_lock(&request));
        tokio::select! {
            biased;
            answer = &mut fetch => return answer.map_or_else(Fetched::Failed, Fetched::Tasks),
            () = shutdown.cancelled() => {}
        }
        if let Ok(Ok(late)) = tokio::time::timeout(LAST_FETCH, fetch).await {
            for task in late.tasks {
                self.hand_back(&task.id).await;
            }
        }
        Fetched::Stopped
    }

    async fn hand_back(&self, lease: &str) {
        let request = ReleaseRequest {
            worker_id: self.worker_id.to_string(),
            after_ms: None,
            reason: Some("the worker stops".to_owned()),
        };
        if let Err(error) = self.client.release(lease, &request).await {
            tracing::warn!(lease, %error, "a task could not be handed back; its lease will expire");
        }
    }

    fn begin(
        &self,
        task: LockedTask,
        place: OwnedSemaphorePermit,
        tracker: &TaskTracker,
        hard_stop: &CancellationToken,
    ) {
        let Some(handler) = self.handlers.get(&task.topic).cloned() else {
            tracing::error!(
                topic = task.topic,
                "the engine sent a task of a topic that was not asked for"
            );
            return;
        };
        let client = match &task.traceparent {
            Some(traceparent) => self.client.with_traceparent(traceparent),
            None => self.client.clone(),
        };
        let lease = Lease {
            client,
            worker_id: Arc::clone(&self.worker_id),
            task,
            cancelled: hard_stop.child_token(),
        };
        let limits = Limits {
            lock: self.lock,
            grace: self.grace,
        };
        let heartbeats = tracker.clone();
        tracker.spawn(async move {
            lease::run(lease, handler, limits, heartbeats).await;
            drop(place);
        });
    }
}

enum Fetched {
    Tasks(FetchAnswer),
    Stopped,
    Failed(Error),
}
