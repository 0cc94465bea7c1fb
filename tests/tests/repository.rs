//! The house rules that no compiler checks: layers, file sizes, module docs, fixtures, migrations, words that must
//! not leave the machine they were written on. It reads files and nothing else, so it says what is wrong in a second.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Crate, and the crates of this workspace that it may import. A new arrow needs an ADR and a line here.
const ARROWS: [(&str, &[&str]); 8] = [
    ("legation-schema", &[]),
    ("legation-language", &["legation-schema"]),
    ("legation-protocol", &[]),
    ("legation-kernel", &["legation-language"]),
    ("legation-store", &["legation-kernel", "legation-language"]),
    (
        "legation-server",
        &[
            "legation-store",
            "legation-kernel",
            "legation-language",
            "legation-protocol",
        ],
    ),
    ("legation-worker", &["legation-protocol"]),
    (
        "legation-agent-worker",
        &["legation-worker", "legation-protocol", "legation-schema"],
    ),
];

/// I1: what would bring I/O, time or chance into the pure crates.
const IMPURE: [&str; 9] = [
    "tokio",
    "sqlx",
    "axum",
    "reqwest",
    "rand",
    "getrandom",
    "uuid",
    "tracing",
    "futures",
];

const WARN_LINES: usize = 400;
const MOST_LINES: usize = 600;

#[test]
fn imports_point_down_only() {
    let allowed: BTreeMap<&str, &[&str]> = ARROWS.into_iter().collect();
    let mut wrong = Vec::new();
    for manifest in manifests() {
        let name = package_name(&manifest);
        if name == "legation-tests" {
            continue;
        }
        let Some(may_use) = allowed.get(name.as_str()) else {
            wrong.push(format!("{name} is not in the layer table"));
            continue;
        };
        let used = dependencies(&manifest)
            .into_iter()
            .filter(|used| used.starts_with("legation-") && *used != name);
        wrong.extend(
            used.filter(|used| !may_use.contains(&used.as_str()))
                .map(|used| format!("{name} -> {used}")),
        );
    }
    assert!(
        wrong.is_empty(),
        "arrows that the layers do not allow: {wrong:#?}"
    );
}

/// I1.
#[test]
fn the_pure_crates_depend_on_nothing_that_does_io_or_reads_a_clock() {
    for manifest in manifests() {
        let name = package_name(&manifest);
        if name != "legation-kernel" && name != "legation-language" {
            continue;
        }
        let table = manifest["dependencies"].as_table().expect("a dependencies table");
        let impure: Vec<_> = table
            .keys()
            .filter(|used| IMPURE.contains(&used.as_str()))
            .collect();
        assert!(impure.is_empty(), "{name} depends on {impure:?}");
    }
}

#[test]
fn no_source_file_is_over_600_lines() {
    let mut too_long = Vec::new();
    for path in files_ending(&["rs", "ts", "tsx", "mjs"]) {
        // Types that are generated from openapi.json.
        if shown(&path).ends_with("studio/src/api/schema.d.ts") {
            continue;
        }
        let lines = read(&path).lines().count();
        if lines > MOST_LINES {
            too_long.push(format!("{} has {lines} lines", shown(&path)));
        } else if lines > WARN_LINES {
            eprintln!(
                "warning: {} has {lines} lines; over {WARN_LINES} is a question",
                shown(&path)
            );
        }
    }
    assert!(too_long.is_empty(), "split these by concern: {too_long:#?}");
}

#[test]
fn every_rust_file_that_is_no_test_says_why_it_exists() {
    let silent: Vec<_> = files_ending(&["rs"])
        .into_iter()
        .filter(|path| !is_test(path) && !read(path).starts_with("//!"))
        .map(|path| shown(&path))
        .collect();
    assert!(silent.is_empty(), "these do not start with `//!`: {silent:#?}");
}

#[test]
fn every_migration_exists_for_both_databases_under_the_same_name() {
    let names = |database: &str| -> BTreeSet<String> {
        let folder = root().join("migrations").join(database);
        let entries = fs::read_dir(&folder).expect("the migrations of this database");
        entries
            .map(|entry| {
                entry
                    .expect("an entry")
                    .file_name()
                    .to_string_lossy()
                    .into_owned()
            })
            .collect()
    };
    let sqlite = names("sqlite");
    assert!(!sqlite.is_empty(), "there is no migration");
    assert_eq!(sqlite, names("postgres"));
}

