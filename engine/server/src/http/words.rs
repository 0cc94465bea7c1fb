//! Turns the words of a failed reading into a refusal that names the field and says what was probably meant.

use serde_path_to_error::{Path, Segment};

use super::error::Error;

/// The JSON pointer of a path.
pub fn pointer(path: &Path) -> String {
    let mut out = String::new();
    for segment in path.iter() {
        match segment {
            Segment::Seq { index } => out.push_str(&format!("/{index}")),
            Segment::Map { key } => out.push_str(&format!("/{}", key.replace('~', "~0").replace('/', "~1"))),
            Segment::Enum { variant } => out.push_str(&format!("/{variant}")),
            Segment::Unknown => out.push_str("/?"),
        }
    }
    out
}

/// A refusal for what serde says about a place.
pub fn refuse_field(pointer: &str, cause: &str) -> Error {
    // The position in the text adds nothing to the pointer.
    let cause = cause.split(" at line ").next().unwrap_or(cause);
    let at = if pointer.is_empty() {
        String::new()
    } else {
        format!(" at {pointer}")
    };
    let refusal = Error::invalid(format!("{cause}{at}"));
    let mut quoted = cause.split('`').skip(1).step_by(2);
    if cause.starts_with("unknown field") || cause.starts_with("unknown variant") {
        let wrong = quoted.next().unwrap_or_default();
        let known: Vec<&str> = quoted.collect();
        let argument = if cause.starts_with("unknown field") {
            wrong.to_owned()
        } else {
            last(pointer)
        };
        return match nearest(wrong, &known) {
            Some(near) => refusal.argument(argument).hint(format!("did you mean `{near}`?")),
            None if known.is_empty() => refusal.argument(argument),
            None => refusal
                .argument(argument)
                .hint(format!("known here: {}", known.join(", "))),
        };
    }
    if cause.starts_with("missing field") {
        return refusal.argument(quoted.next().unwrap_or_default());
    }
    if pointer.is_empty() {
        refusal
    } else {
        refusal.argument(last(pointer))
    }
}

fn last(pointer: &str) -> String {
    pointer.rsplit('/').next().unwrap_or_default().to_owned()
}

/// The known word that is most like `wrong`, if one is.
pub fn nearest<'a>(wrong: &str, known: &[&'a str]) -> Option<&'a str> {
    let wrong = wrong.to_ascii_lowercase();
    let scored = known
        .iter()
        .map(|word| (strsim::jaro_winkler(&wrong, &word.to_ascii_lowercase()), *word));
    scored
        .filter(|(score, _)| *score > 0.8)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map(|(_, word)| word)
}
