//! Commands that talk to an engine, against a `dev` of their own.

use super::support::*;

#[test]
fn dev_deploys_runs_and_prints_what_came_out() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let engine = dev(&project);
    engine.says("deployed hello version 1");
    for file in ["master.key", "dev.key", "worker.key", "approver.key"] {
        assert_eq!(mode(project.join(".legation").join(file)), 0o600, "{file}");
    }

    let run = legation(&project)
        .args(["run", "hello", "--var", "name=Ada"])
        .output()
        .unwrap();
    assert!(run.status.success(), "{}", err(&run));
    assert!(
        !err(&run).contains('\x1b'),
        "colours where nobody looks: {}",
        err(&run)
    );
    assert_eq!(out(&run).trim(), r#"{"greeting":"Good to see you again"}"#);
    assert!(err(&run).contains("COMPLETED"), "{}", err(&run));

    let list: serde_json::Value = serde_json::from_str(&ok(&project, &["instances", "--json"])).unwrap();
    let id = list["instances"][0]["id"].as_str().unwrap();
    let deployed = ok(&project, &["processes"]);
    assert!(
        deployed.starts_with("KEY") && deployed.contains("hello") && deployed.contains('1'),
        "{deployed}"
    );
    let versions: serde_json::Value =
        serde_json::from_str(&ok(&project, &["processes", "hello", "--json"])).unwrap();
    assert_eq!(versions["processes"][0]["key"], "hello");
    assert!(versions["processes"][0]["deployedAt"].is_string(), "{versions}");
    let (_, unknown) = refused(&project, &["processes", "nothing"]);
    assert!(unknown.contains("nothing is not deployed"), "{unknown}");
    let table = ok(&project, &["instances"]);
    assert!(
        table.starts_with("ID") && table.contains(id) && table.contains("hello 1"),
        "{table}"
    );
    let page = ok(&project, &["show", id]);
    for part in [
        "hello version 1 COMPLETED",
        "greeting",
        "from choose_words",
        "Timeline",
        "instance started",
    ] {
        assert!(page.contains(part), "{part} is missing in {page}");
    }
    assert!(ok(&project, &["lineage", id]).starts_with(&format!("hello {id} COMPLETED")));
    assert!(ok(&project, &["explain", id]).contains("COMPLETED"));

    let (code, words) = refused(&project, &["run", "hello"]);
    assert_eq!(code, 1);
    assert!(words.contains("name"), "{words}");
    let (code, _) = refused(&project, &["show", "nothing"]);
    assert_eq!(code, 1);
    engine.stop();
    assert!(
        !project.join(".legation/url").exists(),
        "a stopped dev still says where it listens"
    );
}

#[test]
fn run_exits_with_one_when_the_instance_fails_and_says_why() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let nodes = "flow:\n  nodes:\n    - { id: start, type: start }\n    - { id: done, type: end, error: NO_SUCH_ORDER }\n";
    std::fs::write(project.join("processes/fails.process.yaml"), nodes).unwrap();
    let engine = dev(&project);
    engine.says("fails version 1");
    let output = legation(&project).args(["run", "fails"]).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(out(&output), "");
    assert!(
        err(&output).contains("FAILED") && err(&output).contains("NO_SUCH_ORDER"),
        "{}",
        err(&output)
    );
    engine.stop();
}

