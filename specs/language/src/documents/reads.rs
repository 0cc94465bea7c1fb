//! Which variables a node's expressions and texts read.

use std::collections::BTreeSet;

use crate::expr::Expr;
use crate::model::{Mapping, Moment, Node, NodeKind, Source};
use crate::template::Template;

/// The variable paths that a node may read, each once: `order.total` is `["order", "total"]`.
#[must_use]
pub fn reads(node: &Node) -> Vec<Vec<String>> {
    let mut found = Paths::default();
    found.mappings(node.inputs.as_deref());
    found.mappings(node.outputs.as_deref());
    found.own(node);
    found.list
}

/// As [`reads`], without `outputs`, whose bare names may be keys of the result, without what an agent's texts name,
/// which are its inputs, and without closing messages, which have a rule of their own.
pub(super) fn reads_of_variables(node: &Node) -> Vec<Vec<String>> {
    let mut found = Paths::default();
    found.mappings(node.inputs.as_deref());
    if !matches!(node.kind, NodeKind::Agent(_) | NodeKind::End(_)) {
        found.own(node);
    }
    found.list
}

#[derive(Default)]
struct Paths {
    list: Vec<Vec<String>>,
    seen: BTreeSet<Vec<String>>,
}

impl Paths {
    /// What the node's own fields read.
    fn own(&mut self, node: &Node) {
        if let Some(timeout) = &node.on_timeout {
            self.moment(&timeout.when);
        }
        match &node.kind {
            NodeKind::Start | NodeKind::EngineTask(_) | NodeKind::CallProcess(_) | NodeKind::Parallel(_) => {}
            NodeKind::End(end) => {
                if let Some(closing) = &end.closing {
                    self.template(closing);
                }
            }
            NodeKind::Agent(agent) => {
                self.template(&agent.prompt);
                for outcome in &agent.outcomes {
                    self.expressions(outcome.when.iter());
                }
            }
            NodeKind::Decision(table) => {
                for rule in &table.rules {
                    self.expression(&rule.when);
                }
                let columns = table.rules.iter().map(|rule| &rule.then).chain(&table.otherwise);
                for column in columns.flatten() {
                    self.source(&column.value);
                }
            }
            NodeKind::Human(human) => {
                if let Some(due) = &human.due {
                    self.moment(due);
                }
            }
            NodeKind::Exclusive(exclusive) => self.expressions(exclusive.rules.iter().map(|rule| &rule.when)),
            NodeKind::Timer(moment) => self.moment(moment),
        }
    }

    fn add(&mut self, paths: Vec<Vec<String>>) {
        for path in paths {
            if self.seen.insert(path.clone()) {
                self.list.push(path);
            }
        }
    }

    fn expression(&mut self, expression: &Expr) {
        self.add(expression.references());
    }

    fn expressions<'a>(&mut self, expressions: impl Iterator<Item = &'a Expr>) {
        for expression in expressions {
            self.expression(expression);
        }
    }

    fn template(&mut self, template: &Template) {
        self.add(template.references());
    }

    fn source(&mut self, source: &Source) {
        match source {
            Source::Expression(expression) => self.expression(expression),
            Source::Literal(_) => {}
        }
    }

    fn mappings(&mut self, mappings: Option<&[Mapping]>) {
        for mapping in mappings.into_iter().flatten() {
            self.source(&mapping.from);
        }
    }

    fn moment(&mut self, moment: &Moment) {
        match moment {
            Moment::After(_) => {}
            Moment::AfterExpression(expression) | Moment::At(expression) => self.expression(expression),
        }
    }
}
