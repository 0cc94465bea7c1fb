//! `legation journal`: every step that workers took for an instance.

use legation_protocol::instances::InstanceJournal;
use legation_protocol::steps::StepView;

use super::Global;
use super::client::{Client, encode};
use super::print::{self, Ink};

pub async fn run(global: &Global, id: &str) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let answer = client
        .get::<InstanceJournal>(&format!("/v1/instances/{}/journal", encode(id)))
        .await?;
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    if answer.body.tasks.is_empty() {
        tell!("no worker was asked for anything");
    }
    self::print(&answer.body, Ink::stdout());
    Ok(())
}

/// Task by task, step by step.
pub fn print(journal: &InstanceJournal, ink: Ink) {
    for one in &journal.tasks {
        let task = &one.task;
        let state = print::word(&task.state);
        say!(
            "  {} {} {}",
            task.node_id,
            ink.dim(&format!("({}, {})", task.topic, task.id)),
            ink.state(&state)
        );
        for step in &one.steps {
            let number = format!("{}.{}", step.attempt.unwrap_or(task.attempt), step.sequence);
            say!(
                "    {number:>6} {:<10} {:<28} {}",
                print::word(&step.kind),
                step.tool_ref,
                ink.state(&print::word(&step.state))
            );
            details(step, ink);
        }
    }
}

fn details(step: &StepView, ink: Ink) {
    let line = |name: &str, text: &str| say!("{}", ink.dim(&format!("           {name:<9} {text}")));
    if let Some(arguments) = &step.arguments {
        line("asked", &print::short(arguments, 140));
    }
    if let Some(result) = &step.result {
        line("answered", &print::short(result, 140));
    }
    if let Some(by) = &step.decided_by {
        let comment = step
            .comment
            .as_ref()
            .map(|comment| format!(": {comment}"))
            .unwrap_or_default();
        line("decided", &format!("by {by}{comment}"));
    }
    if let Some(child) = &step.child_instance_id {
        line("child", child);
    }
    if let Some(late) = &step.late_result {
        line("late", &print::short(late, 140));
    }
}
