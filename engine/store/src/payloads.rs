//! Values that are too large or too private for a snapshot, encrypted. Nothing is shared between owners.

use crate::Result;
use crate::conn::{Conn, Tx};
use crate::dialect::{Arg, Bulk, Sql, args};
use crate::keys::{Key, key_rows};
use crate::sqlite::from_sqlite;

const COLUMNS: &str = "root, owner, digest, size, key_id, nonce, body";

/// A stored value.
#[derive(Clone, Debug, PartialEq, sqlx::FromRow)]
pub struct PayloadRow {
    /// The tree, whose data key encrypts it.
    pub root: String,
    /// An instance or a task.
    pub owner: String,
    /// Digest of the plain value.
    pub digest: String,
    /// Bytes of the plain value.
    pub size: i64,
    /// The key it is encrypted with; `None`: it is not.
    pub key_id: Option<String>,
    /// The nonce of the encryption.
    pub nonce: Option<Vec<u8>>,
    /// The bytes.
    pub body: Vec<u8>,
}

from_sqlite!(PayloadRow: root, owner, digest, size, key_id, nonce, body);

/// The key of a payload.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PayloadKey {
    /// The tree.
    pub root: String,
    /// An instance or a task.
    pub owner: String,
    /// Digest of the plain value.
    pub digest: String,
}

impl PayloadRow {
    fn args(&self) -> Vec<Arg<'_>> {
        args![
            &self.root,
            &self.owner,
            &self.digest,
            self.size,
            &self.key_id,
            &self.nonce,
            &self.body
        ]
        .to_vec()
    }
}

/// Stores values. One that its owner has already is left as it is.
pub async fn insert(tx: &mut Tx, rows: &[PayloadRow]) -> Result<()> {
    static INSERT: Bulk = Bulk::new(
        COLUMNS,
        "INSERT INTO payloads ({columns}) {rows} ON CONFLICT (root, owner, digest) DO NOTHING",
    );
    let rows: Vec<_> = rows.iter().map(PayloadRow::args).collect();
    tx.put("payloads", &INSERT, &rows).await
}

/// Many values, in no order. Unknown ones are missing.
pub async fn get_many(conn: &mut Conn, keys: &[PayloadKey]) -> Result<Vec<PayloadRow>> {
    static GET: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, owner, digest) AS ({rows})
         SELECT {t.columns} FROM v CROSS JOIN payloads AS t
         WHERE t.root = v.root AND t.owner = v.owner AND t.digest = v.digest",
    );
    let rows: Vec<_> = keys
        .iter()
        .map(|key| args![&key.root, &key.owner, &key.digest].to_vec())
        .collect();
    conn.bulk_fetch(&GET, &rows).await
}

/// Forgets everything of these owners and counts it.
pub async fn delete_by_owner(tx: &mut Tx, owners: &[Key]) -> Result<u64> {
    static DELETE: Bulk = Bulk::new(
        COLUMNS,
        "WITH v(root, owner) AS ({rows})
         DELETE FROM payloads WHERE {roots} AND (root, owner) IN (SELECT root, owner FROM v)",
    );
    tx.bulk(&DELETE, &key_rows(owners)).await
}

/// Many values of a tree, whoever owns them, in no order: one for each owner.
pub async fn find_many(conn: &mut Conn, root: &str, digests: &[String]) -> Result<Vec<PayloadRow>> {
    static FIND: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM payloads WHERE root = $1 AND digest IN {texts:2}",
    );
    conn.fetch(&FIND, &args![root, digests]).await
}

/// One value of a tree, whoever owns it: for a command that knows only the digest.
pub async fn find(conn: &mut Conn, root: &str, digest: &str) -> Result<Option<PayloadRow>> {
    static FIND: Sql = Sql::new(
        COLUMNS,
        "SELECT {columns} FROM payloads WHERE root = $1 AND digest = $2 LIMIT 1",
    );
    conn.first(&FIND, &args![root, digest]).await
}
