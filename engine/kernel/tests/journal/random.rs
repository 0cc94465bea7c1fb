//! Random workers, people, children, clocks and crashes on one task: whatever is lost, repeated or reordered, the
//! journal keeps its promises (I6, I7, I8, D39, D40).

use std::collections::{BTreeMap, BTreeSet};

use legation_kernel::ids::InstanceId;
use legation_kernel::instance::Status;
use legation_kernel::journal::{Step, StepInput, StepState};
use legation_kernel::rejection::Stop;
use legation_kernel::task::{self, Caller, Failure, TaskOutcome};
use legation_language::Value;
use legation_language::model::Retry;
use proptest::prelude::*;

use crate::bench::*;
use crate::promises::check;

/// One thing that happens; numbers pick from what exists at that time.
#[derive(Clone, Debug)]
enum Act {
    Fetch,
    /// A start by one of the callers so far, of the next sequence or one around it.
    Start {
        caller: usize,
        back: u32,
        what: u8,
        single: bool,
    },
    /// A result for some step of the attempt.
    Report {
        caller: usize,
        step: u32,
        state: u8,
        value: u8,
    },
    /// A call from the past, sent once more.
    Repeat {
        call: usize,
    },
    ChildEnds {
        child: usize,
        well: bool,
    },
    Decide {
        step: u32,
        approved: bool,
    },
    Resolve {
        step: u32,
        performed: bool,
    },
    Wake {
        step: u32,
    },
    Lapse,
    /// An operator retries whatever incident holds the task.
    Retry,
    Park {
        caller: usize,
    },
    Fail {
        caller: usize,
    },
    Tick {
        ms: i64,
    },
    Retire,
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    // Mostly the newest lease and the next step, so that stories get somewhere between the bad days.
    let caller = || prop_oneof![8 => Just(0usize), 1 => 1..4usize];
    let pick = any::<u32>;
    let act = prop_oneof![
        14 => Just(Act::Fetch),
        12 => (caller(), prop_oneof![6 => Just(0u32), 1 => 1..3u32], 0..8u8, any::<bool>())
            .prop_map(|(caller, back, what, single)| Act::Start { caller, back, what, single }),
        12 => (caller(), pick(), prop_oneof![5 => Just(0u8), 1 => Just(1u8), 1 => Just(2u8)], 0..3u8)
            .prop_map(|(caller, step, state, value)| Act::Report { caller, step, state, value }),
        4 => any::<usize>().prop_map(|call| Act::Repeat { call }),
        5 => (any::<usize>(), any::<bool>()).prop_map(|(child, well)| Act::ChildEnds { child, well }),
        4 => (pick(), any::<bool>()).prop_map(|(step, approved)| Act::Decide { step, approved }),
        4 => (pick(), any::<bool>()).prop_map(|(step, performed)| Act::Resolve { step, performed }),
        3 => pick().prop_map(|step| Act::Wake { step }),
        2 => Just(Act::Lapse),
        2 => Just(Act::Retry),
        1 => caller().prop_map(|caller| Act::Park { caller }),
        1 => caller().prop_map(|caller| Act::Fail { caller }),
        4 => prop_oneof![4 => 1..LOCK_MS / 8, 1 => LOCK_MS..3 * LOCK_MS].prop_map(|ms| Act::Tick { ms }),
        1 => Just(Act::Retire),
    ];
    proptest::collection::vec(act, 30..200)
}

/// The world's side: what was really handed out.
#[derive(Default)]
struct World {
    callers: Vec<Caller>,
    calls: Vec<(Caller, bool, u32, Vec<StepInput>)>,
    children: Vec<InstanceId>,
    /// Unkeyed writes that a grant told somebody to run: under which leases, since the last "not performed".
    told: BTreeMap<(u32, u32), BTreeSet<(u32, String)>>,
    started: BTreeMap<(u32, u32), InstanceId>,
}

fn what(kind: u8, sequence: u32) -> StepInput {
    match kind {
        0 => model(sequence),
        1 => tool(sequence, "crm/get_customer", Value::map([("id", 1)])),
        2 => tool(sequence, "crm/create_ticket", Value::map([("text", 1)])),
        3 => tool(sequence, "pay/refund", Value::map([("amount", 1)])),
        4 => tool(sequence, "pay/transfer", Value::map([("amount", 1)])),
        5 => delegation(sequence, "refund_payout", refund()),
        6 => delegation(sequence, "large_payout", refund()),
        _ => wait(sequence, 5_000),
    }
}

