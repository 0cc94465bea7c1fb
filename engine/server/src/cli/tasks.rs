//! `legation tasks`: the inbox.

use clap::{Args, ValueEnum};
use legation_protocol::tasks::{HumanTaskList, HumanTaskView};

use super::client::{Client, query};
use super::{Global, print};

#[derive(Args, Debug)]
pub struct Arguments {
    /// Not only what you may do.
    #[arg(long)]
    pub all: bool,
    /// Only human tasks, or only approvals.
    #[arg(long)]
    pub kind: Option<Kind>,
    /// Those with another state than OPEN: COMPLETED, CANCELLED, EXPIRED.
    #[arg(long)]
    pub state: Option<String>,
    /// Only those of this instance.
    #[arg(long)]
    pub instance: Option<String>,
    /// At most so many.
    #[arg(long)]
    pub limit: Option<u32>,
    /// The `next` of the page before.
    #[arg(long)]
    pub after: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Kind {
    Human,
    Approval,
}

impl Kind {
    fn as_str(self) -> &'static str {
        match self {
            Self::Human => "human",
            Self::Approval => "approval",
        }
    }
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let path = query(&[
        ("for", (!arguments.all).then(|| "me".to_owned())),
        ("kind", arguments.kind.map(|kind| kind.as_str().to_owned())),
        ("state", arguments.state.map(|state| state.to_uppercase())),
        ("instanceId", arguments.instance),
        ("limit", arguments.limit.map(|limit| limit.to_string())),
        ("after", arguments.after),
    ]);
    let list = client.get::<HumanTaskList>(&format!("/v1/tasks{path}")).await?;
    if global.json {
        print::json(&list.text);
        return Ok(());
    }
    let rows = list.body.tasks.iter().map(row).collect();
    let nothing = if arguments.all {
        "nothing waits for a person"
    } else {
        "nothing waits for you (--all shows the rest)"
    };
    print::table(
        &["id", "kind", "title", "process", "for", "since", ""],
        rows,
        nothing,
    );
    if let Some(next) = list.body.next {
        tell!("there are more: --after {next}");
    }
    Ok(())
}

/// Whom a task is meant for, in words.
#[must_use]
pub fn candidates(task: &HumanTaskView) -> String {
    let named = task.candidates.groups.iter().chain(&task.candidates.users);
    named.cloned().collect::<Vec<_>>().join(", ")
}

fn row(task: &HumanTaskView) -> Vec<String> {
    let note = match (&task.outcome, &task.decided_by) {
        (Some(outcome), Some(by)) => format!("{outcome} by {by}"),
        (Some(outcome), None) => outcome.clone(),
        (None, _) => String::new(),
    };
    vec![
        task.id.clone(),
        print::word(&task.kind),
        print::cut(&task.title, 50),
        task.process.clone(),
        task.assignee.clone().unwrap_or_else(|| candidates(task)),
        print::moment(&task.created_at),
        note,
    ]
}
