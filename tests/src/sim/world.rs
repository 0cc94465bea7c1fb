//! The simulated world: small processes that cover the nodes of today, who is started with what, and what nature,
//! workers and people always do. Nothing here depends on time or luck, so that a run full of accidents must end like
//! the one without.

use legation_language::{Value, canonical};
use rand::Rng;
use rand::rngs::StdRng;
use rand::seq::IndexedRandom;

/// Path and text of every document.
pub const FILES: [(&str, &str); 9] = [
    ("servers/bank.server.yaml", BANK),
    ("processes/order.process.yaml", ORDER),
    ("processes/refund.process.yaml", REFUND),
    ("processes/large.process.yaml", LARGE),
    ("processes/complaint.process.yaml", COMPLAINT),
    ("processes/errand.process.yaml", ERRAND),
    ("processes/late.process.yaml", LATE),
    ("processes/mishap.process.yaml", MISHAP),
    ("processes/race.process.yaml", RACE),
];

const BANK: &str = "
name: bank
transport: streamable-http
url: https://bank.example/mcp
tools:
  look: { policy: read }
  book: { policy: write, idempotency: key }
  transfer: { policy: write, idempotency: none }
  payout: { policy: approval_required, idempotency: key, approval: { approvers: [finance] } }
";

/// Decision, exclusive, fork and join, retries, timer; a sensitive variable and one over 1 KiB.
const ORDER: &str = "
metadata:
  key: order
  variables: { amount: { type: number }, card: { type: string, sensitive: true } }
flow:
  nodes:
    - id: rate
      type: decision
      rules:
        - { when: amount > 300, then: { kind: large } }
        - { otherwise: { kind: small } }
    - { id: split, type: parallel, branches: [pay, pack, pause] }
    - { id: pay, type: engine-task, service: pay, next: together }
    - { id: pack, type: engine-task, service: flaky, next: gifted }
    - { id: gifted, type: exclusive, rules: [ { if: kind == 'large', then: gift }, { else: together } ] }
    - { id: gift, type: engine-task, service: plain, inputs: [pack_note], next: together }
    - { id: pause, type: timer, after: 10m, next: together }
    - { id: together, type: parallel, join: all, next: done }
    - { id: done, type: end }
";

const REFUND: &str = "
metadata:
  key: refund
  variables: { amount: { type: number } }
  outputs: { payout_id: { type: string } }
flow:
  nodes:
    - id: allowed
      type: exclusive
      rules: [ { if: amount <= 500, then: pay }, { else: denied } ]
    - { id: denied, type: end, error: REFUND_DENIED }
    - { id: pay, type: engine-task, service: pay, outputs: [payout_id], next: done }
    - { id: done, type: end }
";

const LARGE: &str = "
metadata:
  key: large
  variables: { amount: { type: number } }
  outputs: { payout_id: { type: string } }
flow:
  nodes:
    - { id: pay, type: engine-task, service: pay, outputs: [payout_id] }
    - id: check
      type: human
      candidates: { groups: [finance] }
      outcomes: { fine: { then: done }, odd: { then: noted } }
    - { id: noted, type: engine-task, service: plain, next: done }
    - { id: done, type: end }
";

/// The agent: every kind of tool, delegations with and without approval, one child at a time.
const COMPLAINT: &str = "
metadata:
  key: complaint
  variables: { plan: { type: string }, amount: { type: number } }
flow:
  nodes:
    - id: triage
      type: agent
      model: scripted
      prompt: Do ${plan} for ${amount}
      tools: [bank/look, bank/book, bank/transfer, bank/payout]
      delegates:
        - { process: refund, outputs: [payout_id] }
        - { process: large, outputs: [payout_id], approval: required, approvers: [finance] }
      max_concurrent: 1
      result_variable: answer
      next: notify
    - { id: notify, type: engine-task, service: plain, inputs: [answer] }
    - { id: done, type: end }
";

/// A called process, a person, a timer.
const ERRAND: &str = "
metadata: { key: errand, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: call, type: call-process, process: refund, inputs: [amount], outputs: [payout_id], on_error: [ { code: REFUND_DENIED, then: sorry } ] }
    - id: check
      type: human
      candidates: { groups: [finance] }
      outcomes: { fine: { then: pause }, odd: { then: sorry } }
    - { id: pause, type: timer, after: 5m, next: done }
    - { id: sorry, type: engine-task, service: plain, next: done }
    - { id: done, type: end }
";

/// Work that nobody takes runs into its timeout.
const LATE: &str = "
metadata: { key: late, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: call, type: engine-task, service: nobody, on_timeout: { after: 10m, then: remind }, next: never }
    - { id: never, type: end }
    - { id: remind, type: engine-task, service: pay, on_timeout: { after: 3000d, then: never }, next: done }
    - { id: done, type: end }
";

