//! `legation.toml`: names of models (read by the agent worker; the engine stores names only) and values that
//! expressions read as `values.x`. Settings of the engine itself are read by the engine.

use std::collections::BTreeMap;

use rust_decimal::Decimal;
use toml::de::{DeTable, DeValue};

use super::activity;
use super::codes::Code;
use super::problem::Problems;
use super::shape::{self, Object, Shape, not_yet, optional, required};
use super::yaml::{At, Entry, Kind, MAX_BYTES, Place, Source, Tree};
use crate::Value;
use crate::value::parse_number;

/// What `legation.toml` says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    pub models: BTreeMap<String, Model>,
    /// The model of nodes that name none.
    pub default_model: Option<String>,
    /// The model of all nodes, whatever they name.
    pub override_model: Option<String>,
    /// `[values]`, with those of the chosen `[env.NAME.values]` over them.
    pub values: BTreeMap<String, Value>,
}

/// An alias of `[models]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Model {
    pub provider: String,
    pub model: String,
    pub base_url: Option<String>,
    /// The environment variable that holds the key.
    pub key_env: Option<String>,
}

pub(super) const SHAPE: Shape = Shape::Object(&SETTINGS);

const SETTINGS: Object = Object {
    name: "legation.toml",
    fields: &[&[
        optional(
            "models",
            Shape::Map(&Shape::Either(&[Shape::Text, Shape::Object(&MODEL)])),
            "alias = { provider, model, base_url, key }, and `default`, `override`",
        ),
        optional("values", Shape::Map(&Shape::Literal), "read as `values.x`"),
        optional(
            "env",
            Shape::Map(&Shape::Object(&ENV)),
            "[env.NAME.values] stand over [values] with --env NAME",
        ),
        optional("dev", Shape::Map(&Shape::Literal), "settings of `legation dev`"),
        optional("engine", Shape::Map(&Shape::Literal), "settings of the engine"),
        not_yet("files"),
    ]],
};

const MODEL: Object = Object {
    name: "a model",
    fields: &[&[
        required(
            "provider",
            Shape::Text,
            "openai, anthropic, gemini, ollama or scripted",
        ),
        required("model", Shape::Text, "the provider's name of the model"),
        optional(
            "base_url",
            Shape::Text,
            "where the provider is, if not at its usual place",
        ),
        optional("key", Shape::Text, "env:NAME, read by the agent worker"),
        not_yet("price"),
    ]],
};

const ENV: Object = Object {
    name: "an environment",
    fields: &[&[optional("values", Shape::Map(&Shape::Literal), "as [values]")]],
};

/// Reads the file; nothing when it is no TOML.
pub(super) fn read(file: &str, text: &str, env: Option<&str>, problems: &mut Problems) -> Option<Settings> {
    let source = parse(file, text, problems)?;
    let at = At::root(&source);
    shape::check(&at, &SHAPE, problems);
    let mut settings = Settings::default();
    for (entry, model_at) in at.get("models").iter().flat_map(At::entries) {
        match (entry.key.as_str(), model_at.text()) {
            ("default", Some(name)) => settings.default_model = Some(name.to_owned()),
            ("override", Some(name)) => settings.override_model = Some(name.to_owned()),
            (_, Some(_)) => {
                problems
                    .error(
                        &model_at.key(entry),
                        Code::WrongType,
                        format!("the model `{}` must be a table", entry.key),
                    )
                    .hint(format!(
                        "{} = {{ provider = \"openai\", model = \"…\" }}",
                        entry.key
                    ));
            }
            (alias, None) => {
                if let Some(model) = model(&model_at, problems) {
                    settings.models.insert(alias.to_owned(), model);
                }
            }
        }
    }
    let env_values = env.and_then(|env| at.get("env")?.get(env)?.get("values"));
    if let (Some(env), None) = (env, env.and_then(|env| at.get("env")?.get(env))) {
        problems.error(&at, Code::UnknownValue, format!("there is no [env.{env}]"));
    }
    for values in at.get("values").into_iter().chain(env_values) {
        for (entry, value) in values.entries() {
            if !super::names::is_name(&entry.key) {
                let message = format!("`{}` is no name of a value", entry.key);
                problems.error(&value.key(entry), Code::InvalidValue, message);
            }
            settings.values.insert(entry.key.clone(), value.value());
        }
    }
    Some(settings)
}

