//! `legation journal`: every step that workers took for an instance.

use legation_protocol::instances::InstanceJournal;
use legation_protocol::step_bodies::ModelResult;
use legation_protocol::steps::{StepKind, StepView};

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
    match (&step.result, turn(step)) {
        (_, Some(lines)) => lines.iter().for_each(|(name, text)| line(name, text)),
        (Some(result), None) => line("answered", &print::short(result, 140)),
        (None, None) => {}
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

/// Who answered, what it wants and what it says; nothing where another worker journals its models in another way.
fn turn(step: &StepView) -> Option<Vec<(&'static str, String)>> {
    if step.kind != StepKind::Model {
        return None;
    }
    let said: ModelResult = serde_json::from_str(step.result.as_ref()?.get()).ok()?;
    let by = format!(
        "by {}, {} tokens in, {} out",
        said.model, said.usage.input_tokens, said.usage.output_tokens
    );
    let wants = said.calls.iter().map(|call| {
        let arguments = print::short(&call.arguments, 140);
        ("wants", format!("{} {arguments}", call.tool))
    });
    let says = said.text.iter().map(|text| ("says", print::cut(text, 500)));
    Some(
        std::iter::once(("answered", by))
            .chain(wants)
            .chain(says)
            .collect(),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn model(result: &str) -> Option<Vec<(&'static str, String)>> {
        let step = format!(
            r#"{{"sequence":1,"kind":"MODEL","state":"COMPLETED","toolRef":"model:a","requestDigest":"d","startedAt":"2026-11-03T09:15:00.000Z","result":{result}}}"#
        );
        turn(&serde_json::from_str(&step).unwrap_or_else(|error| panic!("{error}")))
    }

    #[test]
    fn a_turn_is_told_as_who_answered_what_it_wants_and_what_it_says() {
        let lines = model(
            r#"{"model":"a","usage":{"inputTokens":7,"outputTokens":2},"text":"Hello","calls":[{"tool":"crm__get","arguments":{"n":0.10}}]}"#,
        )
        .unwrap_or_default();
        assert_eq!(
            lines,
            [
                ("answered", "by a, 7 tokens in, 2 out".to_owned()),
                ("wants", r#"crm__get {"n":0.10}"#.to_owned()),
                ("says", "Hello".to_owned()),
            ]
        );
    }

    #[test]
    fn what_is_no_turn_is_shown_as_it_is() {
        assert_eq!(model(r#"{"error":"refused"}"#), None);
        assert_eq!(model("[1]"), None);
    }
}
