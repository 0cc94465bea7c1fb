//! From files to definitions: parsed, validated as a set, pinned children first, compared with what is deployed.
//!
//! A version is the digest of the document and what it pins: a changed child gives its unchanged parents of the set
//! a new version, and a set that changes nothing deploys nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codes::Code;
use super::names::Produced;
use super::pins::{Known, Pinning};
use super::problem::{Problem, Problems, Severity};
use super::process::{self, Process};
use super::reads::reads;
use super::server::{self, Server, StdioCommand};
use super::set;
use super::settings::{self, Settings};
use super::unwritten;
use super::written::Spots;
use super::yaml::{self, At, Place, Source};
use super::{Kind, Origin, kind_of};
use crate::Value;
use crate::canonical;
use crate::model::Definition;

const MAX_FILES: usize = 1_000;

/// How a set is read.
#[derive(Clone, Debug, Default)]
pub struct Options {
    pub origin: Origin,
    /// `--env`: whose values stand over `[values]`.
    pub env: Option<String>,
}

/// A set, ready to be deployed when no problem is an error.
#[derive(Clone, Debug, Default)]
pub struct Frozen {
    /// Children first; empty when there are errors.
    pub processes: Vec<FrozenProcess>,
    /// By name; empty when there are errors.
    pub servers: Vec<FrozenServer>,
    pub settings: Option<Settings>,
    /// What a local project says about starting its stdio servers.
    pub commands: Vec<StdioCommand>,
    /// By file and place; warnings too.
    pub problems: Vec<Problem>,
}

impl Frozen {
    #[must_use]
    pub fn has_errors(&self) -> bool {
        self.problems
            .iter()
            .any(|problem| problem.severity == Severity::Error)
    }
}

/// A process of the set with the version it gets, or has already.
#[derive(Clone, Debug)]
pub struct FrozenProcess {
    pub file: String,
    pub definition: Arc<Definition>,
    pub digest: String,
    /// False: this is the version that is deployed now, and nothing is to be done.
    pub changed: bool,
}

/// A tool server of the set.
#[derive(Clone, Debug)]
pub struct FrozenServer {
    pub file: String,
    pub server: Server,
    pub digest: String,
    pub changed: bool,
}

/// Reads, validates and freezes a set of files (path to text) against what is deployed in the project. The latest
/// version of a process keeps its number when its digest is the same; else the next number is given.
#[must_use]
pub fn freeze(files: &BTreeMap<String, String>, options: &Options, known: &dyn Known) -> Frozen {
    let mut problems = Problems::default();
    let mut frozen = Frozen::default();
    let mut sources: Vec<(Kind, Source)> = Vec::new();
    if files.len() > MAX_FILES {
        let message = format!("the set has {} files, at most {MAX_FILES} are read", files.len());
        problems.error_at("", Place::START, "", Code::TooManyDocuments, message);
        frozen.problems = problems.sorted();
        return frozen;
    }
    for (file, text) in files {
        if kind_of(file) == Kind::Settings {
            frozen.settings = settings::read(file, text, options.env.as_deref(), &mut problems);
            continue;
        }
        if let Kind::Later(what) = kind_of(file) {
            let message = format!("{what} are reserved for a later release");
            problems.error_at(file, Place::START, "", Code::NotYet, message);
            continue;
        }
        let Some(source) = yaml::read(file, text, &mut problems) else {
            continue;
        };
        match kind_of_document(file, &source) {
            Some(kind) => sources.push((kind, source)),
            None => unknown_kind(&source, &mut problems),
        }
    }
    let values = match &frozen.settings {
        Some(settings) => settings.values.clone(),
        None => known.values(),
    };
    let servers = read_servers(&sources, options.origin, &mut frozen, &mut problems);
    let processes = read_processes(&sources, &mut problems);
    set::check_cycles(&processes, known, &mut problems);
    let pinned = pin_all(&processes, &servers, &values, known, &mut problems);
    if !problems.has_errors() {
        frozen.processes = pinned;
        frozen.servers = freeze_servers(&sources, servers, known);
    }
    frozen.problems = problems.sorted();
    frozen
}