/// Some step of the attempt among those that fit.
fn nth(bench: &Bench, n: u32, fits: impl Fn(&Step) -> bool) -> Option<&Step> {
    let among: Vec<&Step> = bench.file.current().filter(|step| fits(step)).collect();
    if among.is_empty() {
        None
    } else {
        Some(among[n as usize % among.len()])
    }
}

/// What a worker would send again for a step that it reads in the journal.
fn resend(step: &Step) -> StepInput {
    let kinds = (0..8u8).map(|kind| what(kind, step.sequence));
    kinds
        .into_iter()
        .find(|input| input.tool_ref == step.tool_ref && input.kind == step.kind)
        .unwrap()
}

impl World {
    fn send(
        &mut self,
        bench: &mut Bench,
        caller: &Caller,
        single: bool,
        attempt: u32,
        steps: Vec<StepInput>,
    ) {
        self.calls.push((caller.clone(), single, attempt, steps.clone()));
        let record = legation_kernel::journal::Record {
            caller: caller.clone(),
            attempt,
            single,
            steps,
        };
        let before = bench.file.clone();
        let answer = bench.decide(|cx, file, numbers, out| {
            legation_kernel::journal::record(cx, file, &record, numbers, out)
        });
        let recorded = match answer {
            Ok(recorded) => recorded,
            Err(Stop::Rejected(_)) => {
                assert_eq!(bench.file, before, "a refused call left a trace");
                return;
            }
            Err(stop) => panic!("{stop:?}"),
        };
        for start in recorded.children {
            self.start(start.attempt, start.sequence, start.child);
        }
        for answer in recorded.steps.iter().filter(|answer| answer.arguments.is_some()) {
            let lease = caller.lease.clone().unwrap();
            let step = bench.file.step(attempt, answer.sequence).unwrap();
            assert!(recorded.live, "a grant outside the live lease");
            if step.unkeyed {
                let leases = self.told.entry((attempt, answer.sequence)).or_default();
                leases.insert(lease);
                assert_eq!(leases.len(), 1, "an unkeyed write was granted to two leases");
            } else if step.is_write() {
                assert!(answer.idempotency_key.is_some(), "a write without its key");
            }
        }
        // The same call at once again: the stored state stays as it is.
        let stored = bench.file.clone();
        if let Ok(again) = bench.decide(|cx, file, numbers, out| {
            legation_kernel::journal::record(cx, file, &record, numbers, out)
        }) {
            assert!(again.children.is_empty(), "a repeated call started a child");
            assert_eq!(bench.file.steps, stored.steps, "a repeated call changed a step");
        }
    }

    fn start(&mut self, attempt: u32, sequence: u32, child: InstanceId) {
        let second = self.started.insert((attempt, sequence), child.clone());
        assert_eq!(second, None, "a delegation step started two children");
        self.children.push(child);
    }

