//! `legation resolve`: a person says what became of a write that was cut off.

use clap::Args;
use legation_protocol::incidents::{IncidentAnswer, ResolveOutcome, ResolveRequest};

use super::client::{Client, encode};
use super::{Global, incidents, vars};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The incident's id.
    #[arg(value_name = "INCIDENT")]
    pub id: String,
    #[command(flatten)]
    pub outcome: Outcome,
    /// The result of the write: JSON where it reads as such, else text.
    #[arg(long, value_name = "JSON", conflicts_with = "not_performed")]
    pub result: Option<String>,
    /// How you know.
    #[arg(long)]
    pub comment: String,
}

/// One of the two.
#[derive(Args, Debug)]
#[group(required = true, multiple = false)]
pub struct Outcome {
    /// It happened: the step counts as done, with --result.
    #[arg(long)]
    pub performed: bool,
    /// It did not happen: the step may be tried again.
    #[arg(long)]
    pub not_performed: bool,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let outcome = if arguments.outcome.performed {
        ResolveOutcome::Performed
    } else {
        ResolveOutcome::NotPerformed
    };
    let result = arguments
        .result
        .as_deref()
        .map(|result| vars::json_of(result, false))
        .transpose()?;
    let request = ResolveRequest {
        outcome,
        result,
        comment: arguments.comment,
    };
    let path = format!("/v1/incidents/{}/resolve", encode(&arguments.id));
    let answer = client.post::<IncidentAnswer>(&path, &request).await?;
    incidents::outcome(global, "resolved", &answer);
    Ok(())
}
