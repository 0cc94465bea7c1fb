//! Random parallel handlers against random engines: children that settle at any moment, answers that are lost. The end
//! is always the same as without faults, no step's result is recorded twice, and no replay diverges.
#![expect(clippy::unwrap_used, reason = "a failed unwrap is a failed test")]

#[path = "support/journal.rs"]
mod journal;

use std::sync::{Arc, Mutex};

use futures::future::{BoxFuture, join_all};
use journal::FakeJournal;
use legation_protocol::{StepKind, StepState};
use legation_worker::TaskError;
use legation_worker::durable::{Ctx, Ended, Options, run};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};

/// What one branch does, in order.
#[derive(Clone, Copy, Debug)]
enum Op {
    Step { yields: u32 },
    Child,
}

fn branches(rng: &mut StdRng) -> Vec<Vec<Op>> {
    let op = |rng: &mut StdRng| match rng.random_range(0..3) {
        0 => Op::Child,
        _ => Op::Step {
            yields: rng.random_range(0..4),
        },
    };
    (0..rng.random_range(1..5))
        .map(|_| (0..rng.random_range(1..6)).map(|_| op(rng)).collect())
        .collect()
}

/// Every branch after every call of its own appends to the shared list, so the list is the order that the code saw.
fn handler(
    ctx: Ctx,
    plan: Vec<Vec<Op>>,
    seen: Arc<Mutex<Vec<String>>>,
) -> BoxFuture<'static, Result<usize, TaskError>> {
    Box::pin(async move {
        let parts = plan.into_iter().enumerate().map(|(branch, ops)| {
            let (ctx, seen) = (ctx.clone(), Arc::clone(&seen));
            async move {
                for (place, op) in ops.into_iter().enumerate() {
                    let name = format!("b{branch}_{place}");
                    match op {
                        Op::Step { yields } => {
                            let work = || async move {
                                for _ in 0..yields {
                                    tokio::task::yield_now().await;
                                }
                                Ok::<_, String>(place)
                            };
                            assert_eq!(ctx.step(&name, work).await?, place);
                            seen.lock().unwrap().push(format!("step:{name}"));
                        }
                        Op::Child => {
                            let answer: Value = ctx.delegate(&name, &json!({ "place": place })).await?;
                            assert_eq!(answer["name"], name);
                            seen.lock().unwrap().push(format!("delegate:{name}"));
                        }
                    }
                }
                Ok::<_, TaskError>(())
            }
        });
        for part in join_all(parts).await {
            part?;
        }
        let length = seen.lock().unwrap().len();
        Ok(length)
    })
}

fn settle_child(kept: &mut journal::Kept, rng: &mut StdRng) {
    let waiting = kept.waiting();
    if waiting.is_empty() {
        return;
    }
    let sequence = waiting[rng.random_range(0..waiting.len())];
    let name = kept.steps[sequence as usize - 1]
        .tool_ref
        .trim_start_matches("delegate:")
        .to_owned();
    kept.settle(sequence, StepState::Completed, json!({ "name": name }));
}

async fn one_seed(seed: u64) {
    let mut rng = StdRng::seed_from_u64(seed);
    let plan = branches(&mut rng);
    let journal = FakeJournal::default();
    let mut inner = StdRng::seed_from_u64(seed ^ 0x5eed);
    journal.before_record(move |kept| {
        if inner.random_bool(0.4) {
            settle_child(kept, &mut inner);
        }
    });
    for _ in 0..500 {
        if rng.random_bool(0.3) {
            journal.lose_answer_of_record(rng.random_range(0..4));
        }
        let seen = Arc::new(Mutex::new(Vec::new()));
        let run = run(&journal, journal.steps(), Options::default(), |ctx| {
            handler(ctx, plan.clone(), Arc::clone(&seen))
        });
        match run.await {
            Ok(Ended::Parked) => {
                while journal.with(|kept| !kept.waiting().is_empty()) {
                    journal.with(|kept| settle_child(kept, &mut rng));
                }
            }
            Ok(Ended::Done(length)) => {
                let expected = plan.iter().map(Vec::len).sum::<usize>();
                assert_eq!(length.unwrap(), expected, "seed {seed}");
                let mut steps = journal.steps();
                assert_eq!(steps.len(), expected, "seed {seed}");
                steps.sort_by_key(|step| step.settled);
                let settled: Vec<String> = steps.into_iter().map(|step| step.tool_ref).collect();
                assert_eq!(
                    *seen.lock().unwrap(),
                    settled,
                    "seed {seed}: the code saw results in another order"
                );
                return;
            }
            Ok(Ended::Diverged(why)) => panic!("seed {seed} diverged: {why}"),
            Err(error) => assert!(error.retry_helps(), "seed {seed}: {error}"),
        }
    }
    let open = journal
        .steps()
        .into_iter()
        .filter(|s| !s.state.is_settled() && s.kind == StepKind::Checkpoint)
        .count();
    panic!("seed {seed} did not end, {open} steps open");
}

#[tokio::test]
async fn i8_any_interleaving_of_children_and_lost_answers_ends_as_the_faultless_run() {
    for seed in 0..400 {
        one_seed(seed).await;
    }
}
