//! Deployed definitions in memory. A version never changes, so it is read once; the latest version of a key is
//! forgotten whenever another engine may have deployed one.

use std::collections::HashMap;
use std::sync::{Arc, PoisonError, RwLock};

use legation_kernel::work::Definitions;
use legation_language::model::Definition;
use legation_store::definitions::DefinitionRow;
use legation_store::{Conn, Error, Result, definitions};

type ByVersion = HashMap<(String, String, u32), Arc<Definition>>;

/// See the module's words.
#[derive(Default)]
pub struct DefinitionCache {
    versions: RwLock<ByVersion>,
    latest: RwLock<HashMap<(String, String), u32>>,
}

impl DefinitionCache {
    /// The frozen definition of a row.
    ///
    /// # Errors
    /// `Corrupt` when it cannot be read.
    pub fn parse(row: &DefinitionRow) -> Result<Definition> {
        let mut definition: Definition = serde_json::from_str(&row.body).map_err(|error| Error::Corrupt {
            table: "definitions",
            id: format!("{} {}: {error}", row.key, row.version),
        })?;
        definition.version = row.version as u32;
        Ok(definition)
    }

    /// Loads a version, or the latest. Answers whether it exists.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(
        &self,
        conn: &mut Conn,
        project: &str,
        key: &str,
        version: Option<u32>,
    ) -> Result<bool> {
        let row = match version {
            Some(version) => definitions::get(conn, project, key, i64::from(version)).await?,
            None => definitions::latest(conn, project, key).await?,
        };
        let Some(row) = row else { return Ok(false) };
        let definition = Arc::new(Self::parse(&row)?);
        let number = definition.version;
        let name = (project.to_owned(), key.to_owned());
        self.versions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((name.0.clone(), name.1.clone(), number), definition);
        if version.is_none() {
            self.latest
                .write()
                .unwrap_or_else(PoisonError::into_inner)
                .insert(name, number);
        }
        Ok(true)
    }

    /// A version from memory or the database.
    ///
    /// # Errors
    /// The store's.
    pub async fn find(
        &self,
        conn: &mut Conn,
        project: &str,
        key: &str,
        version: Option<u32>,
    ) -> Result<Option<Arc<Definition>>> {
        let known = match version {
            Some(version) => self.get(project, key, version),
            None => self.latest(project, key),
        };
        if known.is_some() {
            return Ok(known);
        }
        if !self.load(conn, project, key, version).await? {
            return Ok(None);
        }
        Ok(match version {
            Some(version) => self.get(project, key, version),
            None => self.latest(project, key),
        })
    }

    /// After a deployment, here or (on PostgreSQL) perhaps elsewhere.
    pub fn forget_latest(&self) {
        self.latest
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }
}

impl Definitions for DefinitionCache {
    fn get(&self, project: &str, key: &str, version: u32) -> Option<Arc<Definition>> {
        let versions = self.versions.read().unwrap_or_else(PoisonError::into_inner);
        versions
            .get(&(project.to_owned(), key.to_owned(), version))
            .cloned()
    }

    fn latest(&self, project: &str, key: &str) -> Option<Arc<Definition>> {
        let name = (project.to_owned(), key.to_owned());
        let version = *self
            .latest
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .get(&name)?;
        self.get(project, key, version)
    }
}
