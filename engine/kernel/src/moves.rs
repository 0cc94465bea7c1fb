//! All that a node may do to its instance. Every change is an event that is applied at once, so a later line
//! sees what an earlier one did.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use legation_language::documents::reads;
use legation_language::model::{Definition, Mapping, Node, Source as From};
use legation_language::{Value, canonical};

use crate::content::{Content, INLINE_LIMIT, at_hand, is_longer_than, payload};
use crate::effect::{Effect, HumanEnd, Incident, Mail};
use crate::expr::{Budget, evaluate};
use crate::ids::InstanceId;
use crate::instance::{Event, Instance, Resume, Source, Stuck, Token, TokenState, Variable, apply};
use crate::lookup::Lookup;
use crate::rejection::Stop;
use crate::task::{TASK_FORMAT, Task, TaskFile};
use crate::work::{Touched, Work};

/// Why a node could not go on: the process itself failed (an incident), or the command must stop.
#[derive(Debug)]
pub enum Trouble {
    Incident { code: &'static str, message: String },
    Stop(Stop),
}

impl std::convert::From<Stop> for Trouble {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

/// What an activity came back with.
#[derive(Clone, Debug, Default)]
pub struct Done {
    /// An object of results by name; an agent's may be text.
    pub result: Value,
    /// The chosen outcome of an agent or a person.
    pub outcome: Option<String>,
    pub source: Source,
}

/// The moves on one instance within one command.
pub struct Moves<'w, 'a> {
    pub work: &'w mut Work<'a>,
    touched: Touched,
    pub definition: Arc<Definition>,
}

impl<'w, 'a> Moves<'w, 'a> {
    pub(crate) fn new(work: &'w mut Work<'a>, touched: Touched, definition: Arc<Definition>) -> Self {
        Self {
            work,
            touched,
            definition,
        }
    }

    pub(crate) fn into_touched(self) -> Touched {
        self.touched
    }

    /// The time of the command. Times within an instance never go back, whatever another engine's clock said
    /// before (core §2, "Time").
    #[must_use]
    pub fn now(&self) -> i64 {
        self.work.env.now.max(self.touched.instance.updated_at)
    }

    #[must_use]
    pub fn instance(&self) -> &Instance {
        &self.touched.instance
    }

    #[must_use]
    pub fn id(&self) -> InstanceId {
        self.touched.instance.id.clone()
    }

    /// A token that is known to exist in this command.
    #[must_use]
    pub fn token(&self, id: u32) -> Option<&Token> {
        self.touched.instance.tokens.get(&id)
    }

    /// The first READY token and its node.
    pub(crate) fn ready(&self) -> Option<(u32, String)> {
        let ready = |(id, token): (&u32, &Token)| {
            (token.state == TokenState::Ready).then(|| (*id, token.node.clone()))
        };
        self.touched.instance.tokens.iter().find_map(ready)
    }

    /// The budget of the command is used up: the rest follows as a command of its own.
    pub(crate) fn go_on_later(&mut self) {
        let instance = self.id();
        self.effect(Effect::Mail(Mail::Continue { instance }));
    }

    /// Creates the external task of a node; the token waits for it.
    pub(crate) fn create_task(
        &mut self,
        token: u32,
        node: &Node,
        topic: &str,
        priority: i32,
        agent: bool,
        inputs: Option<Value>,
    ) {
        let number = self.number();
        let id = self.touched.instance.id.task(number);
        let inputs = inputs.map(|value| {
            if !is_longer_than(&value, INLINE_LIMIT) && !self.holds_secrets() {
                return Content::Inline(value);
            }
            let (reference, new) = payload(id.as_str(), value);
            self.work.payloads.insert(new.digest.clone(), new.value.clone());
            self.work.effects.push(Effect::Payload(new));
            Content::Payload(reference)
        });
        let task = Task {
            format: TASK_FORMAT,
            token,
            node: node.id.clone(),
            topic: topic.to_owned(),
            agent,
            priority,
            created_at: self.now(),
            attempt: 1,
            tries: 0,
            lease_no: 0,
            lease: None,
            ended_lease: None,
            available_at: None,
            parked: false,
            expiries: 0,
            deferrals: 0,
            invalid_outputs: 0,
            retired: None,
            incidents: BTreeSet::new(),
            closing: None,
            idempotency_key: canonical::sha256_hex(id.as_str().as_bytes()),
            inputs,
            traceparent: self.work.env.traceparent.map(str::to_owned),
            next_settled: 1,
            journal_bytes: 0,
            tokens_used: 0,
            news: false,
            id,
        };
        self.work.add_task(TaskFile {
            task,
            steps: Vec::new(),
        });
        self.emit(Event::TaskCreated {
            token,
            task: number,
            topic: topic.to_owned(),
        });
    }

