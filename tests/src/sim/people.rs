//! Persons and operators: they look at what is open and decide the same about the same thing, sometimes twice at
//! once, sometimes on what they saw long ago, sometimes without being asked.

use legation_kernel::commands::{Command, IncidentTarget, Person};
use legation_kernel::ids::{InstanceId, TaskId, owner_of, root_of};
use legation_server::app::App;
use legation_store::incidents::{self, IncidentFilter, IncidentRow};
use legation_store::tasks::{self, TaskFilter, TaskRow};
use rand::Rng;
use rand::seq::IteratorRandom;

use super::calls::Call;
use super::engine::PROJECT;
use super::look;
use super::worker::Around;
use super::world::says_yes;

/// What people want to do now: usually one call.
pub fn decide(around: &mut Around<'_>, seed: u64) -> Vec<Call> {
    let open = around.engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let filter = TaskFilter {
            project: PROJECT.to_owned(),
            open_only: true,
            limit: 100,
            ..TaskFilter::default()
        };
        tasks::list(&mut conn, &filter).await.expect("a query")
    });
    let Some(row) = open.into_iter().choose(around.rng) else {
        return Vec::new();
    };
    let app = around.engine.app(0);
    let about = around.engine.read(async |_| about(&app, &row).await);
    let yes = says_yes(seed, &about);
    let mut calls = vec![call(&row, "alice", yes)];
    if around.rough {
        match around.rng.random_range(0..10) {
            // B21: two at once, an outsider, somebody who saw other arguments.
            0 => calls.push(call(&row, "bob", yes)),
            1 => calls.push(call(&row, "mallory", !yes)),
            2 if row.digest.is_some() => calls.push(changed(call(&row, "bob", !yes))),
            _ => {}
        }
    }
    calls
}

/// Names the thing, in every run alike.
async fn about(app: &App, row: &TaskRow) -> String {
    let mut conn = app.db().read().await.expect("a connection");
    let root = look::row(&mut conn, &row.root).await;
    let key = root.business_key.unwrap_or_default();
    if let Some(digest) = &row.digest {
        return format!("{key}/{digest}");
    }
    let instance = look::instance(&mut conn, &InstanceId(row.instance.clone())).await;
    let amount = look::variable(app, &mut conn, &instance, "amount")
        .await
        .unwrap_or_default();
    format!("{key}/{}/{}/{}", instance.process, row.node, amount.to_json())
}

fn call(row: &TaskRow, who: &str, yes: bool) -> Call {
    let groups = if who == "mallory" {
        vec!["crowd".to_owned()]
    } else {
        vec!["finance".to_owned()]
    };
    let person = Person {
        id: who.to_owned(),
        groups,
        worker: false,
    };
    let command = match &row.external_task {
        Some(task) => Command::Decide {
            human: row.id.clone(),
            task: TaskId(task.clone()),
            person,
            approved: yes,
            comment: Some("as always".to_owned()),
            digest: row.digest.clone(),
        },
        None => Command::CompleteHuman {
            human: row.id.clone(),
            person,
            outcome: Some(if yes { "fine" } else { "odd" }.to_owned()),
            variables: std::collections::BTreeMap::new(),
            comment: None,
        },
    };
    Call::Run {
        actor: who.to_owned(),
        command,
    }
}

fn changed(mut call: Call) -> Call {
    if let Call::Run {
        command: Command::Decide { digest, .. },
        ..
    } = &mut call
    {
        *digest = Some("what it was before".to_owned());
    }
    call
}

/// Codes that somebody who decides may meet.
pub const EXPECTED: [&str; 10] = [
    "ALREADY_DECIDED",
    "APPROVAL_CHANGED",
    "NOT_A_CANDIDATE",
    "TASK_CLOSED",
    "WORK_RETIRED",
    "INCIDENT_CLOSED",
    "STEP_FINISHED",
    "OUTCOME_UNKNOWN",
    "NOT_FOUND",
    "NOT_RESOLVABLE",
];

/// What an operator does about one open incident, knowing what really happened.
pub fn operate(around: &mut Around<'_>) -> Result<Option<Call>, String> {
    let open = around.engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let filter = IncidentFilter {
            project: PROJECT.to_owned(),
            state: Some("OPEN".to_owned()),
            limit: 100,
            ..IncidentFilter::default()
        };
        incidents::list(&mut conn, &filter).await.expect("a query")
    });
    let foreseen = ["OUTCOME_UNKNOWN", "WORK_FAILED", "LEASE_EXPIRY"];
    if let Some(row) = open.iter().find(|row| !foreseen.contains(&row.code.as_str())) {
        return Err(format!("an incident that nothing explains: {row:?}"));
    }
    let Some(row) = open.into_iter().choose(around.rng) else {
        return Ok(None);
    };
    let body: serde_json::Value = serde_json::from_str(&row.body).expect("a body");
    let target = target(
        &row,
        body["attempt"]
            .as_u64()
            .and_then(|attempt| u32::try_from(attempt).ok()),
    );
    let command = if row.code == "OUTCOME_UNKNOWN" {
        let call = (
            row.external_task.clone().unwrap_or_default(),
            target.attempt.unwrap_or_default(),
            target.sequence.unwrap_or_default(),
        );
        let known = around.ledger.truth(&call).cloned();
        Command::ResolveIncident {
            target,
            performed: known.is_some(),
            result: known,
            comment: "the books say so".to_owned(),
        }
    } else {
        Command::RetryIncident { target }
    };
    Ok(Some(Call::Run {
        actor: "olga".to_owned(),
        command,
    }))
}

fn target(row: &IncidentRow, attempt: Option<u32>) -> IncidentTarget {
    debug_assert_eq!(root_of(&row.id), row.root);
    IncidentTarget {
        id: row.id.clone(),
        instance: owner_of(&row.id).expect("an owner"),
        task: row.external_task.clone().map(TaskId),
        attempt,
        sequence: row.sequence.and_then(|sequence| u32::try_from(sequence).ok()),
        notice: row.kind == "notice",
    }
}
