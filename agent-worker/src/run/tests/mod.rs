#![expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]

mod bad_days;
mod engine;

use std::collections::HashMap;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use legation_protocol::StepState;
use serde_json::json;
use tokio::sync::{Barrier, Notify};

use super::*;
use crate::models::scripted::Scripted;
use crate::models::{Turn, TurnRequest};
use crate::tools::Text;
use crate::turns::tests::agent;
use engine::{Memory, outputs};

/// Models by name; counts how often each was asked.
struct Scripts(HashMap<String, Arc<dyn Model>>);

struct Counted {
    script: Scripted,
    asked: Arc<Mutex<Vec<usize>>>,
}

#[async_trait]
impl Model for Counted {
    async fn turn(&self, request: TurnRequest<'_>) -> Result<Turn, ModelError> {
        self.asked.lock().unwrap().push(request.functions.len());
        self.script.turn(request).await
    }
}

impl ModelSource for Scripts {
    fn asked(&self, node_model: Option<&str>) -> String {
        node_model.unwrap_or("scripted").to_owned()
    }

    fn get(&self, asked: &str) -> Result<Arc<dyn Model>, ModelError> {
        self.0.get(asked).cloned().ok_or_else(|| ModelError::Fatal {
            message: format!("no model {asked}"),
        })
    }
}

/// Tools in memory: what they were sent, and what they do.
#[derive(Default)]
struct Desk {
    sent: Mutex<Vec<(String, String, Option<String>)>>,
    /// Calls wait here for each other.
    together: Option<Barrier>,
    /// Calls begin, then wait here.
    gate: Option<(Notify, Notify)>,
    /// The first so many calls are never answered.
    lost: Mutex<u32>,
}

#[async_trait]
impl Tools for Desk {
    async fn describe(&self, _: Option<&ServerBinding>, tool: &ToolBinding) -> Result<Described, CallError> {
        Err(CallError::new("TOOL_SERVER_UNREACHABLE", tool.server.clone()))
    }

    async fn call(&self, call: &ToolCall<'_>) -> ToolOutcome {
        let key = call.idempotency_key.map(str::to_owned);
        let entry = (call.binding.tool.clone(), call.arguments.get().to_owned(), key);
        self.sent.lock().unwrap().push(entry);
        if let Some(barrier) = &self.together {
            barrier.wait().await;
        }
        if let Some((begun, go)) = &self.gate {
            begun.notify_one();
            go.notified().await;
        }
        let mut lost = self.lost.lock().unwrap();
        if *lost > 0 {
            *lost -= 1;
            return ToolOutcome::Uncertain(CallError::new("TOOL_TIMEOUT", "silence"));
        }
        ToolOutcome::Done(Text {
            text: format!("{} done", call.binding.tool),
            cut_from: None,
        })
    }
}

struct World {
    engine: Memory,
    desk: Arc<Desk>,
    shared: Arc<Shared>,
    asked: Arc<Mutex<Vec<usize>>>,
    agent: AgentNode,
    drain: CancellationToken,
}

fn world(scripts: &[(&str, &str)], desk: Desk) -> World {
    let (engine, desk) = (Memory::new(), Arc::new(desk));
    let asked = Arc::new(Mutex::new(Vec::new()));
    let mut models: HashMap<String, Arc<dyn Model>> = HashMap::new();
    for (name, script) in scripts {
        let script = Scripted::parse(Path::new(name), script).unwrap();
        models.insert(
            (*name).to_owned(),
            Arc::new(Counted {
                script,
                asked: Arc::clone(&asked),
            }),
        );
    }
    let shared = Arc::new(Shared {
        engine: Arc::new(engine.clone()),
        models: Arc::new(Scripts(models)),
        tools: Arc::<Desk>::clone(&desk),
        worker_id: "w".to_owned(),
        lock_ms: 30,
        limits: Limits::default(),
    });
    World {
        engine,
        desk,
        shared,
        asked,
        agent: agent(),
        drain: CancellationToken::new(),
    }
}

impl World {
    /// One lease of a worker that knows nothing but the journal.
    async fn work(&self) -> Ended {
        run_task(
            Arc::clone(&self.shared),
            self.engine.lease(&self.agent),
            self.drain.clone(),
        )
        .await
    }

    fn sent(&self) -> Vec<(String, String, Option<String>)> {
        self.desk.sent.lock().unwrap().clone()
    }

    fn result(&self) -> String {
        self.engine
            .with(|s| s.completed[0].result.as_ref().unwrap().get().to_owned())
    }
}

const STORY: &str = r#"
- match: { turn: 1 }
  calls: [{ tool: crm/get_customer, arguments: { id: C-1 } }]
- match: { tool: crm/get_customer }
  calls: [{ tool: "delegate:refund_payout", arguments: { amount: 40 } }]
- match: { tool: "delegate:refund_payout", error: true }
  text: "sorry: ${result}"
- match: { tool: "delegate:refund_payout" }
  text: "paid as ${result/payout_id}"
"#;

