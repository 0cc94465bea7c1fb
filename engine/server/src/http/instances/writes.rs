//! Every value that the variables of an instance were given, read out of its history.

use std::collections::{BTreeMap, HashMap};

use legation_kernel::content::Content;
use legation_kernel::dates::rfc3339;
use legation_kernel::instance::{Event, Source, Variable};
use legation_language::Value;
use legation_protocol::instances::{VariableSource, VariableWrite};
use legation_store::Conn;
use legation_store::history::{self, HistoryRow};
use legation_store::instances::InstanceRow;

use crate::http::Http;
use crate::http::error::Result;
use crate::http::load::{self, Wanted};
use crate::http::views;

/// History rows that are read at once, and the times that this is done.
const PAGE: i64 = 500;
const MOST_PAGES: usize = 20;

/// Bytes of values in one answer: as many as an instance may hold at a time (core §1).
const MOST_BYTES: u64 = 8 * 1024 * 1024;

/// What was written, by variable, oldest first.
pub struct Writes {
    pub by_name: BTreeMap<String, Vec<VariableWrite>>,
    /// There is more history than was read, or more in it than one answer holds.
    pub cut: bool,
}

/// A write before its value is loaded.
struct Found {
    name: String,
    variable: Variable,
    at: i64,
    command: String,
    actor: Option<String>,
}

/// Reads the writes of an instance. Values of sensitive variables only where `sees_all`.
pub async fn writes(http: &Http, read: &mut Conn, row: &InstanceRow, sees_all: bool) -> Result<Writes> {
    let mut found = Vec::new();
    let mut after = 0;
    let mut cut = true;
    for _ in 0..MOST_PAGES {
        let rows = history::list(read, &row.root, &row.id, after, PAGE).await?;
        for row in &rows {
            take(row, &mut found)?;
        }
        after = rows.last().map_or(after, |row| row.revision);
        if (rows.len() as i64) < PAGE {
            cut = false;
            break;
        }
    }
    let mut bytes = 0;
    let fitting = found.iter().take_while(|found| {
        bytes += match &found.variable.content {
            Content::Payload(reference) => reference.size,
            Content::Inline(_) => 0,
        };
        bytes <= MOST_BYTES
    });
    let fitting = fitting.count();
    cut |= fitting < found.len();
    found.truncate(fitting);
    let open = found.iter().filter(|found| sees_all || !found.variable.sensitive);
    let wanted: Vec<Wanted> = open
        .filter_map(|found| match &found.variable.content {
            Content::Payload(reference) => Some(Wanted::new(&row.id, reference)),
            Content::Inline(_) => None,
        })
        .collect();
    let values = load::values(http, read, &wanted).await?;
    let mut by_name: BTreeMap<String, Vec<VariableWrite>> = BTreeMap::new();
    for found in found {
        let write = write(&found, &values, sees_all)?;
        by_name.entry(found.name).or_default().push(write);
    }
    Ok(Writes { by_name, cut })
}

fn take(row: &HistoryRow, found: &mut Vec<Found>) -> Result<()> {
    let events: Vec<Event> = load::parse("history", &row.command_id, &row.events)?;
    for event in events {
        let Event::VariableSet { name, variable, .. } = event else {
            continue;
        };
        found.push(Found {
            name,
            variable,
            at: row.at,
            command: row.command_id.clone(),
            actor: row.actor.clone().filter(|actor| actor != "engine"),
        });
    }
    Ok(())
}

fn write(found: &Found, values: &HashMap<String, Value>, sees_all: bool) -> Result<VariableWrite> {
    let variable = &found.variable;
    let value = load::content(&variable.content, values).filter(|_| sees_all || !variable.sensitive);
    let from = source(&variable.source);
    Ok(VariableWrite {
        value: value.map(views::raw).transpose()?,
        revision: variable.revision,
        at: rfc3339(found.at),
        source: VariableSource {
            command: Some(found.command.clone()),
            actor: from.actor.clone().or_else(|| found.actor.clone()),
            ..from
        },
    })
}

/// Where a value came from, as the API answers it.
pub fn source(source: &Source) -> VariableSource {
    VariableSource {
        node_id: source.node.clone(),
        task_id: source.task.as_ref().map(|task| task.0.clone()),
        attempt: source.attempt,
        command: None,
        actor: source.actor.clone(),
    }
}
