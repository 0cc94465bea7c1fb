//! What must hold after every run, whatever happened: the invariants of the architecture, read from the rows.

use std::collections::{BTreeMap, BTreeSet};

use legation_kernel::ids::InstanceId;
use legation_kernel::instance::{Event, Instance, TokenState, Wait, replay};
use legation_kernel::journal::StepState;
use legation_kernel::task::TaskFile;
use legation_server::app::App;
use legation_store::instances::{InstanceFilter, InstanceRow};
use legation_store::{Conn, incidents, instances, mailbox, tasks, timers};

use super::engine::{Engine, PROJECT, key};
use super::look;

/// Everything that is stored of one tree.
pub struct Tree {
    pub business_key: String,
    pub instances: BTreeMap<InstanceId, Instance>,
    pub files: BTreeMap<InstanceId, Vec<TaskFile>>,
}

/// Reads and checks every tree.
pub fn check(engine: &mut Engine) -> Result<Vec<Tree>, String> {
    let app = engine.app(0);
    engine.read(async |db| {
        let mut conn = db.read().await.expect("a connection");
        let filter = InstanceFilter {
            project: PROJECT.to_owned(),
            roots_only: true,
            limit: 1_000,
            ..InstanceFilter::default()
        };
        let mut roots = instances::list(&mut conn, &filter).await.expect("a query");
        roots.sort_by(|a, b| a.business_key.cmp(&b.business_key));
        if let Some(twice) = roots
            .windows(2)
            .find(|pair| pair[0].business_key == pair[1].business_key)
        {
            return Err(format!("{:?} was started twice", twice[0].business_key));
        }
        let mut trees = Vec::new();
        for root in &roots {
            trees.push(tree(&app, &mut conn, root).await.map_err(|wrong| {
                format!(
                    "{} ({}): {wrong}",
                    root.business_key.as_deref().unwrap_or_default(),
                    root.id
                )
            })?);
        }
        Ok(trees)
    })
}

async fn tree(app: &App, conn: &mut Conn, root: &InstanceRow) -> Result<Tree, String> {
    let rows = instances::list_tree(conn, &root.id).await.expect("a query");
    let mut tree = Tree {
        business_key: root.business_key.clone().unwrap_or_default(),
        instances: BTreeMap::new(),
        files: BTreeMap::new(),
    };
    let mut histories = BTreeMap::new();
    for row in &rows {
        let id = InstanceId(row.id.clone());
        let instance = look::instance(conn, &id).await;
        let history = look::history_of(conn, &id).await;
        is_replayed(&instance, row, &history)?;
        let mut files = Vec::new();
        for event in history.iter().flat_map(|(_, events)| events) {
            if let Event::TaskCreated { task, .. } = event {
                files.push(look::file(conn, &id.task(*task)).await);
            }
        }
        tree.files.insert(id.clone(), files);
        tree.instances.insert(id.clone(), instance);
        histories.insert(
            id,
            history
                .into_iter()
                .flat_map(|(_, events)| events)
                .collect::<Vec<Event>>(),
        );
    }
    let mail = mailbox::list(conn, &root.id).await.expect("a query");
    let waiting: BTreeSet<&str> = mail.iter().map(|row| row.key.as_str()).collect();
    for (id, instance) in &tree.instances {
        rows_fit(conn, instance, &tree.files[id]).await?;
        is_conserved(instance)?;
        for file in &tree.files[id] {
            journal_is_whole(file)?;
            payloads_are_readable(app, conn, file).await;
        }
        children_are_counted(&tree, id, &histories[id], &waiting)?;
    }
    Ok(tree)
}

