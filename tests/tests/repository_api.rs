//! docs/API.md against the contract and the handlers: every call has its section, with its right, its parameters and
//! the fields of its body, and nothing stands there that the API does not have.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

/// Calls outside of the contract, by where `http/mod.rs` adds them to the router.
const OUTSIDE: [(&str, &str); 1] = [(
    "POST /v1/dev/login",
    ".route(\"/v1/dev/login\", axum::routing::post(",
)];

#[test]
fn every_call_has_its_section_and_every_section_its_call() {
    let mut calls: BTreeSet<String> = calls().into_keys().collect();
    let router = read("engine/server/src/http/mod.rs");
    assert_eq!(
        router.matches(".route(").count(),
        OUTSIDE.len(),
        "a route outside of the contract is not named here"
    );
    for (call, route) in OUTSIDE {
        assert!(router.contains(route), "{call} is not where it was");
        calls.insert(call.to_owned());
    }
    let told: BTreeSet<String> = sections().into_keys().collect();
    assert!(calls.len() > 50, "the contract lost calls");
    let untold: Vec<_> = calls.difference(&told).collect();
    let unknown: Vec<_> = told.difference(&calls).collect();
    assert!(untold.is_empty(), "not in docs/API.md: {untold:#?}");
    assert!(unknown.is_empty(), "in docs/API.md only: {unknown:#?}");
}

#[test]
fn a_section_names_every_parameter_and_every_field_of_the_body() {
    let contract = contract();
    let sections = sections();
    let mut missing = Vec::new();
    let mut seen = 0;
    for (call, operation) in calls() {
        let Some(section) = sections.get(&call) else {
            continue;
        };
        let words = words(section);
        let parameters = operation["parameters"].as_array().into_iter().flatten();
        let named = parameters
            .filter(|parameter| parameter["in"] != "path")
            .map(|parameter| {
                parameter["name"]
                    .as_str()
                    .expect("a parameter has a name")
                    .to_owned()
            });
        let body = &operation["requestBody"]["content"]["application/json"]["schema"];
        for name in named.chain(own_fields(&contract, body)) {
            seen += 1;
            if !words.contains(name.as_str()) {
                missing.push(format!("{call}: {name}"));
            }
        }
    }
    assert!(seen > 80, "only {seen} names were looked for");
    assert!(
        missing.is_empty(),
        "docs/API.md does not name these: {missing:#?}"
    );
}

#[test]
fn what_a_section_shows_of_a_body_or_an_answer_is_there() {
    let contract = contract();
    let sections = sections();
    let mut unknown = Vec::new();
    let mut seen = 0;
    for (call, operation) in calls() {
        let Some(section) = sections.get(&call) else {
            continue;
        };
        let mut fields = BTreeSet::new();
        let parts = operation["responses"]
            .as_object()
            .expect("an operation has responses")
            .values()
            .chain([&operation["requestBody"]]);
        for media in parts.filter_map(|part| part["content"].as_object()) {
            for content in media.values() {
                all_fields(&contract, &content["schema"], &mut fields, 0);
            }
        }
        let shapes = spans(section).into_iter().filter(|span| span.starts_with('{'));
        for word in shapes.flat_map(split).filter(|word| !is_placeholder(word)) {
            seen += 1;
            if !fields.contains(word) {
                unknown.push(format!("{call}: {word}"));
            }
        }
    }
    assert!(seen > 200, "only {seen} names were looked at");
    assert!(
        unknown.is_empty(),
        "docs/API.md shows what is not there: {unknown:#?}"
    );
}

