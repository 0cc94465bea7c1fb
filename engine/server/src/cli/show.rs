//! `legation show`: one instance on one page.

use legation_protocol::history::{History, HistoryEntry};
use legation_protocol::instances::{
    Explanation, InstanceJournal, InstanceView, VariableView, VariablesAnswer,
};

use super::client::{Client, encode, query};
use super::print::{self, Ink};
use super::{Global, feed, journal};

pub async fn run(global: &Global, id: &str) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let path = format!("/v1/instances/{}", encode(id));
    let instance = client.get::<InstanceView>(&path).await?;
    if global.json {
        print::json(&instance.text);
        return Ok(());
    }
    let instance = instance.body;
    let ink = Ink::stdout();
    head(&instance, ink);
    if !instance.status.is_ended() {
        let explanation = client.get::<Explanation>(&format!("{path}/explain")).await?.body;
        section(ink, "Where it stands");
        for wait in &explanation.waits {
            say!("  {:<18} {}", wait.node_id, wait.text);
        }
    }
    incidents(&instance, ink);
    variables(
        &client
            .get::<VariablesAnswer>(&format!("{path}/variables"))
            .await?
            .body,
        ink,
    );
    timeline(&history(&client, &path).await?, ink);
    let steps = client
        .get::<InstanceJournal>(&format!("{path}/journal"))
        .await?
        .body;
    if !steps.tasks.is_empty() {
        section(ink, "Journal");
        journal::print(&steps, ink);
    }
    Ok(())
}

fn head(instance: &InstanceView, ink: Ink) {
    let InstanceView {
        process, version, id, ..
    } = instance;
    say!(
        "{} {}",
        ink.bold(&format!("{process} version {version}")),
        ink.state(&print::word(&instance.status))
    );
    say!("  id        {id}");
    if let Some(key) = &instance.business_key {
        say!("  key       {key}");
    }
    if let Some(parent) = &instance.parent_id {
        say!("  parent    {parent}");
    }
    if let Some(by) = &instance.started_by_agent {
        let model = print::model(by.model.as_deref(), by.used_model.as_deref());
        let model = model.as_deref().unwrap_or("?");
        say!(
            "  started   by agent {}, step {}.{}, model {model}",
            by.node_id,
            by.attempt,
            by.sequence
        );
    } else if let Some(by) = &instance.initiator {
        say!("  started   by {by}");
    }
    say!("  from      {}", print::moment(&instance.started_at));
    if let Some(ended) = &instance.ended_at {
        say!("  to        {}", print::moment(ended));
    }
    if let Some(outputs) = &instance.outputs {
        say!(
            "  outputs   {}",
            serde_json::to_string(outputs).unwrap_or_default()
        );
    }
    if let Some(error) = &instance.error {
        say!(
            "  error     {} {}",
            error.code,
            error.message.as_deref().unwrap_or_default()
        );
    }
}

fn incidents(instance: &InstanceView, ink: Ink) {
    if instance.incidents.is_empty() {
        return;
    }
    section(ink, "Incidents");
    for incident in &instance.incidents {
        let node = incident.node_id.as_deref().unwrap_or_default();
        say!(
            "  {} {node} {}: {}",
            incident.id,
            ink.state(&incident.code),
            incident.message
        );
        if let Some(hint) = &incident.hint {
            say!("    {}", ink.dim(hint));
        }
    }
}

fn variables(answer: &VariablesAnswer, ink: Ink) {
    section(ink, "Variables");
    for (name, variable) in &answer.variables {
        say!("  {name:<18} {} {}", value(variable), ink.dim(&origin(variable)));
    }
}

fn value(variable: &VariableView) -> String {
    match &variable.value {
        Some(value) => print::short(value, 100),
        None => "(sensitive)".to_owned(),
    }
}

fn origin(variable: &VariableView) -> String {
    let source = variable.source.as_ref();
    let by = source.and_then(|source| source.node_id.as_ref().or(source.actor.as_ref()));
    let by = by.map(|by| format!("from {by}"));
    let locked = variable.locked.then(|| "locked".to_owned());
    [by, locked].into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// Every event, page by page.
async fn history(client: &Client, path: &str) -> anyhow::Result<Vec<HistoryEntry>> {
    let mut entries = Vec::new();
    let mut after = None;
    loop {
        let page = query(&[("after", after.map(|after: u64| after.to_string()))]);
        let history = client
            .get::<History>(&format!("{path}/history{page}"))
            .await?
            .body;
        entries.extend(history.entries);
        match history.after {
            Some(next) => after = Some(next),
            None => return Ok(entries),
        }
    }
}

fn timeline(entries: &[HistoryEntry], ink: Ink) {
    section(ink, "Timeline");
    let mut revision = None;
    for entry in entries {
        // All events of a command are of the same actor: it is said once.
        let is_first = revision.replace(entry.revision) != Some(entry.revision);
        let actor = entry
            .actor
            .as_ref()
            .filter(|_| is_first)
            .map(|actor| format!("  by {actor}"));
        say!(
            "  {} {:<18} {}{}",
            ink.dim(print::clock(&entry.at)),
            entry.node_id.as_deref().unwrap_or_default(),
            feed::what(&entry.kind, None, Some(&entry.data), ink),
            ink.dim(&actor.unwrap_or_default())
        );
    }
}

fn section(ink: Ink, title: &str) {
    say!("\n{}", ink.bold(title));
}
