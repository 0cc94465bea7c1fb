//! `legation instances`: what runs, and what ran.

use clap::Args;
use legation_protocol::instances::{InstanceList, InstanceView};

use super::client::{Client, query};
use super::{Global, Usage, print};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Only instances of this process.
    #[arg(long)]
    pub process: Option<String>,
    /// Only instances with this status: RUNNING, COMPLETED, FAILED, CANCELLED.
    #[arg(long)]
    pub status: Option<String>,
    /// Only instances with this business key.
    #[arg(long, value_name = "TEXT")]
    pub business_key: Option<String>,
    /// Only instances with this label.
    #[arg(long, value_name = "NAME=VALUE")]
    pub label: Option<String>,
    /// Only direct children of this instance.
    #[arg(long, value_name = "INSTANCE")]
    pub parent: Option<String>,
    /// Only instances of this tree.
    #[arg(long, value_name = "INSTANCE")]
    pub root: Option<String>,
    /// At most so many.
    #[arg(long, default_value_t = 50)]
    pub limit: u32,
    /// The `next` of the page before.
    #[arg(long)]
    pub after: Option<String>,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    if let Some(label) = arguments.label.as_ref().filter(|label| !label.contains('=')) {
        return Err(Usage(format!("--label {label} is not NAME=VALUE")).into());
    }
    let client = Client::new(global)?;
    let path = query(&[
        ("process", arguments.process),
        ("status", arguments.status.map(|status| status.to_uppercase())),
        ("businessKey", arguments.business_key),
        ("label", arguments.label),
        ("parentId", arguments.parent),
        ("rootId", arguments.root),
        ("limit", Some(arguments.limit.to_string())),
        ("after", arguments.after),
    ]);
    let list = client
        .get::<InstanceList>(&format!("/v1/instances{path}"))
        .await?;
    if global.json {
        print::json(&list.text);
        return Ok(());
    }
    let rows = list.body.instances.iter().map(row).collect();
    print::table(
        &["id", "process", "status", "started", "business key", ""],
        rows,
        "no instances",
    );
    if let Some(next) = list.body.next {
        tell!("there are more: --after {next}");
    }
    Ok(())
}

fn row(instance: &InstanceView) -> Vec<String> {
    let mut notes = Vec::new();
    if instance.suspended {
        notes.push("suspended".to_owned());
    }
    if instance.incident_count > 0 {
        notes.push(format!("incidents: {}", instance.incident_count));
    }
    if let Some(error) = &instance.error {
        notes.push(error.code.clone());
    }
    vec![
        instance.id.clone(),
        format!("{} {}", instance.process, instance.version),
        print::word(&instance.status),
        print::moment(&instance.started_at),
        instance.business_key.clone().unwrap_or_default(),
        notes.join(", "),
    ]
}
