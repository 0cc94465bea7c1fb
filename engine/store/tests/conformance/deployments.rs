use legation_store::definitions::{self, DefinitionRow};
use legation_store::documents::{self, DocumentRow};
use legation_store::testing::TestDb;
use legation_store::{Error, for_each_db};

use super::support::*;

for_each_db!(
    a_process_is_found_by_version_and_latest,
    a_document_is_found_by_version_and_latest
);

fn definition(key: &str, version: i64) -> DefinitionRow {
    DefinitionRow {
        project: "default".to_owned(),
        key: key.to_owned(),
        version,
        digest: format!("d{version}"),
        body: ODD.to_owned(),
        source: "process: x\n".to_owned(),
        created_at: 1_000,
        created_by: "alice".to_owned(),
    }
}

fn document(kind: &str, key: &str, version: i64) -> DocumentRow {
    DocumentRow {
        project: "default".to_owned(),
        kind: kind.to_owned(),
        key: key.to_owned(),
        version,
        digest: format!("d{version}"),
        source: "server: x\n".to_owned(),
        body: ODD.to_owned(),
        created_at: 1_000,
    }
}

async fn a_process_is_found_by_version_and_latest(test: &TestDb) {
    let foreign = DefinitionRow {
        project: "foreign".to_owned(),
        ..definition("refund", 7)
    };
    let rows = [
        definition("refund", 1),
        definition("refund", 2),
        definition("pay", 1),
        foreign,
    ];
    let mut tx = begin(test).await;
    definitions::insert(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    assert_eq!(
        definitions::latest(&mut conn, "default", "refund").await.unwrap(),
        Some(definition("refund", 2))
    );
    assert_eq!(
        definitions::latest(&mut conn, "default", "unknown")
            .await
            .unwrap(),
        None
    );
    assert_eq!(
        definitions::get(&mut conn, "default", "refund", 1).await.unwrap(),
        Some(definition("refund", 1))
    );
    assert_eq!(
        definitions::get(&mut conn, "default", "refund", 7).await.unwrap(),
        None
    );
    let list = definitions::list(&mut conn, "default").await.unwrap();
    assert_eq!(list, [definition("pay", 1), definition("refund", 2)]);
    let versions = definitions::versions(&mut conn, "default", "refund")
        .await
        .unwrap();
    assert_eq!(versions, [definition("refund", 2), definition("refund", 1)]);
    let mut tx = begin(test).await;
    let again = definitions::insert(&mut tx, &[definition("refund", 2)]).await;
    let again = refused(tx, again).await;
    assert!(matches!(again, Error::Conflict { .. }), "{again:?}");
}

async fn a_document_is_found_by_version_and_latest(test: &TestDb) {
    let rows = [
        document("server", "crm", 1),
        document("server", "crm", 2),
        document("agent", "crm", 1),
    ];
    let mut tx = begin(test).await;
    documents::insert(&mut tx, &rows).await.unwrap();
    tx.commit().await.unwrap();
    let mut conn = read(test).await;
    let latest = documents::latest(&mut conn, "default", "server", "crm")
        .await
        .unwrap();
    assert_eq!(latest, Some(document("server", "crm", 2)));
    let first = documents::get(&mut conn, "default", "server", "crm", 1)
        .await
        .unwrap();
    assert_eq!(first, Some(document("server", "crm", 1)));
    assert_eq!(
        documents::get(&mut conn, "foreign", "server", "crm", 1)
            .await
            .unwrap(),
        None
    );
    let list = documents::list(&mut conn, "default").await.unwrap();
    assert_eq!(list, [document("agent", "crm", 1), document("server", "crm", 2)]);
    let versions = documents::versions(&mut conn, "default", "server", "crm")
        .await
        .unwrap();
    assert_eq!(
        versions,
        [document("server", "crm", 2), document("server", "crm", 1)]
    );
    let mut tx = begin(test).await;
    let again = documents::insert(&mut tx, &[document("server", "crm", 2)]).await;
    let again = refused(tx, again).await;
    assert!(matches!(again, Error::Conflict { .. }), "{again:?}");
}
