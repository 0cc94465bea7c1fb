//! Why an instance waits, since when, and what would move it: one sentence a wait.

use axum::Json as Answer;
use axum::extract::State;
use legation_kernel::dates::rfc3339;
use legation_kernel::instance::{Instance, Token, TokenState, Wait};
use legation_kernel::task::{self, TaskFile, TaskState, Waiting, WaitingKind};
use legation_protocol::instances::{ExplainWait, Explanation};
use legation_store::{Conn, Key, incidents, tasks};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use crate::http::Http;
use crate::http::auth::{Role, Who};
use crate::http::error::Result;
use crate::http::extract::Id;
use crate::http::load;
use crate::http::workers;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(explain))
}

/// Why it waits, since when, what would move it.
#[utoipa::path(get, path = "/v1/instances/{id}/explain", tag = "instances", params(("id" = String, Path)),
    responses((status = 200, body = Explanation)))]
async fn explain(State(http): State<Http>, who: Who, Id(id): Id) -> Result<Answer<Explanation>> {
    who.need(Role::Read)?;
    let mut read = http.app().db().read().await?;
    let (_, instance) = load::instance(&mut read, who.project(), &id).await?;
    if instance.is_over() {
        return Ok(Answer(over(&instance)));
    }
    let served = workers::served_topics(&http, &mut read, who.project()).await?;
    let view = View {
        now: http.app().clock().now(),
        served,
        instance: &instance,
    };
    let mut waits = Vec::new();
    for token in instance.tokens.values() {
        waits.extend(wait(&view, &mut read, token).await?);
    }
    let lines: Vec<String> = waits
        .iter()
        .map(|wait| format!("{}: {}", wait.node_id, wait.text))
        .collect();
    let mut text = format!("{} is {}.", instance.process, instance.status.as_str());
    if waits.is_empty() {
        text.push_str(" It is moving on by itself.");
    }
    for line in lines {
        text.push_str("\n- ");
        text.push_str(&line);
    }
    Ok(Answer(Explanation { text, waits }))
}

/// What sentences are made of.
struct View<'a> {
    now: i64,
    /// Topics that a live worker asks for.
    served: Vec<String>,
    instance: &'a Instance,
}

impl View<'_> {
    fn for_so_long(&self, since: i64) -> String {
        span(self.now - since)
    }
}

fn over(instance: &Instance) -> Explanation {
    let why = instance
        .error
        .as_ref()
        .map(|error| format!(" with {}", error.code))
        .unwrap_or_default();
    let reason = instance
        .reason
        .as_ref()
        .map(|reason| format!(": {reason}"))
        .unwrap_or_default();
    let at = instance
        .ended_at
        .map(|at| format!(" at {}", rfc3339(at)))
        .unwrap_or_default();
    let text = format!(
        "{} ended {}{why}{at}{reason}. Nothing moves it any more.",
        instance.process,
        instance.status.as_str()
    );
    Explanation {
        text,
        waits: Vec::new(),
    }
}

async fn wait(view: &View<'_>, read: &mut Conn, token: &Token) -> Result<Vec<ExplainWait>> {
    let id = &view.instance.id;
    let since = token.entered_at;
    let so_long = view.for_so_long(since);
    let one = |kind: &str, text: String, until: Option<i64>, id: Option<String>| {
        vec![ExplainWait {
            node_id: token.node.clone(),
            kind: kind.to_owned(),
            text,
            since: Some(rfc3339(since)),
            until: until.map(rfc3339),
            id,
        }]
    };
    Ok(match &token.state {
        TokenState::Ready => one("MOVING", "moves on by itself in a moment".to_owned(), None, None),
        TokenState::Stuck(stuck) => {
            let number = id.incident(stuck.incident);
            let row = incidents::get(read, id.root(), &number).await?;
            let why = row
                .map(|row| format!("{}: {}", row.code, row.message))
                .unwrap_or_default();
            let text = format!(
                "held for {so_long} by incident {number} ({why}); remove the cause, then: legation retry {number}"
            );
            one("INCIDENT", text, None, Some(number))
        }
        TokenState::Waiting(Wait::Join) => {
            let text = format!("waits {so_long} at a join for the other branches");
            one("JOIN", text, None, None)
        }
        TokenState::Waiting(Wait::Timer { timer }) => {
            let due = view.instance.timers.get(timer).copied();
            let text = match due {
                Some(due) => format!("waits {so_long} for its timer, which fires at {}", rfc3339(due)),
                None => format!("waits {so_long} for its timer"),
            };
            one("TIMER", text, due, Some(id.timer(*timer)))
        }
        TokenState::Waiting(Wait::Human { human }) => {
            let number = id.human(*human);
            let row = tasks::get(read, id.root(), &number).await?;
            let whom = row
                .map(|row| candidates(&row.groups, &row.users))
                .unwrap_or_default();
            let text = format!("waits {so_long} for a person{whom}; legation complete {number}");
            one("HUMAN", text, None, Some(number))
        }
        TokenState::Waiting(Wait::Child { child }) => {
            let number = id.child(*child);
            let process = view
                .instance
                .children
                .get(child)
                .map(|child| child.process.as_str())
                .unwrap_or_default();
            let text = format!("waits {so_long} for {process} ({number}) to end; legation explain {number}");
            one("CHILD", text, None, Some(number.0))
        }
        TokenState::Waiting(Wait::Task { task }) => {
            let number = id.task(*task);
            let files = load::task_files(read, &[Key::new(id.root(), number.as_str())]).await?;
            match files.first() {
                Some(file) => work(view, read, token, file).await?,
                None => Vec::new(),
            }
        }
    })
}