/// D1, D2, D18: what the page prints is in the fixtures, unchanged.
#[test]
fn d1_every_path_and_value_of_the_page_is_in_its_fixture() {
    let folder = root().join("tests/page003");
    let rows: Vec<Value> =
        serde_json::from_str(&read(&folder.join("page.json"))).expect("page.json is a list");
    assert!(rows.len() > 20, "page.json lost rows");
    let mut wrong = Vec::new();
    for row in rows {
        let (file, pointer) = (text(&row, "file"), text(&row, "pointer"));
        // YAML 1.2 holds JSON, so one reader serves both kinds of fixture.
        let document: Value = serde_yaml::from_str(&read(&folder.join(file))).expect("the fixture parses");
        if document.pointer(pointer) != Some(&row["value"]) {
            wrong.push(format!(
                "{file}{pointer}: {:?}, the page says {}",
                document.pointer(pointer),
                row["value"]
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The page's `tools` and `delegates` keys are lists: a fixture may not slip in another delegate or tool.
#[test]
fn d1_the_only_addition_to_the_pages_child_is_the_rules_of_its_decision() {
    let child: Value = serde_yaml::from_str(&read(&root().join("tests/page003/refund_payout.process.yaml")))
        .expect("it parses");
    let keys = |value: &Value| {
        value
            .as_object()
            .expect("a map")
            .keys()
            .cloned()
            .collect::<BTreeSet<_>>()
    };
    let set = |names: &[&str]| names.iter().map(ToString::to_string).collect::<BTreeSet<_>>();
    assert_eq!(keys(&child), set(&["flow", "metadata"]));
    assert_eq!(keys(&child["metadata"]), set(&["variables"]));
    assert_eq!(keys(&child["flow"]), set(&["nodes"]));
    assert_eq!(keys(&child["flow"]["nodes"][0]), set(&["id", "rules", "type"]));
}

#[test]
fn no_file_names_a_machine_or_a_registry_host() {
    // Put together from halves, so that this file does not name them either.
    let words = [
        concat!("/wo", "rk/"),
        concat!("/ro", "ot/"),
        concat!("/ho", "me/"),
        concat!("/tmp/", "brief"),
        concat!("registry.", "npmjs"),
        concat!("index.", "crates.io"),
        concat!("static.", "crates.io"),
        concat!("python", "hosted"),
        concat!("proxy.", "golang"),
        concat!("deb.", "debian"),
    ];
    let mut found = Vec::new();
    for path in all_files() {
        let Ok(content) = fs::read_to_string(&path) else {
            continue;
        };
        found.extend(
            words
                .iter()
                .filter(|word| content.contains(*word))
                .map(|word| format!("{}: {word}", shown(&path))),
        );
    }
    assert!(found.is_empty(), "{found:#?}");
}

fn is_test(path: &Path) -> bool {
    let path = shown(path);
    ["tests/", "/tests", "/benches/", "/testing", "examples/"]
        .iter()
        .any(|part| path.contains(part) || path.starts_with(part))
}

#[test]
fn the_payments_worker_fits_on_a_page_and_needs_no_package() {
    let worker = read(&root().join("examples/refund/payments.mjs"));
    assert!(
        worker.lines().count() <= 50,
        "payments.mjs has {} lines",
        worker.lines().count()
    );
    let foreign: Vec<_> = worker
        .lines()
        .filter(|line| line.starts_with("import") && !line.contains("'node:"))
        .collect();
    assert!(foreign.is_empty(), "{foreign:?}");
}

#[test]
fn the_architecture_page_is_short_enough_to_be_read() {
    let lines = read(&root().join("ARCHITECTURE.md")).lines().count();
    assert!(lines <= 200, "ARCHITECTURE.md has {lines} lines");
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut broken = Vec::new();
    for page in files_ending(&["md"]) {
        let folder = page.parent().expect("a page is in a folder");
        for target in links(&read(&page)) {
            if !folder.join(&target).exists() {
                broken.push(format!("{}: {target}", shown(&page)));
            }
        }
    }
    assert!(broken.is_empty(), "{broken:#?}");
}

/// The relative targets of `[text](target)` outside of code blocks, without their `#place`.
fn links(page: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut in_code = false;
    for line in page.lines() {
        if line.trim_start().starts_with("```") {
            in_code = !in_code;
        }
        if in_code {
            continue;
        }
        for part in line.split("](").skip(1) {
            let target = part
                .split(')')
                .next()
                .unwrap_or_default()
                .split('#')
                .next()
                .unwrap_or_default();
            if !target.is_empty() && !target.contains("://") && !target.starts_with("mailto:") {
                found.push(target.to_string());
            }
        }
    }
    found
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
        .to_path_buf()
}

fn manifests() -> Vec<toml::Table> {
    let found: Vec<toml::Table> = all_files()
        .into_iter()
        .filter(|path| path.file_name().is_some_and(|name| name == "Cargo.toml"))
        .map(|path| toml::from_str::<toml::Table>(&read(&path)).expect("a manifest parses"))
        .filter(|manifest| manifest.contains_key("package"))
        .collect();
    assert!(found.len() > ARROWS.len(), "a crate's manifest was not found");
    found
}

fn package_name(manifest: &toml::Table) -> String {
    manifest["package"]["name"]
        .as_str()
        .expect("a package has a name")
        .to_string()
}

fn dependencies(manifest: &toml::Table) -> Vec<String> {
    ["dependencies", "dev-dependencies", "build-dependencies"]
        .into_iter()
        .filter_map(|kind| manifest.get(kind)?.as_table())
        .flat_map(|table| table.keys().cloned())
        .collect()
}

fn files_ending(endings: &[&str]) -> Vec<PathBuf> {
    let mut files = all_files();
    files.retain(|path| {
        path.extension()
            .is_some_and(|ending| endings.iter().any(|wanted| ending == *wanted))
    });
    assert!(!files.is_empty(), "no file ends in {endings:?}");
    files
}

/// What is in the repository: not built, not fetched, not a run's data. The lock file names its registry by design.
fn all_files() -> Vec<PathBuf> {
    let mut files = Vec::new();
    let mut folders = vec![root()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder of the repository") {
            let path = entry.expect("an entry").path();
            let name = path.file_name().expect("a name").to_string_lossy().into_owned();
            if ["target", "node_modules", ".git", ".legation", "Cargo.lock"].contains(&name.as_str()) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    files.sort();
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", shown(path)))
}

fn shown(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row[key]
        .as_str()
        .expect("page.json rows are {file, pointer, value}")
}
