//! docs/ERRORS.md against the code: what the engine and the workers can say is explained, what is explained can still
//! be said, and the statuses are those that are sent.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// Codes are promises.
#[test]
fn the_page_of_error_codes_and_the_code_name_the_same_codes() {
    let entries = entries();
    let sources = sources();
    let said: BTreeSet<&str> = sources
        .iter()
        .flat_map(|(_, text)| text.split('"'))
        .filter(|part| is_code(part))
        .collect();
    let unexplained: Vec<_> = sources
        .iter()
        .filter(|(path, _)| !tells_events(path))
        .flat_map(|(_, text)| text.split('"'))
        .filter(|part| is_code(part))
        .filter(|code| code.contains('_') && !entries.contains_key(*code) && !NO_CODES.contains(code))
        .filter(|code| !NO_CODE_STARTS.iter().any(|start| code.starts_with(start)))
        .collect();
    assert!(unexplained.is_empty(), "not in docs/ERRORS.md: {unexplained:#?}");
    let unsaid: Vec<_> = entries
        .keys()
        .filter(|code| !said.contains(code.as_str()))
        .collect();
    assert!(
        unsaid.is_empty(),
        "in docs/ERRORS.md, but nothing says them: {unsaid:#?}"
    );
}

/// A single word may be a state or a kind as well; it is a code where the line, or the one that it goes on from,
/// speaks of one.
#[test]
fn a_code_of_a_single_word_is_explained_too() {
    let entries = entries();
    let marks = [
        "code",
        "Code",
        "conflict(",
        "invalid(",
        "gone(",
        "forbidden(",
        "give_up(",
        "stick(",
        "hold(",
    ];
    let mut unexplained = Vec::new();
    let mut seen = 0;
    for (path, text) in sources() {
        if tells_events(&path) {
            continue;
        }
        let mut before = "";
        for (number, line) in text.lines().enumerate() {
            let speaks = path.ends_with("documents/codes.rs")
                || marks
                    .iter()
                    .any(|mark| line.contains(mark) || before.contains(mark));
            let is_state = line.contains(".state ==");
            for word in line
                .split('"')
                .skip(1)
                .step_by(2)
                .filter(|word| is_code(word) && word.len() > 2)
            {
                if speaks && !is_state && !word.contains('_') {
                    seen += 1;
                    if !entries.contains_key(word) {
                        unexplained.push(format!("{}:{}: {word}", path.display(), number + 1));
                    }
                }
            }
            before = if line.ends_with('(') || line.ends_with(',') {
                line
            } else {
                ""
            };
        }
    }
    assert!(seen > 10, "only {seen} single words were looked at");
    assert!(unexplained.is_empty(), "not in docs/ERRORS.md: {unexplained:#?}");
}

