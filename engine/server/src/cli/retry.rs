//! `legation retry`: tries again what an incident holds, and says what that led to.

use clap::Args;
use legation_protocol::incidents::IncidentAnswer;

use super::client::{Client, encode};
use super::{Global, incidents};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The incident's id.
    #[arg(value_name = "INCIDENT")]
    pub id: String,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let path = format!("/v1/incidents/{}/retry", encode(&arguments.id));
    let answer = client
        .post::<IncidentAnswer>(&path, &serde_json::json!({}))
        .await?;
    incidents::outcome(global, "retried", &answer);
    Ok(())
}
