//! Events to trees, with every limit checked before memory is spent.

use std::collections::HashMap;

use granit_parser::{ErrorKind, Event, Options, Parser, ScalarStyle};

use super::super::codes::Code;
use super::super::problem::Problems;
use super::{Entry, Kind, Place, Source, Tree, scalar};

/// B5: a larger document is refused unread.
pub(in crate::documents) const MAX_BYTES: usize = 1024 * 1024;
/// Lists and maps inside one another.
const MAX_DEPTH: usize = 64;
/// B4: nodes once aliases are expanded.
const MAX_NODES: usize = 100_000;
/// B4: bytes of text once aliases are expanded.
const MAX_EXPANDED_BYTES: usize = 4 * MAX_BYTES;

/// Reads one document. Nothing when it cannot be read; then at least one problem was reported.
pub(in crate::documents) fn read(file: &str, text: &str, problems: &mut Problems) -> Option<Source> {
    if text.len() > MAX_BYTES {
        let message = format!(
            "the document has {} bytes, at most {MAX_BYTES} are read",
            text.len()
        );
        problems
            .error_at(file, Place::START, "", Code::DocumentTooLarge, message)
            .hint("split it into several");
        return None;
    }
    let mut builder = Builder {
        file,
        problems,
        open: Vec::new(),
        done: None,
        anchors: HashMap::new(),
        nodes: 0,
        bytes: 0,
    };
    let mut documents = 0;
    let mut options = Options::default();
    options.set_emit_comments(false);
    for next in Parser::new_from_str_with_options(text, options) {
        let (event, span) = match next {
            Ok(next) => next,
            Err(error) => {
                let mark = error.marker();
                let place = Place::new(mark.line(), mark.col() + 1);
                let pointer = builder.pointer();
                let code = match error.kind() {
                    ErrorKind::RecursionLimitExceeded => Code::YamlDepth,
                    _ => Code::YamlSyntax,
                };
                problems
                    .error_at(file, place, &pointer, code, error.info())
                    .maybe(unquoted_placeholder(text, mark.line()));
                return None;
            }
        };
        let place = Place::new(span.start.line(), span.start.col() + 1);
        let outcome = match event {
            Event::DocumentStart(..) => {
                documents += 1;
                if documents > 1 {
                    Err((Code::YamlSyntax, "a file holds one document".to_owned()))
                } else {
                    Ok(())
                }
            }
            Event::Scalar(text, style, anchor, tag) => {
                if tag.is_some() {
                    Err(tagged())
                } else {
                    builder.scalar(&text, style, anchor, place)
                }
            }
            Event::SequenceStart(_, anchor, tag) => {
                if tag.is_some() {
                    Err(tagged())
                } else {
                    builder.begin(Open::List(Vec::new()), anchor, place)
                }
            }
            Event::MappingStart(_, anchor, tag) => {
                let open = Open::Map {
                    entries: Vec::new(),
                    key: None,
                    lines: HashMap::new(),
                };
                if tag.is_some() {
                    Err(tagged())
                } else {
                    builder.begin(open, anchor, place)
                }
            }
            Event::SequenceEnd | Event::MappingEnd => builder.end(),
            Event::Alias(anchor) => builder.alias(anchor, place),
            // Comments, and the beginning and end of things.
            _ => Ok(()),
        };
        if let Err((code, message)) = outcome {
            let pointer = builder.pointer();
            problems.error_at(file, place, &pointer, code, message);
            return None;
        }
    }
    match builder.done.take() {
        Some(root) => Some(Source {
            file: file.to_owned(),
            text: text.to_owned(),
            root,
        }),
        None => {
            problems.error_at(file, Place::START, "", Code::YamlSyntax, "the document is empty");
            None
        }
    }
}

fn tagged() -> (Code, String) {
    (Code::YamlSyntax, "YAML tags are not supported".to_owned())
}

/// `{ prompt: ${name} }` is the usual reason for a YAML error here: a brace that YAML takes for a map.
fn unquoted_placeholder(text: &str, line: usize) -> Option<&'static str> {
    let suspicious = |line: usize| {
        text.lines().nth(line.checked_sub(1)?).and_then(|line| {
            let before = &line[..line.find("${")?];
            let open_quote = before.matches('"').count() % 2 == 1 || before.matches('\'').count() % 2 == 1;
            if open_quote { None } else { Some(()) }
        })
    };
    let found = suspicious(line).or_else(|| suspicious(line.checked_sub(1)?));
    found.map(|()| "put a text with `${` in quotes: YAML takes its brace for a map")
}

