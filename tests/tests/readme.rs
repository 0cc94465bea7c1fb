//! The README and the pages of docs/ keep their word: every block marked `sh test` is run as it is written, in a fresh
//! copy of the repository, with what `make demo` builds: the web app, and the binaries on the path. The process and the
//! worker that a reader writes by hand run together as the page says.

use std::path::{Path, PathBuf};
use std::process::Command;

use legation_tests::e2e::{Process, binary, free_port, until, web_app, workspace};

struct Block {
    place: String,
    text: String,
}

/// The README and docs/*.md, in the order of their names.
fn pages() -> Vec<PathBuf> {
    let docs = std::fs::read_dir(workspace().join("docs")).expect("there are docs");
    let mut pages: Vec<PathBuf> = docs
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|kind| kind == "md"))
        .collect();
    pages.sort();
    pages.insert(0, workspace().join("README.md"));
    pages
}

fn marked(page: &Path) -> Vec<Block> {
    let text = std::fs::read_to_string(page).expect("a page can be read");
    let mut blocks = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        if line != "```sh test" {
            continue;
        }
        let block: Vec<&str> = lines
            .by_ref()
            .map(|(_, line)| line)
            .take_while(|line| *line != "```")
            .collect();
        blocks.push(Block {
            place: format!("{}:{}", page.display(), number + 1),
            text: block.join("\n"),
        });
    }
    blocks
}

/// What a clone has: everything but what is compiled, fetched or left by a run.
fn clone(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("the copy can be written");
    for entry in std::fs::read_dir(from).expect("a folder can be read").flatten() {
        let name = entry.file_name();
        let left_out = ["target", "node_modules", ".git", ".legation"];
        if left_out.iter().any(|out| name == *out) {
            continue;
        }
        let (source, target) = (entry.path(), to.join(&name));
        if source.is_dir() {
            clone(&source, &target);
        } else {
            std::fs::copy(&source, &target).expect("a file can be copied");
        }
    }
}

/// The two blocks that a newcomer starts with are marked, and `make test` is not: it would run itself.
#[test]
fn the_blocks_of_the_first_minutes_are_marked() {
    let blocks = marked(&workspace().join("README.md"));
    for part in ["make demo", "legation init refund shop"] {
        assert!(
            blocks.iter().any(|block| block.text.contains(part)),
            "no block marked `sh test` has {part}"
        );
    }
    assert!(blocks.iter().all(|block| !block.text.contains("make test")));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_marked_block_runs_in_a_fresh_copy() {
    let folder = tempfile::TempDir::with_prefix("legation-readme-").expect("a temporary folder");
    let copy = folder.path().join("legation");
    web_app();
    clone(workspace(), &copy);
    let built = binary("legation");
    let built = built.parent().expect("binaries lie in a folder").to_owned();
    let path = std::env::var("PATH").expect("there is a path");
    for (number, block) in pages().iter().flat_map(|page| marked(page)).enumerate() {
        let mut command = Command::new("sh");
        command
            .args(["-euc", &block.text])
            .current_dir(&copy)
            .env("DEMO_ONCE", "1")
            .env("DEMO_BIN", &built)
            .env("PATH", format!("{}:{path}", built.display()))
            .env("TMPDIR", folder.path())
            .env_remove("CARGO_TARGET_DIR");
        let mut process = Process::start(&format!("block-{number}"), &mut command, folder.path());
        let status = process.ended().await;
        assert!(
            status.success(),
            "{} ended with {status}:\n{}\n--\n{}",
            block.place,
            block.text,
            process.log()
        );
    }
}

/// The block of the README that the reader is told to save under this name.
fn saved_as(file: &str) -> String {
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("the README can be read");
    let told = format!("Save this as `{file}`");
    let (_, after) = readme.split_once(&told).expect("the README says what to save");
    let (_, block) = after.split_once("```").expect("a block follows");
    let (_, block) = block.split_once('\n').expect("the block has lines");
    block.split("```").next().unwrap_or_default().to_owned()
}

/// The command of the README that begins like this, as words.
fn shown(start: &str) -> Vec<String> {
    let readme = std::fs::read_to_string(workspace().join("README.md")).expect("the README can be read");
    let line = readme
        .lines()
        .find(|line| line.starts_with(start))
        .expect("the README shows the command");
    let command = line.split(" #").next().unwrap_or_default();
    command.split_whitespace().map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_process_and_the_worker_of_the_readme_work_together() {
    let folder = tempfile::TempDir::with_prefix("legation-readme-").expect("a temporary folder");
    let project = folder.path().join("shop");
    let legation = binary("legation");
    let init = Command::new(&legation)
        .args(["init", "empty"])
        .arg(&project)
        .output()
        .expect("legation can be started");
    assert!(init.status.success(), "{}", String::from_utf8_lossy(&init.stderr));
    for file in ["processes/greet.process.yaml", "mail.mjs"] {
        std::fs::write(project.join(file), saved_as(file)).expect("the project can be written");
    }

    let port = free_port().to_string();
    let mut dev = Command::new(&legation);
    dev.args(["dev", ".", "--no-agent", "--port", &port])
        .current_dir(&project);
    let dev = Process::start("dev", &mut dev, folder.path());
    until("dev to deploy", async || {
        dev.log().contains("deployed").then_some(())
    })
    .await;
    let greet = shown("legation run greet");
    let mut run = Command::new(&legation);
    run.args(&greet[1..]).current_dir(&project);
    let mut run = Process::start("run", &mut run, folder.path());
    until("dev to say that nobody works on the topic", async || {
        dev.log().contains("mail.send").then_some(())
    })
    .await;
    let mut mail = Command::new("node");
    mail.arg("mail.mjs").current_dir(&project);
    let mail = Process::start("mail", &mut mail, folder.path());
    let status = run.ended().await;
    assert!(
        status.success() && run.log().contains("COMPLETED"),
        "{}\n{}\n{}",
        run.log(),
        mail.log(),
        dev.log()
    );
    until("the mail to be sent", async || {
        mail.log().contains("to Ada: Good to see you again").then_some(())
    })
    .await;
}
