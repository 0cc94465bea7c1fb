//! `legation init`: a project to start from.

use std::path::{Path, PathBuf};

use anyhow::Context;
use clap::{Args, ValueEnum};

use super::Usage;
use super::templates::{self, File};

/// `init [refund|empty] DIR`: the template may be left out.
#[derive(Args, Debug)]
#[command(override_usage = "legation init [refund|empty] DIR")]
pub struct Arguments {
    /// What to write (`refund` unless given), and the new or empty folder to write it to.
    #[arg(value_name = "TEMPLATE DIR", num_args = 1..=2, required = true)]
    pub words: Vec<String>,
}

/// What a project may begin as.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Template {
    /// A complaint becomes a paid refund: an agent, a tool server, workers, an approval.
    Refund,
    /// One small process.
    Empty,
}

impl Template {
    fn files(self) -> &'static [File] {
        match self {
            Self::Refund => templates::REFUND,
            Self::Empty => templates::EMPTY,
        }
    }
}

pub fn run(arguments: &Arguments) -> anyhow::Result<()> {
    let (template, folder) = read(&arguments.words)?;
    write(template, &folder)?;
    for (path, _) in template.files() {
        say!("  {}", folder.join(path).display());
    }
    say!("\nNext: cd {} && legation dev .", folder.display());
    Ok(())
}

/// The template and the folder that the words name.
pub fn read(words: &[String]) -> anyhow::Result<(Template, PathBuf)> {
    match words {
        [folder] if Template::from_str(folder, false).is_err() => {
            Ok((Template::Refund, PathBuf::from(folder)))
        }
        [template] => Err(Usage(format!("say where: legation init {template} DIR")).into()),
        [template, folder] => match Template::from_str(template, false) {
            Ok(template) => Ok((template, PathBuf::from(folder))),
            Err(_) => Err(Usage(format!("there is no template `{template}`: refund or empty")).into()),
        },
        _ => Err(Usage("legation init [refund|empty] DIR".to_owned()).into()),
    }
}

/// Writes a template to a folder that does not exist or is empty.
pub fn write(template: Template, folder: &Path) -> anyhow::Result<()> {
    if folder.exists() {
        let mut entries = std::fs::read_dir(folder)
            .with_context(|| format!("{} is no folder to write to", folder.display()))?;
        anyhow::ensure!(
            entries.next().is_none(),
            "{} is not empty: name a new folder",
            folder.display()
        );
    }
    for (path, text) in template.files() {
        let path = folder.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("{} cannot be made", parent.display()))?;
        }
        std::fs::write(&path, text).with_context(|| format!("{} cannot be written", path.display()))?;
    }
    let ignore = folder.join(".gitignore");
    std::fs::write(&ignore, ".legation/\n").with_context(|| format!("{} cannot be written", ignore.display()))
}
