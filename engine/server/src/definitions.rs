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
    latest: RwLock<Latest>,
}

/// The latest versions, as of a number of deployments.
#[derive(Default)]
struct Latest {
    versions: HashMap<(String, String), u32>,
    /// Counts [`DefinitionCache::forget_latest`].
    forgotten: u64,
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

    /// Loads a version, or the latest; None: there is none.
    ///
    /// # Errors
    /// The store's.
    pub async fn load(
        &self,
        conn: &mut Conn,
        project: &str,
        key: &str,
        version: Option<u32>,
    ) -> Result<Option<Arc<Definition>>> {
        let asked = self.forgotten();
        let row = match version {
            Some(version) => definitions::get(conn, project, key, i64::from(version)).await?,
            None => definitions::latest(conn, project, key).await?,
        };
        let Some(row) = row else { return Ok(None) };
        let definition = Arc::new(Self::parse(&row)?);
        let number = definition.version;
        let name = (project.to_owned(), key.to_owned());
        self.versions
            .write()
            .unwrap_or_else(PoisonError::into_inner)
            .insert((name.0.clone(), name.1.clone(), number), definition.clone());
        if version.is_none() {
            self.keep_latest(name, number, asked);
        }
        Ok(Some(definition))
    }

    fn forgotten(&self) -> u64 {
        self.latest
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .forgotten
    }

    /// A deployment since the database was asked may have made another version the latest.
    fn keep_latest(&self, name: (String, String), number: u32, asked: u64) {
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        if latest.forgotten == asked {
            latest.versions.insert(name, number);
        }
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
        match known {
            Some(known) => Ok(Some(known)),
            None => self.load(conn, project, key, version).await,
        }
    }

    /// After a deployment, here or (on PostgreSQL) perhaps elsewhere.
    pub fn forget_latest(&self) {
        let mut latest = self.latest.write().unwrap_or_else(PoisonError::into_inner);
        latest.versions.clear();
        latest.forgotten += 1;
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
            .versions
            .get(&name)?;
        self.get(project, key, version)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_that_was_read_before_a_deployment_is_not_kept_as_the_latest() {
        let cache = DefinitionCache::default();
        let name = || ("p".to_owned(), "pay".to_owned());
        let latest = || {
            cache
                .latest
                .read()
                .expect("nobody panicked")
                .versions
                .get(&name())
                .copied()
        };
        let asked = cache.forgotten();
        cache.forget_latest();
        cache.keep_latest(name(), 1, asked);
        assert_eq!(latest(), None);
        cache.keep_latest(name(), 2, cache.forgotten());
        assert_eq!(latest(), Some(2));
        cache.forget_latest();
        assert_eq!(latest(), None);
    }
}
