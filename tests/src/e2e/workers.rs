//! Workers and callers that a test adds to a stage: other languages, other models, the command line.

use std::process::Command;

use super::binaries::{binary, example, workspace};
use super::processes::Process;
use super::stage::Stage;

impl Stage {
    /// The payments worker in Python, standard library only.
    pub fn python_payments(&self, url: &str) -> Process {
        let mut command = Command::new("python3");
        command.arg("payments.py").current_dir(self.path());
        command
            .env("LEGATION_URL", url)
            .env("LEGATION_KEY", self.key("worker"));
        Process::start("payments-py", &mut command, &self.logs())
    }

    /// The payments worker in Rust, with the SDK.
    pub fn rust_payments(&self, url: &str) -> Process {
        let mut command = Command::new(example("payout"));
        command.current_dir(self.path());
        command
            .env("LEGATION_URL", url)
            .env("LEGATION_KEY", self.key("worker"));
        Process::start("payments-rs", &mut command, &self.logs())
    }

    /// The agent worker's own settings from now on: the models are at this address, `first` and that of the story as
    /// `fake-1`, `second` as `fake-2`; and the tool servers are these (TOML).
    ///
    /// # Panics
    /// When the file cannot be written.
    pub fn agents_ask(&self, model: &str, servers: &str) {
        let alias = |name: &str, model_name: &str| {
            format!(
                "{name} = {{ provider = \"openai\", model = \"{model_name}\", base_url = \"{model}\", \
                 key = \"env:FAKE_KEY\" }}\n"
            )
        };
        let config = format!(
            "{servers}\n[models]\n{}{}{}",
            alias("first", "fake-1"),
            alias("second", "fake-2"),
            alias("\"gemini-3.6-flash\"", "fake-1"),
        );
        std::fs::write(self.path().join("legation-agent.toml"), config).expect("the folder can be written");
    }

    /// What the command line prints, called in the project's folder as a person would; not what it tells beside.
    ///
    /// # Panics
    /// When it fails.
    pub async fn cli(&self, words: &[&str]) -> String {
        let (ended_well, out, err) = self.call_cli(words).await;
        assert!(ended_well, "legation {}: {out}{err}", words.join(" "));
        out
    }

    /// The same for commands that may fail: whether it ended well, and all that a person sees.
    ///
    /// # Panics
    /// When it cannot be started.
    pub async fn try_cli(&self, words: &[&str]) -> (bool, String) {
        let (ended_well, out, err) = self.call_cli(words).await;
        (ended_well, format!("{out}{err}"))
    }

    async fn call_cli(&self, words: &[&str]) -> (bool, String, String) {
        let mut command = tokio::process::Command::new(binary("legation"));
        command.args(words).current_dir(self.path());
        for name in ["LEGATION_URL", "LEGATION_KEY", "LEGATION_DATA"] {
            command.env_remove(name);
        }
        let output = command.output().await.expect("the command line can be started");
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (
            output.status.success(),
            text(&output.stdout),
            text(&output.stderr),
        )
    }

    /// The agent worker's own test server, as a file of the project.
    ///
    /// # Panics
    /// When the folder cannot be written.
    pub fn bring_test_server(&self) {
        let server = workspace().join("agent-worker/tests/server.mjs");
        std::fs::copy(server, self.path().join("server.mjs")).expect("the folder can be written");
    }
}
