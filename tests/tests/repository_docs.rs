//! What the pages name is there: commands and their options, paths of the API, files of this repository, targets of the
//! Makefile. Pages are every Markdown file that is kept here.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

#[test]
fn every_command_that_a_page_shows_exists_with_its_options() {
    let commands = commands();
    let options = options();
    assert!(
        commands.len() > 20,
        "the command line lost its commands: {commands:?}"
    );
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, code) in code_of_all_pages() {
        for call in code.split("legation ").skip(1) {
            // To the end of the command: what follows a pipe, a comment or another command is not the engine's.
            let call = call
                .split(['|', ';', '&', '#', '`', '"', ')'])
                .next()
                .unwrap_or_default();
            let mut words = call.split_whitespace();
            let Some(command) = words.next().filter(|word| is_name(word)) else {
                continue;
            };
            seen += 1;
            if !commands.contains(command) {
                wrong.push(format!("{page}: legation {command}"));
                continue;
            }
            let flags = words.filter_map(|word| word.strip_prefix("--"));
            for flag in flags.map(|flag| flag.split('=').next().unwrap_or_default()) {
                if !options.contains(flag) {
                    wrong.push(format!("{page}: legation {command} --{flag}"));
                }
            }
        }
    }
    assert!(seen > 40, "only {seen} commands were found");
    assert!(wrong.is_empty(), "the engine does not have these: {wrong:#?}");
}

#[test]
fn every_path_of_the_api_that_a_page_shows_exists() {
    let contract: Value =
        serde_json::from_str(&read(&root().join("specs/openapi.json"))).expect("the contract is JSON");
    let mut paths: Vec<Vec<String>> = contract["paths"]
        .as_object()
        .expect("the contract has paths")
        .keys()
        .map(|path| parts(path))
        .collect();
    paths.push(parts("/v1/dev/login"));
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, code) in code_of_all_pages() {
        for (start, _) in code.match_indices("/v1/") {
            let shown = code[start..]
                .split(|c: char| c.is_whitespace() || "`'\"?),".contains(c))
                .next()
                .unwrap_or_default();
            // `/v1/…` and what a program puts together name no path.
            if shown.contains(['…', '$', '*']) || shown == "/v1/" {
                continue;
            }
            seen += 1;
            let shown = parts(shown);
            let fits = |path: &Vec<String>| {
                path.len() == shown.len()
                    && path.iter().zip(&shown).all(|(own, part)| {
                        own == part || own.starts_with('{') || part.starts_with(['{', '<'])
                    })
            };
            if !paths.iter().any(fits) {
                wrong.push(format!("{page}: /{}", shown.join("/")));
            }
        }
    }
    assert!(seen > 60, "only {seen} paths were found");
    assert!(wrong.is_empty(), "the API does not have these: {wrong:#?}");
}

#[test]
fn every_file_that_a_page_names_exists() {
    let folders = [
        "engine/",
        "specs/",
        "studio/",
        "worker-sdk/",
        "agent-worker/",
        "examples/",
        "docs/",
        "migrations/",
        "tests/",
    ];
    // Written by a build.
    let built = ["studio/dist", "studio/node_modules"];
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, code) in code_of_all_pages() {
        for word in code.split(|c: char| c.is_whitespace() || "(),;'\"|".contains(c)) {
            let is_ours = folders
                .iter()
                .any(|folder| word.starts_with(folder) && word.len() > folder.len());
            let is_pattern = word.contains(['<', '{', '*', '…', ':']) || word.contains("NNNN");
            if !is_ours || is_pattern || built.iter().any(|built| word.starts_with(built)) {
                continue;
            }
            seen += 1;
            let beside = page_folder(&page).join(word);
            if !root().join(word).exists() && !beside.exists() {
                wrong.push(format!("{page}: {word}"));
            }
        }
    }
    assert!(seen > 25, "only {seen} files were found");
    assert!(wrong.is_empty(), "these are not there: {wrong:#?}");
}