/// Failures: one that is caught, an error by code, one that only an operator gets over.
const MISHAP: &str = "
metadata: { key: mishap, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: doomed, type: engine-task, service: doomed, retry: { max_attempts: 2 }, on_error: [ { then: refused } ], next: never }
    - { id: never, type: end }
    - { id: refused, type: engine-task, service: refusing, on_error: [ { code: NO_STOCK, then: stubborn } ], next: never }
    - { id: stubborn, type: engine-task, service: stubborn, retry: { max_attempts: 2 }, next: done }
    - { id: done, type: end }
";

/// Completion and timeout race: either may win, so only the invariants are compared (B22).
const RACE: &str = "
metadata: { key: race, variables: { amount: { type: number } } }
flow:
  nodes:
    - { id: split, type: parallel, branches: [quick, agent] }
    - { id: quick, type: engine-task, service: pay, on_timeout: { after: 20s, then: slow }, next: together }
    - { id: slow, type: engine-task, service: plain, next: together }
    - id: agent
      type: agent
      model: scripted
      prompt: Do it for ${amount}
      tools: [bank/book, bank/transfer]
      delegates: [ { process: refund, outputs: [payout_id] } ]
      on_timeout: { after: 90s, then: slow }
      next: together
    - { id: together, type: parallel, join: all, next: done }
    - { id: done, type: end }
";

/// A start that the world makes.
#[derive(Clone, Debug)]
pub struct Start {
    /// The business key, which names it in both runs.
    pub key: String,
    pub process: &'static str,
    pub amount: u32,
    /// What the agent's model asks for: turns divided by `|`, a letter a call.
    pub plan: &'static str,
    /// Somebody will cancel it at some time of the run with accidents.
    pub cancelled: bool,
}

const PLANS: [&str; 8] = ["rd", "bt|d", "pl", "rr|dd|b", "btpdl", "t|t", "d|d", "r|b|t|d|p"];
const PROCESSES: [&str; 12] = [
    "complaint",
    "complaint",
    "complaint",
    "complaint",
    "complaint",
    "order",
    "order",
    "errand",
    "mishap",
    "late",
    "race",
    "errand",
];

/// What a seed starts.
pub fn starts(rng: &mut StdRng) -> Vec<Start> {
    let count = rng.random_range(2..=4);
    let start = |n| {
        let process = *PROCESSES.choose(rng).unwrap_or(&"order");
        Start {
            key: format!("K-{n}"),
            process,
            amount: rng.random_range(1..=6) * 100,
            plan: PLANS.choose(rng).unwrap_or(&"rd"),
            cancelled: rng.random_ratio(1, 10),
        }
    };
    (0..count).map(start).collect()
}

impl Start {
    pub fn variables(&self) -> Vec<(&'static str, Value)> {
        let amount = ("amount", Value::from(self.amount));
        match self.process {
            "complaint" => vec![amount, ("plan", Value::from(self.plan))],
            "order" => vec![amount, ("card", Value::from("4711"))],
            _ => vec![amount],
        }
    }

    /// Whether its end depends on what was faster.
    pub fn is_open(&self) -> bool {
        self.cancelled || self.process == "race"
    }

    /// The calls of each turn of the agent.
    pub fn turns(&self) -> Vec<Vec<Wish>> {
        let plan = if self.process == "race" { "bt|d" } else { self.plan };
        let mut nth = 0;
        plan.split('|')
            .map(|turn| {
                turn.chars()
                    .map(|letter| {
                        nth += 1;
                        Wish::new(letter, self.amount + nth)
                    })
                    .collect()
            })
            .collect()
    }
}

/// A call that the model asks for.
#[derive(Clone, Debug)]
pub struct Wish {
    pub tool_ref: &'static str,
    /// The function name that the model says.
    pub function: &'static str,
    pub arguments: Value,
}

impl Wish {
    fn new(letter: char, amount: u32) -> Self {
        let (tool_ref, function) = match letter {
            'r' => ("bank/look", "bank__look"),
            'b' => ("bank/book", "bank__book"),
            't' => ("bank/transfer", "bank__transfer"),
            'p' => ("bank/payout", "bank__payout"),
            'd' => ("delegate:refund", "delegate__refund"),
            _ => ("delegate:large", "delegate__large"),
        };
        Self {
            tool_ref,
            function,
            arguments: Value::map([("amount", amount)]),
        }
    }
}

/// What a tool answers to these arguments, always.
pub fn tool_result(tool_ref: &str, arguments: &Value) -> Value {
    let long = if tool_ref == "bank/look" {
        "data ".repeat(300)
    } else {
        String::new()
    };
    Value::map([
        ("tool", Value::from(tool_ref)),
        ("for", arguments.clone()),
        ("note", Value::from(long)),
    ])
}

/// What people always decide about the same thing: one in four says no.
pub fn says_yes(seed: u64, about: &str) -> bool {
    let digest = canonical::sha256_hex(format!("{seed}/{about}"));
    !digest.starts_with(['0', '1', '2', '3'])
}
