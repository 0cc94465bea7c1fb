//! Ids nest: everything below a root carries the root's id first, so a key alone says which tree it locks
//! (core §2). Root `R`, its task `R.t3`, its child `R.i4`, that child's task `R.i4.t1`.

use std::fmt;

use serde::{Deserialize, Serialize};

/// An instance: a root (32 hex characters) or `<parent instance>.i<n>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct InstanceId(pub String);

/// An external task: `<instance>.t<n>`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct TaskId(pub String);

/// The root that leads an id of any kind.
#[must_use]
pub fn root_of(id: &str) -> &str {
    id.split('.').next().unwrap_or(id)
}

/// The instance that an item id (`….t3`, `….h5`, `….m6`, `….n7`) belongs to.
#[must_use]
pub fn owner_of(id: &str) -> Option<InstanceId> {
    id.rsplit_once('.').map(|(owner, _)| InstanceId(owner.to_owned()))
}

/// The number behind the kind letter of an item id.
#[must_use]
pub fn local_of(id: &str) -> Option<u32> {
    id.rsplit_once('.')
        .and_then(|(_, local)| local.get(1..))
        .and_then(|n| n.parse().ok())
}

impl InstanceId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The root of the tree this instance lives in.
    #[must_use]
    pub fn root(&self) -> &str {
        root_of(&self.0)
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        !self.0.contains('.')
    }

    #[must_use]
    pub fn task(&self, local: u32) -> TaskId {
        TaskId(format!("{}.t{local}", self.0))
    }

    #[must_use]
    pub fn child(&self, local: u32) -> Self {
        Self(format!("{}.i{local}", self.0))
    }

    /// A human task or an approval.
    #[must_use]
    pub fn human(&self, local: u32) -> String {
        format!("{}.h{local}", self.0)
    }

    #[must_use]
    pub fn timer(&self, local: u32) -> String {
        format!("{}.m{local}", self.0)
    }

    #[must_use]
    pub fn incident(&self, local: u32) -> String {
        format!("{}.n{local}", self.0)
    }
}

impl TaskId {
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    #[must_use]
    pub fn root(&self) -> &str {
        root_of(&self.0)
    }

    /// The instance whose token waits for this task.
    #[must_use]
    pub fn instance(&self) -> InstanceId {
        owner_of(&self.0).unwrap_or_else(|| InstanceId(self.0.clone()))
    }

    #[must_use]
    pub fn local(&self) -> u32 {
        local_of(&self.0).unwrap_or(0)
    }
}

impl fmt::Display for InstanceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a worker names in its calls: `<task>~<lease no>-<random>` names a lease, the bare id only the task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaseRef {
    pub task: TaskId,
    /// None for a bare task id (operators and reading).
    pub lease: Option<(u32, String)>,
}

impl LeaseRef {
    /// Reads an id as a worker sends it; None when it cannot be one.
    #[must_use]
    pub fn parse(id: &str) -> Option<Self> {
        let Some((task, lease)) = id.split_once('~') else {
            return Some(Self {
                task: TaskId(id.to_owned()),
                lease: None,
            });
        };
        let (number, random) = lease.split_once('-')?;
        Some(Self {
            task: TaskId(task.to_owned()),
            lease: Some((number.parse().ok()?, random.to_owned())),
        })
    }
}

/// Writes a lease id.
#[must_use]
pub fn lease_id(task: &TaskId, number: u32, random: &str) -> String {
    format!("{task}~{number}-{random}")
}
