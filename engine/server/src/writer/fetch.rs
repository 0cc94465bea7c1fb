//! Fetch-and-lock: claims at the end of a batch, and the polls that wait (core §2, "Wake-ups").

use std::collections::HashMap;
use std::sync::Arc;

use legation_kernel::content::{Content, PayloadRef};
use legation_kernel::ids::{InstanceId, TaskId};
use legation_kernel::instance::Instance;
use legation_kernel::task::TaskFile;
use legation_language::Value;
use legation_store::external_tasks::{ClaimRequest, ExternalTaskRow};
use tokio::sync::oneshot;

use super::trees::Loaded;
use super::{Failure, Shared};

/// What a worker asks for.
#[derive(Clone, Debug)]
pub struct FetchRequest {
    pub project: String,
    pub topics: Vec<String>,
    pub worker: String,
    pub credential: String,
    pub lock_ms: i64,
    pub max: u32,
}

/// A fetch with its waiting caller.
pub struct FetchJob {
    pub request: FetchRequest,
    /// Epoch ms until which an empty answer may wait; the caller times out by itself.
    pub wait_until: i64,
    /// The topics' epochs when it last looked, to notice work that opened meanwhile.
    pub epoch: u64,
    pub reply: oneshot::Sender<std::result::Result<Vec<Claimed>, Failure>>,
}

/// A leased task with what was in memory of it; the rest is read for the answer.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub row: ExternalTaskRow,
    pub file: Option<Arc<TaskFile>>,
    pub instance: Option<Arc<Instance>>,
    /// Payload values at hand, by digest.
    pub payloads: HashMap<String, Value>,
}

impl FetchJob {
    /// Whether somebody still waits for the answer.
    pub(super) fn is_wanted(&self) -> bool {
        !self.reply.is_closed()
    }
}

/// Draws the randoms for one claim; they recognise it after an unknown commit.
pub(super) fn draw(shared: &Shared, request: &FetchRequest, now: i64) -> ClaimRequest {
    ClaimRequest {
        project: request.project.clone(),
        topics: request.topics.clone(),
        worker: request.worker.clone(),
        credential: Some(request.credential.clone()),
        now,
        lock_ms: request.lock_ms,
        max: i64::from(request.max),
        randoms: (0..request.max).map(|_| shared.chance.token()).collect(),
    }
}

/// What memory knows of a leased task. Of a tree that is not locked only what never changes is certain: the
/// instance serves for its process then, not for variables.
pub(super) fn claimed(row: ExternalTaskRow, loaded: Option<(&Loaded, bool)>) -> Claimed {
    let id = TaskId(row.id.clone());
    let instance_id = InstanceId(row.instance.clone());
    let Some((loaded, locked)) = loaded else {
        return Claimed {
            row,
            file: None,
            instance: None,
            payloads: HashMap::new(),
        };
    };
    let file = loaded.tree.tasks.get(&id).cloned();
    let certain = locked || file.as_ref().is_some_and(|file| file.task.inputs.is_some());
    let instance = loaded
        .tree
        .instances
        .get(&instance_id)
        .filter(|_| certain)
        .cloned();
    let mut payloads = HashMap::new();
    let mut keep = |reference: &PayloadRef| {
        if let Ok(value) = loaded.tree.payloads.get(&reference.digest) {
            payloads.insert(reference.digest.clone(), value.clone());
        }
    };
    if let Some(file) = &file {
        match &file.task.inputs {
            Some(Content::Payload(reference)) => keep(reference),
            Some(Content::Inline(_)) => {}
            None => {
                for variable in instance.iter().flat_map(|instance| instance.variables().values()) {
                    if let Content::Payload(reference) = &variable.content {
                        keep(reference);
                    }
                }
            }
        }
        for step in &file.steps {
            keep(&step.request);
            step.effective.iter().chain(&step.result).for_each(&mut keep);
        }
    }
    Claimed {
        row,
        file,
        instance,
        payloads,
    }
}
