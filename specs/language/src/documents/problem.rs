//! What is wrong with a document, and where. Problems are collected, never thrown, so that an author sees them all.

use serde::Serialize;

use super::codes::Code;
use super::written::Spot;
use super::yaml::{At, Place};

/// More than this helps nobody, and a hostile document must not make the answer large.
const MAX_PROBLEMS: usize = 500;

/// One thing that is wrong, or worth a warning.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Problem {
    pub code: Code,
    pub severity: Severity,
    /// Lower case, no full stop, names the thing.
    pub message: String,
    /// The path in the set.
    pub file: String,
    /// From 1.
    pub line: u32,
    /// In characters, from 1.
    pub column: u32,
    /// JSON pointer (RFC 6901) to the value; empty for the whole document.
    pub pointer: String,
    /// What to write instead, when that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

/// Warnings never block a deployment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Error,
    Warning,
}

impl std::fmt::Display for Problem {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self {
            code,
            message,
            file,
            line,
            column,
            ..
        } = self;
        write!(f, "{file}:{line}:{column}: {}: {message}", code.as_str())
    }
}

/// The problems found so far.
#[derive(Debug, Default)]
pub(super) struct Problems {
    list: Vec<Problem>,
}

impl Problems {
    pub(super) fn error(&mut self, at: &At<'_>, code: Code, message: impl Into<String>) -> Hint<'_> {
        self.push(
            at.file(),
            at.place(),
            at.pointer.clone(),
            code,
            Severity::Error,
            message.into(),
        )
    }

    pub(super) fn warning(&mut self, at: &At<'_>, code: Code, message: impl Into<String>) -> Hint<'_> {
        self.push(
            at.file(),
            at.place(),
            at.pointer.clone(),
            code,
            Severity::Warning,
            message.into(),
        )
    }

    /// For what has no tree: broken YAML, and texts inside a scalar.
    pub(super) fn error_at(
        &mut self,
        file: &str,
        place: Place,
        pointer: &str,
        code: Code,
        message: impl Into<String>,
    ) -> Hint<'_> {
        self.push(
            file,
            place,
            pointer.to_owned(),
            code,
            Severity::Error,
            message.into(),
        )
    }

    pub(super) fn warning_at(
        &mut self,
        file: &str,
        place: Place,
        pointer: &str,
        code: Code,
        message: impl Into<String>,
    ) -> Hint<'_> {
        self.push(
            file,
            place,
            pointer.to_owned(),
            code,
            Severity::Warning,
            message.into(),
        )
    }

    fn push(
        &mut self,
        file: &str,
        place: Place,
        pointer: String,
        code: Code,
        severity: Severity,
        message: String,
    ) -> Hint<'_> {
        let full = self.list.len() >= MAX_PROBLEMS;
        if !full || (severity == Severity::Error && !self.has_errors()) {
            let Place { line, column } = place;
            let file = file.to_owned();
            self.list.push(Problem {
                code,
                severity,
                message,
                file,
                line,
                column,
                pointer,
                hint: None,
            });
            return Hint(self.list.last_mut());
        }
        Hint(None)
    }

    pub(super) fn has_errors(&self) -> bool {
        self.list
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }

    /// Whether further problems would be dropped, so that costly searches can stop.
    pub(super) fn is_full(&self) -> bool {
        self.list.len() >= MAX_PROBLEMS
    }

    /// The place of a byte inside a text. Searching the file for it is worth it for problems that will be shown.
    pub(super) fn place_inside(&self, at: &At<'_>, offset: usize) -> Place {
        if self.is_full() {
            at.place()
        } else {
            at.place_inside(offset)
        }
    }

    /// The place and pointer of a spot in a text, else those of the node that it was looked for in.
    pub(super) fn spot(&self, spot: Option<&Spot<'_>>, node: &At<'_>) -> (Place, String) {
        match spot {
            Some((text_at, offset)) => (self.place_inside(text_at, *offset), text_at.pointer.clone()),
            None => (node.place(), node.pointer.clone()),
        }
    }

    /// By file and place; what stands at the same place keeps the order in which it was found.
    pub(super) fn sorted(mut self) -> Vec<Problem> {
        self.list
            .sort_by(|a, b| (&a.file, a.line, a.column).cmp(&(&b.file, b.line, b.column)));
        self.list.dedup();
        self.list
    }
}

/// The problem just reported, to say more about it.
pub(super) struct Hint<'a>(Option<&'a mut Problem>);

impl Hint<'_> {
    pub(super) fn hint(self, hint: impl Into<String>) {
        self.maybe(Some(hint));
    }

    pub(super) fn maybe(self, hint: Option<impl Into<String>>) {
        if let Some(problem) = self.0 {
            problem.hint = hint.map(Into::into);
        }
    }
}