/// A token at external work: who has it, or what holds it.
async fn work(view: &View<'_>, read: &mut Conn, token: &Token, file: &TaskFile) -> Result<Vec<ExplainWait>> {
    let task = &file.task;
    let line = |kind: &str, text: String, since: i64, until: Option<i64>, id: String| ExplainWait {
        node_id: token.node.clone(),
        kind: kind.to_owned(),
        text,
        since: Some(rfc3339(since)),
        until: until.map(rfc3339),
        id: Some(id),
    };
    let so_long = view.for_so_long(token.entered_at);
    let state = task::status(file, view.now);
    let mut out = Vec::new();
    match state {
        TaskState::Locked => {
            let lease = task.lease.as_ref();
            let worker = lease.map(|lease| lease.worker.clone()).unwrap_or_default();
            let until = lease.map(|lease| lease.until);
            let text = format!(
                "worker {worker} has the task (lease {}); it completes it, or the lease runs out",
                task.lease_no
            );
            out.push(line("WORKER", text, token.entered_at, until, task.id.0.clone()));
        }
        TaskState::Open => {
            let later = task.available_at.filter(|at| *at > view.now);
            let text = match later {
                Some(at) if task.deferrals > 0 => {
                    format!(
                        "given back by its worker for later; offered again at {}",
                        rfc3339(at)
                    )
                }
                Some(at) => format!(
                    "try {} failed; the next one is due at {}",
                    task.tries,
                    rfc3339(at)
                ),
                None if view.served.contains(&task.topic) => {
                    format!(
                        "waits {so_long} for a worker on topic {}: the workers that poll it are busy",
                        task.topic
                    )
                }
                None => format!(
                    "waits {so_long} for a worker on topic {}: no worker polls it; start one",
                    task.topic
                ),
            };
            out.push(line("WORKER", text, token.entered_at, later, task.id.0.clone()));
        }
        TaskState::Incident => {
            let number = task.incident().map(|number| view.instance.id.incident(number));
            if let Some(number) = number {
                let row = incidents::get(read, view.instance.id.root(), &number).await?;
                let why = row
                    .map(|row| format!("{}: {}", row.code, row.message))
                    .unwrap_or_default();
                let text = format!(
                    "held by incident {number} ({why}); remove the cause, then: legation retry {number}"
                );
                out.push(line("INCIDENT", text, token.entered_at, None, number));
            }
        }
        TaskState::AwaitingApproval
        | TaskState::AwaitingInput
        | TaskState::AwaitingChild
        | TaskState::AwaitingTimer
        | TaskState::Completed
        | TaskState::Failed
        | TaskState::Cancelled => {}
    }
    for waiting in task::waiting_for(file) {
        let since = file
            .step(task.attempt, waiting.sequence)
            .map_or(token.entered_at, |step| step.started_at);
        let (kind, text, id) = step_words(view, read, &waiting, since).await?;
        out.push(line(
            kind,
            text,
            since,
            waiting.due_at,
            id.unwrap_or_else(|| task.id.0.clone()),
        ));
    }
    Ok(out)
}

async fn step_words(
    view: &View<'_>,
    read: &mut Conn,
    waiting: &Waiting,
    since: i64,
) -> Result<(&'static str, String, Option<String>)> {
    let (so_long, target) = (view.for_so_long(since), &waiting.tool_ref);
    Ok(match waiting.kind {
        WaitingKind::Approval => {
            let id = waiting.approval.clone().unwrap_or_default();
            let row = tasks::get(read, view.instance.id.root(), &id).await?;
            let whom = row
                .map(|row| candidates(&row.groups, &row.users))
                .unwrap_or_default();
            let text = format!(
                "step {} ({target}) waits {so_long} for an approval{whom}; legation approve {id}",
                waiting.sequence
            );
            ("APPROVAL", text, Some(id))
        }
        WaitingKind::Child => {
            let id = waiting.child.as_ref().map(|child| child.0.clone());
            let child = id.clone().unwrap_or_default();
            let text = format!(
                "step {} ({target}) waits {so_long} for its child {child}; legation explain {child}",
                waiting.sequence
            );
            ("CHILD", text, id)
        }
        WaitingKind::Queued => {
            let text = format!(
                "step {} ({target}) waits {so_long} for a running child to end, which makes a place free",
                waiting.sequence
            );
            ("CHILD", text, None)
        }
        WaitingKind::Input => (
            "INPUT",
            format!("step {} waits {so_long} for an answer", waiting.sequence),
            None,
        ),
        WaitingKind::Timer => (
            "TIMER",
            format!("step {} pauses until its time has come", waiting.sequence),
            None,
        ),
        WaitingKind::UnknownOutcome => {
            let id = waiting.incident.clone();
            let text = format!(
                "nobody knows whether step {} ({target}) happened; find out and resolve incident {}",
                waiting.sequence,
                id.as_deref().unwrap_or_default()
            );
            ("INCIDENT", text, id)
        }
    })
}

fn candidates(groups: &str, users: &str) -> String {
    let list = |json: &str| serde_json::from_str::<Vec<String>>(json).unwrap_or_default();
    let names = [list(groups), list(users)].concat();
    if names.is_empty() {
        String::new()
    } else {
        format!(" of {}", names.join(" or "))
    }
}

/// `3m`, `2h 5m`: for people.
fn span(ms: i64) -> String {
    let seconds = ms.max(0) / 1_000;
    let (days, hours, minutes) = (seconds / 86_400, seconds / 3_600 % 24, seconds / 60 % 60);
    if days > 0 {
        format!("{days}d {hours}h")
    } else if hours > 0 {
        format!("{hours}h {minutes}m")
    } else if minutes > 0 {
        format!("{minutes}m")
    } else {
        format!("{seconds}s")
    }
}
