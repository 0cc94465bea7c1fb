//! Lines and columns.

/// A place in a file; both count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(in crate::documents) struct Place {
    pub(in crate::documents) line: u32,
    pub(in crate::documents) column: u32,
}

impl Place {
    pub(in crate::documents) const START: Self = Self { line: 1, column: 1 };

    pub(in crate::documents) fn new(line: usize, column: usize) -> Self {
        Self {
            line: u32::try_from(line).unwrap_or(u32::MAX),
            column: u32::try_from(column).unwrap_or(u32::MAX),
        }
    }
}

/// The place of byte `offset` of a scalar that begins at `start`. The scalar's own place when its text is folded or
/// escaped, so that its characters cannot be found in the file.
pub(super) fn inside(file: &str, start: Place, scalar: &str, offset: usize) -> Place {
    let before = scalar.get(..offset).unwrap_or(scalar);
    let line_in_scalar = before.matches('\n').count();
    let scalar_line = scalar.split('\n').nth(line_in_scalar).unwrap_or_default();
    let in_line = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let first = start.line as usize - 1;
    let text_of = |line: usize| file.lines().nth(line).unwrap_or_default();

    // A plain or quoted scalar begins on its own line, a block scalar on the line below.
    let from_start: String = text_of(first).chars().skip(start.column as usize - 1).collect();
    if !from_start.starts_with(['|', '>']) {
        let quote = usize::from(from_start.starts_with(['"', '\'']));
        let found = from_start
            .chars()
            .skip(quote)
            .collect::<String>()
            .starts_with(scalar_line);
        if found && line_in_scalar == 0 {
            return Place::new(first + 1, start.column as usize + quote + in_line);
        }
        return start;
    }
    let line = first + 1 + line_in_scalar;
    let text = text_of(line);
    match text.strip_suffix(scalar_line) {
        Some(indent) if indent.chars().all(|c| c == ' ') => Place::new(line + 1, indent.len() + in_line + 1),
        _ => start,
    }
}
