//! Where the binaries and examples are: beside the test that runs. `cargo test --workspace` has built them; when one
//! is missing it is built here, once.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// The path of `legation` or `legation-agent`.
///
/// # Panics
/// When it is missing and cannot be built.
#[must_use]
pub fn binary(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    built(
        folder().join(name),
        &BUILT,
        &["build", "-p", "legation-server", "-p", "legation-agent-worker"],
    )
}

/// The path of an example of the worker SDK.
///
/// # Panics
/// When it is missing and cannot be built.
#[must_use]
pub fn example(name: &str) -> PathBuf {
    static BUILT: OnceLock<()> = OnceLock::new();
    let path = folder().join("examples").join(name);
    built(path, &BUILT, &["build", "-p", "legation-worker", "--examples"])
}

/// Builds the web app once, before several demos do it at the same time in one folder. It may fail, as in `make demo`.
///
/// # Panics
/// When make cannot be started.
pub fn web_app() {
    static BUILT: OnceLock<()> = OnceLock::new();
    BUILT.get_or_init(|| {
        let mut make = Command::new("make");
        make.arg("studio").current_dir(workspace());
        make.status().expect("make can be started");
    });
}

fn built(path: PathBuf, once: &OnceLock<()>, words: &[&str]) -> PathBuf {
    if !path.exists() {
        once.get_or_init(|| build(words));
    }
    let command = words.join(" ");
    assert!(path.exists(), "{} is missing: cargo {command}", path.display());
    path
}

/// `target/debug`, from `target/debug/deps/<test>`.
fn folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test has a path");
    test.ancestors()
        .nth(2)
        .expect("a test lies in the target folder")
        .to_owned()
}

fn build(words: &[&str]) {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(words)
        .current_dir(workspace())
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the binaries cannot be built");
}

/// The root of the workspace.
///
/// # Panics
/// Never: the crate lies one level below it.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is one level down")
}
