//! `legation openapi`: the contract of the HTTP API, generated from the code.

pub fn run() -> anyhow::Result<()> {
    say!("{}", crate::http::openapi().to_pretty_json()?);
    Ok(())
}
