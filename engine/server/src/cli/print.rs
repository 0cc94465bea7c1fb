//! What commands print: tables, JSON, states in colour. Colours only where a person looks.

use std::io::{IsTerminal, Write};

use comfy_table::{ContentArrangement, Table, presets};
use legation_protocol::Json;

/// Writes a line. Whoever reads may have gone, which is no failure of ours.
pub fn line(mut to: impl Write, text: std::fmt::Arguments<'_>) {
    let _ = writeln!(to, "{text}");
}

/// A list. Nothing at all is said in words.
pub fn table(header: &[&str], rows: Vec<Vec<String>>, nothing: &str) {
    if rows.is_empty() {
        tell!("{nothing}");
        return;
    }
    say!("{}", render(header, rows));
}

/// The table as text.
#[must_use]
pub fn render(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::NOTHING)
        .set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.iter().map(|name| name.to_uppercase()));
    for row in rows {
        table.add_row(row);
    }
    for column in table.column_iter_mut() {
        column.set_padding((0, 2));
    }
    table
        .lines()
        .map(|line| line.trim_end().to_owned())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The API's JSON as it came: digits survive.
pub fn json(text: &str) {
    say!("{}", text.trim_end());
}

/// Whether a person reads stdout.
#[must_use]
pub fn colours_on_stdout() -> bool {
    std::io::stdout().is_terminal() && wants_colours(std::env::var_os("NO_COLOR").as_deref())
}

/// Whether a person reads stderr.
#[must_use]
pub fn colours_on_stderr() -> bool {
    std::io::stderr().is_terminal() && wants_colours(std::env::var_os("NO_COLOR").as_deref())
}

/// <https://no-color.org>: set, and not to nothing.
fn wants_colours(no_color: Option<&std::ffi::OsStr>) -> bool {
    no_color.is_none_or(std::ffi::OsStr::is_empty)
}

/// How text is set, where colours are on.
#[derive(Clone, Copy)]
pub struct Ink(bool);

impl Ink {
    #[must_use]
    pub fn stdout() -> Self {
        Self(colours_on_stdout())
    }

    #[must_use]
    pub fn stderr() -> Self {
        Self(colours_on_stderr())
    }

    /// Never a colour.
    #[cfg(test)]
    pub fn none() -> Self {
        Self(false)
    }

    /// Whether it is more than plain text.
    #[must_use]
    pub fn is_colour(self) -> bool {
        self.0
    }

    #[must_use]
    pub fn bold(self, text: &str) -> String {
        self.paint("1", text)
    }

    #[must_use]
    pub fn dim(self, text: &str) -> String {
        self.paint("2", text)
    }

    #[must_use]
    pub fn red(self, text: &str) -> String {
        self.paint("31", text)
    }

    /// Good ends are green, bad ones red, what goes on yellow.
    #[must_use]
    pub fn state(self, state: &str) -> String {
        let code = match state {
            "COMPLETED" | "APPROVED" | "RESOLVED" => "32",
            "FAILED" | "REFUSED" | "REJECTED" | "CANCELLED" | "OUTCOME_UNKNOWN" | "WITHDRAWN"
            | "INCIDENT" => "31",
            _ => "33",
        };
        self.paint(code, state)
    }

    fn paint(self, code: &str, text: &str) -> String {
        if self.0 {
            format!("\x1b[{code}m{text}\x1b[0m")
        } else {
            text.to_owned()
        }
    }
}

/// A wire enum's own word, such as `AWAITING_CHILD`.
#[must_use]
pub fn word(value: &impl serde::Serialize) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(text)) => text,
        _ => String::new(),
    }
}

/// The model that answered, with the one that was asked for where that is another.
#[must_use]
pub fn model(asked: Option<&str>, used: Option<&str>) -> Option<String> {
    match (asked, used) {
        (Some(asked), Some(used)) if asked != used => Some(format!("{used} (asked: {asked})")),
        (asked, used) => used.or(asked).map(str::to_owned),
    }
}

/// An event's type in words: `TASK_COMPLETED` is `task completed`.
#[must_use]
pub fn words(kind: &str) -> String {
    kind.to_lowercase().replace('_', " ")
}

/// The time of day of a timestamp.
#[must_use]
pub fn clock(at: &str) -> &str {
    at.get(11..23).unwrap_or(at)
}

/// A timestamp without its milliseconds, for lists.
#[must_use]
pub fn moment(at: &str) -> String {
    at.get(..19)
        .map_or_else(|| at.to_owned(), |text| text.replace('T', " "))
}

/// JSON on one line, cut at `most` characters.
#[must_use]
pub fn short(value: &Json, most: usize) -> String {
    cut(value.get(), most)
}

/// Text on one line, cut at `most` characters.
#[must_use]
pub fn cut(text: &str, most: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() <= most {
        return line;
    }
    let mut kept: String = line.chars().take(most.saturating_sub(1)).collect();
    kept.push('…');
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_has_a_header_and_no_frame() {
        let text = render(
            &["id", "status"],
            vec![
                vec!["a".into(), "RUNNING".into()],
                vec!["bbb".into(), "FAILED".into()],
            ],
        );
        assert_eq!(text, "ID   STATUS\na    RUNNING\nbbb  FAILED");
    }

    #[test]
    fn a_variable_turns_colours_off_unless_it_is_empty() {
        let set = |text: &'static str| wants_colours(Some(text.as_ref()));
        assert!(wants_colours(None) && set("") && !set("1") && !set("0"));
    }

    #[test]
    fn a_model_is_named_once_unless_another_one_answered() {
        assert_eq!(model(Some("a"), Some("b")).as_deref(), Some("b (asked: a)"));
        assert_eq!(model(Some("a"), Some("a")).as_deref(), Some("a"));
        assert_eq!(model(Some("a"), None).as_deref(), Some("a"));
        assert_eq!(model(None, None), None);
    }

    #[test]
    fn long_text_is_cut_with_a_mark() {
        assert_eq!(cut("one\n two  three", 100), "one two three");
        assert_eq!(cut("abcdef", 4), "abc…");
    }

    #[test]
    fn times_and_words_read_well() {
        assert_eq!(clock("2026-11-03T09:15:00.123Z"), "09:15:00.123");
        assert_eq!(moment("2026-11-03T09:15:00.123Z"), "2026-11-03 09:15:00");
        assert_eq!(words("TASK_COMPLETED"), "task completed");
    }
}
