//! YAML with the place of every node. Read from the parser's events in one pass, because that pass can stop a bomb
//! before it is built (B4), see a key that stands twice (B1), and keep every digit of a number.

mod place;
mod read;
mod scalar;

use rust_decimal::Decimal;

use crate::Value;

pub(super) use place::Place;
pub(super) use read::{MAX_BYTES, read};

/// A file and what stands in it.
#[derive(Debug)]
pub(super) struct Source {
    pub(super) file: String,
    pub(super) text: String,
    pub(super) root: Tree,
}

/// A YAML node with its place.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Tree {
    pub(super) place: Place,
    pub(super) kind: Kind,
}

#[derive(Clone, Debug, PartialEq)]
pub(super) enum Kind {
    Null,
    Bool(bool),
    Number(Decimal),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<Entry>),
}

/// `key: value`, in the order of the document.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) place: Place,
    pub(super) value: Tree,
}

impl Tree {
    /// The plain JSON value.
    pub(super) fn value(&self) -> Value {
        match &self.kind {
            Kind::Null => Value::Null,
            Kind::Bool(truth) => Value::Bool(*truth),
            Kind::Number(number) => Value::Number(*number),
            Kind::Text(text) => Value::String(text.clone()),
            Kind::List(items) => Value::List(items.iter().map(Self::value).collect()),
            Kind::Map(entries) => Value::Map(
                entries
                    .iter()
                    .map(|entry| (entry.key.clone(), entry.value.value()))
                    .collect(),
            ),
        }
    }

    /// The kind in the words of messages.
    pub(super) const fn found(&self) -> &'static str {
        match &self.kind {
            Kind::Null => "nothing",
            Kind::Bool(_) => "a boolean",
            Kind::Number(_) => "a number",
            Kind::Text(_) => "text",
            Kind::List(_) => "a list",
            Kind::Map(_) => "a map",
        }
    }
}

/// A node on its way through the checks: the tree, and the JSON pointer that leads to it.
#[derive(Clone, Debug)]
pub(super) struct At<'a> {
    pub(super) source: &'a Source,
    pub(super) tree: &'a Tree,
    pub(super) pointer: String,
    /// Where the key stands; problems with the key itself are reported there.
    key_place: Option<Place>,
}

impl<'a> At<'a> {
    pub(super) fn root(source: &'a Source) -> Self {
        Self {
            source,
            tree: &source.root,
            pointer: String::new(),
            key_place: None,
        }
    }

    pub(super) fn file(&self) -> &'a str {
        &self.source.file
    }

    pub(super) fn place(&self) -> Place {
        self.key_place.unwrap_or(self.tree.place)
    }

    /// The same node, but problems point at its key.
    pub(super) fn key(&self, entry: &Entry) -> Self {
        Self {
            key_place: Some(entry.place),
            ..self.clone()
        }
    }

    /// The value of a key; nothing when absent, or when this is no map. An explicit null counts as absent.
    pub(super) fn get(&self, key: &str) -> Option<Self> {
        let entry = self.entry(key)?;
        match entry.value.kind {
            Kind::Null => None,
            Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => {
                Some(self.down(entry))
            }
        }
    }

    fn entry(&self, key: &str) -> Option<&'a Entry> {
        match &self.tree.kind {
            Kind::Map(entries) => entries.iter().find(|entry| entry.key == key),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => None,
        }
    }

    fn down(&self, entry: &'a Entry) -> Self {
        let part = entry.key.replace('~', "~0").replace('/', "~1");
        let pointer = format!("{}/{part}", self.pointer);
        Self {
            source: self.source,
            tree: &entry.value,
            pointer,
            key_place: None,
        }
    }

    /// The entries of a map; none when this is something else.
    pub(super) fn entries(&self) -> Vec<(&'a Entry, Self)> {
        match &self.tree.kind {
            Kind::Map(entries) => entries.iter().map(|entry| (entry, self.down(entry))).collect(),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) | Kind::List(_) => Vec::new(),
        }
    }

    /// The elements of a list; none when this is something else.
    pub(super) fn items(&self) -> Vec<Self> {
        let Kind::List(items) = &self.tree.kind else {
            return Vec::new();
        };
        items
            .iter()
            .enumerate()
            .map(|(index, tree)| Self {
                source: self.source,
                tree,
                pointer: format!("{}/{index}", self.pointer),
                key_place: None,
            })
            .collect()
    }

    pub(super) fn is_map(&self) -> bool {
        matches!(self.tree.kind, Kind::Map(_))
    }

    pub(super) fn is_list(&self) -> bool {
        matches!(self.tree.kind, Kind::List(_))
    }

    pub(super) fn text(&self) -> Option<&'a str> {
        match &self.tree.kind {
            Kind::Text(text) => Some(text),
            Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    pub(super) fn truth(&self) -> Option<bool> {
        match &self.tree.kind {
            Kind::Bool(truth) => Some(*truth),
            Kind::Null | Kind::Number(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    pub(super) fn number(&self) -> Option<Decimal> {
        match &self.tree.kind {
            Kind::Number(number) => Some(*number),
            Kind::Null | Kind::Bool(_) | Kind::Text(_) | Kind::List(_) | Kind::Map(_) => None,
        }
    }

    pub(super) fn value(&self) -> Value {
        self.tree.value()
    }

    /// The place of a byte inside a text scalar, as near as can be said.
    pub(super) fn place_inside(&self, offset: usize) -> Place {
        match self.text() {
            Some(text) => place::inside(&self.source.text, self.tree.place, text, offset),
            None => self.tree.place,
        }
    }
}
