//! The binary `legation` as people run it: in a folder, with files, signals and exit codes.
#![expect(
    clippy::unwrap_used,
    reason = "a test that cannot go on says where by panicking"
)]

use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Longer than anything takes on a busy machine.
const DEADLINE: Duration = Duration::from_secs(60);

fn legation(folder: &Path) -> Command {
    command(Path::new(env!("CARGO_BIN_EXE_legation")), folder)
}

/// Nothing of this machine's own settings.
fn command(program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    for name in [
        "URL",
        "KEY",
        "MASTER_KEY",
        "MASTER_KEY_FILE",
        "DATABASE_URL",
        "DATA",
        "PORT",
        "LISTEN",
    ] {
        command.env_remove(format!("LEGATION_{name}"));
    }
    command.current_dir(folder).stdin(Stdio::null());
    command
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Runs a command that must succeed; its stdout.
fn ok(folder: &Path, arguments: &[&str]) -> String {
    let output = legation(folder).args(arguments).output().unwrap();
    assert!(
        output.status.success(),
        "legation {}: {}{}",
        arguments.join(" "),
        out(&output),
        err(&output)
    );
    out(&output)
}

/// Runs a command that must not succeed; its exit code and stderr.
fn refused(folder: &Path, arguments: &[&str]) -> (i32, String) {
    let output = legation(folder).args(arguments).output().unwrap();
    assert!(
        !output.status.success(),
        "legation {} succeeded: {}",
        arguments.join(" "),
        out(&output)
    );
    (output.status.code().unwrap(), err(&output))
}

fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let begun = Instant::now();
    loop {
        if let Some(found) = look() {
            return found;
        }
        assert!(begun.elapsed() < DEADLINE, "waited too long for {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn is_alive(pid: i32) -> bool {
    // A zombie whose parent has not looked yet is dead all the same.
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('Z')))
}

/// A running engine whose stderr is read line by line.
struct Engine {
    child: Child,
    lines: mpsc::Receiver<String>,
}

impl Engine {
    fn start(mut command: Command) -> Self {
        let mut child = command
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, lines) = mpsc::channel();
        let stderr = BufReader::new(child.stderr.take().unwrap());
        std::thread::spawn(move || {
            for line in stderr.lines().map_while(Result::ok) {
                let _ = send.send(line);
            }
        });
        Self { child, lines }
    }

    /// The next line on stderr that holds this text.
    fn says(&self, text: &str) -> String {
        let begun = Instant::now();
        let mut before = Vec::new();
        while let Ok(line) = self.lines.recv_timeout(DEADLINE.saturating_sub(begun.elapsed())) {
            if line.contains(text) {
                return line;
            }
            before.push(line);
        }
        panic!("nothing said `{text}`, but:\n{}", before.join("\n"));
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(i32::try_from(self.child.id()).unwrap()), signal).unwrap();
    }

    /// Stops it with SIGTERM and expects a good end.
    fn stop(mut self) {
        self.signal(Signal::SIGTERM);
        let status = until("the engine to stop", || self.child.try_wait().unwrap());
        assert!(status.success(), "{status}");
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `legation dev .` without an agent worker, once it serves.
fn dev(folder: &Path) -> Engine {
    let mut command = legation(folder);
    command.args(["dev", ".", "--port", "0", "--no-agent"]);
    let engine = Engine::start(command);
    url(folder);
    engine
}

fn url(folder: &Path) -> String {
    until("dev to listen", || {
        std::fs::read_to_string(folder.join(".legation/url"))
            .ok()
            .filter(|url| url.starts_with("http"))
    })
}

fn mode(path: PathBuf) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o777
}

#[test]
fn init_writes_a_valid_project_and_nothing_over_another() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    for template in ["refund", "empty"] {
        ok(here, &["init", template, template]);
        let report = legation(&here.join(template))
            .args(["validate", "."])
            .output()
            .unwrap();
        assert!(report.status.success(), "{}", err(&report));
        assert!(err(&report).contains("no problems"), "{}", err(&report));
    }
    let (code, words) = refused(here, &["init", "empty", "refund"]);
    assert_eq!(code, 1);
    assert!(words.contains("is not empty"), "{words}");
}

#[test]
fn validate_shows_every_problem_in_its_place() {
    let folder = tempfile::tempdir().unwrap();
    ok(folder.path(), &["init", "empty", "p"]);
    let project = folder.path().join("p");
    let file = project.join("processes/hello.process.yaml");
    let text = std::fs::read_to_string(&file).unwrap();
    std::fs::write(&file, text.replace("type: end", "type: edn")).unwrap();
    let (code, words) = refused(&project, &["validate"]);
    assert_eq!(code, 1);
    for part in [
        "UNKNOWN_NODE_TYPE",
        "processes/hello.process.yaml:17:13",
        "type: edn",
        "did you mean `end`?",
        "1 error",
    ] {
        assert!(words.contains(part), "{part} is missing in {words}");
    }
    assert!(!words.contains('\x1b'), "colours where nobody looks: {words}");
    let json = legation(&project).args(["validate", "--json"]).output().unwrap();
    let answer: serde_json::Value = serde_json::from_slice(&json.stdout).unwrap();
    assert_eq!(answer["valid"], false);
    assert_eq!(
        (&answer["problems"][0]["line"], &answer["problems"][0]["severity"]),
        (&17.into(), &"ERROR".into())
    );
}

