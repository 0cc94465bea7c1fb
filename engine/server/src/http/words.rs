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
    let cause = &plain(cause);
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

/// The same without Rust's types, which mean nothing to who sent the request: `expected struct StartRequest` is
/// `expected an object`.
fn plain(cause: &str) -> String {
    if cause.contains("did not match any variant of") {
        return "this value has none of the shapes that the field takes".to_owned();
    }
    let Some((found, expected)) = cause.split_once(", expected ") else {
        return cause.to_owned();
    };
    let of_type = |start: &str| expected.starts_with(start);
    let expected = match expected {
        "a sequence" => "a list",
        "a map" => "an object",
        "u8" | "u16" | "u32" | "u64" | "usize" => "a whole number that is not negative and not too large",
        "i8" | "i16" | "i32" | "i64" | "isize" => "a whole number that is not too large",
        "f32" | "f64" => "a number",
        _ if of_type("struct ") || of_type("internally tagged") || of_type("adjacently tagged") => {
            "an object"
        }
        _ if of_type("enum ") => "one of the words that the field takes",
        _ => expected,
    };
    let found = match found.split_once(": ") {
        Some((what, "sequence")) => format!("{what}: list"),
        Some((what, "map")) => format!("{what}: object"),
        // A struct may be read from a list.
        None if found.starts_with("invalid length") && expected == "an object" => {
            "invalid type: list".to_owned()
        }
        _ => found.replace("floating point", "number"),
    };
    format!("{found}, expected {expected}")
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