#[test]
fn a_section_says_which_right_a_call_takes() {
    let sections = sections();
    let mut wrong = Vec::new();
    for (call, operation) in calls() {
        let Some(section) = sections.get(&call) else {
            continue;
        };
        let is_open = operation["security"] == serde_json::json!([{}]);
        if !section.starts_with(if is_open { "No key." } else { "Right: " }) {
            wrong.push(format!("{call} says nothing about its right, or the wrong thing"));
        }
    }
    let mut seen = 0;
    for (call, roles) in roles_of_handlers() {
        let Some(section) = sections.get(&call) else {
            continue;
        };
        for role in roles {
            seen += 1;
            if !section.contains(&format!("`{role}`")) {
                wrong.push(format!("{call} asks for the role {role}"));
            }
        }
    }
    assert!(seen > 30, "only {seen} handlers were read");
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_code_of_the_page_is_explained() {
    let errors = read("docs/ERRORS.md");
    let page = read("docs/API.md");
    let is_code = |word: &&str| {
        word.contains('_')
            && word
                .chars()
                .all(|c| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_')
    };
    let codes: BTreeSet<&str> = spans(&page).into_iter().filter(is_code).collect();
    assert!(codes.len() > 40, "the page lost its codes");
    let events = ["STEP_STARTED", "STEP_COMPLETED"];
    let unexplained: Vec<_> = codes
        .iter()
        .filter(|code| !events.contains(code) && !errors.contains(&format!("### {code}\n")))
        .collect();
    assert!(unexplained.is_empty(), "not in docs/ERRORS.md: {unexplained:?}");
}

/// The operations of the contract, by `METHOD /path`.
fn calls() -> BTreeMap<String, Value> {
    let contract = contract();
    let paths = contract["paths"].as_object().expect("the contract has paths");
    let mut calls = BTreeMap::new();
    for (path, methods) in paths {
        for (method, operation) in methods.as_object().expect("a path has methods") {
            calls.insert(format!("{} {path}", method.to_uppercase()), operation.clone());
        }
    }
    calls
}

/// The text under each heading that names a call.
fn sections() -> BTreeMap<String, String> {
    let page = read("docs/API.md");
    let mut sections = BTreeMap::new();
    for part in page.split("\n### `").skip(1) {
        let (call, text) = part.split_once("`\n").expect("a heading is a call in backticks");
        let text = text.split("\n## ").next().unwrap_or_default();
        let twice = sections.insert(call.to_owned(), format!("{}\n", text.trim()));
        assert!(twice.is_none(), "{call} has two sections");
    }
    sections
}

/// The fields of an object itself, not of what is in it.
fn own_fields(contract: &Value, schema: &Value) -> Vec<String> {
    let properties = resolved(contract, schema)["properties"]
        .as_object()
        .cloned()
        .unwrap_or_default();
    properties.into_iter().map(|(name, _)| name).collect()
}

/// The fields of an object and of everything in it.
fn all_fields(contract: &Value, schema: &Value, fields: &mut BTreeSet<String>, depth: u32) {
    if depth > 12 {
        return;
    }
    let schema = resolved(contract, schema);
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        fields.insert(name.clone());
        all_fields(contract, property, fields, depth + 1);
    }
    for inner in ["items", "additionalProperties"] {
        all_fields_of(contract, &schema[inner], fields, depth);
    }
    for inner in ["oneOf", "anyOf", "allOf"] {
        for one in schema[inner].as_array().into_iter().flatten() {
            all_fields_of(contract, one, fields, depth);
        }
    }
}

fn all_fields_of(contract: &Value, schema: &Value, fields: &mut BTreeSet<String>, depth: u32) {
    if schema.is_object() {
        all_fields(contract, schema, fields, depth + 1);
    }
}

fn resolved<'a>(contract: &'a Value, schema: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|name| name.strip_prefix('#')) {
        Some(pointer) => contract.pointer(pointer).expect("a reference leads somewhere"),
        None => schema,
    }
}

/// The roles that a handler's own body asks for, by its call.
fn roles_of_handlers() -> BTreeMap<String, BTreeSet<String>> {
    let mut found = BTreeMap::new();
    for path in rust_files(&root().join("engine/server/src/http")) {
        let source = fs::read_to_string(&path).expect("a source can be read");
        for part in source.split("#[utoipa::path(").skip(1) {
            let method = part.split(',').next().unwrap_or_default().trim().to_uppercase();
            let path = part
                .split("path = \"")
                .nth(1)
                .and_then(|rest| rest.split('"').next());
            let body = part.split("\n}\n").next().unwrap_or_default();
            let roles = body.split("Role::").skip(1).map(|rest| {
                let name: String = rest.chars().take_while(|c| c.is_ascii_alphabetic()).collect();
                name.to_lowercase()
            });
            found.insert(
                format!("{method} {}", path.expect("an annotation has a path")),
                roles.collect(),
            );
        }
    }
    assert!(found.len() > 50, "the handlers are elsewhere now");
    found
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(folder)
        .expect("a folder of the repository")
        .flatten()
    {
        let path = entry.path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path);
        }
    }
    files
}

/// What stands between backticks, on one line each.
fn spans(text: &str) -> Vec<&str> {
    text.lines()
        .flat_map(|line| line.split('`').skip(1).step_by(2))
        .collect()
}

fn words(text: &str) -> BTreeSet<&str> {
    spans(text).into_iter().flat_map(split).collect()
}

fn split(span: &str) -> impl Iterator<Item = &str> {
    let no_word = |c: char| !(c.is_ascii_alphanumeric() || c == '-' || c == '_');
    span.split(no_word).filter(|word| !word.is_empty())
}

/// `{files: {PATH: TEXT}}`: names that the caller chooses are in capitals.
fn is_placeholder(word: &str) -> bool {
    word.chars().all(|c| c.is_ascii_uppercase())
}

fn contract() -> Value {
    serde_json::from_str(&read("specs/openapi.json")).expect("the contract is JSON")
}

fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
        .to_path_buf()
}