#[test]
fn every_target_that_a_page_or_the_help_names_is_in_the_makefile() {
    let makefile = read(&root().join("Makefile"));
    let targets: BTreeSet<&str> = makefile
        .lines()
        .filter(|line| line.starts_with(|c: char| c.is_ascii_lowercase()))
        .filter_map(|line| line.split_once(':').filter(|(_, rest)| !rest.starts_with('=')))
        .map(|(name, _)| name)
        .collect();
    let help = makefile
        .lines()
        .filter(|line| line.contains("@echo \"make "))
        .map(|line| ("Makefile".to_owned(), line.to_owned()));
    let mut wrong = Vec::new();
    let mut seen = 0;
    for (page, code) in code_of_all_pages().into_iter().chain(help) {
        for call in code.split("make ").skip(1) {
            let target: String = call.chars().take_while(|c| c.is_ascii_lowercase()).collect();
            if target.is_empty() {
                continue;
            }
            seen += 1;
            if !targets.contains(target.as_str()) {
                wrong.push(format!("{page}: make {target}"));
            }
        }
    }
    assert!(seen > 10, "only {seen} targets were found");
    assert!(wrong.is_empty(), "the Makefile does not have these: {wrong:#?}");
}

/// The subcommands, as `enum Command` lists them.
fn commands() -> BTreeSet<String> {
    let source = read(&root().join("engine/server/src/cli/mod.rs"));
    let body = source
        .split("pub enum Command {")
        .nth(1)
        .and_then(|rest| rest.split("\n}").next());
    let variants = body.expect("there is an enum of commands").lines().map(str::trim);
    variants
        .filter(|line| line.starts_with(|c: char| c.is_ascii_uppercase()))
        .map(|line| {
            line.chars()
                .take_while(char::is_ascii_alphabetic)
                .collect::<String>()
                .to_lowercase()
        })
        .collect()
}

/// Every long option of any command: clap takes a field's name, unless `long` gives another.
fn options() -> BTreeSet<String> {
    let mut options = BTreeSet::from(["help".to_owned(), "version".to_owned()]);
    for path in files_below(&root().join("engine/server/src/cli"), "rs") {
        let source = read(&path);
        for part in source.split("long").skip(1) {
            if let Some(name) = part.strip_prefix(" = \"") {
                options.insert(name.split('"').next().unwrap_or_default().to_owned());
                continue;
            }
            let field = part.split_once(")]\n").map(|(_, rest)| rest).unwrap_or_default();
            let field = field
                .lines()
                .map(str::trim)
                .find(|line| !line.starts_with("///") && !line.starts_with('#'));
            let name = field
                .and_then(|line| line.split_once(':'))
                .map(|(name, _)| name.trim_start_matches("pub "));
            if let Some(name) = name {
                options.insert(name.replace('_', "-"));
            }
        }
    }
    options
}

/// Every line of a code block, and everything between backticks, with the page that shows it.
fn code_of_all_pages() -> Vec<(String, String)> {
    let mut found = Vec::new();
    for page in files_below(root(), "md") {
        let name = page.strip_prefix(root()).unwrap_or(&page).display().to_string();
        let mut in_block = false;
        for line in read(&page).lines() {
            if line.trim_start().starts_with("```") {
                in_block = !in_block;
            } else if in_block {
                found.push((name.clone(), line.to_owned()));
            } else {
                found.extend(
                    line.split('`')
                        .skip(1)
                        .step_by(2)
                        .map(|span| (name.clone(), span.to_owned())),
                );
            }
        }
    }
    assert!(found.len() > 500, "the pages lost their code");
    found
}

fn page_folder(page: &str) -> PathBuf {
    root()
        .join(page)
        .parent()
        .expect("a page is in a folder")
        .to_owned()
}

fn parts(path: &str) -> Vec<String> {
    path.trim_matches('/').split('/').map(str::to_owned).collect()
}

fn is_name(word: &str) -> bool {
    !word.is_empty() && word.chars().all(|c| c.is_ascii_lowercase())
}

/// Files with this ending that are neither built, nor fetched, nor a run's data.
fn files_below(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)
        .expect("a folder of the repository")
        .flatten()
    {
        let path = entry.path();
        let name = entry.file_name().to_string_lossy().into_owned();
        if ["target", "node_modules", ".git", ".legation", "dist"].contains(&name.as_str()) {
            continue;
        }
        if path.is_dir() {
            files.extend(files_below(&path, ending));
        } else if path.extension().is_some_and(|own| own == ending) {
            files.push(path);
        }
    }
    files
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
}