/// The digest of a definition: its canonical JSON without the version.
#[must_use]
pub fn digest_of(definition: &Definition) -> String {
    let unversioned = Definition {
        version: 0,
        ..definition.clone()
    };
    digest_of_serialized(&unversioned)
}

fn digest_of_serialized(thing: &impl serde::Serialize) -> String {
    let text = serde_json::to_string(thing).expect("definitions have text keys and serialise");
    let value = Value::parse(&text).expect("serialised JSON is JSON");
    canonical::digest(&value)
}

/// A document whose path says nothing is a process when it has a `flow`.
fn kind_of_document(file: &str, source: &Source) -> Option<Kind> {
    let root = At::root(source);
    match kind_of(file) {
        Kind::Unknown if root.get("flow").is_some() => Some(Kind::Process),
        Kind::Unknown if root.get("transport").is_some() && root.get("tools").is_some() => Some(Kind::Server),
        Kind::Unknown => None,
        kind => Some(kind),
    }
}

fn unknown_kind(source: &Source, problems: &mut Problems) {
    problems
        .error(
            &At::root(source),
            Code::DocumentKind,
            "this is neither a process nor a tool server",
        )
        .hint(
            "a process has `flow`, and its file ends in .process.yaml; a tool server's ends in .server.yaml",
        );
}

/// Servers by name; None where the document has problems.
fn read_servers(
    sources: &[(Kind, Source)],
    origin: Origin,
    frozen: &mut Frozen,
    problems: &mut Problems,
) -> BTreeMap<String, Option<Server>> {
    let mut servers: BTreeMap<String, Option<Server>> = BTreeMap::new();
    for (_, source) in sources.iter().filter(|(kind, _)| *kind == Kind::Server) {
        let (server, command) = server::read(source, origin, problems);
        frozen.commands.extend(command);
        let at = At::root(source);
        let Some(name_at) = at.get("name") else { continue };
        let Some(name) = name_at.text() else { continue };
        if servers.contains_key(name) {
            problems.error(
                &name_at,
                Code::DuplicateDocument,
                format!("there are two tool servers `{name}`"),
            );
        }
        servers.insert(name.to_owned(), server);
    }
    servers
}

fn read_processes<'a>(sources: &'a [(Kind, Source)], problems: &mut Problems) -> Vec<Process<'a>> {
    let mut processes: Vec<Process<'a>> = Vec::new();
    for (_, source) in sources.iter().filter(|(kind, _)| *kind == Kind::Process) {
        let process = process::read(source, problems);
        if let Some(other) = processes.iter().find(|other| other.key == process.key) {
            let message = format!("there are two processes `{}`", process.key);
            let hint = format!("the other one is {}", other.at.file());
            problems
                .error(&process.at, Code::DuplicateDocument, message)
                .hint(hint);
            continue;
        }
        processes.push(process);
    }
    processes
}

