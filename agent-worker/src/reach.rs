//! Which engine, and with which key: what the command line says, else the environment, else the files that
//! `legation dev` leaves in the project's folder. The same order as the `legation` command's.

use std::path::{Path, PathBuf};

use anyhow::Context;

use crate::secret::Secret;

/// Where an engine is looked for when nothing says otherwise.
const DEFAULT_URL: &str = "http://127.0.0.1:8700";

/// Reads a variable of the environment.
pub type Setting<'s> = &'s dyn Fn(&str) -> Option<String>;

/// The engine's address: `--url`, `LEGATION_URL`, `.legation/url`, else the port of `legation dev`.
#[must_use]
pub fn address(flag: Option<&str>, setting: Setting<'_>, folder: &Path) -> String {
    flag.map(str::to_owned)
        .or_else(|| given(setting, "LEGATION_URL"))
        .or_else(|| filled(std::fs::read_to_string(folder.join(".legation/url")).ok()?))
        .unwrap_or_else(|| DEFAULT_URL.to_owned())
}

/// The worker's API key: of `--key-file`, of `LEGATION_KEY`, of the file `LEGATION_KEY_FILE`, else of
/// `.legation/worker.key`.
///
/// # Errors
/// When the file that counts cannot be read or holds nothing.
pub fn key(flag: Option<&Path>, setting: Setting<'_>, folder: &Path) -> anyhow::Result<Secret> {
    if flag.is_none()
        && let Some(key) = given(setting, "LEGATION_KEY")
    {
        return Ok(Secret::new(key));
    }
    let (path, origin) = match (flag, given(setting, "LEGATION_KEY_FILE")) {
        (Some(path), _) => (path.to_owned(), "--key-file names it"),
        (None, Some(path)) => (PathBuf::from(path), "LEGATION_KEY_FILE names it"),
        (None, None) => (
            PathBuf::from(".legation/worker.key"),
            "neither --key-file nor LEGATION_KEY is given",
        ),
    };
    let text = std::fs::read_to_string(folder.join(&path))
        .with_context(|| format!("no API key: {} cannot be read ({origin})", path.display()))?;
    let key = filled(text).with_context(|| format!("no API key: {} is empty ({origin})", path.display()))?;
    Ok(Secret::new(key))
}

fn given(setting: Setting<'_>, name: &str) -> Option<String> {
    filled(setting(name)?)
}

fn filled(text: String) -> Option<String> {
    Some(text.trim().to_owned()).filter(|text| !text.is_empty())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "a panic is the failure message of a test")]
mod tests {
    use super::*;

    #[test]
    fn what_the_command_line_says_wins_over_the_environment_and_that_over_the_folder() {
        let folder = tempfile::tempdir().unwrap();
        let here = folder.path();
        std::fs::create_dir(here.join(".legation")).unwrap();
        std::fs::write(here.join(".legation/worker.key"), "of-the-folder\n").unwrap();
        std::fs::write(here.join(".legation/url"), "http://127.0.0.1:1\n").unwrap();
        std::fs::write(here.join("flag"), "of-the-flag\n").unwrap();
        std::fs::write(here.join("file"), "of-the-variables-file\n").unwrap();
        let all = |name: &str| {
            let value = match name {
                "LEGATION_KEY" => "of-the-variable",
                "LEGATION_KEY_FILE" => "file",
                "LEGATION_URL" => "http://127.0.0.1:2",
                _ => return None,
            };
            Some(value.to_owned())
        };
        let no_key = |name: &str| all(name).filter(|_| name != "LEGATION_KEY");
        let blank = |_: &str| Some("  ".to_owned());
        let flag = Some(Path::new("flag"));
        let key = |flag, setting: Setting<'_>| key(flag, setting, here).unwrap().expose().to_owned();
        assert_eq!(key(flag, &all), "of-the-flag");
        assert_eq!(key(None, &all), "of-the-variable");
        assert_eq!(key(None, &no_key), "of-the-variables-file");
        assert_eq!(key(None, &blank), "of-the-folder");

        assert_eq!(address(Some("http://h"), &all, here), "http://h");
        assert_eq!(address(None, &all, here), "http://127.0.0.1:2");
        assert_eq!(address(None, &blank, here), "http://127.0.0.1:1");
        assert_eq!(address(None, &blank, &here.join("elsewhere")), DEFAULT_URL);
    }

    #[test]
    fn a_key_file_that_is_named_and_missing_or_empty_is_no_reason_to_take_another_key() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("empty"), "\n").unwrap();
        let all = |_: &str| Some("another".to_owned());
        for name in ["missing", "empty"] {
            let refused = key(Some(Path::new(name)), &all, folder.path()).unwrap_err();
            assert!(refused.to_string().contains(name), "{refused}");
        }
    }
}
