//! Writes that were cut off, leases that were lost, models that are not there.

use super::*;

const WRITE: &str = r#"
- { match: { turn: 1 }, calls: [{ tool: crm/note, arguments: { n: 1 } }] }
- { match: { turn: 2 }, text: "noted" }
"#;

#[tokio::test]
async fn a_keyed_write_that_was_cut_off_is_sent_again_with_the_same_key_d39_b13() {
    let world = world(
        &[("scripted", WRITE)],
        Desk {
            lost: Mutex::new(3),
            ..Desk::default()
        },
    );
    // Twice without an answer under the first lease, then the task waits; the next lease sends it again.
    assert_eq!(world.work().await, Ended::Deferred);
    assert_eq!(world.engine.with(|s| s.releases[0].after_ms), Some(10_000));
    assert_eq!(world.engine.states()[1].1, StepState::Started);
    assert_eq!(world.work().await, Ended::Completed);
    let keys: Vec<Option<String>> = world.sent().into_iter().map(|(_, _, key)| key).collect();
    assert_eq!(keys, vec![Some("key-2".to_owned()); 4]);
    assert_eq!(world.asked.lock().unwrap().len(), 2);
}

#[tokio::test]
async fn a_write_without_key_that_was_cut_off_is_never_sent_again_by_itself_d39() {
    let script = WRITE.replace("crm/note", "crm/pay");
    let world = world(
        &[("scripted", script.as_str())],
        Desk {
            lost: Mutex::new(1),
            ..Desk::default()
        },
    );
    assert_eq!(world.work().await, Ended::Deferred);
    assert_eq!(world.sent().len(), 1);
    assert_eq!(world.engine.states()[1].1, StepState::Started);
    assert_eq!(world.engine.with(|s| s.releases[0].after_ms), None);
}

#[tokio::test]
async fn a_lost_lease_stops_the_work_but_the_result_of_its_write_is_delivered() {
    let desk = Desk {
        gate: Some((Notify::new(), Notify::new())),
        ..Desk::default()
    };
    let world = world(&[("scripted", WRITE)], desk);
    let (begun, go) = world.desk.gate.as_ref().unwrap();
    let lose = async {
        begun.notified().await;
        world.engine.with(|s| s.live = Some("R.t1~9-other".to_owned()));
    };
    let (ended, ()) = tokio::join!(world.work(), lose);
    assert_eq!(ended, Ended::Lost);
    go.notify_one();
    let deadline = Instant::now() + Duration::from_secs(10);
    while world.engine.with(|s| s.late.is_empty()) {
        assert!(Instant::now() < deadline, "the result was not delivered");
        tokio::task::yield_now().await;
    }
    assert_eq!(world.engine.states()[1].1, StepState::Completed);
}

#[tokio::test]
async fn retired_work_stops_quietly_d30() {
    let slow = "[{ delay_ms: 60000, text: never }]";
    let world = world(&[("scripted", slow)], Desk::default());
    let retire = async {
        let deadline = Instant::now() + Duration::from_secs(10);
        while world.asked.lock().unwrap().is_empty() {
            assert!(Instant::now() < deadline);
            tokio::task::yield_now().await;
        }
        world.engine.with(|s| s.retired = true);
    };
    let (ended, ()) = tokio::join!(world.work(), retire);
    assert_eq!(ended, Ended::Lost);
    world
        .engine
        .with(|s| assert!(s.failures.is_empty() && s.releases.is_empty()));
}

#[tokio::test]
async fn fallbacks_answer_only_when_the_model_is_unavailable_d34() {
    let busy = "[{ unavailable_ms: 1000 }]";
    let answer = "[{ text: from the second }]";
    let mut world = world(&[("scripted", busy), ("second", answer)], Desk::default());
    world.agent.fallback_models = vec!["second".to_owned()];
    assert_eq!(world.work().await, Ended::Completed);
    let states = world.engine.states();
    assert_eq!(states[0], ("model:scripted".to_owned(), StepState::Failed));
    assert_eq!(states[1], ("model:second".to_owned(), StepState::Completed));

    let mut world = self::world(&[("second", answer)], Desk::default());
    world.agent.fallback_models = vec!["second".to_owned()];
    assert_eq!(world.work().await, Ended::Failed);
    let failure = world.engine.with(|s| s.failures[0].clone());
    assert_eq!(
        (failure.code.as_deref(), failure.retryable),
        (Some("MODEL_FAILED"), Some(false))
    );
}

