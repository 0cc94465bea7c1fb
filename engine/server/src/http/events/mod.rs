//! `/v1/events`: the feed of history and journal, over server-sent events.
//!
//! Every writer's batches are numbered without gaps, so the cursor is the vector {writer: batch}. A message's id is
//! the cursor after everything before it: whoever resumes with it misses nothing, and may read the rest of one
//! batch twice.

mod batches;
mod names;

use std::collections::{BTreeMap, HashMap};
use std::convert::Infallible;
use std::time::Duration;

use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::sse::{Event as Message, KeepAlive, Sse};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use futures::Stream;
use legation_kernel::dates::rfc3339;
use legation_kernel::ids::root_of;
use legation_kernel::instance::Event;
use legation_kernel::journal::Step;
use legation_language::Value;
use legation_protocol::events::{EventQuery, FeedEvent};
use legation_store::steps::StepRow;
use legation_store::{Conn, Dialect, instances, tasks};
use tokio::sync::{mpsc, watch};
use tokio_stream::wrappers::ReceiverStream;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Http;
use super::auth::{Role, Who};
use super::error::{Error, Result};
use super::extract::Query;
use super::load;
use super::views::{self, events::Nodes};

use self::batches::{Batch, read_batches};
pub use self::names::Names;

/// A look at least so often where other engines write too (core §2): a lost hint costs one of these.
const SWEEP: Duration = Duration::from_secs(1);

/// Commits closer together than this are looked at together.
const TOGETHER: Duration = Duration::from_millis(5);

/// Messages that wait for a slow reader before the feed waits too.
const AHEAD: usize = 256;

/// Past this many instances the memory of names is emptied.
const MOST_NAMES: usize = 20_000;

pub fn router() -> OpenApiRouter<Http> {
    OpenApiRouter::new().routes(routes!(events))
}

/// What happens, as it is committed. Resume with `Last-Event-ID`, or `after`; an empty `after` begins at the start,
/// and without either the feed begins now.
#[utoipa::path(get, path = "/v1/events", tag = "instances",
    params(EventQuery, ("Last-Event-ID" = Option<String>, Header)),
    responses((status = 200, body = FeedEvent, content_type = "text/event-stream")))]
async fn events(
    State(http): State<Http>,
    who: Who,
    headers: HeaderMap,
    Query(query): Query<EventQuery>,
) -> Result<Sse<impl Stream<Item = std::result::Result<Message, Infallible>>>> {
    who.need(Role::Read)?;
    // Subscribed before the first look, so that a commit in between wakes the second.
    let committed = http.app().shared().wake.committed.subscribe();
    let last = headers.get("last-event-id").and_then(|value| value.to_str().ok());
    let cursor = match last.or(query.after.as_deref()) {
        Some(text) => Cursor::read(text)?.known(&http).await?,
        None => Cursor::now(&http).await?,
    };
    let (sender, receiver) = mpsc::channel(AHEAD);
    let feed = Feed {
        who,
        query,
        cursor,
        nodes: HashMap::new(),
    };
    http.app().spawn(feed.run(http.clone(), committed, sender));
    Ok(
        Sse::new(ReceiverStream::new(receiver))
            .keep_alive(KeepAlive::new().interval(Duration::from_secs(15))),
    )
}

/// How far a reader is with each writer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Cursor(BTreeMap<String, i64>);

impl Cursor {
    fn read(text: &str) -> Result<Self> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok();
        let map = bytes.and_then(|bytes| serde_json::from_slice::<BTreeMap<String, i64>>(&bytes).ok());
        let map = map.filter(|map| {
            map.keys()
                .all(|writer| writer.bytes().all(|byte| byte.is_ascii_alphanumeric()))
        });
        map.map(Self)
            .ok_or_else(|| Error::invalid("this is no cursor of the feed").argument("Last-Event-ID"))
    }

    /// Only writers that there are: every one costs a query a look, and every message carries them all.
    async fn known(mut self, http: &Http) -> Result<Self> {
        if !self.0.is_empty() {
            let known = Self::now(http).await?;
            self.0.retain(|writer, _| known.0.contains_key(writer));
        }
        Ok(self)
    }

    async fn now(http: &Http) -> Result<Self> {
        let mut read = http.app().db().read().await?;
        batches::writers(&mut read).await.map(Self)
    }

    fn text(&self) -> String {
        URL_SAFE_NO_PAD.encode(serde_json::to_vec(&self.0).unwrap_or_default())
    }

    fn of(&self, writer: &str) -> i64 {
        self.0.get(writer).copied().unwrap_or(0)
    }
}

