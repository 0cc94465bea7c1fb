//! `legation export bpmn`: a deployed process for other tools.

use anyhow::Context;
use clap::{Args, Subcommand};

use super::Global;
use super::client::{Client, encode};

#[derive(Args, Clone, Debug)]
pub struct Arguments {
    #[command(subcommand)]
    pub what: What,
}

/// What can be written.
#[derive(Subcommand, Clone, Debug)]
pub enum What {
    /// A process as BPMN 2.0 XML, on stdout.
    Bpmn {
        /// The process's key.
        #[arg(value_name = "PROCESS")]
        key: String,
        /// Another version than the newest.
        #[arg(long)]
        version: Option<u32>,
    },
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let What::Bpmn { key, version } = arguments.what;
    let client = Client::new(global)?;
    let version = match version {
        Some(version) => version,
        None => {
            let path = format!("/v1/processes/{}", encode(&key));
            let answer = client
                .get::<legation_protocol::processes::ProcessView>(&path)
                .await?;
            answer.body.version
        }
    };
    let path = format!("/v1/processes/{}/versions/{version}/bpmn", encode(&key));
    let xml = client
        .stream(&path)
        .await?
        .text()
        .await
        .context("the answer broke off")?;
    say!("{}", xml.trim_end());
    Ok(())
}