#[tokio::test]
async fn when_every_model_is_unavailable_the_task_is_deferred_twelve_times_and_then_fails_d34_b20() {
    let world = world(&[("scripted", "[{ unavailable_ms: 7000 }]")], Desk::default());
    for _ in 0..12 {
        assert_eq!(world.work().await, Ended::Deferred);
    }
    let waits: Vec<u64> = world
        .engine
        .with(|s| s.releases.iter().filter_map(|r| r.after_ms).collect());
    assert_eq!(&waits[..5], [7_000, 10_000, 20_000, 40_000, 80_000]);
    assert_eq!(waits[11], 900_000);
    assert_eq!(world.work().await, Ended::Failed);
    let failure = world.engine.with(|s| s.failures[0].clone());
    assert_eq!(failure.code.as_deref(), Some("MODEL_UNAVAILABLE"));
}

#[tokio::test]
async fn a_model_that_never_stops_ends_at_the_turn_limit_b19() {
    let world = world(
        &[("scripted", "[{ calls: [{ tool: crm/get_customer }] }]")],
        Desk::default(),
    );
    world.engine.with(|s| s.max_turns = 3);
    assert_eq!(world.work().await, Ended::Failed);
    assert_eq!(
        world.engine.with(|s| s.failures[0].code.clone()).as_deref(),
        Some("TURN_LIMIT")
    );
    assert_eq!(world.asked.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn a_worker_that_stops_gives_the_task_back_and_counts_nothing() {
    let world = world(&[("scripted", STORY)], Desk::default());
    world.drain.cancel();
    assert_eq!(world.work().await, Ended::Released);
    assert_eq!(world.engine.with(|s| s.releases[0].after_ms), None);
    assert!(world.asked.lock().unwrap().is_empty());
}

#[tokio::test]
async fn tools_of_a_server_that_is_down_are_offered_all_the_same_b18() {
    let world = world(&[("scripted", "[{ text: hello }]")], Desk::default());
    assert_eq!(world.work().await, Ended::Completed);
    let all = world.agent.tools.len() + world.agent.delegates.len();
    assert_eq!(*world.asked.lock().unwrap(), [all]);
}

#[tokio::test]
async fn a_script_that_does_not_fit_fails_with_the_conversation() {
    let world = world(
        &[("scripted", "[{ match: { text: never }, text: x }]")],
        Desk::default(),
    );
    assert_eq!(world.work().await, Ended::Failed);
    let failure = world.engine.with(|s| s.failures[0].clone());
    assert!(
        failure
            .details
            .unwrap()
            .contains("user: Handle the complaint of C-1.")
    );
    assert_eq!(world.engine.states()[0].1, StepState::Failed);
}

#[tokio::test]
async fn a_turn_that_the_last_lease_still_delivered_is_not_paid_for_again_d40() {
    let world = world(
        &[("scripted", "[{ match: { turn: 1 }, text: never asked }]")],
        Desk::default(),
    );
    let first = world.engine.lease(&world.agent);
    let request = json!({ "workerId": "w", "attempt": 1, "sequence": 1, "kind": "MODEL", "state": "STARTED",
        "toolRef": "model:scripted", "request": { "added": [{ "role": "user", "text": "hello" }] } });
    world
        .engine
        .steps(&first.id, &crate::turns::tests::read(request))
        .await
        .unwrap();
    let next = world.engine.lease(&world.agent);
    let said = json!({ "text": "delivered late", "model": "m" });
    world
        .engine
        .settle(1, StepState::Completed, |s| s.result = outputs(&said));
    let ended = run_task(Arc::clone(&world.shared), next, world.drain.clone()).await;
    assert_eq!(ended, Ended::Completed);
    assert_eq!(world.result(), "\"delivered late\"");
    assert!(world.asked.lock().unwrap().is_empty());
}