/// I2: the history leads to the snapshot; the row's columns are the snapshot's.
fn is_replayed(
    instance: &Instance,
    row: &InstanceRow,
    history: &[(legation_store::history::HistoryRow, Vec<Event>)],
) -> Result<(), String> {
    let revisions = history.iter().map(|(row, _)| row.revision);
    if !revisions.eq(1..=row.revision) {
        return Err(format!("the history of {} has gaps", row.id));
    }
    if history.windows(2).any(|pair| pair[1].0.at < pair[0].0.at) {
        return Err(format!("times of {} go back", row.id));
    }
    let events = history.iter().map(|(row, events)| (row.at, events.as_slice()));
    let replayed = replay(events).ok_or_else(|| format!("the history of {} has no start", row.id))?;
    if replayed != *instance {
        return Err(format!(
            "I2: replay of {} differs\n{replayed:#?}\n{instance:#?}",
            row.id
        ));
    }
    if row.status != instance.status.as_str() || row.incidents != instance.incidents.len() as i64 {
        return Err(format!("I2: the columns of {} are not its snapshot's", row.id));
    }
    let commands: BTreeSet<&str> = history.iter().map(|(row, _)| row.command_id.as_str()).collect();
    if commands.len() != history.len() {
        return Err(format!("I3: a command changed {} twice", row.id));
    }
    Ok(())
}

/// I2: work items are a function of the instance.
async fn rows_fit(conn: &mut Conn, instance: &Instance, files: &[TaskFile]) -> Result<(), String> {
    let id = &instance.id;
    let waited: BTreeSet<u32> = instance
        .tokens
        .values()
        .filter_map(|token| match token.state {
            TokenState::Waiting(Wait::Task { task }) => Some(task),
            _ => None,
        })
        .collect();
    let open: BTreeSet<u32> = files
        .iter()
        .filter(|file| file.task.retired.is_none())
        .map(|file| file.task.id.local())
        .collect();
    if waited != open {
        return Err(format!("I2: {id} waits for tasks {waited:?}, open are {open:?}"));
    }
    let locals = |ids: Vec<String>| {
        ids.iter()
            .filter_map(|id| legation_kernel::ids::local_of(id))
            .collect::<BTreeSet<u32>>()
    };
    let armed = timers::list(conn, id.root(), id.as_str()).await.expect("a query");
    let armed = locals(armed.into_iter().map(|row| row.id).collect());
    if armed != instance.timers.keys().copied().collect() {
        return Err(format!(
            "I2: timers of {id}: rows {armed:?}, instance {:?}",
            instance.timers
        ));
    }
    let filter = tasks::TaskFilter {
        project: PROJECT.to_owned(),
        instance: Some(key(id.as_str())),
        limit: 1_000,
        ..tasks::TaskFilter::default()
    };
    let humans = tasks::list(conn, &filter).await.expect("a query");
    let humans = locals(
        humans
            .into_iter()
            .filter(|row| row.state == "OPEN")
            .map(|row| row.id)
            .collect(),
    );
    if humans != instance.humans {
        return Err(format!(
            "I2: human tasks of {id}: rows {humans:?}, instance {:?}",
            instance.humans
        ));
    }
    let filter = incidents::IncidentFilter {
        project: PROJECT.to_owned(),
        instance: Some(key(id.as_str())),
        limit: 1_000,
        ..incidents::IncidentFilter::default()
    };
    let rows = incidents::list(conn, &filter).await.expect("a query");
    let held = rows
        .into_iter()
        .filter(|row| row.state == "OPEN" && row.kind == "incident");
    let held = locals(held.map(|row| row.id).collect());
    if held != instance.incidents {
        return Err(format!(
            "I2: incidents of {id}: rows {held:?}, instance {:?}",
            instance.incidents
        ));
    }
    Ok(())
}

/// I5: tokens are conserved; what is over holds nothing.
fn is_conserved(instance: &Instance) -> Result<(), String> {
    let id = &instance.id;
    if !instance.is_over() {
        return if instance.tokens.is_empty() {
            Err(format!("I5: {id} runs without a token"))
        } else {
            Ok(())
        };
    }
    let holds = !instance.tokens.is_empty()
        || !instance.timers.is_empty()
        || !instance.humans.is_empty()
        || !instance.incidents.is_empty();
    if holds {
        Err(format!("I5: {id} is over and holds {instance:#?}"))
    } else {
        Ok(())
    }
}

