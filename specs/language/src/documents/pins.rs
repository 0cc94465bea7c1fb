//! Looking up what a node names: children and tool servers, of the same set or deployed before.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::codes::Code;
use super::names::Produced;
use super::problem::Problems;
use super::server::Server;
use super::yaml::At;
use crate::Value;
use crate::model::{Declaration, Definition};

/// What is deployed in the project. The store answers from the database; [`Nothing`] is an empty project.
pub trait Known {
    /// The latest version of a process.
    fn process(&self, key: &str) -> Option<Deployed>;

    /// The tool server of this name.
    fn server(&self, name: &str) -> Option<Server>;

    /// Values that a set without `legation.toml` reads as `values.x`.
    fn values(&self) -> BTreeMap<String, Value> {
        BTreeMap::new()
    }
}

/// A deployed process.
#[derive(Clone, Debug)]
pub struct Deployed {
    pub definition: Arc<Definition>,
    /// [`super::digest_of`] of the definition.
    pub digest: String,
}

/// An empty project.
pub struct Nothing;

impl Known for Nothing {
    fn process(&self, _: &str) -> Option<Deployed> {
        None
    }

    fn server(&self, _: &str) -> Option<Server> {
        None
    }
}

/// What a lookup found.
pub(super) enum Found {
    Definition(Arc<Definition>),
    /// It is in the set, with problems of its own.
    Broken,
    Nothing,
}

/// What pinning a process may look at.
pub(super) struct Pinning<'p> {
    pub(super) problems: &'p mut Problems,
    /// The process being pinned.
    pub(super) process: &'p str,
    pub(super) variables: &'p [Declaration],
    pub(super) produced: &'p Produced,
    /// Processes of the set: frozen ones with their version, broken ones as None.
    pub(super) set: &'p BTreeMap<String, Option<Arc<Definition>>>,
    /// Servers of the set; broken ones as None.
    pub(super) servers: &'p BTreeMap<String, Option<Server>>,
    pub(super) known: &'p dyn Known,
}

impl Pinning<'_> {
    pub(super) fn child(&self, key: &str) -> Found {
        match self.set.get(key) {
            Some(Some(definition)) => Found::Definition(Arc::clone(definition)),
            Some(None) => Found::Broken,
            None => match self.known.process(key) {
                Some(deployed) => Found::Definition(deployed.definition),
                None => Found::Nothing,
            },
        }
    }

    pub(super) fn server(&self, name: &str) -> Option<Server> {
        match self.servers.get(name) {
            Some(server) => server.clone(),
            None => self.known.server(name),
        }
    }

    pub(super) fn is_broken_server(&self, name: &str) -> bool {
        matches!(self.servers.get(name), Some(None))
    }

    pub(super) fn process_missing(&mut self, at: &At<'_>, key: &str) {
        self.problems
            .error(at, Code::ProcessNotFound, format!("there is no process `{key}`"))
            .hint(format!("deploy `{key}` first, or in the same set"));
    }

    /// D5: an output asked of a child must be something it declares or can produce.
    pub(super) fn check_output(&mut self, name: &str, child: &Definition, at: &At<'_>) {
        if child.outputs.iter().any(|declaration| declaration.name == name) {
            return;
        }
        let produced = Produced::of(child);
        if produced.names.contains(name) {
            return;
        }
        if produced.open {
            let message = format!("nothing in `{}` says that it writes `{name}`", child.key);
            self.problems
                .warning(at, Code::OutputNotProvable, message)
                .hint(format!(
                    "name it in the child's `metadata.outputs`, or in a node's `outputs: [{name}]`"
                ));
            return;
        }
        self.problems
            .error(
                at,
                Code::OutputUnknown,
                format!("no node of `{}` writes `{name}`", child.key),
            )
            .maybe(
                super::words::nearest(name, &produced.list()).map(|near| format!("did you mean `{near}`?")),
            );
    }

    /// D65: the name that a model sees, `left__right`, at most 64 characters and the only one of its node.
    pub(super) fn function(
        &mut self,
        left: &str,
        right: &str,
        at: &At<'_>,
        taken: &mut Vec<String>,
    ) -> String {
        let name = function_name(left, right);
        if name.len() > 64 {
            let message = format!(
                "the function name `{name}` has {} characters, at most 64 are allowed",
                name.len()
            );
            self.problems.error(at, Code::FunctionName, message);
        } else if taken.contains(&name) {
            let message = format!("the function name `{name}` is taken by another entry of this node");
            self.problems.error(at, Code::FunctionName, message);
        }
        taken.push(name.clone());
        name
    }
}

/// `server__tool`, `delegate__process`: other characters than letters, digits, `_` and `-` become `_`.
#[must_use]
pub fn function_name(left: &str, right: &str) -> String {
    let plain = |text: &str| -> String {
        text.chars()
            .map(|c| {
                if c.is_ascii_alphanumeric() || c == '_' || c == '-' {
                    c
                } else {
                    '_'
                }
            })
            .collect()
    };
    format!("{}__{}", plain(left), plain(right))
}
