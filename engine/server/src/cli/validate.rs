//! `legation validate`: every problem of a project's documents, without an engine.

use std::collections::BTreeMap;
use std::path::PathBuf;

use clap::Args;
use legation_language::documents::{self, Nothing, Options, Origin};
use legation_protocol::DocumentProblem;
use legation_protocol::problem::Severity;
use legation_protocol::processes::ValidateAnswer;

use super::project::Documents;
use super::{Global, Shown, print, problems};
use crate::plural;

#[derive(Args, Debug)]
pub struct Arguments {
    /// A project's folder, or documents.
    #[arg(default_value = ".", value_name = "DIR|FILE")]
    pub paths: Vec<PathBuf>,
}

pub fn run(global: &Global, arguments: &Arguments) -> anyhow::Result<()> {
    let documents = Documents::read(&arguments.paths)?;
    let answer = check(&documents.texts);
    if global.json {
        print::json(&serde_json::to_string(&answer)?);
    } else {
        problems::show(&answer.problems, &documents.texts);
        let count = plural::count(documents.texts.len(), "document");
        tell!("{count}: {}", problems::summary(&answer.problems));
    }
    if answer.valid { Ok(()) } else { Err(Shown.into()) }
}

/// Validates documents as a set on their own: what only an engine has is not known here.
#[must_use]
pub fn check(texts: &BTreeMap<String, String>) -> ValidateAnswer {
    let options = Options {
        origin: Origin::Local,
        env: None,
    };
    let frozen = documents::freeze(texts, &options, &Nothing);
    ValidateAnswer {
        valid: !frozen.has_errors(),
        problems: frozen.problems.iter().map(on_the_wire).collect(),
    }
}

fn on_the_wire(problem: &documents::Problem) -> DocumentProblem {
    DocumentProblem {
        code: problem.code.as_str().to_owned(),
        severity: match problem.severity {
            documents::Severity::Error => Severity::Error,
            documents::Severity::Warning => Severity::Warning,
        },
        message: problem.message.clone(),
        file: Some(problem.file.clone()),
        line: Some(problem.line),
        column: Some(problem.column),
        pointer: Some(problem.pointer.clone()),
        hint: problem.hint.clone(),
    }
}
