//! Texts with `${…}` in them: prompts, messages, arguments. What is not inside `${…}` is never interpreted,
//! and `$${` writes the sign itself.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::expr::lexer::{Lexer, Token};
use crate::expr::{Expr, ExprError};

/// A parsed text; stored as its text and parsed again when read.
#[derive(Clone, Debug)]
pub struct Template {
    source: String,
    parts: Vec<Part>,
}

/// A stretch of a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Part {
    /// Text as it stands, `$${` already made `${`.
    Text(String),
    /// What stood inside `${…}`, and the byte offset of its `$`.
    Expr { expr: Expr, offset: usize },
}

impl Template {
    /// Splits a text into literal stretches and expressions.
    ///
    /// # Errors
    /// Those of [`Expr::compile`] with offsets in the whole text, and a `${` that is not closed.
    pub fn parse(text: &str) -> Result<Self, ExprError> {
        let mut parts = Vec::new();
        let mut literal = String::new();
        let mut at = 0;
        while let Some(found) = text[at..].find("${") {
            let open = at + found;
            if text[at..open].ends_with('$') {
                literal.push_str(&text[at..open - 1]);
                literal.push_str("${");
                at = open + 2;
                continue;
            }
            literal.push_str(&text[at..open]);
            if !literal.is_empty() {
                parts.push(Part::Text(std::mem::take(&mut literal)));
            }
            let close = closing_brace(text, open)?;
            let expr = Expr::compile(&text[open + 2..close]).map_err(|error| ExprError {
                offset: error.offset + open + 2,
                ..error
            })?;
            parts.push(Part::Expr { expr, offset: open });
            at = close + 1;
        }
        literal.push_str(&text[at..]);
        if !literal.is_empty() {
            parts.push(Part::Text(literal));
        }
        Ok(Self {
            source: text.to_owned(),
            parts,
        })
    }

    /// The text as the author wrote it.
    #[must_use]
    pub fn source(&self) -> &str {
        &self.source
    }

    /// The stretches in order.
    #[must_use]
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The expression, when the whole text is one `${…}`: then the value keeps its kind.
    #[must_use]
    pub fn single(&self) -> Option<&Expr> {
        match self.parts.as_slice() {
            [Part::Expr { expr, offset: _ }] => Some(expr),
            _ => None,
        }
    }

    /// Whether the whole text is one `${…}`.
    #[must_use]
    pub fn is_single_reference(&self) -> bool {
        self.single().is_some()
    }

    /// The expressions with the byte offset of their `$`.
    pub fn expressions(&self) -> impl Iterator<Item = (&Expr, usize)> {
        self.parts.iter().filter_map(|part| match part {
            Part::Expr { expr, offset } => Some((expr, *offset)),
            Part::Text(_) => None,
        })
    }

    /// Every place that reads a variable path, in the order of the text, with the byte offset of its first letter.
    #[must_use]
    pub fn places(&self) -> Vec<(Vec<String>, usize)> {
        let inside = |(expr, open): (&Expr, usize)| {
            let base = open + "${".len();
            let places = expr.places().into_iter();
            places.map(move |(path, offset)| (path, base + offset))
        };
        self.expressions().flat_map(inside).collect()
    }

    /// Prompts may hold variable paths only, because values travel beside them, not in them (D43).
    ///
    /// # Errors
    /// `EXPRESSION_INVALID` at the first `${…}` that is more than a path.
    pub fn path_only(&self) -> Result<(), ExprError> {
        match self.expressions().find(|(expr, _)| expr.path().is_none()) {
            None => Ok(()),
            Some((_, offset)) => Err(ExprError::new(
                "only a variable path may stand here, as in `${order.id}`",
                offset,
            )
            .hint("compute the value before, in a mapping, and name it here")),
        }
    }

    /// The variable paths that rendering may read, each once, in the order of the text.
    #[must_use]
    pub fn references(&self) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for path in self.expressions().flat_map(|(expr, _)| expr.references()) {
            if !found.contains(&path) {
                found.push(path);
            }
        }
        found
    }
}

/// The `}` that closes the `${` at `open`; braces inside strings and objects are passed over.
fn closing_brace(text: &str, open: usize) -> Result<usize, ExprError> {
    let mut lexer = Lexer::new(text, open + 2);
    let mut depth = 0_usize;
    loop {
        match lexer.next()? {
            (Token::Sign("{"), _) => depth += 1,
            (Token::Sign("}"), close) if depth == 0 => return Ok(close),
            (Token::Sign("}"), _) => depth -= 1,
            (Token::End, _) => {
                return Err(
                    ExprError::new("`${` is not closed", open).hint("write `$${` for the sign itself")
                );
            }
            _ => {}
        }
    }
}

impl PartialEq for Template {
    fn eq(&self, other: &Self) -> bool {
        self.source == other.source
    }
}

impl Eq for Template {}

impl Serialize for Template {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.source)
    }
}

impl<'de> Deserialize<'de> for Template {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        Self::parse(&text).map_err(serde::de::Error::custom)
    }
}

