//! How a tree ended, in words that do not depend on ids, order or time.

use std::collections::{BTreeMap, BTreeSet};

use legation_kernel::instance::{Instance, Status};
use legation_kernel::task;
use legation_language::canonical;
use legation_server::app::App;
use legation_store::incidents::{self, IncidentFilter};
use legation_store::{Conn, Db};

use super::check::Tree;
use super::engine::PROJECT;
use super::look;

/// Status, variables and children; failed children once however often they were tried.
pub async fn describe(app: &App, db: &Db, tree: &Tree) -> String {
    let mut conn = db.read().await.expect("a connection");
    let mut root = String::new();
    let mut completed: BTreeMap<String, u32> = BTreeMap::new();
    let mut failed = BTreeSet::new();
    for (id, instance) in &tree.instances {
        let words = one(app, &mut conn, instance).await;
        if id.is_root() {
            root = words;
        } else if instance.status == Status::Completed {
            *completed.entry(words).or_default() += 1;
        } else {
            failed.insert(words);
        }
    }
    format!("{root}\n  children {completed:?} {failed:?}")
}

async fn one(app: &App, conn: &mut Conn, instance: &Instance) -> String {
    let mut variables = BTreeMap::new();
    for (name, variable) in instance.variables() {
        let value = look::content(app, conn, instance.id.as_str(), &variable.content).await;
        let text = value.to_json();
        let shown = if text.len() > 400 {
            canonical::sha256_hex(&text)
        } else {
            text
        };
        variables.insert(name.clone(), shown);
    }
    let error = instance.error.as_ref().map(|error| error.code.as_str());
    format!(
        "{} {} {error:?} {variables:?}",
        instance.process,
        instance.status.as_str()
    )
}

/// What happened on the way that a run without accidents does not see.
pub async fn reached(db: &Db, trees: &[Tree]) -> BTreeMap<String, u32> {
    let mut reached: BTreeMap<String, u32> = BTreeMap::new();
    let mut count = |what: String, times: usize| {
        *reached.entry(what).or_default() += u32::try_from(times).unwrap_or(u32::MAX);
    };
    for file in trees.iter().flat_map(|tree| tree.files.values()).flatten() {
        count("attempts".to_owned(), file.task.attempt as usize - 1);
        count(
            "late results".to_owned(),
            file.steps
                .iter()
                .filter(|step| step.late_result.is_some())
                .count(),
        );
        count(
            "reused steps".to_owned(),
            file.steps
                .iter()
                .filter(|step| step.reused_from.is_some())
                .count(),
        );
        count(
            "steps granted again".to_owned(),
            file.steps
                .iter()
                .filter(|step| !step.earlier_grants.is_empty())
                .count(),
        );
    }
    let mut conn = db.read().await.expect("a connection");
    let filter = IncidentFilter {
        project: PROJECT.to_owned(),
        limit: 1_000,
        ..IncidentFilter::default()
    };
    for row in incidents::list(&mut conn, &filter).await.expect("a query") {
        count(format!("{} {}", row.kind, row.code), 1);
    }
    let over = trees.iter().flat_map(|tree| tree.instances.values());
    count(
        "cancelled".to_owned(),
        over.filter(|instance| instance.status == Status::Cancelled)
            .count(),
    );
    reached
}

/// What is still open, to find out why.
pub fn open(tree: &Tree) -> String {
    let mut words = String::new();
    for (id, instance) in tree.instances.iter().filter(|(_, instance)| !instance.is_over()) {
        let tokens = instance
            .tokens
            .values()
            .map(|token| format!("{} {:?}", token.node, token.state));
        words.push_str(&format!(
            "{id} {} {:?}\n",
            instance.process,
            tokens.collect::<Vec<_>>()
        ));
        for file in tree.files[id].iter().filter(|file| file.task.retired.is_none()) {
            let task = &file.task;
            let held = (
                task.attempt,
                task.tries,
                task.lease_no,
                &task.incidents,
                task.parked,
                task.expiries,
            );
            words.push_str(&format!(
                "  {} attempt, tries, lease, incident, parked, expiries: {held:?}\n",
                task.id
            ));
            let times = (
                task::claimable_at(file),
                task::lapse_at(file),
                task.lease.as_ref().map(|lease| lease.until),
            );
            words.push_str(&format!("    claimable, lapse, lease until: {times:?}\n"));
            for step in &file.steps {
                let at = (step.attempt, step.sequence);
                words.push_str(&format!(
                    "    {at:?} {} {:?} {:?}\n",
                    step.tool_ref, step.state, step.grant
                ));
            }
        }
    }
    words
}
