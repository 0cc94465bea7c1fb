//! `legation incidents`: what stopped and needs somebody.

use clap::Args;
use legation_protocol::incidents::{IncidentAnswer, IncidentKind, IncidentList, IncidentView};

use super::client::{Answer, Client, query};
use super::{Global, print};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Only those of this instance.
    #[arg(long)]
    pub instance: Option<String>,
    /// Those that are dealt with, in place of the open ones.
    #[arg(long)]
    pub resolved: bool,
    /// At most so many.
    #[arg(long)]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[arg(long)]
    pub after: Option<String>,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let path = query(&[
        ("instanceId", arguments.instance),
        ("state", arguments.resolved.then(|| "RESOLVED".to_owned())),
        ("limit", arguments.limit.map(|limit| limit.to_string())),
        ("after", arguments.after),
    ]);
    let list = client
        .get::<IncidentList>(&format!("/v1/incidents{path}"))
        .await?;
    if global.json {
        print::json(&list.text);
        return Ok(());
    }
    let rows: Vec<_> = list.body.incidents.iter().map(row).collect();
    let is_open = !rows.is_empty() && !arguments.resolved;
    print::table(
        &["id", "code", "process", "node", "since", "message"],
        rows,
        "no incidents",
    );
    if is_open {
        tell!("`legation show INSTANCE` has the details, `legation retry ID` tries again");
    }
    if let Some(next) = list.body.next {
        tell!("there are more: --after {next}");
    }
    Ok(())
}

fn row(incident: &IncidentView) -> Vec<String> {
    let code = match incident.kind {
        IncidentKind::Incident => incident.code.clone(),
        IncidentKind::Notice => format!("{} (notice)", incident.code),
    };
    vec![
        incident.id.clone(),
        code,
        incident.process.clone(),
        incident.node_id.clone().unwrap_or_default(),
        print::moment(&incident.created_at),
        print::cut(&incident.message, 100),
    ]
}

/// What a retry or a resolution led to.
pub fn outcome(global: &Global, verb: &str, answer: &Answer<IncidentAnswer>) {
    if global.json {
        print::json(&answer.text);
        return;
    }
    let IncidentAnswer {
        incident,
        status,
        task_state,
        new_incidents,
    } = &answer.body;
    let task = task_state
        .as_ref()
        .map(|state| format!(", the task is {}", print::word(state)))
        .unwrap_or_default();
    say!(
        "{verb} {}: {} is {}{task}",
        incident.id,
        incident.instance_id,
        print::word(status)
    );
    for new in new_incidents {
        say!("  it led to {} {}: {}", new.id, new.code, new.message);
    }
}
