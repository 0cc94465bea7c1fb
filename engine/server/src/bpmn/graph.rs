//! What is drawn of a process: its nodes, the events and gateways that it only implies, and the flows between them.

use legation_language::model::{Definition, Moment, Node, NodeKind, Parallel};

/// Everything that is drawn, with what the document only implies.
#[derive(Default)]
pub struct Graph<'a> {
    pub shapes: Vec<Shape<'a>>,
    pub flows: Vec<Flow>,
    pub errors: Vec<String>,
}

pub struct Shape<'a> {
    pub id: String,
    pub what: What<'a>,
}

pub enum What<'a> {
    Node(&'a Node),
    ImplicitStart,
    /// Catches an error, or every error, of the node that it sits on.
    Caught {
        node: &'a Node,
        code: Option<&'a str>,
    },
    /// The node's time is up.
    Expired {
        node: &'a Node,
        when: &'a Moment,
    },
    /// Routes by the outcome that was chosen in the node before.
    Outcome(&'a Node),
}

pub struct Flow {
    pub id: String,
    pub from: String,
    pub to: String,
    pub name: Option<String>,
    pub condition: Option<String>,
    pub is_default: bool,
}

impl<'a> Graph<'a> {
    pub fn of(definition: &'a Definition) -> Self {
        let mut graph = Self::default();
        let entry = definition.node(&definition.entry);
        if !entry.is_some_and(|node| matches!(node.kind, NodeKind::Start)) {
            graph.shape("_start".to_owned(), What::ImplicitStart);
            graph.flow("_start", &definition.entry);
        }
        for node in &definition.nodes {
            graph.node(node);
        }
        graph
    }

    fn node(&mut self, node: &'a Node) {
        self.shape(node.id.clone(), What::Node(node));
        if let NodeKind::End(end) = &node.kind
            && let Some(code) = &end.error
        {
            self.error(code);
        }
        self.routes(node);
        for (number, catch) in node.on_error.iter().enumerate() {
            let id = format!("_caught_{}_{}", node.id, number + 1);
            if let Some(code) = &catch.code {
                self.error(code);
            }
            let code = catch.code.as_deref();
            self.shape(id.clone(), What::Caught { node, code });
            self.flow(&id, &catch.then);
        }
        if let Some(timeout) = &node.on_timeout {
            let id = format!("_expired_{}", node.id);
            let when = &timeout.when;
            self.shape(id.clone(), What::Expired { node, when });
            self.flow(&id, &timeout.then);
        }
    }

    fn routes(&mut self, node: &'a Node) {
        let outcomes: Vec<(&str, &str)> = match &node.kind {
            NodeKind::Human(human) => human
                .outcomes
                .iter()
                .map(|outcome| {
                    (
                        outcome.label.as_deref().unwrap_or(&outcome.name),
                        outcome.then.as_str(),
                    )
                })
                .collect(),
            NodeKind::Agent(agent) => agent
                .outcomes
                .iter()
                .map(|outcome| (outcome.name.as_str(), outcome.then.as_str()))
                .chain(
                    agent
                        .on_low_confidence
                        .iter()
                        .map(|to| ("low confidence", to.as_str())),
                )
                .chain(
                    agent
                        .on_invalid_output
                        .iter()
                        .map(|to| ("invalid output", to.as_str())),
                )
                .collect(),
            NodeKind::Exclusive(exclusive) => {
                for rule in &exclusive.rules {
                    let flow = self.flow(&node.id, &rule.then);
                    flow.name = Some(rule.when.source().to_owned());
                    flow.condition = Some(rule.when.source().to_owned());
                }
                if let Some(to) = &exclusive.otherwise {
                    let flow = self.flow(&node.id, to);
                    flow.is_default = true;
                    flow.name = Some("else".to_owned());
                }
                return;
            }
            NodeKind::Parallel(Parallel::Fork(branches)) => {
                for branch in branches {
                    self.flow(&node.id, branch);
                }
                return;
            }
            NodeKind::Start
            | NodeKind::End(_)
            | NodeKind::EngineTask(_)
            | NodeKind::Decision(_)
            | NodeKind::CallProcess(_)
            | NodeKind::Parallel(Parallel::JoinAll)
            | NodeKind::Timer(_) => Vec::new(),
        };
        if outcomes.is_empty() {
            if let Some(next) = &node.next {
                self.flow(&node.id, next);
            }
            return;
        }
        let gateway = format!("_outcome_{}", node.id);
        self.shape(gateway.clone(), What::Outcome(node));
        self.flow(&node.id, &gateway);
        for (name, to) in outcomes {
            self.flow(&gateway, to).name = Some(name.to_owned());
        }
        if let Some(next) = &node.next {
            self.flow(&gateway, next).is_default = true;
        }
    }

    fn shape(&mut self, id: String, what: What<'a>) {
        self.shapes.push(Shape { id, what });
    }

    fn flow(&mut self, from: &str, to: &str) -> &mut Flow {
        let flow = Flow {
            id: format!("_flow_{}", self.flows.len() + 1),
            from: from.to_owned(),
            to: to.to_owned(),
            name: None,
            condition: None,
            is_default: false,
        };
        self.flows.push(flow);
        let last = self.flows.len() - 1;
        &mut self.flows[last]
    }

    fn error(&mut self, code: &str) {
        if !self.errors.iter().any(|known| known == code) {
            self.errors.push(code.to_owned());
        }
    }

    pub fn error_id(&self, code: &str) -> String {
        let place = self.errors.iter().position(|known| known == code);
        format!("_error_{}", place.unwrap_or_default() + 1)
    }
}
