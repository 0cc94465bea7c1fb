//! Where the binaries are: beside the test that runs. `cargo test --workspace` has built them; when one is missing it
//! is built here, once.

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
    let path = folder().join(name);
    if !path.exists() {
        BUILT.get_or_init(build);
    }
    assert!(
        path.exists(),
        "{} is missing: cargo build -p legation-server -p legation-agent-worker",
        path.display()
    );
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

fn build() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "-p", "legation-server", "-p", "legation-agent-worker"])
        .current_dir(workspace())
        .status()
        .expect("cargo can be run");
    assert!(status.success(), "the binaries cannot be built");
}

/// The root of the workspace.
pub(super) fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the crate is one level down")
}
