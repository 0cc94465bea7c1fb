//! `make demo`, as a newcomer runs it. The binaries are those of the tests; building them is `make`'s own affair.

use std::path::Path;
use std::time::Duration;

use legation_tests::e2e::{Process, binary, until, web_app, workspace};
use tokio::process::Command;
use tokio::time::{Instant, timeout};

struct Ran {
    took: Duration,
    success: bool,
    said: String,
}

/// `make demo` with a target folder of its own for what it writes.
fn command(target: &Path) -> std::process::Command {
    web_app();
    let bin = binary("legation");
    let mut command = std::process::Command::new("make");
    command
        .arg("demo")
        .current_dir(workspace())
        .env("DEMO_BIN", bin.parent().expect("binaries lie in a folder"))
        .env("CARGO_TARGET_DIR", target);
    for name in [
        "DEMO_ONCE",
        "LEGATION_MODEL",
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "GEMINI_API_KEY",
        "OLLAMA_HOST",
        // Of the make that runs the tests: a nested one speaks of folders after its last line.
        "MAKEFLAGS",
        "MAKELEVEL",
        "MFLAGS",
    ] {
        command.env_remove(name);
    }
    command
}

/// With DEMO_ONCE=1, to its end.
async fn once(target: &Path) -> Ran {
    let mut command = Command::from(command(target));
    command
        .env("DEMO_ONCE", "1")
        .env("OPENAI_API_KEY", "not-used-0123456789")
        .kill_on_drop(true);
    let began = Instant::now();
    let output = timeout(Duration::from_secs(90), command.output())
        .await
        .expect("the demo ends")
        .expect("make can be started");
    Ran {
        took: began.elapsed(),
        success: output.status.success(),
        said: format!(
            "{}{}",
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        ),
    }
}

fn is_payout(word: &str, name: &str) -> bool {
    word.strip_prefix(name)
        .and_then(|id| id.strip_prefix("P-"))
        .is_some_and(|id| id.len() == 8 && id.chars().all(|letter| letter.is_ascii_hexdigit()))
}

/// Every process that was started by a command with this text in it.
fn running(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc")
        .expect("processes can be listed")
        .flatten();
    let commands = processes.filter_map(|entry| {
        let folder = std::fs::read_link(entry.path().join("cwd")).ok()?;
        let command = std::fs::read(entry.path().join("cmdline")).ok()?;
        let command = String::from_utf8_lossy(&command).replace('\0', " ");
        Some(format!("{} {command}", folder.display()))
    });
    commands.filter(|command| command.contains(text)).collect()
}

/// It tells both stories, twice in a row, the second time within 20 s, with port 8700 taken, and leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_runs_twice_in_a_row_on_the_next_free_port_and_leaves_no_process() {
    let target = tempfile::TempDir::with_prefix("legation-demo-").expect("a temporary folder");
    // Whoever has it, it is taken now.
    let _taken = std::net::TcpListener::bind("127.0.0.1:8700");
    for round in 1..=2 {
        let ran = once(target.path()).await;
        assert!(ran.success, "round {round}: {}", ran.said);
        let last = ran.said.trim_end().lines().last().expect("it says something");
        let words: Vec<&str> = last.split_whitespace().collect();
        let [demo, ok, small, large, by] = words[..] else {
            panic!("the last line is not as documented: {last}");
        };
        assert_eq!((demo, ok, by), ("demo:", "ok", "approved_by=approver"), "{last}");
        assert!(is_payout(small, "payout_id="), "{last}");
        assert!(is_payout(large, "large_payout_id="), "{last}");
        assert!(ran.said.contains("port 8700 is taken, using 87"), "{}", ran.said);
        assert!(
            ran.said.contains("model: scripted"),
            "a key alone asks no real model"
        );
        for part in [
            "--as approver",
            "crm/get_customer",
            "large_payout",
            "notify_customer",
        ] {
            assert!(ran.said.contains(part), "no {part} in:\n{}", ran.said);
        }
        if round == 2 {
            assert!(ran.took < Duration::from_secs(20), "warm it took {:?}", ran.took);
        }
        let left = running(&target.path().display().to_string());
        assert!(left.is_empty(), "left behind: {left:#?}");
    }
}

/// Without DEMO_ONCE a person approves with the printed command, it stays up until Ctrl-C, and leaves nothing.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_demo_waits_for_a_person_and_stays_up_until_ctrl_c() {
    let target = tempfile::TempDir::with_prefix("legation-demo-").expect("a temporary folder");
    let mut demo = Process::start("demo", &mut command(target.path()), target.path());
    let printed = until("the command that approves", async || {
        let log = demo.log();
        let line = log
            .lines()
            .find(|line| line.contains(" approve ") && line.contains("cd "))?;
        Some(line.trim().to_owned())
    })
    .await;
    assert!(
        !demo.log().contains("stays up"),
        "the second story waits for finance"
    );
    let approved = Command::new("sh")
        .args(["-euc", &format!("{printed} --yes")])
        .current_dir(workspace())
        .output()
        .await
        .expect("a shell can be started");
    assert!(approved.status.success(), "{printed}: {approved:?}");
    until("both stories to be told", async || {
        demo.log().contains("The engine stays up").then_some(())
    })
    .await;
    let here = target.path().display().to_string();
    assert!(
        running(&here).len() >= 4,
        "engine, agent, payments and notifier are up"
    );
    demo.interrupt();
    demo.ended().await;
    assert!(demo.log().contains("stopping"), "{}", demo.log());
    let left = running(&here);
    assert!(left.is_empty(), "left behind: {left:#?}");
}
