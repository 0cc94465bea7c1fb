//! What holds after every single thing that happens to a task.

use std::sync::Arc;

use legation_kernel::journal::{Standing, Step};
use legation_kernel::task;

use crate::bench::Bench;

pub fn check(before: &[Arc<Step>], bench: &Bench) {
    let mut last = (0, 0);
    for step in &bench.file.steps {
        let expected = if step.attempt == last.0 { last.1 + 1 } else { 1 };
        assert_eq!(step.sequence, expected, "a gap in attempt {}", step.attempt);
        last = (step.attempt, step.sequence);
        assert_eq!(step.is_settled(), step.settled.is_some(), "{step:?}");
    }
    for old in before.iter().filter(|step| step.is_settled()) {
        let new = bench.file.step(old.attempt, old.sequence).unwrap();
        let mut same = Step::clone(old);
        same.late_result.clone_from(&new.late_result);
        assert_eq!(*new, same, "a settled step changed");
    }
    for new in bench.file.steps.iter().filter(|step| step.grant.is_some()) {
        let old = before
            .iter()
            .find(|old| (old.attempt, old.sequence) == (new.attempt, new.sequence));
        let live = bench
            .file
            .task
            .lease
            .as_ref()
            .map(|lease| (lease.number, lease.random.clone()));
        assert!(
            old.is_some_and(|old| old.grant == new.grant) || new.grant == live,
            "granted to a stale lease"
        );
    }
    let mut places: Vec<u32> = bench.file.steps.iter().filter_map(|step| step.settled).collect();
    places.sort_unstable();
    assert!(
        places.iter().copied().eq(1..bench.file.task.next_settled),
        "{places:?}"
    );
    let unsettled = bench
        .file
        .steps
        .iter()
        .filter(|step| !step.is_settled() && step.attempt < bench.file.task.attempt);
    assert_eq!(unsettled.count(), 0, "a new attempt began over an unsettled step");
    let state = task::status(&bench.file, bench.now);
    let claimable = task::claimable_at(&bench.file).is_some_and(|at| at <= bench.now);
    assert!(
        !claimable || state == task::TaskState::Open,
        "{state:?} and claimable"
    );
    let in_doubt = bench.file.steps.iter().any(|step| step.is_in_doubt());
    assert!(!(in_doubt && claimable), "claimable over a write in doubt");
    // Nobody is forgotten: what is open is leased, claimable at some time, due to lapse, or waits for somebody.
    let task = &bench.file.task;
    let waits = bench
        .file
        .steps
        .iter()
        .any(|step| step.standing() == Standing::Waiting);
    assert!(
        task.retired.is_some()
            || !task.incidents.is_empty()
            || waits
            || task::claimable_at(&bench.file).is_some()
            || task::lapse_at(&bench.file).is_some(),
        "stuck: {task:?}"
    );
}