    /// Whether values of this instance may stand in no row.
    pub(crate) fn holds_secrets(&self) -> bool {
        self.touched.instance.holds_secrets(&self.definition)
    }

    /// A fresh local number.
    pub fn number(&mut self) -> u32 {
        let number = self.touched.next;
        self.touched.next += 1;
        number
    }

    /// The counter itself, for the journal, which numbers approvals and children.
    pub(crate) fn numbers(&self) -> u32 {
        self.touched.next
    }

    pub(crate) fn set_numbers(&mut self, next: u32) {
        self.touched.next = next;
    }

    /// Takes an event into the state and the history.
    pub fn emit(&mut self, event: Event) {
        let now = self.now();
        apply(&mut self.touched.instance, &event, now);
        self.touched.events.push(event);
    }

    /// Sends an effect, and tells the instance what it means for it.
    pub fn effect(&mut self, effect: Effect) {
        if let Some(event) = self.told(&effect) {
            self.emit(event);
        }
        self.work.effects.push(effect);
    }

    /// Takes over effects that the journal decided.
    pub fn effects(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            self.effect(effect);
        }
    }

    /// The instance event of an effect: work items are a function of instance state (core §1).
    fn told(&self, effect: &Effect) -> Option<Event> {
        let local = |id: &str| crate::ids::local_of(id).unwrap_or_default();
        match effect {
            Effect::Payload(_) | Effect::Mail(_) => None,
            Effect::OpenHuman(human) => Some(Event::HumanOpened {
                human: local(&human.id),
                approval_of: human.task.as_ref().map(|task| {
                    (
                        task.local(),
                        human.attempt.unwrap_or_default(),
                        human.sequence.unwrap_or_default(),
                    )
                }),
            }),
            Effect::CloseHuman(end) => Some(Event::HumanClosed {
                human: local(&end.id),
                outcome: end.outcome.clone(),
                by: end.by.clone(),
                comment: end.comment.clone(),
            }),
            Effect::ArmTimer(timer) => Some(Event::TimerArmed {
                timer: local(&timer.id),
                due_at: timer.due_at,
                guards: None,
            }),
            Effect::DisarmTimer { id } => Some(Event::TimerDisarmed { timer: local(id) }),
            Effect::OpenIncident(incident) if incident.notice => Some(Event::NoticeOpened {
                notice: local(&incident.id),
                code: incident.code.clone(),
                node: incident.node.clone(),
            }),
            Effect::OpenIncident(incident) => Some(Event::IncidentOpened {
                incident: local(&incident.id),
                code: incident.code.clone(),
                node: incident.node.clone(),
            }),
            Effect::CloseIncident { id, by, resolution } => Some(Event::IncidentClosed {
                incident: local(id),
                by: by.clone(),
                resolution: resolution.clone(),
            }),
        }
    }

    /// A value as the row holds it: large ones become payloads of this instance, and every one of an instance that
    /// has something sensitive.
    pub fn content(&mut self, value: Value) -> Content {
        if !is_longer_than(&value, INLINE_LIMIT) && !self.holds_secrets() {
            return Content::Inline(value);
        }
        let (reference, new) = payload(self.touched.instance.id.as_str(), value);
        self.work.payloads.insert(new.digest.clone(), new.value.clone());
        self.work.effects.push(Effect::Payload(new));
        Content::Payload(reference)
    }

