//! The references of a script: `${match.1}`, `${prompt.name}`, `${result/pointer}`,
//! `${results[server/tool]/pointer}`, each optionally ` | number`.
//!
//! Values keep the digits that they were written with, because amounts of money pass through here.

use std::collections::BTreeMap;

use serde_json::value::RawValue;

use super::{Answer, Message, function_name};

/// What a rule that fits can refer to.
#[derive(Debug, Default)]
pub(super) struct Found<'a> {
    pub messages: &'a [Message],
    /// The answer that the rule matched, else the last one of the turn.
    pub result: Option<&'a Answer>,
    pub groups: Vec<(&'static str, BTreeMap<String, String>)>,
}

/// The groups of the first match by number and name; none when nothing matches.
pub(super) fn groups(pattern: &regex::Regex, text: &str) -> Option<BTreeMap<String, String>> {
    let captures = pattern.captures(text)?;
    let mut groups = BTreeMap::new();
    for (at, name) in pattern.capture_names().enumerate() {
        let Some(found) = captures.get(at) else { continue };
        groups.insert(at.to_string(), found.as_str().to_owned());
        if let Some(name) = name {
            groups.insert(name.to_owned(), found.as_str().to_owned());
        }
    }
    Some(groups)
}

impl Found<'_> {
    /// A template as text.
    pub(super) fn text(&self, template: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = template;
        while let Some(at) = rest.find("${") {
            if rest[..at].ends_with('$') {
                out.push_str(&rest[..at]);
                out.push('{');
                rest = &rest[at + 2..];
                continue;
            }
            let end = rest[at..]
                .find('}')
                .ok_or_else(|| format!("'{template}' has no closing brace"))?;
            out.push_str(&rest[..at]);
            let value = self.value(&rest[at + 2..at + end])?;
            match serde_json::from_str::<String>(&value) {
                Ok(text) => out.push_str(&text),
                Err(_) => out.push_str(&value),
            }
            rest = &rest[at + end + 1..];
        }
        out.push_str(rest);
        Ok(out)
    }

    /// A YAML value as JSON text, its strings filled in.
    pub(super) fn json(&self, value: &serde_yaml::Value) -> Result<String, String> {
        match value {
            serde_yaml::Value::String(template) => {
                let single = template.strip_prefix("${").and_then(|t| t.strip_suffix('}'));
                match single.filter(|inner| !inner.contains("${")) {
                    Some(reference) => self.value(reference),
                    None => Ok(quote(&self.text(template)?)),
                }
            }
            serde_yaml::Value::Sequence(items) => {
                let items: Result<Vec<String>, String> = items.iter().map(|v| self.json(v)).collect();
                Ok(format!("[{}]", items?.join(",")))
            }
            serde_yaml::Value::Mapping(entries) => {
                let mut fields = Vec::new();
                for (name, value) in entries {
                    let name = name.as_str().ok_or("the names of an object must be strings")?;
                    fields.push(format!("{}:{}", quote(name), self.json(value)?));
                }
                Ok(format!("{{{}}}", fields.join(",")))
            }
            serde_yaml::Value::Null | serde_yaml::Value::Bool(_) | serde_yaml::Value::Number(_) => {
                serde_json::to_string(value).map_err(|e| e.to_string())
            }
            serde_yaml::Value::Tagged(_) => Err("tags are not supported".to_owned()),
        }
    }

    /// The value of one reference, as JSON text.
    fn value(&self, reference: &str) -> Result<String, String> {
        let (path, filter) = match reference.split_once('|') {
            Some((path, filter)) => (path.trim(), Some(filter.trim())),
            None => (reference.trim(), None),
        };
        let value = self.look_up(path)?;
        match filter {
            None => Ok(value),
            Some("number") => {
                let text = serde_json::from_str::<String>(&value).unwrap_or(value);
                let number = text.trim().replace(',', "");
                match serde_json::from_str::<serde_json::Number>(&number) {
                    Ok(_) => Ok(number),
                    Err(_) => Err(format!("'${{{reference}}}' is '{text}', which is no number")),
                }
            }
            Some(other) => Err(format!("'${{{reference}}}': there is no filter '{other}'")),
        }
    }

    fn look_up(&self, path: &str) -> Result<String, String> {
        let missing = || format!("'${{{path}}}' refers to nothing");
        if let Some(rest) = path.strip_prefix("results[") {
            let (tool, pointer) = rest.split_once(']').ok_or_else(missing)?;
            return point(self.latest(tool).ok_or_else(missing)?, pointer).ok_or_else(missing);
        }
        if let Some(pointer) = path
            .strip_prefix("result")
            .filter(|p| p.is_empty() || p.starts_with('/'))
        {
            return point(self.result.ok_or_else(missing)?, pointer).ok_or_else(missing);
        }
        let (of, name) = path.split_once('.').ok_or_else(missing)?;
        let groups = self
            .groups
            .iter()
            .find(|(kind, _)| *kind == of)
            .ok_or_else(missing)?;
        groups.1.get(name).map(|text| quote(text)).ok_or_else(missing)
    }

    fn latest(&self, tool: &str) -> Option<&Answer> {
        let name = function_name(tool);
        self.messages.iter().rev().find_map(|message| match message {
            Message::Answers(answers) => answers.iter().rev().find(|a| a.function == name),
            Message::User(_) | Message::Assistant { .. } => None,
        })
    }
}

/// The part of an answer that a JSON pointer names; the whole answer may be any text.
fn point(answer: &Answer, pointer: &str) -> Option<String> {
    let whole = serde_json::from_str::<Box<RawValue>>(&answer.text).ok();
    if pointer.is_empty() {
        return Some(whole.map_or_else(|| quote(&answer.text), |raw| raw.get().to_owned()));
    }
    let mut at = whole?;
    for token in pointer.split('/').skip(1) {
        let token = token.replace("~1", "/").replace("~0", "~");
        at = if at.get().starts_with('[') {
            let mut items: Vec<Box<RawValue>> = serde_json::from_str(at.get()).ok()?;
            let index: usize = token.parse().ok()?;
            (index < items.len()).then(|| items.swap_remove(index))?
        } else {
            serde_json::from_str::<BTreeMap<String, Box<RawValue>>>(at.get())
                .ok()?
                .remove(&token)?
        };
    }
    Some(at.get().to_owned())
}

fn quote(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
