//! `legation deploy`: a project, or some documents, as one set: all of it or nothing.

use std::path::PathBuf;

use clap::Args;
use legation_protocol::processes::{DeployAnswer, DeployRequest};

use super::client::{Answer, Client, Refusal};
use super::project::Documents;
use super::{Global, Shown, print, problems};
use crate::plural;

#[derive(Args, Debug)]
pub struct Arguments {
    /// A project's folder, or documents.
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
    /// Check against what is deployed and say what would change; change nothing.
    #[arg(long)]
    pub dry_run: bool,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let documents = Documents::read(&arguments.paths)?;
    let verb = if arguments.dry_run {
        "checking"
    } else {
        "deploying"
    };
    let documents_sent = plural::count(documents.texts.len(), "document");
    tell!("{verb} {documents_sent} to {}", client.url());
    let answer = match send(&client, &documents, arguments.dry_run).await {
        Ok(answer) => answer,
        Err(error) => return Err(explained(error, &documents)),
    };
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    problems::show(&answer.body.problems, &documents.texts);
    let changed = |changed: bool| match (changed, arguments.dry_run) {
        (true, false) => "deployed".to_owned(),
        (true, true) => "would be deployed".to_owned(),
        (false, _) => "unchanged".to_owned(),
    };
    let processes = answer.body.processes.iter();
    let mut rows: Vec<Vec<String>> = processes
        .map(|process| {
            vec![
                process.key.clone(),
                process.version.to_string(),
                changed(process.changed),
            ]
        })
        .collect();
    let servers = answer.body.servers.iter();
    rows.extend(servers.map(|server| {
        vec![
            format!("server {}", server.name),
            String::new(),
            changed(server.changed),
        ]
    }));
    print::table(&["process", "version", ""], rows, "nothing to deploy");
    Ok(())
}

/// Sends a set. Commands of stdio servers stay here.
///
/// # Errors
/// [`Refusal`] with the problems of the documents, or that the engine cannot be reached.
pub async fn send(
    client: &Client,
    documents: &Documents,
    dry_run: bool,
) -> anyhow::Result<Answer<DeployAnswer>> {
    let path = if dry_run {
        "/v1/deployments?dryRun=true"
    } else {
        "/v1/deployments"
    };
    client
        .post(
            path,
            &DeployRequest {
                files: documents.to_send(),
            },
        )
        .await
}

/// Shows the documents' problems in place, when the refusal has any.
fn explained(error: anyhow::Error, documents: &Documents) -> anyhow::Error {
    match error.downcast_ref::<Refusal>() {
        Some(Refusal(problem)) if !problem.problems.is_empty() => {
            problems::show(&problem.problems, &documents.texts);
            tell!("nothing was deployed: {}", problems::summary(&problem.problems));
            Shown.into()
        }
        _ => error,
    }
}
