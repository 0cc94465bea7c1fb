//! `legation cancel`: ends an instance and everything below it (D19, D69).

use clap::Args;
use legation_protocol::instances::{CancelAnswer, CancelRequest};

use super::client::{Client, encode};
use super::{Global, print};

#[derive(Args, Debug)]
pub struct Arguments {
    /// The instance's id.
    #[arg(value_name = "INSTANCE")]
    pub id: String,
    /// Why; recorded at each level.
    #[arg(long)]
    pub reason: String,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let path = format!("/v1/instances/{}/cancel", encode(&arguments.id));
    let answer = client
        .post::<CancelAnswer>(
            &path,
            &CancelRequest {
                reason: arguments.reason,
            },
        )
        .await?;
    match global.json {
        true => print::json(&answer.text),
        false => say!("{} is {}", answer.body.id, print::word(&answer.body.status)),
    }
    Ok(())
}
