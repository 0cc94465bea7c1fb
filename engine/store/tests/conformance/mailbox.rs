use legation_store::mailbox::{self, MailboxRow};
use legation_store::testing::TestDb;
use legation_store::timers::{self, TimerRow};
use legation_store::{Error, Key, for_each_db};

use super::support::*;

for_each_db!(
    one_message_per_child_is_kept,
    what_is_due_is_read_in_order_and_taken_once,
    a_try_is_counted_while_the_command_is_there,
    a_held_command_is_not_due_until_it_gets_a_time,
    a_tree_lists_its_mailbox,
    timers_fall_due_in_order_and_are_taken_once,
    a_held_timer_does_not_fall_due,
    a_timer_is_deleted_and_not_set_twice,
);

async fn post(test: &TestDb, rows: &[MailboxRow]) {
    let mut tx = begin(test).await;
    mailbox::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

async fn set(test: &TestDb, rows: &[TimerRow]) {
    let mut tx = begin(test).await;
    timers::insert(&mut tx, rows).await.unwrap();
    tx.commit().await.unwrap();
}

/// I8: one CHILD_DONE per child.
async fn one_message_per_child_is_kept(test: &TestDb) {
    post(test, &[letter("a", "a.m1", "a.i1"), letter("a", "a.m2", "a.i2")]).await;
    post(test, &[letter("a", "a.m3", "a.i1"), letter("a", "a.m4", "a.i4")]).await;
    let other_kind = MailboxRow {
        kind: "CONTINUE".to_owned(),
        ..letter("a", "a.m5", "a.i1")
    };
    post(test, &[other_kind, letter("b", "b.m1", "a.i1")]).await;
    let mut conn = read(test).await;
    let kept = mailbox::get(&mut conn, "a", "a.m1").await.unwrap();
    assert_eq!(kept, Some(letter("a", "a.m1", "a.i1")));
    let kept: Vec<_> = mailbox::list(&mut conn, "a")
        .await
        .unwrap()
        .into_iter()
        .map(|row| row.id)
        .collect();
    assert_eq!(kept, ["a.m1", "a.m2", "a.m4", "a.m5"]);
    assert_eq!(mailbox::list(&mut conn, "b").await.unwrap().len(), 1);
}

async fn what_is_due_is_read_in_order_and_taken_once(test: &TestDb) {
    let at = |id: &str, due_at| MailboxRow {
        due_at: Some(due_at),
        ..letter("a", id, id)
    };
    assert_eq!(mailbox::next_due(&mut *read(test).await).await.unwrap(), None);
    post(
        test,
        &[at("a.m1", 30), at("a.m2", 10), at("a.m3", 20), at("a.m4", 40)],
    )
    .await;
    let mut conn = read(test).await;
    assert_eq!(mailbox::next_due(&mut conn).await.unwrap(), Some(10));
    let due = mailbox::due(&mut conn, 30, 10).await.unwrap();
    assert_eq!(
        due.iter().map(|row| row.id.as_str()).collect::<Vec<_>>(),
        ["a.m2", "a.m3", "a.m1"]
    );
    assert_eq!(mailbox::due(&mut conn, 30, 2).await.unwrap().len(), 2);

    let keys: Vec<_> = due.iter().map(|row| Key::new(&row.root, &row.id)).collect();
    let mut tx = begin(test).await;
    assert_eq!(
        mailbox::take(&mut tx, &keys[..1]).await.unwrap(),
        [at("a.m2", 10)]
    );
    let held = Key::new("a", "a.m4");
    mailbox::reschedule(&mut tx, std::slice::from_ref(&held), None)
        .await
        .unwrap();
    let none = mailbox::take(&mut tx, std::slice::from_ref(&held)).await.unwrap();
    assert_eq!(none, [], "what is held is not taken");
    mailbox::reschedule(&mut tx, &[held], Some(40)).await.unwrap();
    let rest = mailbox::take(&mut tx, &keys).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(rest.len(), 2, "what was taken is not taken again");
    assert_eq!(mailbox::next_due(&mut conn).await.unwrap(), Some(40));
}

async fn a_try_is_counted_while_the_command_is_there(test: &TestDb) {
    post(test, &[letter("a", "a.m1", "k")]).await;
    let mut tx = begin(test).await;
    assert_eq!(
        mailbox::count_try(&mut tx, "a", "a.m1", Some(5_000))
            .await
            .unwrap(),
        Some(1)
    );
    assert_eq!(
        mailbox::count_try(&mut tx, "a", "a.m1", Some(6_000))
            .await
            .unwrap(),
        Some(2)
    );
    assert_eq!(
        mailbox::count_try(&mut tx, "a", "unknown", Some(6_000))
            .await
            .unwrap(),
        None
    );
    tx.commit().await.unwrap();
    let row = mailbox::get(&mut *read(test).await, "a", "a.m1")
        .await
        .unwrap()
        .unwrap();
    assert_eq!((row.tries, row.due_at), (2, Some(6_000)));
}

async fn a_held_command_is_not_due_until_it_gets_a_time(test: &TestDb) {
    post(test, &[letter("a", "a.m1", "k")]).await;
    let keys = [Key::new("a", "a.m1"), Key::new("a", "unknown")];
    let mut tx = begin(test).await;
    assert_eq!(mailbox::reschedule(&mut tx, &keys, None).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert!(mailbox::due(&mut conn, i64::MAX, 10).await.unwrap().is_empty());
    assert_eq!(mailbox::next_due(&mut conn).await.unwrap(), None);
    let mut tx = begin(test).await;
    mailbox::reschedule(&mut tx, &keys, Some(77)).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(mailbox::next_due(&mut conn).await.unwrap(), Some(77));
}

async fn a_tree_lists_its_mailbox(test: &TestDb) {
    let held = MailboxRow {
        due_at: None,
        ..letter("a", "a.m2", "k2")
    };
    post(
        test,
        &[held.clone(), letter("a", "a.m1", "k1"), letter("b", "b.m1", "k1")],
    )
    .await;
    let all = mailbox::list(&mut *read(test).await, "a").await.unwrap();
    assert_eq!(all, [letter("a", "a.m1", "k1"), held]);
}

async fn timers_fall_due_in_order_and_are_taken_once(test: &TestDb) {
    assert_eq!(timers::next_due(&mut *read(test).await).await.unwrap(), None);
    set(
        test,
        &[
            timer("a", "a.m1", 30),
            timer("a", "a.m2", 10),
            timer("b", "b.m1", 20),
        ],
    )
    .await;
    let mut conn = read(test).await;
    assert_eq!(timers::next_due(&mut conn).await.unwrap(), Some(10));
    let due = timers::due(&mut conn, 20, 10).await.unwrap();
    assert_eq!(due, [timer("a", "a.m2", 10), timer("b", "b.m1", 20)]);
    assert_eq!(timers::due(&mut conn, 20, 1).await.unwrap().len(), 1);
    let mut tx = begin(test).await;
    let keys = [Key::new("a", "a.m2"), Key::new("a", "unknown")];
    assert_eq!(
        timers::take(&mut tx, &keys).await.unwrap(),
        [timer("a", "a.m2", 10)]
    );
    assert!(timers::take(&mut tx, &keys).await.unwrap().is_empty());
    tx.commit().await.unwrap();
    assert_eq!(
        timers::list(&mut conn, "a", "a").await.unwrap(),
        [timer("a", "a.m1", 30)]
    );
}

async fn a_held_timer_does_not_fall_due(test: &TestDb) {
    set(test, &[timer("a", "a.m1", 10), timer("b", "b.m1", 20)]).await;
    let mut tx = begin(test).await;
    assert_eq!(timers::set_held(&mut tx, "a", "a", true).await.unwrap(), 1);
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(
        timers::due(&mut conn, 100, 10).await.unwrap(),
        [timer("b", "b.m1", 20)]
    );
    assert_eq!(timers::next_due(&mut conn).await.unwrap(), Some(20));
    let mut tx = begin(test).await;
    timers::set_held(&mut tx, "a", "a", false).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(timers::due(&mut conn, 100, 10).await.unwrap().len(), 2);
}

async fn a_timer_is_deleted_and_not_set_twice(test: &TestDb) {
    set(test, &[timer("a", "a.m1", 10)]).await;
    let mut tx = begin(test).await;
    let twice = timers::insert(&mut tx, &[timer("a", "a.m1", 20)]).await;
    let twice = refused(tx, twice).await;
    assert!(matches!(twice, Error::Conflict { .. }), "{twice:?}");
    let mut tx = begin(test).await;
    let keys = [Key::new("a", "a.m1"), Key::new("a", "unknown")];
    timers::delete(&mut tx, &keys).await.unwrap();
    tx.commit().await.unwrap();
    assert!(
        timers::list(&mut *read(test).await, "a", "a")
            .await
            .unwrap()
            .is_empty()
    );
}