#[test]
fn an_entry_has_the_statuses_that_are_sent() {
    let mut sent: BTreeMap<String, BTreeSet<u16>> = BTreeMap::new();
    for (_, text) in sources() {
        let parts: Vec<&str> = text.split('"').collect();
        for pair in parts.windows(2) {
            if let (Some(status), true) = (status_of(pair[0]), is_code(pair[1])) {
                sent.entry(pair[1].to_owned()).or_default().insert(status);
            }
        }
    }
    assert!(
        sent.len() > 50,
        "only {} codes with their status were found",
        sent.len()
    );
    // 422 where the text of a value cannot be read.
    sent.entry("JSON_INVALID".to_owned()).or_default().insert(422);
    let entries = entries();
    let mut wrong = Vec::new();
    for (code, statuses) in sent {
        let kinds = entries.get(&code).map(String::as_str).unwrap_or_default();
        let told: BTreeSet<u16> = kinds
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|number| number.parse().ok())
            .filter(|number| (400..600).contains(number))
            .collect();
        if told != statuses {
            wrong.push(format!(
                "{code} is sent with {statuses:?}, docs/ERRORS.md says: {kinds}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_entry_says_what_it_is_and_what_to_do() {
    let page = page();
    let broken: Vec<_> = page
        .split("\n### ")
        .skip(1)
        .filter(|entry| {
            let entry = entry.split("\n## ").next().unwrap_or_default().trim();
            let parts: Vec<&str> = entry.split("\n\n").collect();
            !matches!(parts.as_slice(), [_, what, todo] if what.starts_with('*') && todo.starts_with("**Do:** "))
        })
        .map(|entry| entry.lines().next().unwrap_or_default())
        .collect();
    assert!(
        broken.is_empty(),
        "these are not written like the others: {broken:#?}"
    );
}

/// The status of a refusal whose code comes next.
fn status_of(before: &str) -> Option<u16> {
    let before = before.trim_end();
    let no_word = |c: char| !(c.is_ascii_alphanumeric() || c == '_');
    let word = |text: &str| text.rsplit(no_word).next().unwrap_or_default().to_owned();
    if let Some(call) = before.strip_suffix('(') {
        return match word(call).as_str() {
            "conflict" => Some(409),
            "invalid" => Some(422),
            "gone" => Some(410),
            "forbidden" => Some(403),
            _ => None,
        };
    }
    match word(before.strip_suffix(',')?).as_str() {
        "BAD_REQUEST" => Some(400),
        "UNAUTHORIZED" => Some(401),
        "FORBIDDEN" | "Forbidden" => Some(403),
        "NOT_FOUND" | "NotFound" => Some(404),
        "METHOD_NOT_ALLOWED" => Some(405),
        "REQUEST_TIMEOUT" => Some(408),
        "CONFLICT" | "Conflict" => Some(409),
        "Gone" => Some(410),
        "PAYLOAD_TOO_LARGE" | "TooLarge" => Some(413),
        "UNSUPPORTED_MEDIA_TYPE" => Some(415),
        "UNPROCESSABLE_ENTITY" | "Invalid" => Some(422),
        "TOO_MANY_REQUESTS" => Some(429),
        "INTERNAL_SERVER_ERROR" | "Internal" => Some(500),
        "SERVICE_UNAVAILABLE" => Some(503),
        _ => None,
    }
}

/// What each code is: the words in italics at the start of its entry.
fn entries() -> BTreeMap<String, String> {
    let mut entries = BTreeMap::new();
    for entry in page().split("\n### ").skip(1) {
        let (code, text) = entry.split_once('\n').expect("an entry has a text");
        let kinds = text
            .trim()
            .trim_start_matches('*')
            .split('*')
            .next()
            .unwrap_or_default();
        let twice = entries.insert(code.to_owned(), kinds.to_owned());
        assert!(twice.is_none(), "{code} has two entries");
    }
    assert!(entries.len() > 100, "the page lost its entries");
    entries
}

fn page() -> String {
    fs::read_to_string(root().join("docs/ERRORS.md")).expect("the page is there")
}

/// Every source that is no test, without the tests in it.
fn sources() -> Vec<(PathBuf, String)> {
    let mut sources = Vec::new();
    let mut folders: Vec<PathBuf> = ["specs", "engine", "worker-sdk", "agent-worker"]
        .map(|folder| root().join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)
            .expect("a folder of the repository")
            .flatten()
        {
            let path = entry.path();
            let name = entry.file_name().to_string_lossy().into_owned();
            let is_test = [
                "tests",
                "tests.rs",
                "benches",
                "examples",
                "testing",
                "testing.rs",
            ]
            .contains(&name.as_str());
            if is_test {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let text = fs::read_to_string(&path).expect("a source can be read");
                let text = text
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default()
                    .to_owned();
                sources.push((path, text));
            }
        }
    }
    assert!(sources.len() > 200, "the sources are elsewhere now");
    sources
}

/// Where the names of the feed's events are told.
fn tells_events(path: &Path) -> bool {
    ["http/views/events.rs", "cli/feed.rs", "cli/run.rs"]
        .iter()
        .any(|teller| path.ends_with(teller))
}

fn is_code(text: &str) -> bool {
    text.starts_with(|first: char| first.is_ascii_uppercase())
        && text
            .chars()
            .all(|one| one.is_ascii_uppercase() || one.is_ascii_digit() || one == '_')
}

/// Names of environment variables, and words of others that look like our codes.
const NO_CODE_STARTS: [&str; 8] = [
    "LEGATION_",
    "CARGO_",
    "OPENAI_",
    "ANTHROPIC_",
    "GEMINI_",
    "OLLAMA_",
    "TEST_DATABASE",
    "SCREAMING_",
];
const NO_CODES: [&str; 15] = [
    "TASK_COMPLETED",
    "NO_COLOR",
    "AWAITING_APPROVAL",
    "AWAITING_CHILD",
    "AWAITING_INPUT",
    "AWAITING_TIMER",
    "CHILD_DONE",
    "LC_ALL",
    "MAX_TOKENS",
    "NODE_PATH",
    "NOTHING_TO_PAY",
    "PROHIBITED_CONTENT",
    "RUST_LOG",
    "UPPER_SNAKE",
    "UPPER_CASE",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("tests/ is in the workspace")
        .to_path_buf()
}
