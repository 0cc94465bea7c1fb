//! The projects that `init` writes: the examples, as they were when the binary was built.

/// A file of a template: its path in the project and its text.
pub type File = (&'static str, &'static str);

macro_rules! files {
    ($template:literal: $($path:literal),+ $(,)?) => {
        &[$(($path, include_str!(concat!("../../../../examples/", $template, "/", $path)))),+]
    };
}

/// `examples/refund`.
pub const REFUND: &[File] = files!("refund":
    "crm.mjs",
    "legation-agent.toml",
    "legation.toml",
    "notify.mjs",
    "payments.mjs",
    "payments.py",
    "processes/complaint.process.yaml",
    "processes/large_payout.process.yaml",
    "processes/refund_payout.process.yaml",
    "scripted.yaml",
    "servers/crm.server.yaml",
);

/// `examples/empty`.
pub const EMPTY: &[File] = files!("empty": "legation.toml", "processes/hello.process.yaml");

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    fn on_disk(template: &str) -> Vec<String> {
        let mut open = vec![String::new()];
        let mut found = Vec::new();
        let root = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("../../examples")
            .join(template);
        while let Some(prefix) = open.pop() {
            for entry in std::fs::read_dir(root.join(&prefix)).expect("the examples are there") {
                let entry = entry.expect("readable");
                let name = entry
                    .file_name()
                    .into_string()
                    .expect("examples have plain names");
                if name.starts_with('.') || name == "__pycache__" {
                    continue;
                }
                let path = format!("{prefix}{name}");
                match entry.file_type().expect("readable").is_dir() {
                    true => open.push(format!("{path}/")),
                    false => found.push(path),
                }
            }
        }
        found.sort();
        found
    }

    #[test]
    fn every_file_of_the_examples_is_in_the_binary() {
        for (name, files) in [("refund", REFUND), ("empty", EMPTY)] {
            let inside: Vec<&str> = files.iter().map(|(path, _)| *path).collect();
            assert_eq!(
                inside,
                on_disk(name),
                "the list of template {name} and its folder differ"
            );
        }
    }
}