/// One reader's feed.
struct Feed {
    who: Who,
    query: EventQuery,
    cursor: Cursor,
    /// Where the tokens of followed instances stand.
    nodes: HashMap<String, Nodes>,
}

impl Feed {
    async fn run(
        mut self,
        http: Http,
        mut committed: watch::Receiver<u64>,
        sender: mpsc::Sender<std::result::Result<Message, Infallible>>,
    ) {
        let several = http.app().db().dialect() == Dialect::Postgres;
        loop {
            committed.mark_unchanged();
            if let Err(error) = self.who.need_still(&http, Role::Read).await {
                tracing::info!(
                    ?error,
                    principal = self.who.principal.id,
                    "a feed ends with its key"
                );
                return;
            }
            match self.look(&http, &sender).await {
                // There is more than one look reads.
                Ok(true) => continue,
                Ok(false) if self.query.once || sender.is_closed() => return,
                Ok(false) => {}
                // The reader comes back with its last id.
                Err(error) => {
                    tracing::info!(?error, "a feed ends");
                    return;
                }
            }
            tokio::select! {
                changed = committed.changed() => if changed.is_err() { return },
                () = tokio::time::sleep(SWEEP), if several => {}
                () = sender.closed() => return,
                () = http.app().stopping().cancelled() => return,
            }
            tokio::time::sleep(TOGETHER).await;
        }
    }

    /// Sends what is new; says whether there is more. Everything is read before anything is sent: a reader that does
    /// not read holds no connection of the database.
    async fn look(
        &mut self,
        http: &Http,
        sender: &mpsc::Sender<std::result::Result<Message, Infallible>>,
    ) -> Result<bool> {
        let (messages, more) = self.read(http).await?;
        for message in messages {
            if sender.send(Ok(message)).await.is_err() {
                return Ok(false);
            }
        }
        Ok(more)
    }

    /// The messages of what is new, and whether there is more.
    async fn read(&mut self, http: &Http) -> Result<(Vec<Message>, bool)> {
        let mut read = http.app().db().read().await?;
        let mut batches = Vec::new();
        let mut more = false;
        for (writer, last) in batches::writers(&mut read).await? {
            let known = self.cursor.of(&writer);
            // Every start of an engine leaves a writer behind; most will never write again.
            if last > known {
                let (mut found, cut) = read_batches(&mut read, &writer, known).await?;
                batches.append(&mut found);
                more |= cut;
            }
        }
        // One writer's batches are in order already; times of an instance never go back.
        batches.sort_by(|a, b| (a.at, &a.writer, a.number).cmp(&(b.at, &b.writer, b.number)));
        let mut messages = Vec::new();
        for batch in batches {
            if messages.len() >= AHEAD {
                // What is left is read by the next look.
                more = true;
                break;
            }
            let before = self.cursor.text();
            let events = self.batch(http, &mut read, &batch).await?;
            self.cursor.0.insert(batch.writer.clone(), batch.number);
            let after = self.cursor.text();
            let last = events.len().saturating_sub(1);
            for (index, event) in events.into_iter().enumerate() {
                let id = if index == last { &after } else { &before };
                let data = serde_json::to_string(&event).map_err(|error| Error::internal(&error))?;
                messages.push(Message::default().id(id).event(&event.kind).data(data));
            }
        }
        Ok((messages, more))
    }