type Refused = (Code, String);

struct Builder<'a> {
    file: &'a str,
    problems: &'a mut Problems,
    open: Vec<(Open, usize, Place)>,
    done: Option<Tree>,
    anchors: HashMap<usize, (Tree, usize, usize)>,
    nodes: usize,
    bytes: usize,
}

enum Open {
    List(Vec<Tree>),
    Map {
        entries: Vec<Entry>,
        key: Option<(String, Place, bool)>,
        lines: HashMap<String, u32>,
    },
}

impl Builder<'_> {
    /// The JSON pointer of the node that comes next.
    fn pointer(&self) -> String {
        let mut pointer = String::new();
        for (open, _, _) in &self.open {
            match open {
                Open::List(items) => pointer.push_str(&format!("/{}", items.len())),
                Open::Map {
                    key: Some((key, _, _)),
                    ..
                } => {
                    pointer.push('/');
                    pointer.push_str(&key.replace('~', "~0").replace('/', "~1"));
                }
                Open::Map { key: None, .. } => {}
            }
        }
        pointer
    }

    fn spend(&mut self, nodes: usize, bytes: usize) -> Result<(), Refused> {
        self.nodes += nodes;
        self.bytes += bytes;
        if self.nodes > MAX_NODES {
            return Err((
                Code::YamlBomb,
                format!("the document has more than {MAX_NODES} values, aliases expanded"),
            ));
        }
        if self.bytes > MAX_EXPANDED_BYTES {
            return Err((
                Code::YamlBomb,
                format!("the document is over {MAX_EXPANDED_BYTES} bytes, aliases expanded"),
            ));
        }
        Ok(())
    }

    fn scalar(&mut self, text: &str, style: ScalarStyle, anchor: usize, place: Place) -> Result<(), Refused> {
        self.spend(1, text.len())?;
        let plain = style == ScalarStyle::Plain;
        if let Some((Open::Map { key: key @ None, .. }, _, _)) = self.open.last_mut() {
            *key = Some((text.to_owned(), place, plain));
            if anchor > 0 {
                let tree = Tree {
                    place,
                    kind: Kind::Text(text.to_owned()),
                };
                self.anchors.insert(anchor, (tree, 1, text.len()));
            }
            return Ok(());
        }
        let kind = if plain {
            scalar::plain(text).map_err(|message| (Code::InvalidValue, message.to_owned()))?
        } else {
            Kind::Text(text.to_owned())
        };
        self.add(Tree { place, kind }, anchor)
    }

    fn begin(&mut self, open: Open, anchor: usize, place: Place) -> Result<(), Refused> {
        self.spend(1, 0)?;
        if let Some((Open::Map { key: None, .. }, _, _)) = self.open.last() {
            return Err((Code::YamlSyntax, "a key must be text".to_owned()));
        }
        if self.open.len() >= MAX_DEPTH {
            return Err((Code::YamlDepth, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        self.open.push((open, anchor, place));
        Ok(())
    }

    fn end(&mut self) -> Result<(), Refused> {
        let Some((open, anchor, place)) = self.open.pop() else {
            return Ok(());
        };
        let kind = match open {
            Open::List(items) => Kind::List(items),
            Open::Map { entries, .. } => Kind::Map(entries),
        };
        self.add(Tree { place, kind }, anchor)
    }

    fn alias(&mut self, anchor: usize, place: Place) -> Result<(), Refused> {
        let Some((tree, nodes, bytes)) = self.anchors.get(&anchor) else {
            return Err((
                Code::YamlSyntax,
                "an alias stands inside its own anchor".to_owned(),
            ));
        };
        let (nodes, bytes) = (*nodes, *bytes);
        if self.open.len() + depth(tree) > MAX_DEPTH {
            return Err((Code::YamlDepth, format!("nested deeper than {MAX_DEPTH} levels")));
        }
        let is_key = matches!(self.open.last(), Some((Open::Map { key: None, .. }, _, _)));
        if is_key {
            return Err((Code::YamlSyntax, "a key cannot be an alias".to_owned()));
        }
        let kind = tree.kind.clone();
        self.spend(nodes, bytes)?;
        self.add(Tree { place, kind }, 0)
    }

    fn add(&mut self, tree: Tree, anchor: usize) -> Result<(), Refused> {
        if anchor > 0 {
            // The copy is paid for, or anchors around anchors would cost memory that nobody counts.
            let (nodes, bytes) = weight(&tree);
            self.spend(nodes, bytes)?;
            self.anchors.insert(anchor, (tree.clone(), nodes, bytes));
        }
        let twice = match self.open.last_mut() {
            None => {
                self.done = Some(tree);
                None
            }
            Some((Open::List(items), _, _)) => {
                items.push(tree);
                None
            }
            Some((Open::Map { entries, key, lines }, _, _)) => match key.take() {
                Some((key, place, plain)) => add_entry(
                    entries,
                    lines,
                    Entry {
                        key,
                        place,
                        value: tree,
                    },
                    plain,
                ),
                None => None,
            },
        };
        if let Some(Twice {
            key,
            place,
            first_line,
        }) = twice
        {
            let message = format!("the key `{key}` stands twice");
            let pointer = self.pointer_to(&key);
            self.problems
                .error_at(self.file, place, &pointer, Code::DuplicateKey, message)
                .hint(format!("the first one is in line {first_line}"));
        }
        Ok(())
    }

    fn pointer_to(&self, key: &str) -> String {
        format!("{}/{}", self.pointer(), key.replace('~', "~0").replace('/', "~1"))
    }
}

struct Twice {
    key: String,
    place: Place,
    first_line: u32,
}

/// Adds to a map; a key that stands there already keeps its first value.
fn add_entry(
    entries: &mut Vec<Entry>,
    lines: &mut HashMap<String, u32>,
    entry: Entry,
    plain: bool,
) -> Option<Twice> {
    if plain && entry.key == "<<" {
        merge(entries, lines, entry.value);
        return None;
    }
    match lines.get(&entry.key) {
        // A merged key may be written again: that is what merging is for.
        Some(&MERGED) => entries.retain(|known| known.key != entry.key),
        Some(&first_line) => {
            return Some(Twice {
                key: entry.key,
                place: entry.place,
                first_line,
            });
        }
        None => {}
    }
    lines.insert(entry.key.clone(), entry.place.line);
    entries.push(entry);
    None
}

/// The line of a key that came by `<<`.
const MERGED: u32 = 0;

fn merge(entries: &mut Vec<Entry>, lines: &mut HashMap<String, u32>, tree: Tree) {
    match tree.kind {
        Kind::Map(merged) => {
            for entry in merged {
                if !lines.contains_key(&entry.key) {
                    lines.insert(entry.key.clone(), MERGED);
                    entries.push(entry);
                }
            }
        }
        Kind::List(items) => {
            for item in items {
                merge(entries, lines, item);
            }
        }
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => {}
    }
}

fn depth(tree: &Tree) -> usize {
    match &tree.kind {
        Kind::Null | Kind::Bool(_) | Kind::Number(_) | Kind::Text(_) => 0,
        Kind::List(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
        Kind::Map(entries) => 1 + entries.iter().map(|entry| depth(&entry.value)).max().unwrap_or(0),
    }
}

/// Nodes and bytes of a subtree.
fn weight(tree: &Tree) -> (usize, usize) {
    let sum = |parts: &mut dyn Iterator<Item = (usize, usize)>| {
        parts.fold((1, 0), |(nodes, bytes), (more_nodes, more_bytes)| {
            (nodes + more_nodes, bytes + more_bytes)
        })
    };
    match &tree.kind {
        Kind::Null | Kind::Bool(_) | Kind::Number(_) => (1, 0),
        Kind::Text(text) => (1, text.len()),
        Kind::List(items) => sum(&mut items.iter().map(weight)),
        Kind::Map(entries) => sum(&mut entries.iter().map(|entry| {
            let (nodes, bytes) = weight(&entry.value);
            (nodes + 1, bytes + entry.key.len())
        })),
    }
}
