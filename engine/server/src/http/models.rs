//! Which model answered. A node names one, and its worker may have asked another: a fallback, or what its operator put
//! in every model's place. A turn in the journal has what was asked for as its target, and what answered in its result.

use std::collections::{BTreeSet, HashMap};

use legation_kernel::ids::root_of;
use legation_kernel::journal::{Step, StepKind};
use legation_protocol::instances::StartedByAgent;
use legation_store::{Conn, Key, steps};

use super::Http;
use super::error::Result;
use super::load::{self, Wanted};

/// A step: its task, attempt and sequence.
pub type Place = (String, u32, u32);

/// The step by which an agent started an instance.
pub fn place(by: &StartedByAgent) -> Place {
    (by.task_id.clone(), by.attempt, by.sequence)
}

/// The models that answered in the turns that asked for these steps, where a turn did and its result is still there.
pub async fn used(http: &Http, conn: &mut Conn, places: &[Place]) -> Result<HashMap<Place, String>> {
    let tasks: BTreeSet<&str> = places.iter().map(|(task, ..)| task.as_str()).collect();
    let keys: Vec<Key> = tasks.iter().map(|task| Key::new(root_of(task), *task)).collect();
    if keys.is_empty() {
        return Ok(HashMap::new());
    }
    let rows = steps::list_for_tasks(conn, &keys).await?;
    let steps = rows.iter().map(load::step).collect::<Result<Vec<Step>>>()?;
    answered(http, conn, &steps, places).await
}

/// The same among steps that are at hand.
pub async fn answered(
    http: &Http,
    conn: &mut Conn,
    steps: &[Step],
    places: &[Place],
) -> Result<HashMap<Place, String>> {
    let turns: Vec<(&Place, Wanted)> = places
        .iter()
        .filter_map(|place| {
            let result = turn(steps, place)?.result.as_ref()?;
            Some((place, Wanted::new(&place.0, result)))
        })
        .collect();
    let wanted: Vec<Wanted> = turns.iter().map(|(_, wanted)| wanted.clone()).collect();
    let values = load::values(http, conn, &wanted).await?;
    let answered = turns.into_iter().filter_map(|(place, wanted)| {
        let model = values.get(&wanted.reference.digest)?.get("model")?.as_str()?;
        Some((place.clone(), model.to_owned()))
    });
    Ok(answered.collect())
}

/// The model's turn that asked for a step.
fn turn<'s>(steps: &'s [Step], (task, attempt, sequence): &Place) -> Option<&'s Step> {
    let find = |sequence: u32| {
        steps
            .iter()
            .find(|step| step.task.0 == *task && step.attempt == *attempt && step.sequence == sequence)
    };
    let call = find(*sequence)?.call?;
    find(call.step).filter(|step| step.kind == StepKind::Model)
}
