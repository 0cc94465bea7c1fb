//! `legation processes`: what is deployed, and the versions of one process.

use clap::Args;
use legation_protocol::processes::{ProcessList, ProcessView};

use super::client::{Client, encode};
use super::{Global, print};

#[derive(Args, Debug)]
pub struct Arguments {
    /// All versions of this process, the newest first; without it, the newest version of every process.
    #[arg(value_name = "KEY")]
    pub key: Option<String>,
}

pub async fn run(global: &Global, arguments: Arguments) -> anyhow::Result<()> {
    let path = match &arguments.key {
        Some(key) => format!("/v1/processes/{}/versions", encode(key)),
        None => "/v1/processes".to_owned(),
    };
    let list = Client::new(global)?.get::<ProcessList>(&path).await?;
    if global.json {
        print::json(&list.text);
        return Ok(());
    }
    let rows = list.body.processes.iter().map(row).collect();
    print::table(
        &["key", "version", "name", "deployed"],
        rows,
        "nothing is deployed; `legation deploy` does",
    );
    Ok(())
}

fn row(process: &ProcessView) -> Vec<String> {
    vec![
        process.key.clone(),
        process.version.to_string(),
        process.name.clone().unwrap_or_default(),
        print::moment(&process.deployed_at),
    ]
}