fn model(at: &At<'_>, problems: &mut Problems) -> Option<Model> {
    let key_env = match at.get("key") {
        None => None,
        Some(key_at) => match key_at.text()?.strip_prefix("env:") {
            Some(name) => Some(name.to_owned()),
            None => {
                let message = "a key never stands in the file";
                problems
                    .error(&key_at, Code::InvalidValue, message)
                    .hint("key = \"env:OPENAI_API_KEY\"");
                None
            }
        },
    };
    Some(Model {
        provider: activity::text(at, "provider")?,
        model: activity::text(at, "model")?,
        base_url: activity::text(at, "base_url"),
        key_env,
    })
}

/// TOML as a tree with places, so that the checks of YAML serve it too.
fn parse(file: &str, text: &str, problems: &mut Problems) -> Option<Source> {
    if text.len() > MAX_BYTES {
        let message = format!("the file has {} bytes, at most {MAX_BYTES} are read", text.len());
        problems.error_at(file, Place::START, "", Code::DocumentTooLarge, message);
        return None;
    }
    let lines = Lines::of(text);
    let table = match DeTable::parse(text) {
        Ok(table) => table,
        Err(error) => {
            let place = lines.place(error.span().map_or(0, |span| span.start));
            problems.error_at(file, place, "", Code::TomlSyntax, error.message());
            return None;
        }
    };
    let mut reader = Reader {
        file,
        lines,
        problems,
    };
    let root = Tree {
        place: Place::START,
        kind: reader.table(table.get_ref(), "", 0)?,
    };
    Some(Source {
        file: file.to_owned(),
        text: text.to_owned(),
        root,
    })
}

/// Byte offsets to places.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn of(text: &'a str) -> Self {
        let after_breaks = text.match_indices('\n').map(|(at, _)| at + 1);
        Self {
            text,
            starts: std::iter::once(0).chain(after_breaks).collect(),
        }
    }

    fn place(&self, offset: usize) -> Place {
        let line = self.starts.partition_point(|start| *start <= offset);
        let start = self.starts[line.saturating_sub(1)];
        let column = self
            .text
            .get(start..offset)
            .map_or(0, |before| before.chars().count());
        Place::new(line, column + 1)
    }
}

struct Reader<'a, 'p> {
    file: &'a str,
    lines: Lines<'a>,
    problems: &'p mut Problems,
}

impl Reader<'_, '_> {
    fn table(&mut self, table: &DeTable<'_>, pointer: &str, depth: usize) -> Option<Kind> {
        let mut entries = Vec::new();
        for (key, value) in table {
            let name = key.get_ref().to_string();
            let pointer = format!("{pointer}/{}", name.replace('~', "~0").replace('/', "~1"));
            let value = self.value(value.get_ref(), value.span().start, &pointer, depth + 1)?;
            entries.push(Entry {
                key: name,
                place: self.lines.place(key.span().start),
                value,
            });
        }
        Some(Kind::Map(entries))
    }

    fn value(&mut self, value: &DeValue<'_>, offset: usize, pointer: &str, depth: usize) -> Option<Tree> {
        let place = self.lines.place(offset);
        if depth > 64 {
            self.problems.error_at(
                self.file,
                place,
                pointer,
                Code::YamlDepth,
                "nested deeper than 64 levels",
            );
            return None;
        }
        let kind = match value {
            DeValue::String(text) => Kind::Text(text.to_string()),
            DeValue::Boolean(truth) => Kind::Bool(*truth),
            DeValue::Datetime(moment) => Kind::Text(moment.to_string()),
            DeValue::Integer(number) => {
                let whole = i64::from_str_radix(number.as_str(), number.radix());
                Kind::Number(self.number(whole.ok().map(Decimal::from), place, pointer)?)
            }
            DeValue::Float(number) => {
                let text = number.as_str().trim_start_matches('+').replace('_', "");
                Kind::Number(self.number(parse_number(&text).ok(), place, pointer)?)
            }
            DeValue::Array(items) => {
                let mut list = Vec::new();
                for (index, item) in items.iter().enumerate() {
                    let pointer = format!("{pointer}/{index}");
                    list.push(self.value(item.get_ref(), item.span().start, &pointer, depth + 1)?);
                }
                Kind::List(list)
            }
            DeValue::Table(table) => self.table(table, pointer, depth)?,
        };
        Some(Tree { place, kind })
    }

    fn number(&mut self, number: Option<Decimal>, place: Place, pointer: &str) -> Option<Decimal> {
        if number.is_none() {
            let message = "this is no number of at most 28 digits";
            self.problems
                .error_at(self.file, place, pointer, Code::InvalidValue, message);
        }
        number
    }
}