    async fn batch(&mut self, http: &Http, read: &mut Conn, batch: &Batch) -> Result<Vec<FeedEvent>> {
        let mut out = Vec::new();
        for row in &batch.rows {
            if !self.wants(&row.root, &row.instance) {
                continue;
            }
            let events: Vec<Event> = load::parse("history", &row.command_id, &row.events)?;
            let Some(process) = http
                .names()
                .process(read, self.who.project(), &row.instance, &events)
                .await?
            else {
                continue;
            };
            self.remember(read, &row.root, &row.instance, &events).await?;
            let nodes = self.nodes.entry(row.instance.clone()).or_default();
            for event in &events {
                let Some(shown) = views::events::show(event, nodes)? else {
                    continue;
                };
                out.push(FeedEvent {
                    kind: shown.kind.to_owned(),
                    at: rfc3339(row.at),
                    instance_id: row.instance.clone(),
                    root_id: row.root.clone(),
                    process: Some(process.clone()),
                    revision: Some(row.revision.unsigned_abs()),
                    node_id: shown.node,
                    task_id: shown.task.map(|local| format!("{}.{local}", row.instance)),
                    attempt: None,
                    sequence: None,
                    data: Some(shown.data),
                });
            }
        }
        for row in &batch.steps {
            if !self.wants(&row.root, &row.instance) {
                continue;
            }
            let process = http
                .names()
                .process(read, self.who.project(), &row.instance, &[])
                .await?;
            let Some(process) = process else { continue };
            self.remember(read, &row.root, &row.instance, &[]).await?;
            let node = self
                .nodes
                .get(&row.instance)
                .and_then(|nodes| nodes.of_task(&row.task));
            let step = load::step(row)?;
            let at = changed_at(read, &step, batch).await?;
            out.push(step_event(row, &step, at, process, node)?);
        }
        if self.nodes.len() > MOST_NAMES {
            self.nodes.clear();
        }
        Ok(out)
    }

    /// Where the tasks of an instance stand, for a reader who comes in the middle of it.
    async fn remember(
        &mut self,
        read: &mut Conn,
        root: &str,
        instance: &str,
        events: &[Event],
    ) -> Result<()> {
        if self.nodes.contains_key(instance) {
            return Ok(());
        }
        let mut nodes = Nodes::default();
        let begins = matches!(events.first(), Some(Event::InstanceStarted(_)));
        if !begins && let Some(row) = instances::get(read, root, instance).await? {
            for task in load::tasks_of(read, &row).await? {
                nodes.task(&task.id, &task.node);
            }
        }
        self.nodes.insert(instance.to_owned(), nodes);
        Ok(())
    }

    fn wants(&self, root: &str, instance: &str) -> bool {
        self.query
            .root_id
            .as_ref()
            .is_none_or(|wanted| root_of(wanted) == root && is_below(instance, wanted))
            && self
                .query
                .instance_id
                .as_ref()
                .is_none_or(|wanted| wanted == instance)
    }
}

/// Whether an instance is this one or below it.
fn is_below(instance: &str, top: &str) -> bool {
    instance
        .strip_prefix(top)
        .is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}

/// When a step became what it is. A batch's other rows know; where there are none, an approved step went on after it
/// was decided about, and not when it was proposed.
async fn changed_at(read: &mut Conn, step: &Step, batch: &Batch) -> Result<i64> {
    let known = batch.at.max(step.ended_at.unwrap_or(step.started_at));
    if step.ended_at.is_some() || !batch.rows.is_empty() {
        return Ok(known);
    }
    let Some(approval) = step.approval else {
        return Ok(known);
    };
    let human = step.task.instance().human(approval);
    let decided = tasks::get(read, root_of(&human), &human).await?;
    Ok(known.max(decided.and_then(|row| row.ended_at).unwrap_or(known)))
}

fn step_event(
    row: &StepRow,
    step: &Step,
    at: i64,
    process: String,
    node: Option<String>,
) -> Result<FeedEvent> {
    let text = |text: &Option<String>| text.as_deref().map_or(Value::Null, Value::from);
    let data = [
        ("kind", Value::from(row.kind.as_str())),
        ("toolRef", Value::from(step.tool_ref.as_str())),
        (
            "child",
            step.child
                .as_ref()
                .map_or(Value::Null, |child| Value::from(child.as_str())),
        ),
        (
            "queued",
            if step.queued {
                Value::Bool(true)
            } else {
                Value::Null
            },
        ),
        ("code", text(&step.code)),
        ("decidedBy", text(&step.decided_by)),
    ];
    let data = Value::map(data.into_iter().filter(|(_, value)| !value.is_null()));
    Ok(FeedEvent {
        kind: format!("STEP_{}", row.state),
        at: rfc3339(at),
        instance_id: row.instance.clone(),
        root_id: row.root.clone(),
        process: Some(process),
        revision: None,
        node_id: node,
        task_id: Some(row.task.clone()),
        attempt: Some(step.attempt),
        sequence: Some(step.sequence),
        data: Some(views::raw(&data)?),
    })
}
