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

/// The place of byte `offset` of a scalar whose first character is at `start` (of a quoted one, its quote). The
/// scalar's own place when its text is folded or escaped, so that its characters cannot be found in the file.
pub(super) fn inside(file: &str, start: Place, scalar: &str, offset: usize) -> Place {
    let before = scalar.get(..offset).unwrap_or(scalar);
    let line_in_scalar = before.matches('\n').count();
    let scalar_line = scalar.split('\n').nth(line_in_scalar).unwrap_or_default();
    let in_line = before.rsplit('\n').next().unwrap_or_default().chars().count();
    let line = start.line as usize + line_in_scalar;
    let text = file.lines().nth(line - 1).unwrap_or_default();
    if line_in_scalar > 0 {
        return match text.strip_suffix(scalar_line) {
            Some(indent) if indent.chars().all(|c| c == ' ') => Place::new(line, indent.len() + in_line + 1),
            _ => start,
        };
    }
    let column = start.column as usize;
    let from_start: String = text.chars().skip(column - 1).collect();
    let quote = usize::from(from_start.starts_with(['"', '\'']) && !from_start.starts_with(scalar_line));
    let found = from_start
        .chars()
        .skip(quote)
        .collect::<String>()
        .starts_with(scalar_line);
    if found {
        Place::new(line, column + quote + in_line)
    } else {
        start
    }
}
