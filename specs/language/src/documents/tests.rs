//! What documents become, and what they are refused for.

#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

mod bad_days;
mod codes;
mod examples;
mod freezing;
mod fuzz;
mod nodes;
mod schemas;
mod settings;
mod values;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::model::{Agent, Definition, Node, NodeKind};

/// The path of each file is its name; texts as given.
fn files(list: &[(&str, &str)]) -> BTreeMap<String, String> {
    list.iter()
        .map(|(file, text)| ((*file).to_owned(), (*text).to_owned()))
        .collect()
}

fn frozen(list: &[(&str, &str)]) -> Frozen {
    freeze(&files(list), &Options::default(), &Nothing)
}

/// `CODE line:column pointer`, one a line, of a process document alone.
fn problems_of(text: &str) -> String {
    shown(&frozen(&[("p.process.yaml", text)]).problems)
}

fn shown(problems: &[Problem]) -> String {
    let mut out = String::new();
    for problem in problems {
        let warning = if problem.severity == Severity::Warning {
            "warning "
        } else {
            ""
        };
        let Problem {
            code,
            line,
            column,
            pointer,
            ..
        } = problem;
        writeln!(out, "{warning}{} {line}:{column} {pointer}", code.as_str()).unwrap();
    }
    out.trim_end().to_owned()
}

/// The only process of a set without errors.
fn definition(text: &str) -> Arc<Definition> {
    let frozen = frozen(&[("p.process.yaml", text), ("crm.server.yaml", CRM)]);
    assert!(!frozen.has_errors(), "{:#?}", frozen.problems);
    Arc::clone(&frozen.processes[0].definition)
}

fn node(text: &str, id: &str) -> Node {
    definition(text).node(id).unwrap().clone()
}

fn agent_of(node: &Node) -> &Agent {
    let NodeKind::Agent(agent) = &node.kind else {
        panic!("{} is no agent", node.id)
    };
    agent
}

const CRM: &str = "name: crm
transport: stdio
tools:
  get_customer: { policy: read }
  create_ticket: { policy: write, idempotency: key }
  close_account: { policy: approval_required }
  refund: { policy: write, approval: required, approvers: [finance, board] }
";

/// What the engine has deployed, in a test.
#[derive(Default)]
struct Project {
    processes: BTreeMap<String, Deployed>,
    servers: BTreeMap<String, Server>,
}

impl Project {
    fn deploy(&mut self, list: &[(&str, &str)]) -> Vec<(String, u32, bool)> {
        let frozen = freeze(&files(list), &Options::default(), self);
        assert!(!frozen.has_errors(), "{:#?}", frozen.problems);
        let mut out = Vec::new();
        for process in frozen.processes {
            let definition = Arc::clone(&process.definition);
            out.push((definition.key.clone(), definition.version, process.changed));
            self.processes.insert(
                definition.key.clone(),
                Deployed {
                    definition,
                    digest: process.digest,
                },
            );
        }
        for server in frozen.servers {
            self.servers.insert(server.server.name.clone(), server.server);
        }
        out
    }
}

impl Known for Project {
    fn process(&self, key: &str) -> Option<Deployed> {
        self.processes.get(key).cloned()
    }

    fn server(&self, name: &str) -> Option<Server> {
        self.servers.get(name).cloned()
    }
}
