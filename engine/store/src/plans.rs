//! How SQLite finds what lists ask for. It has no statistics here, as in a real file, so its choice among indexes is
//! always this one. A list must not walk past finished work of others: each names the index that holds little more
//! than what it wants.

use crate::dialect::{Arg, Dialect, translate};
use crate::external_tasks::ExternalTaskFilter;
use crate::filter::Filter;
use crate::incidents::IncidentFilter;
use crate::instances::InstanceFilter;
use crate::keys::{Key, Place};
use crate::sqlite::Sqlite;
use crate::tasks::TaskFilter;
use crate::{external_tasks, incidents, instances, statistics, tasks};

/// The migrations' file, with nothing in it.
struct Empty {
    sqlite: Sqlite,
    path: std::path::PathBuf,
}

impl Empty {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("legation-plans-{name}-{}.db", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let sqlite = Sqlite::open(&path).expect("a file");
        for migration in crate::db::SQLITE_MIGRATIONS.iter() {
            let lines = migration.sql.as_str().lines();
            let code: Vec<&str> = lines
                .map(|line| line.split("--").next().unwrap_or_default())
                .collect();
            for statement in code.join("\n").split(';').filter(|text| !text.trim().is_empty()) {
                sqlite.run(statement).expect("a migration");
            }
        }
        Self { sqlite, path }
    }

    fn plan(&self, text: &str, args: &[Arg<'_>]) -> String {
        let explain = format!("EXPLAIN QUERY PLAN {text}");
        let rows: Vec<(i64, i64, i64, String)> = self.sqlite.fetch(&explain, args).expect("a plan");
        let lines: Vec<String> = rows.into_iter().map(|row| row.3).collect();
        lines.join("\n")
    }

    #[track_caller]
    fn reads(&self, index: &str, filter: &Filter<'_>) {
        let text = translate(&filter.text, filter.columns, Dialect::Sqlite);
        let plan = self.plan(&text, &filter.args);
        let wanted = format!("USING INDEX {index} (");
        assert!(plan.contains(&wanted), "{index} is not read:\n{text}\n{plan}");
    }
}

impl Drop for Empty {
    fn drop(&mut self) {
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", self.path.display()));
        }
    }
}

/// The first page and a later one.
fn pages() -> [Option<Place>; 2] {
    let place = Place {
        at: 1,
        root: "a".to_owned(),
        id: "a".to_owned(),
    };
    [None, Some(place)]
}

#[test]
fn lists_of_instances_walk_past_no_finished_work_of_others() {
    let empty = Empty::new("instances");
    let some = |word: &str| Some(word.to_owned());
    for after in pages() {
        let all = InstanceFilter {
            project: "p".to_owned(),
            after,
            limit: 50,
            ..InstanceFilter::default()
        };
        empty.reads("instances_by_time", &instances::query(&all));
        let mut one = all.clone();
        one.process = some("pay");
        empty.reads("instances_by_process", &instances::query(&one));
        let mut one = all.clone();
        one.status = some("RUNNING");
        empty.reads("instances_by_status", &instances::query(&one));
        one.process = some("pay");
        empty.reads("instances_by_status", &instances::query(&one));
        let mut one = all.clone();
        one.business_key = some("key");
        empty.reads("instances_by_business_key", &instances::query(&one));
        let mut one = all.clone();
        one.parent = Some(Key::new("a", "a"));
        empty.reads("sqlite_autoindex_instances_1", &instances::query(&one));
        one.status = some("RUNNING");
        one.process = some("pay");
        empty.reads("sqlite_autoindex_instances_1", &instances::query(&one));
    }
}

#[test]
fn lists_of_incidents_walk_past_no_resolved_ones_of_others() {
    let empty = Empty::new("incidents");
    for after in pages() {
        let mut open = IncidentFilter {
            project: "p".to_owned(),
            state: Some("OPEN".to_owned()),
            after,
            limit: 50,
            ..IncidentFilter::default()
        };
        empty.reads("incidents_open", &incidents::query(&open));
        open.kind = Some("notice".to_owned());
        empty.reads("incidents_open", &incidents::query(&open));
        open.process = Some("pay".to_owned());
        empty.reads("incidents_open", &incidents::query(&open));
        open.process = None;
        open.instance = Some(Key::new("a", "a"));
        empty.reads("sqlite_autoindex_incidents_1", &incidents::query(&open));
        open.state = None;
        empty.reads("sqlite_autoindex_incidents_1", &incidents::query(&open));
    }
    let text = statistics::INCIDENTS.text(Dialect::Sqlite);
    let args = [Arg::from("p"), Arg::from(9), Arg::from("pay"), Arg::from(1)];
    let plan = empty.plan(text, &args);
    assert!(plan.contains("USING INDEX incidents_open ("), "{plan}");
}

#[test]
fn lists_of_tasks_walk_past_no_ended_ones_of_others() {
    let empty = Empty::new("tasks");
    for after in pages() {
        let mut open = TaskFilter {
            project: "p".to_owned(),
            open_only: true,
            after: after.clone(),
            limit: 50,
            ..TaskFilter::default()
        };
        empty.reads("tasks_open", &tasks::query(&open));
        open.candidates = Some(vec!["group:a".to_owned()]);
        empty.reads("tasks_open", &tasks::query(&open));
        open.instance = Some(Key::new("a", "a"));
        empty.reads("sqlite_autoindex_tasks_1", &tasks::query(&open));
        (open.open_only, open.candidates) = (false, None);
        empty.reads("sqlite_autoindex_tasks_1", &tasks::query(&open));

        let mut work = ExternalTaskFilter {
            project: "p".to_owned(),
            after,
            limit: 50,
            ..ExternalTaskFilter::default()
        };
        empty.reads("external_tasks_open", &external_tasks::query(&work));
        work.worker = Some("w".to_owned());
        empty.reads("external_tasks_open", &external_tasks::query(&work));
        work.instance = Some(Key::new("a", "a"));
        empty.reads("sqlite_autoindex_external_tasks_1", &external_tasks::query(&work));
    }
}
