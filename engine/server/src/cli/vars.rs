//! `--var name=value`: what people type becomes JSON. The process says what is text; anything else is JSON when it
//! reads as JSON, and text when it does not.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use legation_language::Value;
use legation_protocol::{Json, Variables, to_json};

use super::Usage;

/// Variables on the command line.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Arguments {
    /// A variable; the value is JSON where it reads as such (89, true, '["a"]'), else text. May be given more than once.
    #[arg(long = "var", value_name = "NAME=VALUE")]
    pub vars: Vec<String>,
    /// A file with a JSON object of variables; `-` is stdin. --var wins over it.
    #[arg(long, value_name = "FILE")]
    pub vars_file: Option<PathBuf>,
}

impl Arguments {
    /// The names given with `--var`.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.vars.is_empty()
    }

    /// The variables as JSON; those in `texts` are declared as text and stay as typed.
    ///
    /// # Errors
    /// For what is no `NAME=VALUE`, or a file that holds no JSON object.
    pub fn read(&self, texts: &BTreeSet<String>) -> anyhow::Result<Variables> {
        let mut variables = match &self.vars_file {
            Some(path) => from_file(path)?,
            None => BTreeMap::new(),
        };
        for var in &self.vars {
            let Some((name, value)) = var.split_once('=').filter(|(name, _)| !name.is_empty()) else {
                return Err(Usage(format!("--var {var} is not NAME=VALUE")).into());
            };
            variables.insert(name.to_owned(), json_of(value, texts.contains(name))?);
        }
        Ok(variables)
    }
}

fn from_file(path: &PathBuf) -> anyhow::Result<Variables> {
    let text = if path.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())?
    } else {
        std::fs::read_to_string(path).with_context(|| format!("{} cannot be read", path.display()))?
    };
    serde_json::from_str(&text)
        .with_context(|| format!("{} holds no JSON object of variables", path.display()))
}

/// One value as JSON.
///
/// # Errors
/// Never for text; kept for the writer's sake.
pub fn json_of(value: &str, is_text: bool) -> anyhow::Result<Json> {
    if !is_text && Value::parse(value).is_ok() {
        return Ok(serde_json::from_str(value)?);
    }
    Ok(to_json(value)?)
}

/// The names that a JSON Schema of inputs declares as text.
#[must_use]
pub fn texts_of(schema: Option<&Json>) -> BTreeSet<String> {
    let schema = schema.and_then(|schema| serde_json::from_str::<serde_json::Value>(schema.get()).ok());
    let properties = schema
        .as_ref()
        .and_then(|schema| schema.get("properties"))
        .and_then(|p| p.as_object());
    let is_text = |declared: &serde_json::Value| match declared.get("type") {
        Some(serde_json::Value::String(kind)) => kind == "string",
        Some(serde_json::Value::Array(kinds)) => {
            kinds.iter().any(|kind| kind == "string") && kinds.len() <= 2
        }
        _ => false,
    };
    let names = properties
        .into_iter()
        .flatten()
        .filter(|(_, declared)| is_text(declared));
    names.map(|(name, _)| name.clone()).collect()
}

/// The inputs that a JSON Schema declares, in words; none when it declares none.
#[must_use]
pub fn described(schema: Option<&Json>) -> Option<String> {
    let schema: serde_json::Value = serde_json::from_str(schema?.get()).ok()?;
    let required = schema.get("required").and_then(|names| names.as_array());
    let is_required = |name: &str| required.is_some_and(|names| names.iter().any(|one| one == name));
    let properties = schema.get("properties")?.as_object()?;
    let words = properties.iter().map(|(name, declared)| {
        let kind = declared
            .get("type")
            .and_then(|kind| kind.as_str())
            .unwrap_or("any");
        let optional = if is_required(name) { "" } else { ", optional" };
        format!("{name} ({kind}{optional})")
    });
    Some(words.collect::<Vec<_>>().join(", ")).filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(vars: &[&str], texts: &[&str]) -> anyhow::Result<String> {
        let arguments = Arguments {
            vars: vars.iter().map(|&v| v.to_owned()).collect(),
            vars_file: None,
        };
        let texts = texts.iter().map(|&t| t.to_owned()).collect();
        Ok(serde_json::to_string(&arguments.read(&texts)?)?)
    }

    #[test]
    fn values_are_json_where_they_read_as_json_and_keep_their_digits() -> anyhow::Result<()> {
        let vars = ["amount=89.90", "name=Ada", "urgent=true", "tags=[1, 2]", "odd={a"];
        let json = r#"{"amount":89.90,"name":"Ada","odd":"{a","tags":[1, 2],"urgent":true}"#;
        assert_eq!(read(&vars, &[])?, json);
        Ok(())
    }

    #[test]
    fn what_the_process_declares_as_text_stays_text() -> anyhow::Result<()> {
        assert_eq!(
            read(&["orderId=5531", "amount=1"], &["orderId"])?,
            r#"{"amount":1,"orderId":"5531"}"#
        );
        let schema = to_json(&serde_json::json!({"properties": {
            "orderId": {"type": "string"}, "note": {"type": ["string", "null"]}, "amount": {"type": "number"}
        }}))?;
        assert_eq!(
            texts_of(Some(&schema)),
            BTreeSet::from(["orderId".to_owned(), "note".to_owned()])
        );
        assert_eq!(texts_of(None), BTreeSet::new());
        Ok(())
    }

    #[test]
    fn inputs_are_described_with_what_may_be_left_out() -> anyhow::Result<()> {
        let schema = to_json(&serde_json::json!({"required": ["amount"], "properties": {
            "amount": {"type": "number"}, "note": {"type": "string"}
        }}))?;
        assert_eq!(
            described(Some(&schema)).as_deref(),
            Some("amount (number), note (string, optional)")
        );
        assert_eq!(described(Some(&to_json(&serde_json::json!({}))?)), None);
        Ok(())
    }

    #[test]
    fn a_var_without_a_name_is_a_wrong_use() {
        let error = read(&["amount"], &[]).expect_err("it names no value");
        assert!(error.is::<Usage>(), "{error}");
        assert!(read(&["=1"], &[]).is_err());
    }
}
