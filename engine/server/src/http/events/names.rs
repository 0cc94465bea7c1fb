//! Project and process of instances, kept for all feeds of this process.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use legation_kernel::ids::root_of;
use legation_kernel::instance::Event;
use legation_store::{Conn, Key, instances};

use super::MOST_NAMES;
use crate::http::error::Result;

/// Project and process of instances, which history rows do not carry.
#[derive(Default)]
pub struct Names(Mutex<HashMap<String, (String, String)>>);

impl Names {
    /// The process of an instance; None when it is another project's.
    pub(super) async fn process(
        &self,
        read: &mut Conn,
        project: &str,
        instance: &str,
        events: &[Event],
    ) -> Result<Option<String>> {
        let known = self.lock().get(instance).cloned();
        let found = match (known, events.first()) {
            (Some(known), _) => known,
            (None, Some(Event::InstanceStarted(started))) => {
                (started.project.clone(), started.process.clone())
            }
            (None, _) => {
                let row = instances::get_many(read, &[Key::new(root_of(instance), instance)])
                    .await?
                    .pop();
                let Some(row) = row else { return Ok(None) };
                (row.project, row.process)
            }
        };
        let process = (found.0 == project).then(|| found.1.clone());
        let mut names = self.lock();
        if names.len() >= MOST_NAMES {
            names.clear();
        }
        names.insert(instance.to_owned(), found);
        Ok(process)
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, (String, String)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
