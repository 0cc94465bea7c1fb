//! `legation complete`: finishes a human task.

use std::collections::BTreeSet;

use clap::Args;
use legation_protocol::tasks::{CompleteTaskRequest, DecisionAnswer, HumanTaskKind, HumanTaskView};

use super::client::{Client, Refusal, encode};
use super::{Global, approve, print, vars};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The task's id, or that of an instance with exactly one open task.
    pub id: String,
    /// One of the task's outcomes, where it has some.
    #[arg(long)]
    pub outcome: Option<String>,
    #[command(flatten)]
    pub variables: vars::Arguments,
    /// What you want to say about it.
    #[arg(long)]
    pub comment: Option<String>,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let task = approve::find(&client, &arguments.id, Some(HumanTaskKind::Human)).await?;
    let texts = match &task.form {
        Some(form) => vars::texts_of(Some(form)),
        None => BTreeSet::new(),
    };
    let Arguments {
        outcome,
        variables,
        comment,
        ..
    } = arguments;
    let request = CompleteTaskRequest {
        outcome,
        variables: variables.read(&texts)?,
        comment,
    };
    let answer = client
        .post::<DecisionAnswer>(&format!("/v1/tasks/{}/complete", encode(&task.id)), &request)
        .await
        .map_err(|error| with_hint(&task, error))?;
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    let outcome = answer
        .body
        .outcome
        .map(|outcome| format!(" with {outcome}"))
        .unwrap_or_default();
    say!("completed {}{outcome}", task.id);
    Ok(())
}

/// Says which options give what is missing.
fn with_hint(task: &HumanTaskView, mut error: anyhow::Error) -> anyhow::Error {
    let Some(Refusal(problem)) = error.downcast_mut::<Refusal>() else {
        return error;
    };
    let hint = match problem.code.as_str() {
        "OUTCOME_REQUIRED" => Some("give it as --outcome NAME".to_owned()),
        "COMMENT_REQUIRED" => Some("give it as --comment TEXT".to_owned()),
        "FORM_INVALID" => vars::described(task.form.as_ref())
            .map(|fields| format!("the form takes {fields}; give each as --var NAME=VALUE")),
        _ => None,
    };
    problem.hint = hint.or_else(|| problem.hint.take());
    error
}
