//! Runs a durable handler by hand: poll until it is quiet, give it one result, poll again.
//!
//! One future on one thread at a time. Nothing else wakes the handler in a way that it could tell apart, so what it
//! does is a function of its input and of the order of results.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use legation_protocol::Json;
use legation_protocol::external_tasks::TaskState;
use legation_protocol::steps::StepView;
use tokio::sync::Notify;

use super::ctx::Ctx;
use super::journal::Journal;
use super::state::State;
use crate::backoff::Backoff;
use crate::{Error, TaskError};

/// How one run of a handler ended.
#[derive(Debug)]
pub enum Ended<O> {
    /// The handler answered.
    Done(Result<O, TaskError>),
    /// Nothing is left to do until a waiting step settles; the lease is gone.
    Parked,
    /// The code asks for other steps than the journal holds.
    Diverged(String),
}

/// How a run looks at its journal.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// While work of the handler's own runs beside a child or a wait, look for news so often.
    pub news_every: Duration,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            news_every: Duration::from_secs(5),
        }
    }
}

/// Runs `handler` over the recorded steps until it answers or parks.
///
/// # Errors
/// When the journal refuses or cannot be reached.
pub async fn run<J, O, F, Fut>(
    journal: &J,
    steps: Vec<StepView>,
    options: Options,
    handler: F,
) -> Result<Ended<O>, Error>
where
    J: Journal,
    F: FnOnce(Ctx) -> Fut,
    Fut: Future<Output = Result<O, TaskError>> + Send,
{
    let state = Arc::new(State::new(steps));
    let mut handler = Handler::new(handler(Ctx::new(Arc::clone(&state))), Arc::clone(&state));
    let mut idle = Backoff::default();
    loop {
        let answer = handler.poll_until_quiet().await;
        if let Some(divergence) = state.divergence() {
            return Ok(Ended::Diverged(divergence));
        }
        if let Some(answer) = answer {
            handler.drop_finished();
            return finish(journal, &state, answer).await;
        }
        match state.deliver_next() {
            Ok(true) => continue,
            Ok(false) => {}
            Err(divergence) => return Ok(Ended::Diverged(divergence)),
        }
        match flush(journal, &state).await? {
            Flushed::Sent => continue,
            Flushed::LeaseGone => return Ok(Ended::Parked),
            Flushed::Nothing => {}
        }
        if state.is_working() || !state.is_waiting() {
            if !handler.woken_within(options.news_every).await && state.is_waiting() {
                state.learn(journal.list().await?);
            }
            continue;
        }
        if park(journal, &state, &mut idle).await? {
            return Ok(Ended::Parked);
        }
    }
}

/// The handler answered. What it left open is settled first: its own work is given up, children and waits are waited
/// for (parked), so that a result or a new attempt never stands beside open steps. A business error and a deferral do
/// not wait: they end or suspend the attempt as it is.
async fn finish<J: Journal, O>(
    journal: &J,
    state: &State,
    answer: Result<O, TaskError>,
) -> Result<Ended<O>, Error> {
    let waits = match &answer {
        Ok(_) | Err(TaskError::Failure { .. }) => true,
        Err(TaskError::Business { .. } | TaskError::Defer { .. }) => false,
    };
    let mut idle = Backoff::default();
    loop {
        match state.deliver_next() {
            Ok(true) => continue,
            Ok(false) => {}
            Err(divergence) => return Ok(Ended::Diverged(divergence)),
        }
        match flush(journal, state).await? {
            Flushed::Sent => continue,
            Flushed::LeaseGone => return Ok(Ended::Parked),
            Flushed::Nothing => {}
        }
        if !waits || !state.is_waiting() {
            return Ok(Ended::Done(answer));
        }
        if park(journal, state, &mut idle).await? {
            return Ok(Ended::Parked);
        }
    }
}

enum Flushed {
    Nothing,
    Sent,
    LeaseGone,
}

async fn flush<J: Journal>(journal: &J, state: &State) -> Result<Flushed, Error> {
    let outbox = state.take_outbox();
    if outbox.is_empty() {
        return Ok(Flushed::Nothing);
    }
    let answer = journal.record(outbox.clone()).await?;
    if answer.steps.len() != outbox.len() {
        let (sent, got) = (outbox.len(), answer.steps.len());
        return Err(Error::Protocol(format!(
            "{sent} steps were sent and {got} were answered"
        )));
    }
    let gap = state.absorb(&outbox, answer.steps, given_up);
    if answer.task.state != TaskState::Locked {
        return Ok(Flushed::LeaseGone);
    }
    if gap {
        state.learn(journal.list().await?);
        if state.has_unnumbered() {
            return Err(Error::Protocol(
                "a settled step has no place in the order of completion".to_owned(),
            ));
        }
    }
    Ok(Flushed::Sent)
}

/// `true`: parked, the lease is gone. News that settle nothing are asked for again, more and more slowly.
async fn park<J: Journal>(journal: &J, state: &State, idle: &mut Backoff) -> Result<bool, Error> {
    if journal.park().await?.task.state != TaskState::Locked {
        return Ok(true);
    }
    state.learn(journal.list().await?);
    if state.has_next() {
        idle.reset();
    } else {
        tokio::time::sleep(idle.next(None)).await;
    }
    Ok(false)
}

fn given_up() -> Json {
    super::ctx::message("the handler gave the step up")
}

/// The handler's future and its waker.
struct Handler<Fut> {
    future: Option<Pin<Box<Fut>>>,
    signal: Arc<Signal>,
    waker: Waker,
    state: Arc<State>,
}

impl<Fut: Future> Handler<Fut> {
    fn new(future: Fut, state: Arc<State>) -> Handler<Fut> {
        let signal = Arc::new(Signal::default());
        let waker = Waker::from(Arc::clone(&signal));
        Handler {
            future: Some(Box::pin(future)),
            signal,
            waker,
            state,
        }
    }

    /// Polls as long as there is something to poll for. Between two polls the runtime gets its turn: its resources
    /// refuse to be ready when one task polls them without end.
    async fn poll_until_quiet(&mut self) -> Option<Fut::Output> {
        loop {
            let future = self.future.as_mut()?;
            self.signal.woken.store(false, Ordering::Release);
            let polled = future.as_mut().poll(&mut Context::from_waker(&self.waker));
            if let Poll::Ready(answer) = polled {
                return Some(answer);
            }
            if !self.signal.woken.load(Ordering::Acquire) {
                return None;
            }
            tokio::task::yield_now().await;
        }
    }

    /// `false`: nothing woke the handler in that time.
    async fn woken_within(&mut self, time: Duration) -> bool {
        if self.signal.woken.load(Ordering::Acquire) {
            return true;
        }
        tokio::time::timeout(time, self.signal.notify.notified())
            .await
            .is_ok()
    }

    /// Drops a handler that answered; calls that it still held are given up.
    fn drop_finished(&mut self) {
        self.future = None;
    }
}

impl<Fut> Drop for Handler<Fut> {
    /// A handler that is dropped before it answered was parked or cancelled: its calls go on in the next run.
    fn drop(&mut self) {
        self.state.close();
        self.future = None;
    }
}

#[derive(Default)]
struct Signal {
    woken: AtomicBool,
    notify: Notify,
}

impl Wake for Signal {
    fn wake(self: Arc<Self>) {
        self.woken.store(true, Ordering::Release);
        self.notify.notify_one();
    }
}