/// D66: no engine for others without an encryption key, nor without anybody who may log in.
#[test]
fn d66_serve_refuses_to_start_without_an_encryption_key_or_anybody_to_log_in() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    let serve = ["serve", "--database", "sqlite:x.db", "--listen", "127.0.0.1:0"];
    let (code, words) = refused(here, &serve);
    assert_eq!(code, 2);
    assert!(words.contains("LEGATION_MASTER_KEY"), "{words}");
    assert!(!here.join("x.db").exists(), "it touched a database");

    std::fs::write(here.join("short"), "1234").unwrap();
    let (code, words) = refused(here, &[&serve[..], &["--master-key-file", "short"]].concat());
    assert_eq!(code, 2);
    assert!(words.contains("64 hex characters"), "{words}");

    std::fs::write(here.join("key"), "ab".repeat(32)).unwrap();
    let (code, words) = refused(here, &[&serve[..], &["--master-key-file", "key"]].concat());
    assert_eq!(code, 2);
    assert!(words.contains("--bootstrap-admin-key-file"), "{words}");
}

#[test]
fn serve_makes_the_first_key_logs_json_and_knows_its_encryption_key_again() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    std::fs::write(here.join("key"), "ab".repeat(32)).unwrap();
    let with_key = ["serve", "--database", "sqlite:x.db", "--listen", "127.0.0.1:0"];
    let mut command = legation(here);
    command.args(with_key).args([
        "--master-key-file",
        "key",
        "--bootstrap-admin-key-file",
        "admin.key",
    ]);
    let engine = Engine::start(command);
    let line: serde_json::Value = serde_json::from_str(&engine.says("legation serves")).unwrap();
    let address = line["fields"]["address"].as_str().unwrap().to_owned();
    assert_eq!(mode(here.join("admin.key")), 0o600);

    let url = format!("http://{address}");
    let admin = std::fs::read_to_string(here.join("admin.key")).unwrap();
    let secret = legation(here)
        .args([
            "keys", "create", "--person", "alice", "--groups", "finance", "--url", &url,
        ])
        .env("LEGATION_KEY", admin.trim())
        .output()
        .unwrap();
    assert!(secret.status.success(), "{}", err(&secret));
    let list = |key: &str| {
        legation(here)
            .args(["instances", "--json", "--url", &url])
            .env("LEGATION_KEY", key)
            .output()
            .unwrap()
    };
    let answer = list(out(&secret).trim());
    assert_eq!(out(&answer).trim(), r#"{"instances":[]}"#, "{}", err(&answer));
    let stranger = list("nobody");
    assert_eq!(stranger.status.code(), Some(1));
    assert!(err(&stranger).contains("UNAUTHENTICATED"), "{}", err(&stranger));
    engine.stop();

    std::fs::write(here.join("other"), "cd".repeat(32)).unwrap();
    let (code, words) = refused(here, &[&with_key[..], &["--master-key-file", "other"]].concat());
    assert_eq!(code, 1);
    assert!(words.contains("encrypted under master key"), "{words}");
}

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
    assert_eq!(out(&run).trim(), r#"{"greeting":"Good to see you again"}"#);
    assert!(err(&run).contains("COMPLETED"), "{}", err(&run));

    let list: serde_json::Value = serde_json::from_str(&ok(&project, &["instances", "--json"])).unwrap();
    let id = list["instances"][0]["id"].as_str().unwrap();
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
    engine.stop();
}

/// An agent worker that says who it is, and leaves a program behind when it ends.
const FAKE_AGENT: &str = "#!/bin/sh
sleep 1000 &
echo $! >> pids
echo $$ >> pids
test -n \"$LEGATION_URL\" && test -n \"$LEGATION_KEY\" && cp \"$2\" seen.toml
trap 'exit 0' TERM
wait
";

#[test]
fn dev_keeps_an_agent_worker_running_and_leaves_no_process_behind() {
    let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let here = folder.path();
    ok(here, &["init", "refund", "p"]);
    let project = here.join("p");
    let program = here.join("legation");
    std::fs::hard_link(env!("CARGO_BIN_EXE_legation"), &program).unwrap();
    let agent = here.join("legation-agent");
    std::fs::write(&agent, FAKE_AGENT).unwrap();
    std::fs::set_permissions(&agent, PermissionsExt::from_mode(0o755)).unwrap();

    let mut command = command(&program, &project);
    command.args(["dev", ".", "--port", "0"]);
    let engine = Engine::start(command);
    let pids = |count: usize| {
        until("the agent worker to start", || {
            let text = std::fs::read_to_string(project.join("pids")).ok()?;
            let pids: Vec<i32> = text.lines().filter_map(|line| line.parse().ok()).collect();
            (pids.len() == count).then_some(pids)
        })
    };
    let first = pids(2);
    let settings: toml::Table = std::fs::read_to_string(project.join("seen.toml"))
        .unwrap()
        .parse()
        .unwrap();
    assert_eq!(settings["servers"]["crm"]["command"].as_str(), Some("node"));

    kill(Pid::from_raw(first[1]), Signal::SIGKILL).unwrap();
    engine.says("the agent worker ended");
    let all = pids(4);
    engine.stop();
    for pid in all {
        until("every process to be gone", || (!is_alive(pid)).then_some(()));
    }
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