fn pin_all(
    processes: &[Process<'_>],
    servers: &BTreeMap<String, Option<Server>>,
    values: &BTreeMap<String, Value>,
    known: &dyn Known,
    problems: &mut Problems,
) -> Vec<FrozenProcess> {
    // Until a process is frozen, those that call its latest version see it unpinned.
    let mut set: BTreeMap<String, Option<Arc<Definition>>> = processes
        .iter()
        .map(|process| (process.key.clone(), process.definition.clone().map(Arc::new)))
        .collect();
    let mut out = Vec::new();
    for index in set::children_first(processes) {
        let process = &processes[index];
        let Some(mut definition) = pin(process, &set, servers, values, known, problems) else {
            continue;
        };
        let digest = digest_of(&definition);
        let latest = known.process(&process.key);
        let changed = latest.as_ref().is_none_or(|latest| latest.digest != digest);
        let latest_version = latest.map_or(0, |latest| latest.definition.version);
        definition.version = if changed {
            latest_version + 1
        } else {
            latest_version
        };
        let definition = Arc::new(definition);
        set.insert(process.key.clone(), Some(Arc::clone(&definition)));
        out.push(FrozenProcess {
            file: process.at.file().to_owned(),
            definition,
            digest,
            changed,
        });
    }
    out
}

/// Looks up what the nodes name. Nodes that can be read are checked even when others cannot.
fn pin(
    process: &Process<'_>,
    set: &BTreeMap<String, Option<Arc<Definition>>>,
    servers: &BTreeMap<String, Option<Server>>,
    values: &BTreeMap<String, Value>,
    known: &dyn Known,
    problems: &mut Problems,
) -> Option<Definition> {
    let mut produced = Produced::default();
    let mut variables = Vec::new();
    if let Some(definition) = &process.definition {
        produced = Produced::of(definition);
        variables.clone_from(&definition.variables);
    }
    let mut nodes = Vec::new();
    for draft in &process.drafts {
        let (Some(node_type), Some(node)) = (draft.node_type, &draft.node) else {
            continue;
        };
        let mut node = node.clone();
        let mut pinning = Pinning {
            problems: &mut *problems,
            process: &process.key,
            variables: &variables,
            produced: &produced,
            set,
            servers,
            known,
        };
        (node_type.pin)(&draft.at, &mut node, &mut pinning);
        nodes.push(node);
    }
    let mut definition = Definition {
        nodes,
        ..process.definition.clone()?
    };
    check_own_outputs(process, &definition, problems);
    pin_values(process, &mut definition, values, problems);
    unwritten::check(process, &definition, problems);
    Some(definition)
}

/// A declared output that nothing can write would fail every instance at its end.
fn check_own_outputs(process: &Process<'_>, definition: &Definition, problems: &mut Problems) {
    let produced = Produced::of(definition);
    let outputs_at = process
        .at
        .get("metadata")
        .and_then(|metadata| metadata.get("outputs"));
    let Some(outputs_at) = outputs_at.filter(|_| !produced.open) else {
        return;
    };
    for (index, output) in definition.outputs.iter().enumerate() {
        if !produced.names.contains(&output.name) {
            let place = super::activity::mapping_place(&outputs_at, index);
            problems
                .error(
                    &place,
                    Code::OutputUnknown,
                    format!("no node writes the output `{}`", output.name),
                )
                .maybe(
                    super::words::nearest(&output.name, &produced.list())
                        .map(|n| format!("did you mean `{n}`?")),
                );
        }
    }
}

/// Freezes the values that the process reads, and only those: another value is no new version.
fn pin_values(
    process: &Process<'_>,
    definition: &mut Definition,
    values: &BTreeMap<String, Value>,
    problems: &mut Problems,
) {
    for (draft, node) in process.drafts.iter().zip(&definition.nodes) {
        let mut spots = None;
        for path in reads(node) {
            match path.split_first() {
                Some((root, [])) if root == "values" => definition.values.extend(values.clone()),
                Some((root, [name, ..])) if root == "values" => match values.get(name) {
                    Some(value) => {
                        definition.values.insert(name.clone(), value.clone());
                    }
                    None => {
                        let message = format!("there is no value `{name}`");
                        let hint = format!("in legation.toml:\n[values]\n{name} = …");
                        let spots = spots.get_or_insert_with(|| Spots::of(&draft.at));
                        let spot = spots.anywhere(&path);
                        let (place, pointer) = problems.spot(spot, &draft.at);
                        problems
                            .error_at(draft.at.file(), place, &pointer, Code::UnknownValue, message)
                            .hint(hint);
                    }
                },
                _ => {}
            }
        }
    }
}

fn freeze_servers(
    sources: &[(Kind, Source)],
    servers: BTreeMap<String, Option<Server>>,
    known: &dyn Known,
) -> Vec<FrozenServer> {
    let file_of = |name: &str| {
        let named = |source: &&Source| {
            At::root(source)
                .get("name")
                .is_some_and(|at| at.text() == Some(name))
        };
        let mut documents = sources
            .iter()
            .filter(|(kind, _)| *kind == Kind::Server)
            .map(|(_, source)| source);
        documents
            .find(named)
            .map(|source| source.file.clone())
            .unwrap_or_default()
    };
    servers
        .into_values()
        .flatten()
        .map(|server| {
            let digest = digest_of_serialized(&server);
            let deployed = known.server(&server.name);
            let changed = deployed.as_ref() != Some(&server);
            FrozenServer {
                file: file_of(&server.name),
                server,
                digest,
                changed,
            }
        })
        .collect()
}