/// I7: gap-free sequences, places in the order of completion without gap or double, settled is settled.
fn journal_is_whole(file: &TaskFile) -> Result<(), String> {
    let id = &file.task.id;
    let mut last = (0, 0);
    for step in &file.steps {
        let expected = if step.attempt == last.0 { last.1 + 1 } else { 1 };
        if step.sequence != expected || step.attempt < last.0 {
            return Err(format!(
                "I7: the journal of {id} has a gap before {}/{}",
                step.attempt, step.sequence
            ));
        }
        last = (step.attempt, step.sequence);
        if step.is_settled() != step.settled.is_some() {
            return Err(format!(
                "I7: step {}/{} of {id} is half settled",
                step.attempt, step.sequence
            ));
        }
        let open = !step.is_settled() && step.state != StepState::OutcomeUnknown;
        if open && (file.task.retired.is_some() || step.attempt < file.task.attempt) {
            return Err(format!(
                "I5: step {}/{} of {id} outlived its work",
                step.attempt, step.sequence
            ));
        }
    }
    let mut places: Vec<u32> = file.steps.iter().filter_map(|step| step.settled).collect();
    places.sort_unstable();
    if !places.iter().copied().eq(1..file.task.next_settled) {
        return Err(format!(
            "I7: places of {id}: {places:?}, next {}",
            file.task.next_settled
        ));
    }
    Ok(())
}

async fn payloads_are_readable(app: &App, conn: &mut Conn, file: &TaskFile) {
    for step in &file.steps {
        let references = [
            Some(&step.request),
            step.effective.as_ref(),
            step.result.as_ref(),
            step.late_result.as_ref(),
        ];
        for reference in references.into_iter().flatten() {
            look::payload(app, conn, file.task.id.as_str(), reference).await;
        }
    }
}

/// I8: one child a step, one resume a child.
fn children_are_counted(
    tree: &Tree,
    id: &InstanceId,
    events: &[Event],
    waiting: &BTreeSet<&str>,
) -> Result<(), String> {
    let instance = &tree.instances[id];
    let mut steps = BTreeSet::new();
    for child in events.iter().filter_map(|event| match event {
        Event::ChildStarted { child, running } => Some((*child, running)),
        _ => None,
    }) {
        if let Some(step) = child.1.step
            && !steps.insert(step)
        {
            return Err(format!("I8: step {step:?} of {id} started two children"));
        }
        let child_id = id.child(child.0);
        let Some(started) = tree.instances.get(&child_id) else {
            return Err(format!("I3: child {child_id} was started and is not there"));
        };
        let resumes = events
            .iter()
            .filter(|event| matches!(event, Event::ChildEnded { child: ended, .. } if *ended == child.0))
            .count();
        let ignored = events
            .iter()
            .filter(
                |event| matches!(event, Event::ChildResultIgnored { child: ended, .. } if *ended == child.0),
            )
            .count();
        let posted = usize::from(waiting.contains(child_id.as_str()));
        if resumes > 1 || (!started.is_over() && resumes + ignored > 0) {
            return Err(format!("I8: {child_id} resumed its parent {resumes} times"));
        }
        if started.is_over() && resumes + ignored + posted == 0 && !instance.is_over() {
            return Err(format!("I8: the end of {child_id} is lost"));
        }
        if instance.is_over() && !started.is_over() {
            return Err(format!("I5: {child_id} outlives its parent"));
        }
    }
    let children = tree.instances.keys().filter(|child| {
        child
            .as_str()
            .rsplit_once('.')
            .is_some_and(|(parent, _)| parent == id.as_str())
    });
    let told = events
        .iter()
        .filter(|event| matches!(event, Event::ChildStarted { .. }))
        .count();
    if children.count() != told {
        return Err(format!("I8: {id} has children that no event tells of"));
    }
    Ok(())
}