#[tokio::test]
async fn a_delegation_parks_and_another_worker_goes_on_without_paying_a_turn_twice_d13_d16_d40() {
    let world = world(&[("scripted", STORY)], Desk::default());
    assert_eq!(world.work().await, Ended::Parked);
    assert_eq!(world.engine.with(|s| s.live.clone()), None);
    world.engine.settle(4, StepState::Completed, |s| {
        s.result = outputs(&json!({ "payout_id": "P-55" }))
    });
    world.engine.with(|s| s.page = 2);
    assert_eq!(world.work().await, Ended::Completed);
    assert_eq!(world.result(), "\"paid as P-55\"");
    assert_eq!(world.asked.lock().unwrap().len(), 3);
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn a_cancelled_child_is_told_to_the_model_and_the_task_completes_d16() {
    let world = world(&[("scripted", STORY)], Desk::default());
    world.work().await;
    let ended = "The delegated process ended CANCELLED; it returned nothing.";
    world.engine.settle(4, StepState::Failed, |s| {
        s.result = outputs(&json!({ "message": ended }))
    });
    assert_eq!(world.work().await, Ended::Completed);
    assert_eq!(world.result(), format!("\"sorry: {ended}\""));
}

#[tokio::test]
async fn parallel_calls_of_one_turn_run_at_the_same_time_d63() {
    let script = r#"
- match: { turn: 1 }
  calls: [{ tool: crm/get_customer, call_id: a }, { tool: crm/note, call_id: a }, { tool: crm/get_customer }]
- { match: { turn: 2 }, text: "all three" }
"#;
    // Each call waits until all three have begun.
    let desk = Desk {
        together: Some(Barrier::new(3)),
        ..Desk::default()
    };
    let world = world(&[("scripted", script)], desk);
    assert_eq!(world.work().await, Ended::Completed);
    assert_eq!(world.engine.states().len(), 5);
    assert_eq!(world.sent().len(), 3);
}

#[tokio::test]
async fn unknown_tools_and_bad_arguments_are_refused_journaled_and_read_d61_b19() {
    let script = r#"
- match: { turn: 1 }
  calls: [{ tool: crm/format_disk }, { tool: crm/get_customer, arguments_text: "id=1" }, { tool: crm/get_customer }]
- match: { tool: crm/format_disk, error: true, text: TOOL_NOT_BOUND }
  text: "understood"
"#;
    let world = world(&[("scripted", script)], Desk::default());
    assert_eq!(world.work().await, Ended::Completed);
    let states: Vec<StepState> = world
        .engine
        .states()
        .into_iter()
        .map(|(_, state)| state)
        .collect();
    let (completed, refused) = (StepState::Completed, StepState::Refused);
    assert_eq!(states, [completed, refused, refused, completed, completed]);
    assert_eq!(world.sent().len(), 1);
}

#[tokio::test]
async fn a_broken_output_after_a_paid_delegation_is_mended_without_a_second_payout_b19() {
    let script = r#"
- match: { turn: 1 }
  calls: [{ tool: "delegate:refund_payout", arguments: { amount: 40 } }]
- match: { tool: "delegate:refund_payout" }
  text: "no JSON here"
- match: { text: 'was refused.*amount is missing' }
  json: { amount: 40 }
"#;
    let mut world = world(&[("scripted", script)], Desk::default());
    world.agent.output_schema = Some(crate::models::raw_of(
        &json!({ "type": "object", "required": ["amount"] }),
    ));
    world.work().await;
    world.engine.settle(2, StepState::Completed, |s| {
        s.result = outputs(&json!({ "payout_id": "P-1" }))
    });
    let errors = vec![legation_protocol::problem::SchemaError {
        pointer: String::new(),
        message: "amount is missing".to_owned(),
    }];
    let problem = Problem {
        status: 422,
        code: "INVALID_OUTPUT".to_owned(),
        errors,
        ..Problem::default()
    };
    world.engine.with(|s| s.refusals.push_back(problem));
    assert_eq!(world.work().await, Ended::Completed);
    assert_eq!(world.result(), r#"{"amount":40}"#);
    let delegations = world
        .engine
        .states()
        .iter()
        .filter(|(t, _)| t.starts_with("delegate:"))
        .count();
    assert_eq!(delegations, 1);
}

#[tokio::test]
async fn an_approved_call_runs_with_the_arguments_and_key_of_its_grant_d46() {
    let script = r#"
- match: { turn: 1 }
  calls: [{ tool: crm/close, arguments: { id: C-1 } }]
- { match: { tool: crm/close, text: 'A reviewer changed the arguments' }, text: "closed" }
"#;
    let world = world(&[("scripted", script)], Desk::default());
    assert_eq!(world.work().await, Ended::Parked);
    assert!(world.sent().is_empty());
    world.engine.settle(2, StepState::Approved, |s| {
        s.arguments = outputs(&json!({ "id": "C-2" }));
        s.decided_by = Some("alice".to_owned());
    });
    assert_eq!(world.work().await, Ended::Completed);
    let key = Some("key-2".to_owned());
    assert_eq!(
        world.sent(),
        [("close".to_owned(), r#"{"id":"C-2"}"#.to_owned(), key)]
    );
}

#[tokio::test]
async fn a_rejected_call_is_never_run_and_its_comment_is_read_d45() {
    let script = r#"
- match: { turn: 1 }
  calls: [{ tool: crm/close }]
- { match: { tool: crm/close, error: true, text: 'rejected.*not this year' }, text: "left open" }
"#;
    let world = world(&[("scripted", script)], Desk::default());
    world.work().await;
    world.engine.settle(2, StepState::Rejected, |s| {
        s.comment = Some("not this year".to_owned())
    });
    assert_eq!(world.work().await, Ended::Completed);
    assert!(world.sent().is_empty());
}
