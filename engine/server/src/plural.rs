//! Numbers with their nouns, for the command line and the API's details alike.

/// `1 error`, `2 errors`.
#[must_use]
pub fn count(number: usize, noun: &str) -> String {
    let ending = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{ending}")
}

#[cfg(test)]
mod tests {
    use super::count;

    #[test]
    fn one_is_no_plural_and_none_is() {
        let counted = [0, 1, 2].map(|number| count(number, "error"));
        assert_eq!(counted, ["0 errors", "1 error", "2 errors"]);
    }
}
