//! Start a root instance.

use super::{Answer, StartInstance};
use crate::instance::Started;
use crate::rejection::Stop;
use crate::start::start;
use crate::work::Work;

pub(super) fn run(work: &mut Work<'_>, request: &StartInstance) -> Result<Answer, Stop> {
    let definition = work
        .env
        .definitions
        .get(&request.project, &request.process, request.version)
        .ok_or_else(|| Stop::MissingDefinition(request.process.clone(), Some(request.version)))?;
    let started = Started {
        id: request.id.clone(),
        project: request.project.clone(),
        process: request.process.clone(),
        version: request.version,
        business_key: request.business_key.clone(),
        labels: request.labels.clone(),
        initiator: work.env.actor.to_owned(),
        depth: 0,
        chain: vec![request.process.clone()],
        parent: None,
        sealed: false,
    };
    start(work, &definition, started, request.variables.clone())?;
    Ok(Answer::Started {
        id: request.id.clone(),
        status: work.instance(&request.id)?.status,
    })
}
