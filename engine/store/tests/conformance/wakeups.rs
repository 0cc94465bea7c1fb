use legation_store::testing::TestDb;
use legation_store::{Db, Dialect, for_each_db};

for_each_db!(the_database_tells_its_time_and_size);

async fn the_database_tells_its_time_and_size(test: &TestDb) {
    let first = test.db.now().await.unwrap();
    let second = test.db.now().await.unwrap();
    // Between 2020 and 2100: milliseconds, not seconds.
    assert!((1_577_836_800_000..4_102_444_800_000).contains(&first), "{first}");
    assert!(second >= first);
    let stats = test.db.stats().await.unwrap();
    assert_eq!(stats.dialect, test.db.dialect());
    assert!(stats.size_bytes > 0 && stats.connections > 0, "{stats:?}");
    assert!(stats.version.contains("SQL"), "{stats:?}");
}

#[tokio::test]
async fn hints_reach_every_other_engine_on_postgres() {
    let test = &TestDb::new(Dialect::Postgres).await;
    let (second, third) = (
        Db::open(&test.url).await.unwrap(),
        Db::open(&test.url).await.unwrap(),
    );
    let mut here = test.db.listen().await.unwrap().unwrap();
    let mut there = second.listen().await.unwrap().unwrap();
    let mut elsewhere = third.listen().await.unwrap().unwrap();
    for listener in [&mut here, &mut there, &mut elsewhere] {
        let first = listener.next().await.unwrap();
        assert!(first.is_empty(), "whatever was told before is missed: {first:?}");
    }
    // More than one notification holds.
    let hints: Vec<String> = (0..400)
        .map(|number| format!("task default/payments/{number:06}"))
        .collect();
    test.db.notify(&hints).await.unwrap();
    for listener in [&mut there, &mut elsewhere] {
        let mut got = Vec::new();
        while got.len() < hints.len() {
            got.append(&mut listener.next().await.unwrap());
        }
        assert_eq!(got, hints);
    }
    test.db.notify(&[]).await.unwrap();
    second.notify(&["last".to_owned()]).await.unwrap();
    assert_eq!(
        here.next().await.unwrap(),
        ["last"],
        "its own hints are not for itself"
    );
}

#[tokio::test]
async fn nobody_listens_on_sqlite() {
    let test = &TestDb::new(Dialect::Sqlite).await;
    assert!(test.db.listen().await.unwrap().is_none());
    test.db.notify(&["hint".to_owned()]).await.unwrap();
}