    /// The value behind a content of this tree.
    pub fn value(&self, content: &Content) -> Result<Value, Stop> {
        Ok(content.value(self.work.payloads)?.clone())
    }

    /// Writes a variable of scope 0.
    pub fn set(&mut self, name: &str, value: Value, locked: bool, source: &Source) {
        let known = self.touched.instance.variables().get(name);
        let mut declared = self.definition.variables.iter().chain(&self.definition.outputs);
        let sensitive = known.is_some_and(|v| v.sensitive) || declared.any(|d| d.name == name && d.sensitive);
        let locked = locked || known.is_some_and(|v| v.locked);
        let content = self.content(value);
        let revision = self.touched.instance.revision + 1;
        let variable = Variable {
            content,
            locked,
            sensitive,
            revision,
            source: source.clone(),
        };
        self.emit(Event::VariableSet {
            scope: 0,
            name: name.to_owned(),
            variable,
        });
    }

    /// Writes what the engine itself says about a node: `<id>_outcome` and the like, locked.
    pub fn set_engine_name(&mut self, node: &str, suffix: &str, value: Value) {
        self.set(&engine_name(node, suffix), value, true, &Source::node(node));
    }

    /// Evaluates an expression over the instance, the built-in names and `result`.
    pub fn evaluate(
        &self,
        token: u32,
        expr: &legation_language::expr::Expr,
        result: Option<&Value>,
    ) -> Result<Value, Trouble> {
        let lookup = Lookup::new(self, token, result);
        let value = evaluate(expr, &lookup, &mut Budget::default());
        self.judge(&lookup, token, value)
    }

    /// Turns an evaluation into a value, or the trouble that stops the token.
    pub(crate) fn judge(
        &self,
        lookup: &Lookup<'_>,
        token: u32,
        value: Result<Value, crate::expr::EvalError>,
    ) -> Result<Value, Trouble> {
        if let Some(digest) = lookup.missing() {
            return Err(Trouble::Stop(Stop::MissingPayloads(vec![digest])));
        }
        value.map_err(|error| {
            let node = self.token(token).map_or("?", |token| token.node.as_str());
            Trouble::Incident {
                code: "EXPRESSION_FAILED",
                message: format!("node {node}: {error}"),
            }
        })
    }

    /// A yes-or-no expression.
    pub fn is_true(&self, token: u32, expr: &legation_language::expr::Expr) -> Result<bool, Trouble> {
        match self.evaluate(token, expr, None)? {
            Value::Bool(answer) => Ok(answer),
            other => {
                let node = self.token(token).map_or("?", |token| token.node.as_str());
                let message = format!(
                    "node {node}: `{}` gave {} where true or false is needed",
                    expr.source(),
                    other.kind()
                );
                Err(Trouble::Incident {
                    code: "EXPRESSION_FAILED",
                    message,
                })
            }
        }
    }

    /// Evaluates a list of mappings, all before any is written.
    pub fn mapped(
        &self,
        token: u32,
        mappings: &[Mapping],
        result: Option<&Value>,
    ) -> Result<BTreeMap<String, Value>, Trouble> {
        let mut values = BTreeMap::new();
        for mapping in mappings {
            let value = self.source(token, &mapping.from, result)?;
            values.insert(mapping.name.clone(), value);
        }
        Ok(values)
    }

    /// A literal, or the value of an expression.
    pub fn source(&self, token: u32, source: &From, result: Option<&Value>) -> Result<Value, Trouble> {
        match source {
            From::Literal(value) => Ok(value.clone()),
            From::Expression(expr) => self.evaluate(token, expr, result),
        }
    }

