//! `legation explain`: why an instance waits, and what would move it.

use legation_protocol::instances::Explanation;

use super::client::{Client, encode};
use super::{Global, print};

pub async fn run(global: &Global, id: &str) -> anyhow::Result<()> {
    let client = Client::new(global)?;
    let answer = client
        .get::<Explanation>(&format!("/v1/instances/{}/explain", encode(id)))
        .await?;
    if global.json {
        print::json(&answer.text);
        return Ok(());
    }
    say!("{}", answer.body.text.trim_end());
    for wait in answer
        .body
        .waits
        .iter()
        .filter(|wait| !answer.body.text.contains(&wait.text))
    {
        let since = wait
            .since
            .as_ref()
            .map(|at| format!(" since {}", print::moment(at)))
            .unwrap_or_default();
        say!("  {:<18} {}{since}", wait.node_id, wait.text);
    }
    Ok(())
}
