//! What `make demo` says while it builds, and that it builds nothing twice. No build is run: a program stands in for
//! cargo, and cargo is only asked what it would do.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where by panicking"
)]

use std::collections::BTreeSet;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::Value;

/// Cargo that says what it compiles and then nothing for longer than may be.
const SILENT: &str = "#!/bin/sh
echo \"$@\" > \"$0.arguments\"
echo '   Compiling tiny v1.0.0' >&2
echo '   Compiling aws-lc-sys v0.1.0' >&2
i=0
while [ $i -lt 200 ]; do [ -e \"$0.enough\" ] && exit 0; i=$((i + 1)); sleep 0.1; done
";

const BROKEN: &str = "#!/bin/sh
echo 'error: no such thing' >&2
exit 101
";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn program(folder: &Path, text: &str) -> PathBuf {
    let path = folder.join("cargo");
    std::fs::write(&path, text).unwrap();
    std::fs::set_permissions(&path, PermissionsExt::from_mode(0o755)).unwrap();
    path
}

/// Builds with that cargo, being silent for 200 ms at most; `enough` ends a silent cargo after so many reports.
fn build(cargo: &Path) -> Output {
    let script = format!(
        "import {{ writeFileSync }} from 'node:fs';
         import {{ build }} from '{}/examples/demo/build.mjs';
         const log = console.log;
         let reports = 0;
         console.log = (line) => {{
           log(line);
           if (/still building/.test(line)) reports += 1;
           if (reports === 3) writeFileSync('{}.enough', '');
         }};
         await build('{}', {{ quietMs: 200 }});",
        root().display(),
        cargo.display(),
        cargo.parent().unwrap().display()
    );
    Command::new("node")
        .args(["--input-type=module", "-e", &script])
        .env("CARGO", cargo)
        .output()
        .unwrap()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_silent_cargo_is_reported_on_with_the_time_and_the_crate() {
    let folder = tempfile::tempdir().unwrap();
    let cargo = program(folder.path(), SILENT);
    let output = build(&cargo);
    let said = said(&output);
    assert!(output.status.success(), "{said}");
    let reports: Vec<&str> = said
        .lines()
        .filter(|line| line.contains("still building"))
        .collect();
    assert!(reports.len() >= 3, "{said}");
    assert!(
        reports[2].contains(" s: 2 crates so far, now aws-lc-sys"),
        "{said}"
    );
    // A terminal's tricks are for terminals.
    assert!(!said.contains('\x1b'), "{said}");
    let arguments = std::fs::read_to_string(folder.path().join("cargo.arguments")).unwrap();
    assert_eq!(arguments.trim(), what().join(" "));
}

#[test]
fn a_build_that_fails_says_so_with_what_cargo_said() {
    let folder = tempfile::tempdir().unwrap();
    let output = build(&program(folder.path(), BROKEN));
    assert!(!output.status.success());
    assert!(said(&output).contains("error: no such thing"));
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(error.contains("cargo build ended with 101"), "{error}");
}

/// What the demo asks of cargo.
fn what() -> Vec<String> {
    let script = format!(
        "import {{ WHAT }} from '{}/examples/demo/build.mjs'; console.log(JSON.stringify(WHAT));",
        root().display()
    );
    let output = Command::new("node")
        .args(["--input-type=module", "-e", &script])
        .output()
        .unwrap();
    serde_json::from_slice(&output.stdout).unwrap()
}

/// Packages as they would be built: name, version and features.
fn units(arguments: &[&str]) -> BTreeSet<String> {
    let output = Command::new(env!("CARGO"))
        .args(arguments)
        .args(["--unit-graph", "-Z", "unstable-options", "--offline"])
        .current_dir(root())
        // The graph is no stable part of cargo; it is only looked at.
        .env("RUSTC_BOOTSTRAP", "1")
        .output()
        .unwrap();
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let graph: Value = serde_json::from_slice(&output.stdout).unwrap();
    graph["units"]
        .as_array()
        .unwrap()
        .iter()
        .map(|unit| {
            format!(
                "{} {} {}",
                unit["pkg_id"], unit["target"]["kind"], unit["features"]
            )
        })
        .collect()
}

#[test]
fn neither_the_demo_nor_the_tests_build_the_others_dependencies_again() {
    let what = what();
    let what: Vec<&str> = what.iter().map(String::as_str).collect();
    let demo = units(&what);
    let tests = units(&["test", "--workspace", "--no-run"]);
    let twice: Vec<&String> = demo.difference(&tests).collect();
    assert!(twice.is_empty(), "the demo builds otherwise: {twice:#?}");
    assert!(demo.len() > 100, "{} units", demo.len());
}