#[test]
fn cancel_incidents_and_tasks_answer_what_the_engine_says() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let nodes = "flow:\n  nodes:\n    - id: ask\n      type: human\n      candidates: { groups: [ops] }\n    - { id: done, type: end }\n";
    std::fs::write(project.join("processes/ask.process.yaml"), nodes).unwrap();
    let engine = dev(&project);
    engine.says("ask version 1");
    let id = ok(&project, &["run", "ask", "--no-wait"]).trim().to_owned();
    // `dev` is in no group, `approver` in every one.
    assert!(!ok(&project, &["tasks"]).contains(&id));
    assert!(ok(&project, &["tasks", "--as", "approver"]).contains(&id));
    let (code, words) = refused(&project, &["complete", &id]);
    assert_eq!(code, 1);
    assert!(words.contains("hint"), "{words}");
    let explained = ok(&project, &["explain", &id, "--as", "approver"]);
    assert!(explained.contains("ops"), "{explained}");
    assert!(
        explained.contains(&format!("; legation complete {id}.h")),
        "{explained}"
    );
    for (command, hint) in [
        ("show", "`legation instances`"),
        ("explain", "`legation instances`"),
        ("retry", "`legation incidents`"),
    ] {
        let (_, words) = refused(&project, &[command, "nothing"]);
        assert!(words.contains(hint), "{command}: {words}");
    }
    let (code, words) = refused(&project, &["approve", &id, "--as", "approver", "--yes"]);
    assert_eq!(code, 1);
    assert!(words.contains("`legation complete "), "{words}");
    let done = ok(&project, &["complete", &id, "--as", "approver"]);
    assert!(done.starts_with("completed"), "{done}");
    assert!(ok(&project, &["explain", &id]).contains("COMPLETED"));

    let id = ok(&project, &["run", "ask", "--no-wait"]).trim().to_owned();
    let answer = ok(&project, &["cancel", &id, "--reason", "not needed"]);
    assert_eq!(answer.trim(), format!("{id} is CANCELLED"));
    assert_eq!(
        ok(&project, &["incidents", "--json"]).trim(),
        r#"{"incidents":[]}"#
    );
    engine.stop();
}

/// D18: whoever decides is asked, or has said that they need not be.
#[test]
fn nothing_is_decided_unasked_where_nobody_can_be_asked() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let nodes = "flow:\n  nodes:\n    - id: ask\n      type: human\n      candidates: { groups: [ops] }\n      outcomes:\n        accept: { then: done }\n        refuse: { then: done }\n    - { id: done, type: end }\n";
    std::fs::write(project.join("processes/ask.process.yaml"), nodes).unwrap();
    let engine = dev(&project);
    engine.says("ask version 1");
    let id = ok(&project, &["run", "ask", "--no-wait"]).trim().to_owned();
    for command in [
        &["decide", &id, "accept"][..],
        &["approve", &id],
        &["reject", &id, "--comment", "no"],
    ] {
        let (code, words) = refused(&project, &[command, &["--as", "approver"]].concat());
        assert_eq!(code, 2, "{words}");
        assert!(words.contains("--yes"), "{words}");
    }
    assert!(
        ok(&project, &["tasks", "--as", "approver"]).contains(&id),
        "decided"
    );
    ok(&project, &["decide", &id, "accept", "--as", "approver", "--yes"]);
    engine.stop();
}

#[test]
fn who_completes_a_task_learns_which_options_the_form_and_the_outcomes_take() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let nodes = "
flow:
  nodes:
    - id: ask
      type: human
      candidates: { groups: [ops] }
      form: { type: object, required: [state], properties: { state: { type: string }, photos: { type: integer } } }
      outcomes:
        accept: { then: done }
        refuse: { then: done, comment: required }
    - { id: done, type: end }
";
    std::fs::write(project.join("processes/ask.process.yaml"), nodes).unwrap();
    let engine = dev(&project);
    engine.says("ask version 1");
    let id = ok(&project, &["run", "ask", "--no-wait"]).trim().to_owned();
    for (options, hint) in [
        (&[][..], "--outcome NAME"),
        (
            &["--outcome", "accept"],
            "photos (integer, optional), state (string)",
        ),
        (&["--outcome", "refuse", "--var", "state=new"], "--comment TEXT"),
    ] {
        let (_, words) = refused(
            &project,
            &[&["complete", &id, "--as", "approver"], options].concat(),
        );
        assert!(words.contains(hint), "{options:?}: {words}");
    }
    engine.stop();
}
