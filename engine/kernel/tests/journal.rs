//! The journal's rules on one task, without an instance around it: every refusal, grant, result and wait.
#![expect(clippy::unwrap_used, reason = "tests stop at the first surprise")]

#[path = "journal/approvals.rs"]
mod approvals;
#[path = "journal/bench.rs"]
mod bench;
#[path = "journal/cells.rs"]
mod cells;
#[path = "journal/closing.rs"]
mod closing;
#[path = "journal/delegation.rs"]
mod delegation;
#[path = "journal/fixtures.rs"]
mod fixtures;
#[path = "journal/grants.rs"]
mod grants;
#[path = "journal/leases.rs"]
mod leases;
#[path = "journal/messages.rs"]
mod messages;
#[path = "journal/order.rs"]
mod order;
#[path = "journal/output.rs"]
mod output;
#[path = "journal/promises.rs"]
mod promises;
#[path = "journal/random.rs"]
mod random;
#[path = "journal/retire.rs"]
mod retire;
#[path = "journal/reuse.rs"]
mod reuse;
#[path = "journal/turns.rs"]
mod turns;
