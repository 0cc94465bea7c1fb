//! Which variables a node's expressions and texts read.

use crate::expr::Expr;
use crate::model::{Mapping, Moment, Node, NodeKind, Source};
use crate::template::Template;

/// The variable paths that a node may read, each once: `order.total` is `["order", "total"]`.
#[must_use]
pub fn reads(node: &Node) -> Vec<Vec<String>> {
    let mut found = Paths::default();
    found.mappings(node.inputs.as_deref());
    found.mappings(node.outputs.as_deref());
    if let Some(timeout) = &node.on_timeout {
        found.moment(&timeout.when);
    }
    match &node.kind {
        NodeKind::Start | NodeKind::EngineTask(_) | NodeKind::CallProcess(_) | NodeKind::Parallel(_) => {}
        NodeKind::End(end) => {
            if let Some(closing) = &end.closing {
                found.template(closing);
            }
        }
        NodeKind::Agent(agent) => {
            found.template(&agent.prompt);
            for outcome in &agent.outcomes {
                found.expressions(outcome.when.iter());
            }
        }
        NodeKind::Decision(table) => {
            for rule in &table.rules {
                found.expression(&rule.when);
            }
            let columns = table.rules.iter().map(|rule| &rule.then).chain(&table.otherwise);
            for column in columns.flatten() {
                found.source(&column.value);
            }
        }
        NodeKind::Human(human) => {
            if let Some(due) = &human.due {
                found.moment(due);
            }
        }
        NodeKind::Exclusive(exclusive) => found.expressions(exclusive.rules.iter().map(|rule| &rule.when)),
        NodeKind::Timer(moment) => found.moment(moment),
    }
    found.list
}

#[derive(Default)]
struct Paths {
    list: Vec<Vec<String>>,
}

impl Paths {
    fn add(&mut self, paths: Vec<Vec<String>>) {
        for path in paths {
            if !self.list.contains(&path) {
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
