//! Errors look for the nearest `on_error`; interrupting takes a token off whatever it waits for.

use legation_language::Value;
use legation_language::model::Node;

use crate::effect::Effect;
use crate::instance::{Event, Resume, TokenState, Wait};
use crate::moves::{Moves, Trouble};
use crate::rejection::Stop;
use crate::task::{TaskOutcome, retire};

impl Moves<'_, '_> {
    /// Raises an error at a token that has no open work of its own. Uncaught, an incident holds the token and a
    /// retry enters the node again.
    pub(crate) fn raise(
        &mut self,
        token: u32,
        node: &Node,
        code: &str,
        message: Option<String>,
    ) -> Result<(), Trouble> {
        if self.catch(token, node, code, message.clone())? {
            return Ok(());
        }
        let text = format!(
            "error {code} at node {} is not caught{}",
            node.id,
            tail(message.as_deref())
        );
        self.stick(token, "UNHANDLED_ERROR", text, Resume::Enter);
        Ok(())
    }

    /// Routes an error along `on_error` when the node catches it: whatever the token waits for is interrupted,
    /// and `<id>_outcome` and `<id>_error_code` say what happened.
    pub(crate) fn catch(
        &mut self,
        token: u32,
        node: &Node,
        code: &str,
        message: Option<String>,
    ) -> Result<bool, Stop> {
        let catcher = catcher(node, code).map(str::to_owned);
        self.emit(Event::ErrorRaised {
            node: node.id.clone(),
            code: code.to_owned(),
            message,
            caught_by: catcher.clone(),
        });
        let Some(target) = catcher else { return Ok(false) };
        self.interrupt(token, "an error was caught")?;
        self.set_engine_name(&node.id, "outcome", Value::from("error"));
        self.set_engine_name(&node.id, "error_code", Value::from(code));
        self.goto(token, &target, None);
        Ok(true)
    }

    /// The token's `on_timeout` fires: its wait is interrupted and it takes the timeout route (D20).
    pub(crate) fn time_out(&mut self, token: u32, node: &Node) -> Result<(), Stop> {
        let Some(timeout) = &node.on_timeout else {
            return Ok(());
        };
        self.interrupt(token, "the node timed out")?;
        self.set_engine_name(&node.id, "outcome", Value::from("timeout"));
        self.goto(token, &timeout.then.clone(), None);
        Ok(())
    }

    /// Ends what a token waits for: tasks are retired with their steps, children cancelled, timers disarmed,
    /// human tasks and incidents closed.
    pub(crate) fn interrupt(&mut self, token: u32, cause: &str) -> Result<(), Stop> {
        for child in self.let_go(token, cause)? {
            self.cancel_child(child, cause)?;
        }
        Ok(())
    }

    /// Ends what a token waits for but the children, which it answers.
    pub(crate) fn let_go(&mut self, token: u32, cause: &str) -> Result<Vec<u32>, Stop> {
        let Some(state) = self.token(token).map(|token| token.state.clone()) else {
            return Ok(Vec::new());
        };
        match state {
            TokenState::Ready | TokenState::Waiting(Wait::Join) => {}
            TokenState::Waiting(Wait::Task { task }) => {
                return self.end_task(task, TaskOutcome::Cancelled, cause);
            }
            TokenState::Waiting(Wait::Human { human }) => self.withdraw_human(human),
            TokenState::Waiting(Wait::Timer { timer }) => {
                let id = self.instance().id.timer(timer);
                self.effect(Effect::DisarmTimer { id });
            }
            TokenState::Waiting(Wait::Child { child }) => return Ok(vec![child]),
            TokenState::Stuck(stuck) => {
                let id = self.instance().id.incident(stuck.incident);
                self.effect(Effect::CloseIncident {
                    id,
                    by: "engine".to_owned(),
                    resolution: cause.to_owned(),
                });
            }
        }
        Ok(Vec::new())
    }

    /// Ends an external task of this instance with all its open steps, and cancels the children they started.
    pub(crate) fn retire_task(&mut self, task: u32, outcome: TaskOutcome, cause: &str) -> Result<(), Stop> {
        for child in self.end_task(task, outcome, cause)? {
            self.cancel_child(child, cause)?;
        }
        Ok(())
    }

    /// Ends an external task with all its open steps, and answers the children that they started.
    fn end_task(&mut self, task: u32, outcome: TaskOutcome, cause: &str) -> Result<Vec<u32>, Stop> {
        let id = self.instance().id.task(task);
        let now = self.now();
        let mut numbers = self.numbers();
        let mut out = Vec::new();
        let file = self.work.task_mut(&id)?;
        if file.task.retired.is_some() {
            return Ok(Vec::new());
        }
        let retired = retire(file, outcome, cause, now, &mut numbers, &mut out);
        self.set_numbers(numbers);
        self.effects(out);
        let outcome = match outcome {
            TaskOutcome::Completed => "COMPLETED",
            TaskOutcome::Failed => "FAILED",
            TaskOutcome::Cancelled => "CANCELLED",
        };
        self.emit(Event::TaskEnded {
            task,
            outcome: outcome.to_owned(),
            code: None,
        });
        Ok(retired
            .children
            .iter()
            .filter_map(|child| crate::ids::local_of(child.as_str()))
            .collect())
    }
}

/// The target of the first `on_error` entry that catches this code; an entry without a code catches all.
fn catcher<'n>(node: &'n Node, code: &str) -> Option<&'n str> {
    let exact = node
        .on_error
        .iter()
        .find(|catch| catch.code.as_deref() == Some(code));
    exact
        .or_else(|| node.on_error.iter().find(|catch| catch.code.is_none()))
        .map(|catch| catch.then.as_str())
}

pub(crate) fn tail(message: Option<&str>) -> String {
    message.map_or_else(String::new, |message| format!(": {message}"))
}