impl JsonSchema for Template {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Template".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "x-legation": "template" })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn shown(text: &str) -> Vec<String> {
        let parts = Template::parse(text)
            .unwrap_or_else(|error| panic!("{text}: {error}"))
            .parts;
        let shown = parts.into_iter().map(|part| match part {
            Part::Text(text) => format!("text {text}"),
            Part::Expr { expr, offset } => format!("expr@{offset} {expr}"),
        });
        shown.collect()
    }

    #[test]
    fn a_text_is_split_into_literals_and_expressions() {
        for (text, expected) in [
            ("", vec![]),
            ("plain", vec!["text plain"]),
            ("${a}", vec!["expr@0 a"]),
            (
                "Hi ${a.b}, ${c}!",
                vec!["text Hi ", "expr@3 a.b", "text , ", "expr@11 c", "text !"],
            ),
            (
                "${'}'}${ {'a': {'b': 1}} }x",
                vec!["expr@0 '}'", "expr@6  {'a': {'b': 1}} ", "text x"],
            ),
            ("cost: $5 $${a} {b} $", vec!["text cost: $5 ${a} {b} $"]),
            ("$$${a}", vec!["text $${a}"]),
            ("é${a}é", vec!["text é", "expr@2 a", "text é"]),
            ("${r'\\'}", vec!["expr@0 r'\\'"]),
        ] {
            assert_eq!(shown(text), expected, "{text}");
        }
    }

    #[test]
    fn a_refused_template_names_the_place_in_the_whole_text() {
        for (text, offset) in [
            ("Hi ${a", 3),
            ("Hi ${a +} x", 8),
            ("${}", 2),
            ("a ${b = c}", 6),
            ("${'a}", 2),
        ] {
            let error = Template::parse(text).unwrap_err();
            assert_eq!(
                (error.code, error.offset),
                ("EXPRESSION_INVALID", offset),
                "{text}: {error}"
            );
        }
        let costly = Template::parse("n: ${a.map(x, b.map(y, c.map(z, z)))}").unwrap_err();
        assert_eq!((costly.code, costly.offset), ("EXPRESSION_COSTLY", 5));
    }

    #[test]
    fn one_reference_alone_is_known() {
        assert!(Template::parse("${a.b}").unwrap().is_single_reference());
        assert!(!Template::parse("${a} ").unwrap().is_single_reference());
        assert!(!Template::parse("${a}${b}").unwrap().is_single_reference());
        assert!(!Template::parse("a").unwrap().is_single_reference());
    }

    /// D43: prompts hold variable paths only.
    #[test]
    fn d43_more_than_a_path_is_found_with_its_place() {
        assert_eq!(
            Template::parse("${a.b} and ${c['d']}").unwrap().path_only(),
            Ok(())
        );
        assert_eq!(Template::parse("no expression").unwrap().path_only(), Ok(()));
        let error = Template::parse("${a.b} and ${size(c)}")
            .unwrap()
            .path_only()
            .unwrap_err();
        assert_eq!(error.offset, 11);
    }

    #[test]
    fn references_are_those_of_all_expressions_once() {
        let template = Template::parse("${a.b} ${c} ${a.b} ${xs.map(x, x)}").unwrap();
        let shown: Vec<_> = template.references().iter().map(|path| path.join(".")).collect();
        assert_eq!(shown, ["a.b", "c", "xs"]);
    }

    #[test]
    fn every_path_has_the_place_of_its_first_letter() {
        let template = Template::parse("é ${size(xs)} ${ [o['total'], xs.map(x, x + o.tax)] }").unwrap();
        let text = template.source();
        let shown: Vec<_> = template
            .places()
            .into_iter()
            .map(|(path, offset)| (path.join("."), Some(offset)))
            .collect();
        let at = |path: &str, part: &str| (path.to_owned(), text.find(part));
        assert_eq!(
            shown,
            [
                at("xs", "xs)"),
                at("o.total", "o["),
                at("xs", "xs.map"),
                at("o.tax", "o.tax")
            ]
        );
        let bare = Expr::compile(" ${ a } ").unwrap();
        assert_eq!(bare.places(), [(vec!["a".to_owned()], 4)]);
    }

    #[test]
    fn a_template_is_stored_as_its_text() {
        let template = Template::parse("Hi ${a}, $${b}").unwrap();
        let json = serde_json::to_string(&template).unwrap();
        assert_eq!(json, "\"Hi ${a}, $${b}\"");
        assert_eq!(serde_json::from_str::<Template>(&json).unwrap(), template);
    }

    proptest! {
        #[test]
        fn parsing_any_text_never_panics(text in "(\\$|\\{|\\}|'|a|é| |\\PC){0,40}") {
            if let Err(error) = Template::parse(&text) {
                prop_assert!(error.offset <= text.len());
            }
        }

        #[test]
        fn a_text_without_the_sign_stays_as_it_is(text in "[^$]{0,40}") {
            let template = Template::parse(&text).unwrap();
            let joined: String = template.parts().iter().map(|part| match part {
                Part::Text(text) => text.as_str(),
                Part::Expr { .. } => "expression",
            }).collect();
            prop_assert_eq!(joined, text);
        }
    }
}
