//! `dev`: saves, warnings, the agent worker, ports, and what is left at the end.

use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::support::*;

#[test]
fn dev_deploys_again_on_save_and_shows_problems_in_place() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let engine = dev(&project);
    engine.says("deployed hello version 1");
    let file = project.join("processes/hello.process.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("type: end", "type: edn")).unwrap();
    engine.says("UNKNOWN_NODE_TYPE");
    engine.says("type: edn");
    std::fs::write(&file, text.replace("Hello }", "Hello there }")).unwrap();
    engine.says("deployed hello version 2");
    engine.stop();
}

#[test]
fn dev_says_which_topic_has_work_and_no_worker_and_the_line_it_shows_takes_it() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let nodes = "flow:\n  nodes:\n    - { id: send, type: engine-task, service: mail.send }\n    - { id: done, type: end }\n";
    std::fs::write(project.join("processes/mail.process.yaml"), nodes).unwrap();
    let engine = dev(&project);
    engine.says("mail version 1");
    ok(&project, &["run", "mail", "--no-wait"]);
    engine.says("a task waits for a worker of the topic mail.send");
    let line = engine.says("curl -s");
    let taken = Command::new("sh").arg("-c").arg(line.trim()).output().unwrap();
    let tasks: serde_json::Value = serde_json::from_slice(&taken.stdout).unwrap();
    assert_eq!(tasks["tasks"][0]["topic"], "mail.send", "{tasks}");

    let mut command = legation(&project);
    command.args(["run", "mail"]);
    let run = Engine::start(command);
    let word = run.says("send: waits ");
    assert!(word.contains("for a worker on topic mail.send"), "{word}");
    run.signal(Signal::SIGKILL);
    engine.stop();
}

/// An engine without its writer is none: both commands that run one end, with an error.
#[test]
fn dev_and_serve_end_with_an_error_when_the_writer_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    ok(here, &["init", "empty", "p"]);
    let (project, crash) = (here.join("p"), here.join("crash"));
    let dev = ["dev", ".", "--port", "0", "--no-agent"];
    let serve = [
        "serve",
        "--database",
        "sqlite:.legation/legation.db",
        "--listen",
        "127.0.0.1:0",
        "--master-key-file",
        ".legation/master.key",
    ];
    for (arguments, ready) in [
        (&dev[..], "deployed hello version 1"),
        (&serve[..], "legation serves"),
    ] {
        let mut command = legation(&project);
        command.args(arguments).env("LEGATION_CRASH_FILE", &crash);
        let mut engine = Engine::start(command);
        let line = engine.says(ready);
        std::fs::write(&crash, "writer-panics").unwrap();
        let mut run = legation(&project);
        run.args(["run", "hello", "--var", "name=Ada", "--no-wait"]);
        if arguments == serve {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            let url = format!("http://{}", line["fields"]["address"].as_str().unwrap());
            run.args(["--url", &url]);
            run.env(
                "LEGATION_KEY",
                std::fs::read_to_string(project.join(".legation/dev.key"))
                    .unwrap()
                    .trim(),
            );
        }
        let run = run.output().unwrap();
        assert!(!run.status.success(), "{}", out(&run));
        assert!(
            !crash.exists(),
            "the writer never came to a commit: {}",
            err(&run)
        );
        engine.says("the engine's writer ended by itself");
        assert_eq!(engine.ends(), Some(1), "{arguments:?}");
        assert!(
            !project.join(".legation/url").exists(),
            "it says where nothing listens"
        );
    }
}

/// An agent worker that says who it is, and leaves a program behind when it ends.
const FAKE_AGENT: &str = "#!/bin/sh
sleep 1000 &
echo $! >> pids
echo $$ >> pids
echo \"$LEGATION_KEY ${LEGATION_KEY_FILE-unset}\" > seen.key
test -n \"$LEGATION_URL\" && test -n \"$LEGATION_KEY\" && cp \"$2\" seen.toml
trap 'exit 0' TERM
wait
";

/// A project with the fake agent worker beside the engine's program, and `dev` on it.
fn dev_with_fake_agent(here: &Path) -> (PathBuf, Engine) {
    ok(here, &["init", "refund", "p"]);
    let project = here.join("p");
    let program = here.join("legation");
    std::fs::hard_link(env!("CARGO_BIN_EXE_legation"), &program).unwrap();
    let agent = here.join("legation-agent");
    std::fs::write(&agent, FAKE_AGENT).unwrap();
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = command(&program, &project);
    command.args(["dev", ".", "--port", "0"]);
    // Of another engine that whoever starts `dev` works with.
    command
        .env("LEGATION_KEY", "foreign")
        .env("LEGATION_KEY_FILE", "foreign.key");
    let engine = Engine::start(command);
    (project, engine)
}

/// The processes of the fake agent workers, once there are so many.
fn pids(project: &Path, count: usize) -> Vec<i32> {
    until("the agent worker to start", || {
        let text = std::fs::read_to_string(project.join("pids")).ok()?;
        let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
        (pids.len() == count).then_some(pids)
    })
}

fn expect_gone(pids: Vec<i32>) {
    for pid in pids {
        until("every process to be gone", || (!is_alive(pid)).then_some(()));
    }
}

#[test]
fn dev_keeps_an_agent_worker_running_and_leaves_no_process_behind() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (project, engine) = dev_with_fake_agent(folder.path());
    let first = pids(&project, 2);
    let settings: toml::Table = until("the agent worker to read its settings", || {
        let text = std::fs::read_to_string(project.join("seen.toml")).ok()?;
        text.parse()
            .ok()
            .filter(|table: &toml::Table| table.contains_key("servers"))
    });
    assert_eq!(settings["servers"]["crm"]["command"].as_str(), Some("node"));
    let key = std::fs::read_to_string(project.join(".legation/worker.key")).unwrap();
    let seen = std::fs::read_to_string(project.join("seen.key")).unwrap();
    assert_eq!(seen.trim(), format!("{} unset", key.trim()));

    kill(Pid::from_raw(first[1]), Signal::SIGKILL).unwrap();
    engine.says("the agent worker ended");
    let all = pids(&project, 4);
    engine.stop();
    expect_gone(all);
}

#[test]
fn a_dev_that_is_killed_takes_its_agent_worker_with_it() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let (project, engine) = dev_with_fake_agent(folder.path());
    let all = pids(&project, 2);
    engine.says("agent worker started");
    engine.signal(Signal::SIGKILL);
    expect_gone(all);
}

#[test]
fn dev_takes_the_next_port_when_its_own_is_taken_and_one_engine_a_folder() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port().to_string();
    let mut child = legation(&project)
        .args(["dev", "--port", &port, "--no-agent"])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let url = url(&project);
    assert!(
        url.starts_with("http://127.0.0.1:") && !url.ends_with(&format!(":{port}")),
        "{url}"
    );

    let (code, words) = refused(&project, &["dev", "--port", "0", "--no-agent"]);
    assert_eq!(code, 1);
    assert!(words.contains("another `legation dev` runs"), "{words}");

    kill(Pid::from_raw(i32::try_from(child.id()).unwrap()), Signal::SIGINT).unwrap();
    let status = until("dev to stop", || child.try_wait().unwrap());
    assert!(status.success(), "{status}");
    let mut said = String::new();
    child.stdout.take().unwrap().read_to_string(&mut said).unwrap();
    for part in [
        &format!("port {port} is taken"),
        "not for production",
        "made an encryption key",
        "approver.key",
    ] {
        assert!(said.contains(part), "{part} is missing in {said}");
    }
}
