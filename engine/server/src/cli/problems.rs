//! How failures are shown: the engine's refusals with their hints, problems of documents at their place in the text.

use std::collections::BTreeMap;
use std::process::ExitCode;

use legation_protocol::problem::Severity;
use legation_protocol::{DocumentProblem, Problem};
use miette::{GraphicalReportHandler, GraphicalTheme, LabeledSpan, MietteDiagnostic, NamedSource, Report};

use super::client::Refusal;
use super::print::Ink;
use super::{Shown, Usage};
use crate::plural;

/// Tells why a command failed, and gives its exit code.
pub fn report(error: &anyhow::Error) -> ExitCode {
    if error.is::<Shown>() {
        return ExitCode::from(1);
    }
    let ink = Ink::stderr();
    match error.downcast_ref::<Refusal>() {
        Some(Refusal(problem)) => refusal(ink, problem),
        None => tell!("{} {}", ink.red("error:"), chain(error)),
    }
    ExitCode::from(if error.is::<Usage>() { 2 } else { 1 })
}

fn refusal(ink: Ink, problem: &Problem) {
    tell!("{} {problem}", ink.red("error:"));
    for error in &problem.errors {
        tell!(
            "       {}: {}",
            if error.pointer.is_empty() {
                "/"
            } else {
                &error.pointer
            },
            error.message
        );
    }
    if !problem.problems.is_empty() {
        show(&problem.problems, &BTreeMap::new());
    }
    if let Some(hint) = &problem.hint {
        tell!("{} {hint}", ink.dim("hint: "));
    }
}

/// The causes of an error, each said once.
fn chain(error: &anyhow::Error) -> String {
    let mut parts: Vec<String> = Vec::new();
    for cause in error.chain() {
        let text = cause.to_string();
        if !parts.iter().any(|part| part.contains(&text)) {
            parts.push(text);
        }
    }
    parts.join(": ")
}

/// Shows problems of documents on stderr; `texts` holds the documents by the names that the problems use.
pub fn show(problems: &[DocumentProblem], texts: &BTreeMap<String, String>) {
    for problem in problems {
        tell!("{}", render(problem, texts, Ink::stderr()).trim_end());
    }
}

/// One line that counts.
#[must_use]
pub fn summary(problems: &[DocumentProblem]) -> String {
    let errors = problems
        .iter()
        .filter(|problem| problem.severity == Severity::Error)
        .count();
    let warnings = problems.len() - errors;
    match (errors, warnings) {
        (0, 0) => "no problems".to_owned(),
        (0, warnings) => plural::count(warnings, "warning"),
        (errors, 0) => plural::count(errors, "error"),
        (errors, warnings) => format!(
            "{}, {}",
            plural::count(errors, "error"),
            plural::count(warnings, "warning")
        ),
    }
}

/// The problem with a snippet and a caret where its text is known, else on one line.
#[must_use]
pub fn render(problem: &DocumentProblem, texts: &BTreeMap<String, String>, ink: Ink) -> String {
    let file = problem.file.as_deref().unwrap_or("document");
    let place = problem.line.zip(problem.column);
    let Some((text, (line, column))) = texts.get(file).zip(place) else {
        return plain(problem, file);
    };
    let severity = match problem.severity {
        Severity::Error => miette::Severity::Error,
        Severity::Warning => miette::Severity::Warning,
    };
    let (start, length) = span(text, line, column);
    let mut diagnostic = MietteDiagnostic::new(problem.message.clone())
        .with_code(problem.code.clone())
        .with_severity(severity)
        .with_label(LabeledSpan::at(start..start + length, "here"));
    diagnostic.help.clone_from(&problem.hint);
    let report = Report::new(diagnostic).with_source_code(NamedSource::new(file, text.clone()));
    let theme = if ink.is_colour() {
        GraphicalTheme::unicode()
    } else {
        GraphicalTheme::unicode_nocolor()
    };
    let mut out = String::new();
    let handler = GraphicalReportHandler::new_themed(theme)
        .with_width(110)
        .with_context_lines(1);
    match handler.render_report(&mut out, report.as_ref()) {
        Ok(()) => out,
        Err(_) => plain(problem, file),
    }
}

fn plain(problem: &DocumentProblem, file: &str) -> String {
    let severity = match problem.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
    };
    let place = match (problem.line, problem.column) {
        (Some(line), Some(column)) => format!("{file}:{line}:{column}"),
        (Some(line), None) => format!("{file}:{line}"),
        _ => file.to_owned(),
    };
    let hint = problem
        .hint
        .as_ref()
        .map(|hint| format!("  hint: {hint}\n"))
        .unwrap_or_default();
    format!(
        "{place}: {severity} {}: {}\n{hint}",
        problem.code, problem.message
    )
}

/// The bytes of the word at a place (line and column from 1, column in characters).
fn span(text: &str, line: u32, column: u32) -> (usize, usize) {
    let begin: usize = text
        .split_inclusive('\n')
        .take(line.saturating_sub(1) as usize)
        .map(str::len)
        .sum();
    let rest = text.get(begin..).unwrap_or_default();
    let line = rest.lines().next().unwrap_or_default();
    let into: usize = line
        .chars()
        .take(column.saturating_sub(1) as usize)
        .map(char::len_utf8)
        .sum();
    let word = &line[into..];
    let length = word.find([' ', ',', '}', ']', ':', '#']).unwrap_or(word.len());
    let at_least = word.chars().next().map_or(0, char::len_utf8);
    (begin + into, length.max(at_least))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn problem() -> DocumentProblem {
        DocumentProblem {
            code: "UNKNOWN_TARGET".into(),
            severity: Severity::Error,
            message: "there is no node `payy`".into(),
            file: Some("a.process.yaml".into()),
            line: Some(3),
            column: Some(9),
            pointer: Some("/flow/nodes/0/next".into()),
            hint: Some("did you mean `pay`?".into()),
        }
    }

    #[test]
    fn a_problem_shows_its_line_with_a_caret_and_the_hint() {
        let text = "flow:\n  nodes:\n  next: payy # ä\n";
        let texts = BTreeMap::from([("a.process.yaml".to_owned(), text.to_owned())]);
        insta::assert_snapshot!(render(&problem(), &texts, Ink::none()), @r"
        UNKNOWN_TARGET

          × there is no node `payy`
           ╭─[a.process.yaml:3:9]
         2 │   nodes:
         3 │   next: payy # ä
           ·         ──┬─
           ·           ╰── here
           ╰────
          help: did you mean `pay`?
        ");
    }

    #[test]
    fn a_problem_of_an_unknown_text_fits_one_line() {
        assert_eq!(
            render(&problem(), &BTreeMap::new(), Ink::none()),
            "a.process.yaml:3:9: error UNKNOWN_TARGET: there is no node `payy`\n  hint: did you mean `pay`?\n"
        );
    }

    #[test]
    fn places_beyond_the_text_are_no_panic() {
        assert_eq!(span("a\nbä c\n", 2, 2), (3, 2));
        assert_eq!(span("a", 9, 9), (1, 0));
        assert_eq!(span("", 1, 1), (0, 0));
    }
}
