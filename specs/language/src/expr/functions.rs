//! The functions of the language: one table that the parser checks calls against and the evaluator matches on.

/// A function; each is called as `f(x, y)` or `x.f(y)`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Size,
    Contains,
    StartsWith,
    EndsWith,
    Matches,
    LowerAscii,
    UpperAscii,
    Trim,
    Split,
    Join,
    Replace,
    Substring,
    Int,
    String,
    Number,
    Bool,
    Type,
    Min,
    Max,
    Sum,
    Abs,
    Ceil,
    Floor,
    Round,
    Timestamp,
    Duration,
}

/// Name, function, fewest and most arguments (the receiver of a method counts).
const TABLE: &[(&str, Function, usize, usize)] = &[
    ("size", Function::Size, 1, 1),
    ("contains", Function::Contains, 2, 2),
    ("startsWith", Function::StartsWith, 2, 2),
    ("endsWith", Function::EndsWith, 2, 2),
    ("matches", Function::Matches, 2, 2),
    ("lowerAscii", Function::LowerAscii, 1, 1),
    ("upperAscii", Function::UpperAscii, 1, 1),
    ("trim", Function::Trim, 1, 1),
    ("split", Function::Split, 2, 3),
    ("join", Function::Join, 1, 2),
    ("replace", Function::Replace, 3, 4),
    ("substring", Function::Substring, 2, 3),
    ("int", Function::Int, 1, 1),
    ("uint", Function::Int, 1, 1),
    ("string", Function::String, 1, 1),
    ("number", Function::Number, 1, 1),
    ("decimal", Function::Number, 1, 1),
    ("double", Function::Number, 1, 1),
    ("bool", Function::Bool, 1, 1),
    ("type", Function::Type, 1, 1),
    ("min", Function::Min, 1, usize::MAX),
    ("max", Function::Max, 1, usize::MAX),
    ("sum", Function::Sum, 1, 1),
    ("abs", Function::Abs, 1, 1),
    ("ceil", Function::Ceil, 1, 1),
    ("floor", Function::Floor, 1, 1),
    ("round", Function::Round, 1, 2),
    ("timestamp", Function::Timestamp, 1, 1),
    ("duration", Function::Duration, 1, 1),
];

/// What other languages call them.
const FOREIGN: &[(&str, &str)] = &[
    ("len", "size"),
    ("length", "size"),
    ("count", "size"),
    ("includes", "contains"),
    ("toLowerCase", "lowerAscii"),
    ("lower", "lowerAscii"),
    ("toUpperCase", "upperAscii"),
    ("upper", "upperAscii"),
    ("strip", "trim"),
    ("any", "exists"),
    ("some", "exists"),
    ("every", "all"),
    ("float", "number"),
    ("parseInt", "int"),
    ("str", "string"),
    ("toString", "string"),
    ("date", "timestamp"),
    ("defined", "has"),
];

const FORMS: &[&str] = &["has", "all", "exists", "exists_one", "filter", "map"];

impl Function {
    pub(super) fn named(name: &str) -> Option<Self> {
        TABLE.iter().find(|row| row.0 == name).map(|row| row.1)
    }

    /// The name as the documentation has it.
    #[must_use]
    pub fn name(self) -> &'static str {
        TABLE
            .iter()
            .find(|row| row.1 == self)
            .map_or("function", |row| row.0)
    }

    /// The complaint about so many arguments, if there is one.
    pub(super) fn wrong_count(self, count: usize) -> Option<String> {
        let &(name, _, fewest, most) = TABLE.iter().find(|row| row.1 == self)?;
        if (fewest..=most).contains(&count) {
            return None;
        }
        let takes = match (fewest, most) {
            (_, usize::MAX) => format!("at least {fewest}"),
            (same, other) if same == other => same.to_string(),
            _ => format!("{fewest} to {most}"),
        };
        Some(format!(
            "`{name}` takes {takes} arguments (what stands before the dot counts), not {count}"
        ))
    }
}

/// The name that was probably meant.
pub(super) fn suggestion(name: &str) -> Option<&'static str> {
    let wanted = name.to_lowercase();
    let ours = TABLE
        .iter()
        .map(|row| row.0)
        .chain(FORMS.iter().copied())
        .map(|known| (known, known));
    let distances = FOREIGN.iter().copied().chain(ours).map(|(written, known)| {
        (
            strsim::damerau_levenshtein(&written.to_lowercase(), &wanted),
            known,
        )
    });
    // A short name is near to everything: at most a third of it may differ.
    let near = distances.filter(|(distance, _)| *distance <= 2.min(wanted.len() / 3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}
