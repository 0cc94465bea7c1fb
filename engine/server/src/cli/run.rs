//! `legation run`: starts an instance and follows it to its end. Narration goes to stderr, outputs to stdout.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use legation_protocol::events::FeedEvent;
use legation_protocol::incidents::IncidentKind;
use legation_protocol::instances::{
    Explanation, InstanceStarted, InstanceStatus, InstanceView, StartInstanceRequest,
};
use legation_protocol::processes::{ProcessList, ProcessView};
use legation_protocol::tasks::{HumanTaskKind, HumanTaskList};

use super::client::{Client, Refusal, encode, query};
use super::feed::{self, Feed};
use super::print::{self, Ink};
use super::{Global, Shown, Usage, record, vars};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The process.
    #[arg(value_name = "PROCESS")]
    pub process: String,
    #[command(flatten)]
    pub variables: vars::Arguments,
    /// Another version than the newest.
    #[arg(long)]
    pub version: Option<u32>,
    /// Your own name for the instance, such as an order number.
    #[arg(long, value_name = "TEXT")]
    pub business_key: Option<String>,
    /// A label to find it by. May be given more than once.
    #[arg(long = "label", value_name = "NAME=VALUE")]
    pub labels: Vec<String>,
    /// Follow it to its end (this is the default).
    #[arg(long, conflicts_with = "no_wait")]
    pub wait: bool,
    /// Write what its models answered to a new file, as a script for the model `scripted`.
    #[arg(long, value_name = "FILE", conflicts_with = "no_wait")]
    pub record: Option<PathBuf>,
    /// Start it and print its id.
    #[arg(long)]
    pub no_wait: bool,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    if let Some(path) = arguments.record.as_ref().filter(|path| path.exists()) {
        // Before a run is paid for whose record nobody would have.
        return Err(Usage(format!("--record {}: the file exists", path.display())).into());
    }
    let client = Client::new(global)?;
    let request = request(&client, &arguments).await?;
    let started = match client.post::<InstanceStarted>("/v1/instances", &request).await {
        Ok(started) => started,
        Err(error) => return Err(with_hint(&client, &arguments, error).await),
    };
    let InstanceStarted {
        id, process, version, ..
    } = &started.body;
    tell!("started {process} version {version} as {id}");
    if arguments.no_wait {
        match global.json {
            true => print::json(&started.text),
            false => say!("{id}"),
        }
        return Ok(());
    }
    let ended = follow(&client, id).await?;
    if let Some(path) = &arguments.record {
        record::write(&client, id, path).await?;
    }
    finish(&client, global, &ended).await
}

async fn request(client: &Client, arguments: &Arguments) -> anyhow::Result<StartInstanceRequest> {
    let mut labels = std::collections::BTreeMap::new();
    for label in &arguments.labels {
        let Some((name, value)) = label.split_once('=') else {
            return Err(Usage(format!("--label {label} is not NAME=VALUE")).into());
        };
        labels.insert(name.to_owned(), value.to_owned());
    }
    Ok(StartInstanceRequest {
        process: arguments.process.clone(),
        version: arguments.version,
        business_key: arguments.business_key.clone(),
        labels,
        variables: arguments
            .variables
            .read(&declared_texts(client, arguments).await)?,
    })
}

/// The inputs that the process declares as text.
async fn declared_texts(client: &Client, arguments: &Arguments) -> BTreeSet<String> {
    if arguments.variables.is_empty() {
        return BTreeSet::new();
    }
    let process = process(client, arguments).await;
    vars::texts_of(process.as_ref().and_then(|process| process.inputs.as_ref()))
}

/// The process as it is deployed. A key that may start but not read knows nothing of it.
async fn process(client: &Client, arguments: &Arguments) -> Option<ProcessView> {
    let version = query(&[("version", arguments.version.map(|version| version.to_string()))]);
    let path = format!("/v1/processes/{}{version}", encode(&arguments.process));
    Some(client.get::<ProcessView>(&path).await.ok()?.body)
}

/// Says what may be started, or what the process takes, when the engine refuses to start it.
async fn with_hint(client: &Client, arguments: &Arguments, mut error: anyhow::Error) -> anyhow::Error {
    let Some(Refusal(problem)) = error.downcast_mut::<Refusal>() else {
        return error;
    };
    let hint = match (problem.code.as_str(), problem.argument.as_deref()) {
        ("INPUT_INVALID", _) => taken(client, arguments).await,
        ("NOT_FOUND", Some("process")) => startable(client).await,
        _ => None,
    };
    problem.hint = hint.or_else(|| problem.hint.take());
    error
}

async fn taken(client: &Client, arguments: &Arguments) -> Option<String> {
    let process = process(client, arguments).await?;
    let inputs = vars::described(process.inputs.as_ref())?;
    Some(format!(
        "{} takes {inputs}; give each as --var NAME=VALUE",
        arguments.process
    ))
}