    /// What a node misses, with all else that its expressions may read: loading one by one would begin anew each time.
    pub(crate) fn with_reads(&self, node: &Node, stop: Stop) -> Stop {
        let Stop::MissingPayloads(first) = stop else {
            return stop;
        };
        let mut missing: BTreeSet<String> = first.into_iter().collect();
        for name in reads(node).into_iter().filter_map(|path| path.into_iter().next()) {
            if let Some(Content::Payload(reference)) =
                self.touched.instance.variables().get(&name).map(|v| &v.content)
                && !self.work.payloads.contains(&reference.digest)
            {
                missing.insert(reference.digest.clone());
            }
        }
        Stop::MissingPayloads(missing.into_iter().collect())
    }

    /// All variables but sensitive ones: what an activity without `inputs` gets.
    pub fn open_variables(&self) -> Result<BTreeMap<String, Value>, Stop> {
        let open = self
            .touched
            .instance
            .variables()
            .values()
            .filter(|variable| !variable.sensitive);
        at_hand(open.map(|variable| &variable.content), self.work.payloads)?;
        let mut values = BTreeMap::new();
        for (name, variable) in self.touched.instance.variables() {
            if !variable.sensitive {
                values.insert(name.clone(), self.value(&variable.content)?);
            }
        }
        Ok(values)
    }

    /// Ends a node: its timeout is disarmed, the token is READY at `target`.
    pub fn goto(&mut self, token: u32, target: &str, forks: Option<Vec<u32>>) {
        self.disarm(token);
        let Some(from) = self.token(token).map(|token| token.node.clone()) else {
            return;
        };
        let activity = self.number();
        self.emit(Event::TokenMoved {
            token,
            node: target.to_owned(),
            activity,
            from,
            forks,
        });
    }

    /// Ends a node along its `next`.
    pub fn leave(&mut self, token: u32, node: &Node) -> Result<(), Trouble> {
        let Some(next) = &node.next else {
            let message = format!("node {} has no next node", node.id);
            return Err(Trouble::Incident {
                code: "NO_NEXT",
                message,
            });
        };
        self.goto(token, &next.clone(), None);
        Ok(())
    }

    fn disarm(&mut self, token: u32) {
        let guards = self
            .token(token)
            .map(|token| [token.timeout, token.alarm])
            .unwrap_or_default();
        for timer in guards.into_iter().flatten() {
            let id = self.touched.instance.id.timer(timer);
            self.effect(Effect::DisarmTimer { id });
        }
    }

    /// Takes a token off the board.
    pub fn end_token(&mut self, token: u32) {
        self.disarm(token);
        self.emit(Event::TokenEnded { token });
    }

    /// Holds a token with an incident of its own.
    pub fn stick(&mut self, token: u32, code: &'static str, message: String, resume: Resume) {
        let number = self.number();
        let Some(node) = self.token(token).map(|token| token.node.clone()) else {
            return;
        };
        self.open_incident(number, &node, code, message);
        self.emit(Event::TokenStuck {
            token,
            stuck: Stuck {
                incident: number,
                resume,
            },
            code: code.to_owned(),
        });
    }

    pub(crate) fn open_incident(&mut self, number: u32, node: &str, code: &str, message: String) {
        let incident = Incident {
            id: self.touched.instance.id.incident(number),
            instance: self.id(),
            node: node.to_owned(),
            task: None,
            attempt: None,
            sequence: None,
            notice: false,
            code: code.to_owned(),
            message,
            created_at: self.now(),
            held: None,
        };
        self.effect(Effect::OpenIncident(Box::new(incident)));
    }

    /// Ends an open human task or approval without a decision.
    pub(crate) fn withdraw_human(&mut self, human: u32) {
        let end = HumanEnd {
            id: self.touched.instance.id.human(human),
            state: "CANCELLED",
            by: None,
            outcome: None,
            comment: None,
            at: self.now(),
        };
        self.effect(Effect::CloseHuman(end));
    }
}

/// The variable in which the engine itself says something about a node.
pub(crate) fn engine_name(node: &str, suffix: &str) -> String {
    format!("{}_{suffix}", node.replace('-', "_"))
}
