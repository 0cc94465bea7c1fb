//! What the command line understands, without running it.

use std::path::PathBuf;

use clap::{CommandFactory, Parser};
use legation_protocol::keys::PrincipalKind;

use super::init::{self, Template};
use super::{Cli, Command, Usage, client, keys, templates, validate};

fn parse(line: &str) -> Result<Cli, clap::Error> {
    Cli::try_parse_from(std::iter::once("legation").chain(line.split_whitespace()))
}

fn parsed(line: &str) -> Command {
    parse(line)
        .unwrap_or_else(|error| panic!("`legation {line}` is not understood: {error}"))
        .command
}

#[test]
fn the_command_line_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn what_the_documentation_says_is_understood() {
    for line in [
        "init refund shop",
        "init shop",
        "validate .",
        "validate",
        "dev . --port 8701 --no-agent --data d --database sqlite:x.db",
        "serve --database postgres://u:p@h/d --listen 0.0.0.0:8700 --master-key-file k --bootstrap-admin-key-file a",
        "deploy . --dry-run",
        "deploy a.process.yaml b.process.yaml",
        "run greet --var name=Ada --var amount=1 --vars-file v.json --business-key 42 --wait",
        "run greet --no-wait --label a=b",
        "run greet --record story.yaml",
        "processes",
        "processes hello --json",
        "instances --status running --json",
        "show ID --as approver",
        "explain ID",
        "explain ID --as approver",
        "--as approver explain ID",
        "lineage ID",
        "journal ID --json",
        "tasks --as approver",
        "approve ID --as approver --yes",
        "reject ID --as approver --comment no",
        "decide ID approved",
        "complete ID --outcome ok --var a=1",
        "incidents",
        "retry ID",
        "resolve ID --performed --comment saw-it --result {}",
        "resolve ID --not-performed --comment looked",
        "cancel ID --reason wrong",
        "workers",
        "keys create --person alice --groups finance,ops --roles start,read",
        "keys create --worker payments --topics payments.payout,mail.*",
        "keys create --service ci --roles deploy --expires-in 90d",
        "keys list",
        "keys revoke K",
        "openapi",
        "instances --url http://h:1",
    ] {
        parsed(line);
    }
}

#[test]
fn wrong_use_has_exit_code_two() {
    for line in [
        "",
        "fly",
        "run",
        "run a --wait --no-wait",
        "run a --record f --no-wait",
        "reject ID",
        "resolve ID --comment why",
        "resolve ID --performed --not-performed --comment why",
        "cancel ID",
        "keys create --groups finance",
        "keys create --person a --worker b",
        "keys create --worker b --roles admin",
    ] {
        let error = parse(line)
            .err()
            .unwrap_or_else(|| panic!("`legation {line}` is understood"));
        assert_eq!(error.exit_code(), 2, "legation {line}");
    }
}

#[test]
fn init_takes_a_template_or_none() {
    let read = |words: &[&str]| init::read(&words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>());
    let read_ok = |words| read(words).unwrap_or_else(|error| panic!("{words:?}: {error}"));
    assert_eq!(read_ok(&["shop"]), (Template::Refund, PathBuf::from("shop")));
    assert_eq!(
        read_ok(&["empty", "shop"]),
        (Template::Empty, PathBuf::from("shop"))
    );
    for wrong in [&["refund"][..], &["full", "shop"], &["empty"]] {
        let error = read(wrong)
            .err()
            .unwrap_or_else(|| panic!("{wrong:?} is understood"));
        assert!(error.is::<Usage>(), "{error}");
    }
}

/// D1: what `init` writes deploys as it is.
#[test]
fn the_templates_have_no_problem() {
    for files in [templates::REFUND, templates::EMPTY] {
        let documents = files
            .iter()
            .filter(|(path, _)| legation_language::documents::is_document(path))
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
            .collect();
        let answer = validate::check(&documents);
        assert!(
            answer.valid && answer.problems.is_empty(),
            "{:?}",
            answer.problems
        );
    }
}

#[test]
fn a_new_key_gets_no_more_than_was_asked_for() {
    let request = |line: &str| {
        let Command::Keys(keys::Arguments {
            command: keys::Command::Create(create),
        }) = parsed(line)
        else {
            panic!("{line} makes no key");
        };
        keys::request(*create)
    };
    let alice = request("keys create --person alice --groups finance").expect("a person needs no more");
    assert_eq!(
        (alice.kind, alice.groups, alice.roles),
        (
            PrincipalKind::Person,
            vec!["finance".to_owned()],
            vec!["read".to_owned()]
        )
    );
    let worker = request("keys create --worker pay --topics a,b --expires-in 1d").expect("it has topics");
    assert_eq!(
        (worker.topics, worker.roles, worker.expires_in_ms),
        (vec!["a".to_owned(), "b".to_owned()], vec![], Some(24 * 3_600_000))
    );
    for (line, words) in [
        ("keys create --worker pay", "--topics"),
        (
            "keys create --worker b --topics t --groups finance",
            "only a person is in groups",
        ),
        (
            "keys create --service b --groups finance",
            "only a person is in groups",
        ),
        (
            "keys create --person a --topics t",
            "only a worker's key has topics",
        ),
        (
            "keys create --service a --topics t",
            "only a worker's key has topics",
        ),
    ] {
        let error = request(line).expect_err(line);
        assert!(
            error.is::<Usage>() && error.to_string().contains(words),
            "{error}"
        );
    }
}

#[test]
fn a_client_takes_addresses_and_nothing_else() {
    assert_eq!(
        client::Client::with("http://h:1/", "k")
            .expect("an address")
            .url(),
        "http://h:1"
    );
    assert!(client::Client::with("h:1", "k").is_err_and(|error| error.is::<Usage>()));
}
