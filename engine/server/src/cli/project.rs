//! A project on disk: which of its files are documents, and what of them travels to an engine.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use anyhow::Context;
use legation_language::documents;

/// Documents as read from disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Documents {
    /// Text by the path in the project, which is the name that problems use.
    pub texts: BTreeMap<String, String>,
}

/// Folders that hold no documents of the project.
const SKIPPED: [&str; 3] = ["node_modules", "target", "dist"];

impl Documents {
    /// Reads a project's folder, or the files given.
    ///
    /// # Errors
    /// When something cannot be read, or there is nothing.
    pub fn read(paths: &[PathBuf]) -> anyhow::Result<Self> {
        let mut texts = BTreeMap::new();
        for path in paths {
            if path.is_dir() {
                for (name, file) in files(path)? {
                    texts.insert(name, text(&file)?);
                }
            } else {
                texts.insert(path.display().to_string(), text(path)?);
            }
        }
        if texts.is_empty() {
            let places = paths
                .iter()
                .map(|path| path.display().to_string())
                .collect::<Vec<_>>()
                .join(", ");
            anyhow::bail!(
                "there are no documents in {places}: processes/*.process.yaml, servers/*.server.yaml; \
                 `legation init DIR` writes some"
            );
        }
        Ok(Self { texts })
    }

    /// What is sent: a stdio server's command stays here (core §7).
    #[must_use]
    pub fn to_send(&self) -> BTreeMap<String, String> {
        let strip = |(name, text): (&String, &String)| {
            let is_server = name.ends_with(".server.yaml") || name.ends_with(".server.yml");
            (
                name.clone(),
                if is_server {
                    documents::without_command(text)
                } else {
                    text.clone()
                },
            )
        };
        self.texts.iter().map(strip).collect()
    }
}

fn text(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))
}

/// The documents of a project's folder: path in the project and on disk.
///
/// # Errors
/// When a folder cannot be read.
pub fn files(folder: &Path) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    let mut open = vec![(String::new(), folder.to_owned())];
    while let Some((prefix, folder)) = open.pop() {
        let entries =
            std::fs::read_dir(&folder).with_context(|| format!("{} cannot be read", folder.display()))?;
        for entry in entries {
            let entry = entry?;
            let Ok(name) = entry.file_name().into_string() else {
                continue;
            };
            if name.starts_with('.') || SKIPPED.contains(&name.as_str()) {
                continue;
            }
            let relative = format!("{prefix}{name}");
            // A symbolic link to a folder is not followed: it may lead round in circles.
            if entry.file_type()?.is_dir() {
                open.push((format!("{relative}/"), entry.path()));
            } else if documents::is_document(&relative) {
                found.push((relative, entry.path()));
            }
        }
    }
    found.sort();
    Ok(found)
}

/// When files were written, to see that somebody saved: path, time, size.
pub type Stamp = Vec<(PathBuf, Option<SystemTime>, u64)>;

/// The stamp of a project's documents, and of files beside them.
#[must_use]
pub fn stamp(folder: &Path, beside: &[PathBuf]) -> Stamp {
    let documents = files(folder)
        .unwrap_or_default()
        .into_iter()
        .map(|(_, path)| path);
    let stat = |path: PathBuf| {
        let data = std::fs::metadata(&path).ok();
        let size = data.as_ref().map_or(0, std::fs::Metadata::len);
        (path, data.and_then(|data| data.modified().ok()), size)
    };
    documents.chain(beside.iter().cloned()).map(stat).collect()
}