async fn startable(client: &Client) -> Option<String> {
    let list = client.get::<ProcessList>("/v1/processes").await.ok()?.body;
    let keys: Vec<&str> = list
        .processes
        .iter()
        .map(|process| process.key.as_str())
        .collect();
    Some(match keys.is_empty() {
        true => "nothing is deployed; `legation deploy` does".to_owned(),
        false => format!("deployed here: {}", keys.join(", ")),
    })
}

/// Tells every event of the tree until the instance has ended.
async fn follow(client: &Client, id: &str) -> anyhow::Result<InstanceView> {
    let mut feed = Feed::open(client, id, "").await?;
    let mut told = Told::default();
    let mut quiet = 0;
    loop {
        // Events wake us; the look once a second is for a feed that broke.
        match tokio::time::timeout(Duration::from_secs(1), feed.next()).await {
            Ok(Ok(Some(event))) => {
                quiet = 0;
                narrate(&event);
                if !is_worth_a_look(&event) {
                    continue;
                }
            }
            Ok(Ok(None) | Err(_)) => {
                tokio::time::sleep(Duration::from_millis(500)).await;
                feed = Feed::open(client, id, &feed.last).await?;
            }
            Err(_) => quiet += 1,
        }
        let instance = client
            .get::<InstanceView>(&format!("/v1/instances/{}", encode(id)))
            .await?
            .body;
        if instance.status.is_ended() {
            drain(&mut feed).await;
            return Ok(instance);
        }
        told.tell_what_holds(client, &instance).await?;
        if quiet == PATIENCE {
            told.tell_why_nothing_moves(client, id).await;
        }
    }
}

/// Looks in a row without news before it is said what it waits for.
const PATIENCE: u32 = 2;

/// Events that may end the instance or make it wait for a person.
fn is_worth_a_look(event: &FeedEvent) -> bool {
    [
        "INSTANCE_",
        "INCIDENT_",
        "NODE_STUCK",
        "HUMAN_",
        "APPROVAL_",
        "STEP_PROPOSED",
    ]
    .iter()
    .any(|beginning| event.kind.starts_with(beginning))
}

/// The events that were committed with the end are on their way.
async fn drain(feed: &mut Feed) {
    while let Ok(Ok(Some(event))) = tokio::time::timeout(Duration::from_millis(200), feed.next()).await {
        narrate(&event);
    }
}

fn narrate(event: &FeedEvent) {
    if feed::is_bookkeeping(event) {
        return;
    }
    tell!("  {}", feed::line(event, Ink::stderr()));
}

/// What was said about waits already.
#[derive(Default)]
struct Told(BTreeSet<String>);

impl Told {
    async fn tell_what_holds(&mut self, client: &Client, instance: &InstanceView) -> anyhow::Result<()> {
        for incident in instance
            .incidents
            .iter()
            .filter(|incident| incident.kind == IncidentKind::Incident)
        {
            if self.0.insert(incident.id.clone()) {
                tell!("  it stops here: {}: {}", incident.code, incident.message);
                tell!("  correct the cause, then: legation retry {}", incident.id);
            }
        }
        let path = format!("/v1/tasks{}", query(&[("instanceId", Some(instance.id.clone()))]));
        // Who starts need not be one who may see tasks.
        let Ok(tasks) = client.get::<HumanTaskList>(&path).await else {
            return Ok(());
        };
        for task in tasks.body.tasks {
            if self.0.insert(task.id.clone()) {
                let (what, how) = match task.kind {
                    HumanTaskKind::Approval => ("an approval", "approve"),
                    HumanTaskKind::Human => ("a person", "complete"),
                };
                tell!("  it waits for {what}: {}", task.title);
                tell!("    legation {how} {} --as approver", task.id);
            }
        }
        Ok(())
    }

    /// What `legation explain` says, without what was said before.
    async fn tell_why_nothing_moves(&mut self, client: &Client, id: &str) {
        let path = format!("/v1/instances/{}/explain", encode(id));
        let Ok(explanation) = client.get::<Explanation>(&path).await else {
            return;
        };
        for wait in explanation.body.waits {
            if self.0.insert(wait.id.unwrap_or(wait.kind)) {
                tell!("  {}: {}", wait.node_id, wait.text);
            }
        }
    }
}

async fn finish(client: &Client, global: &Global, ended: &InstanceView) -> anyhow::Result<()> {
    let ink = Ink::stderr();
    tell!("{} {}", ended.id, ink.state(&print::word(&ended.status)));
    if global.json {
        let path = format!("/v1/instances/{}", encode(&ended.id));
        print::json(&client.get::<InstanceView>(&path).await?.text);
    } else if ended.status == InstanceStatus::Completed {
        say!(
            "{}",
            serde_json::to_string(&ended.outputs.clone().unwrap_or_default())?
        );
    }
    if ended.status == InstanceStatus::Completed {
        return Ok(());
    }
    if let Some(error) = &ended.error {
        let node = error
            .node_id
            .as_ref()
            .map(|node| format!(" at {node}"))
            .unwrap_or_default();
        tell!(
            "  {}{node}: {}",
            error.code,
            error.message.as_deref().unwrap_or_default()
        );
    }
    Err(Shown.into())
}