    fn act(&mut self, bench: &mut Bench, act: &Act) {
        let attempt = bench.file.task.attempt;
        let now = bench.now;
        match act {
            Act::Fetch => {
                if task::claimable_at(&bench.file).is_some_and(|at| at <= now) {
                    let caller = bench.lease(if now % 2 == 0 { "w1" } else { "w2" });
                    self.callers.push(caller);
                }
            }
            Act::Start {
                caller,
                back,
                what: kind,
                single,
            } => {
                let Some(caller) = self.caller(bench, *caller) else {
                    return;
                };
                let last = bench.file.current().map(|step| step.sequence).max().unwrap_or(0);
                let sequence = (last + 1).saturating_sub(*back);
                let known = bench.file.step(attempt, sequence).map(resend);
                let input = known.unwrap_or_else(|| what(*kind, sequence));
                self.send(bench, &caller, *single, attempt, vec![input]);
            }
            Act::Report {
                caller,
                step,
                state,
                value,
            } => {
                let Some(caller) = self.caller(bench, *caller) else {
                    return;
                };
                let open = |step: &Step| !step.is_settled() || value % 2 == 0;
                let Some(input) = nth(bench, *step, open).map(resend) else {
                    return;
                };
                let state =
                    [StepState::Completed, StepState::Failed, StepState::OutcomeUnknown][usize::from(*state)];
                let result = match input.kind {
                    legation_kernel::journal::StepKind::Model => said(&[], u64::from(*value)),
                    _ => Value::from(u32::from(*value)),
                };
                self.send(
                    bench,
                    &caller,
                    false,
                    attempt,
                    vec![with(input, state, Some(result))],
                );
            }
            Act::Repeat { call } => {
                if self.calls.is_empty() {
                    return;
                }
                let (mut caller, single, attempt, steps) = self.calls[call % self.calls.len()].clone();
                caller.arrived_at = now;
                self.send(bench, &caller, single, attempt, steps);
            }
            Act::ChildEnds { child, well } => {
                if self.children.is_empty() {
                    return;
                }
                let child = self.children[child % self.children.len()].clone();
                let end = if *well {
                    completed(&[])
                } else {
                    ended(Status::Failed, None)
                };
                let started = bench.decide(|cx, file, numbers, out| {
                    legation_kernel::journal::settle_child(file, &child, &end, now, out).unwrap();
                    legation_kernel::journal::start_queued(cx, file, numbers, out).unwrap()
                });
                for start in started {
                    self.start(start.attempt, start.sequence, start.child);
                }
            }
            Act::Decide { step, approved } => {
                let Some(sequence) =
                    nth(bench, *step, |step| step.approval.is_some()).map(|step| step.sequence)
                else {
                    return;
                };
                if let Ok(decided) = bench.decide_step(sequence, *approved, Some("why")) {
                    for start in decided.children {
                        self.start(start.attempt, start.sequence, start.child);
                    }
                }
            }
            Act::Resolve { step, performed } => {
                let unknown = |step: &Step| step.state == StepState::OutcomeUnknown;
                let Some(sequence) = nth(bench, *step, unknown).map(|step| step.sequence) else {
                    return;
                };
                if bench.resolve(sequence, *performed, None).is_ok() && !performed {
                    self.told.remove(&(attempt, sequence));
                }
            }
            Act::Wake { step } => {
                let timer = nth(bench, *step, |step| step.wait.is_some()).and_then(|step| step.wait);
                if let Some((_, timer)) = timer {
                    legation_kernel::journal::settle_wait(&mut bench.file, timer, now);
                }
            }
            Act::Lapse => drop(bench.lapse()),
            Act::Retry => {
                if let (Some(incident), None) = (bench.file.task.incident(), &bench.file.task.retired) {
                    drop(task::retry(&mut bench.file, incident, now));
                }
            }
            Act::Park { caller } => {
                if let Some(caller) = self.caller(bench, *caller) {
                    drop(task::park(&mut bench.file, &caller, now));
                }
            }
            Act::Fail { caller } => {
                let Some(caller) = self.caller(bench, *caller) else {
                    return;
                };
                if task::open_closing(&bench.file, &caller, "failure", &Value::Null)
                    == Ok(task::Opened::Fresh)
                {
                    let retry = Retry {
                        max_attempts: 100,
                        ..Retry::default()
                    };
                    let failed = Failure {
                        message: String::new(),
                        code: None,
                        retryable: true,
                        retry_after_ms: None,
                    };
                    task::failure(&mut bench.file, &retry, &failed, 50, now);
                    task::close(
                        &mut bench.file,
                        &caller,
                        "failure",
                        &Value::Null,
                        task::TaskState::Open,
                    );
                }
            }
            Act::Tick { ms } => bench.now += ms,
            Act::Retire => {
                // Rare: it ends the story.
                if now % 41 == 0 {
                    bench.decide(|_, file, numbers, out| {
                        task::retire(file, TaskOutcome::Cancelled, "end", now, numbers, out)
                    });
                }
            }
        }
    }

    fn caller(&self, bench: &Bench, back: usize) -> Option<Caller> {
        let at = self.callers.len().checked_sub(1 + back)?;
        Some(Caller {
            arrived_at: bench.now,
            ..self.callers[at].clone()
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn the_journal_keeps_its_promises_whatever_happens(acts in acts()) {
        let mut bench = Bench::new();
        bench.agent.max_concurrent = 2;
        bench.agent.max_steps = 12;
        let mut world = World::default();
        for act in &acts {
            let before = bench.file.steps.clone();
            world.act(&mut bench, act);
            check(&before, &bench);
        }
    }
}
