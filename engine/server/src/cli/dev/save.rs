//! Deploys the project at the start and after every save, and shows problems in place.

use std::time::Duration;

use super::Project;
use crate::cli::client::Refusal;
use crate::cli::print::Ink;
use crate::cli::project::{self, Documents};
use crate::cli::{deploy, problems};

/// How often files are looked at.
const LOOK: Duration = Duration::from_millis(300);

/// Never ends.
pub async fn deploy_on_save(project: &Project) {
    let mut seen = project::stamp(&project.folder, &[]);
    deploy(project).await;
    loop {
        tokio::time::sleep(LOOK).await;
        let now = project::stamp(&project.folder, &[]);
        if now != seen {
            seen = now;
            deploy(project).await;
        }
    }
}

async fn deploy(project: &Project) {
    let ink = Ink::stderr();
    let documents = match Documents::read(std::slice::from_ref(&project.folder)) {
        Ok(documents) => documents,
        Err(error) => return tell!("{} {error:#}", ink.red("not deployed:")),
    };
    let answer = match deploy::send(&project.client, &documents, false).await {
        Ok(answer) => answer.body,
        Err(error) => {
            let listed = error
                .downcast_ref::<Refusal>()
                .map(|Refusal(problem)| problem.problems.as_slice());
            let Some(listed) = listed.filter(|listed| !listed.is_empty()) else {
                return tell!("{} {error:#}", ink.red("not deployed:"));
            };
            problems::show(listed, &documents.texts);
            return tell!(
                "{} {}; save to try again",
                ink.red("not deployed:"),
                problems::summary(listed)
            );
        }
    };
    problems::show(&answer.problems, &documents.texts);
    let processes = answer.processes.iter().filter(|process| process.changed);
    let mut changed: Vec<String> = processes
        .map(|process| format!("{} version {}", process.key, process.version))
        .collect();
    let servers = answer.servers.iter().filter(|server| server.changed);
    changed.extend(servers.map(|server| format!("server {}", server.name)));
    if changed.is_empty() {
        tell!("deployed already: nothing changed");
    } else {
        tell!("{} {}", ink.bold("deployed"), changed.join(", "));
    }
}
